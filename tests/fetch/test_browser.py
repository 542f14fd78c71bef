"""Rendering in a real Chromium with given pages and subresources.

Scripts are executed, hostile pages affect only themselves, and the browser has no network access.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.core.errors import ConfigError, WorkError
from lycosa.fetch.browser.browser import Browser
from lycosa.fetch.browser.process import BrowserProcess, find_browser
from lycosa.fetch.browser.records import BrowserLimits, RenderJob
from lycosa.fetch.cookies import CookieJar
from lycosa.url.domain import Domains, bundled_suffix_list
from tests.servers.system import require_program
from tests.waiting import until

pytestmark = pytest.mark.slow

LIMITS = BrowserLimits(pages=3, page_ms=3_000, requests=10, bytes=2**20, memory=2**31)
BOUND_S = 60.0


def job(markup: str, url: str = "http://site.test/") -> RenderJob:
    html = f"<!doctype html><html><head></head><body>{markup}</body></html>"
    return RenderJob(
        url,
        200,
        [("Content-Type", "text/html; charset=utf-8")],
        html.encode(),
        "robot/1 (test)",
        "fi",
    )


class Rendering:
    """Renders pages to the end.

    Subresources come from a mapping; other requests are refused.
    """

    def __init__(self, limits: BrowserLimits) -> None:
        self.browser = Browser(require_program("chromium"), limits, sandbox=os.geteuid() != 0)
        self.requested_urls: list[str] = []
        self.unanswered = False  # requests get neither a response nor a refusal

    def __call__(self, *jobs: RenderJob, resources: Mapping[str, str] | None = None) -> None:
        for each in jobs:
            self.browser.begin(each)
        deadline = time.monotonic() + BOUND_S
        done = 0
        while done < len(jobs):
            requested, ended = self.browser.pump()
            done += len(ended)
            for request in requested:
                self.requested_urls.append(request.url)
                if self.unanswered:
                    continue
                text = (resources or {}).get(request.url)
                if text is None:
                    self.browser.refuse(request)
                else:
                    kind = "text/javascript" if request.url.endswith(".js") else "application/json"
                    self.browser.give(request, 200, [("Content-Type", kind)], text.encode())
            assert time.monotonic() < deadline, [(each.url, each.error) for each in jobs]
            time.sleep(0.005)


@contextmanager
def rendering(limits: BrowserLimits = LIMITS) -> Iterator[Rendering]:
    renderer = Rendering(limits)
    try:
        yield renderer
    finally:
        renderer.browser.close()


@pytest.fixture(scope="module")
def render() -> Iterator[Rendering]:
    with rendering() as renderer:
        yield renderer


def test_result_of_scripts_is_in_the_html(render: Rendering) -> None:
    page = job(
        '<div id=app></div><script src="/app.js"></script><script>'
        "fetch('/data.json').then(r => r.json()).then(d => document.body.append(d.words));"
        "setTimeout(() => document.body.append(' late'), 4000);"
        "document.body.append(navigator.userAgent + ' ' + navigator.language)</script>"
    )
    resources = {
        "http://site.test/app.js": "document.getElementById('app').innerHTML = '<a "
        "href=/made>made by script</a>'",
        "http://site.test/data.json": '{"words": " from data "}',
    }
    began = time.monotonic()
    render(page, resources=resources)
    assert page.error == ""
    html = page.html.decode()
    assert html.startswith("<!DOCTYPE html><html>")
    for expected in (
        '<a href="/made">made by script</a>',
        " from data ",
        " late",
        "robot/1 (test) fi",
    ):
        assert expected in html
    assert time.monotonic() - began < 20
    assert (page.requests, page.token) == (2, None)


@pytest.mark.proves("isolation-browser-state")
def test_each_page_has_its_own_storage(render: Rendering) -> None:
    script = (
        "<script>document.body.append('found:' + localStorage.x + document.cookie); "
        "localStorage.x = 1; document.cookie = 'a=1'</script>"
    )
    first, second = job(script), job(script)
    render(first)
    render(second)
    assert b"found:undefined<" in first.html
    assert b"found:undefined<" in second.html


HOSTILE = {
    "endless loop": "<script>while (true) {}</script>",
    "endless alerts": "<script>while (true) alert(1)</script>",
    "endless promises": "<script>const f = () => Promise.resolve().then(f); f()</script>",
    "endless timers": "<p>text<script>const f = () => { setTimeout(f, 0) }; f()</script>",
    "endless growth": "<script>for (;;) document.body.append('x'.repeat(1e5))</script>",
    "too large": "<script>document.body.append('x'.repeat(3e6))</script>",
    "navigates away": "<p>text<script>location.href = 'http://other.test/'</script>",
    "navigates to about:blank": "<script>location.href = 'about:blank'</script>",
    "reloads": "<p>text<script>location.reload()</script>",
    "windows": "<p>text<script>for (let i = 0; i < 20; i++) window.open('http://site.test/' + "
    "i)</script>",
    "download": "<p>text<a id=a href='data:application/zip,xx' "
    "download=x.zip>x</a><script>a.click()</script>",
    "many requests": "<p>text<script>for (let i = 0; i < 1000; i++) fetch('/' + i)</script>",
    "forms": "<p>text<form id=f method=post action=/post></form><script>f.submit(); fetch('/p', "
    "{method: 'POST', body: 'x'})</script>",
    "worker": "<p>text<script>new Worker('/w.js'); new SharedWorker('/s.js'); "
    "navigator.serviceWorker?.register('/sw.js')</script>",
    "frames": "<p>text<iframe src='/frame'></iframe><iframe "
    "src='file:///etc/passwd'></iframe><iframe srcdoc='<p>inner'></iframe>",
    "files": "<p>text<script>fetch('file:///etc/passwd').then(r => r.text()).then(t => "
    "document.body.append(t))</script>",
    "print": "<p>text<script>print(); document.body.requestFullscreen(); "
    "navigator.geolocation.getCurrentPosition(x => x)</script>",
    "unload": "<p>text<script>onbeforeunload = e => { e.preventDefault(); return 'stay' }</script>",
    "no document": "<script>document.documentElement.remove()</script>",
    "deep": "<script>let s = ''; for (let i = 0; i < 5e4; i++) s += '<div>'; "
    "document.body.innerHTML = s</script>",
}
ORDINARY = "<p>well<script>document.body.append(' done')</script>"
FAILS = {
    "endless loop",
    "endless alerts",
    "endless promises",
    "endless growth",
    "too large",
    "navigates to about:blank",
}


@pytest.mark.proves("isolation-browser")
@pytest.mark.prove
def test_hostile_pages_do_not_affect_other_pages() -> None:
    """Each hostile page is rendered together with two ordinary pages, which are not affected."""
    with rendering() as render:
        for name, markup in HOSTILE.items():
            hostile, ordinary = job(markup), [job(ORDINARY) for _ in range(2)]
            render(hostile, *ordinary)
            for page in ordinary:
                assert b"<p>well<script>" in page.html, (name, page.error)
                assert b" done" in page.html, name
            print(
                f"{name}: {hostile.error or 'rendered'}, {hostile.requests} requests, "
                f"{render.browser.starts} starts"
            )
            if name in FAILS:
                assert hostile.error, name
                assert not hostile.html, name
            assert b"root:" not in hostile.html
        assert not any(url.startswith("file:") for url in render.requested_urls)


def test_navigation_by_script_becomes_a_refresh(render: Rendering) -> None:
    page = job(HOSTILE["navigates away"])
    render(page)
    assert b'<head><meta http-equiv="refresh" content="0; url=http://other.test/">' in page.html
    assert page.requests == 0


@pytest.mark.proves("isolation-browser-state")
def test_environment_of_the_browser_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_TEST_PASSWORD", "spider")
    process = BrowserProcess(
        require_program("chromium"), largest_message=2**20, sandbox=os.geteuid() != 0
    )
    try:
        assert b"spider" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    finally:
        process.close()


@pytest.mark.proves("isolation-browser")
def test_page_after_a_hostile_page_is_rendered(render: Rendering) -> None:
    hostile, ordinary = job(HOSTILE["endless alerts"]), job(ORDINARY)
    render(hostile, ordinary)
    assert hostile.error
    assert b" done" in ordinary.html


@pytest.mark.proves("isolation-browser")
@pytest.mark.prove
def test_memory_is_bounded() -> None:
    hostile = job(
        "<script>const held = []; setInterval(() => { for (let i = 0; i < 20; i++) held.push(new "
        "Uint8Array(1e7).fill(1)) }, 1)</script>"
    )
    ordinary = job("<p>well")
    with rendering(BrowserLimits(2, 8_000, 10, 2**20, 900 * 2**20)) as render:
        render(hostile, ordinary)
    assert hostile.error in ("memory", "crashed", "timeout")
    assert b"well" in ordinary.html


@pytest.mark.proves("isolation-browser")
@pytest.mark.prove
def test_killed_browser_is_restarted() -> None:
    with rendering() as render:
        render(job("<p>first"))
        devtools = render.browser._devtools
        assert devtools is not None
        pages = [job("<p>one<script>setTimeout(() => 1, 1)</script>"), job("<p>two")]
        for each in pages:
            render.browser.begin(each)
        render.browser.pump()
        os.killpg(devtools.process.pid, signal.SIGKILL)
        pages_done: list[RenderJob] = []
        deadline = time.monotonic() + BOUND_S
        while len(pages_done) < 2:
            pages_done += render.browser.pump()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert render.browser.starts == 2
    assert all(each.html for each in pages)


@pytest.mark.proves("politeness-rendering", "isolation-browser-network")
def test_browser_has_no_network_access(render: Rendering) -> None:
    """A page tries every kind of connection; no packet of its browser arrives by TCP or UDP."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(("127.0.0.1", 0))
        port, udp_port = tcp.getsockname()[1], udp.getsockname()[1]
        connections: list[str] = []

        def listen() -> None:
            tcp.settimeout(0.2)
            while not ended.is_set():
                try:
                    tcp.accept()[0].close()
                    connections.append("tcp")
                except TimeoutError:
                    continue

        ended = threading.Event()
        thread = threading.Thread(target=listen)
        thread.start()
        origin = f"127.0.0.1:{port}"
        page = job(
            f"<link rel=preconnect href='http://{origin}/'><link rel=dns-prefetch "
            f"href='http://{origin}'><link rel=prefetch href='http://{origin}/p'>"
            f"<link rel=stylesheet href='http://{origin}/s'><img src='http://{origin}/i'><video "
            f"src='http://{origin}/v' autoplay></video>"
            f"<object data='http://{origin}/o'></object><embed src='http://{origin}/e'><iframe "
            f"src='http://{origin}/f'></iframe>"
            f'<script type=speculationrules>{{"prefetch":[{{"urls":["http://{origin}/sp"]}}],"prerender":[{{"urls":["/x"]}}]}}</script>'
            "<script>"
            f"new WebSocket('ws://{origin}/w'); new EventSource('http://{origin}/es'); "
            f"navigator.sendBeacon('http://{origin}/b', 'x');"
            f"fetch('http://{origin}/x', {{mode: 'no-cors'}}); fetch('http://{origin}/k', "
            f"{{keepalive: true, method: 'POST', body: 'x'}});"
            f"window.open('http://{origin}/win'); try {{ new WebTransport('https://{origin}/wt') "
            f"}} catch (e) {{}}"
            f"const pc = new RTCPeerConnection({{iceServers: [{{urls: "
            f"'stun:127.0.0.1:{udp_port}'}}, {{urls: 'turn:{origin}?transport=tcp',"
            " username: 'a', credential: 'b'}]});"
            "pc.createDataChannel('x'); pc.createOffer().then(o => pc.setLocalDescription(o));"
            f'new Worker(URL.createObjectURL(new Blob([\'fetch("http://{origin}/wk"); new '
            f'WebSocket("ws://{origin}/wk2")\'])));'
            "</script><p>text"
        )
        render(page)
        time.sleep(1.0)
        ended.set()
        thread.join()
        udp.setblocking(False)
        with pytest.raises(BlockingIOError):
            udp.recvfrom(100)
    assert connections == []
    assert b"text" in page.html
    assert {f"http://{origin}/x"} <= set(render.requested_urls)


@pytest.mark.proves("isolation-children")
def test_browser_ends_with_a_killed_worker(tmp_path: Path) -> None:
    """The browser ends when its pipes close."""
    require_program("chromium")
    script = (
        "import sys, time; from lycosa.fetch.browser.process import BrowserProcess, find_browser;"
        "process = BrowserProcess(find_browser('', sandbox=False), largest_message=2**20, "
        "sandbox=False);"
        "print(process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        time.sleep(1)
        child.kill()
    status = Path(f"/proc/{pid}/status")
    until(lambda: not status.exists() or "zombie" in status.read_text(), 20)


def test_missing_browser_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="render\\.browser: no-such-browser is not a program"):
        find_browser("no-such-browser", sandbox=False)


def test_root_must_disable_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    program = sys.executable
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ConfigError, match=r"set render\.sandbox to false"):
        find_browser(program, sandbox=True)
    assert find_browser(program, sandbox=False) == program
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_browser(program, sandbox=True) == program


def test_failed_start_of_the_browser_leaves_no_open_files(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_bytes(b"no program")
    program.chmod(0o755)
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(WorkError, match="cannot be started"):
            BrowserProcess(str(program), largest_message=2**20)
    assert sorted(os.listdir("/proc/self/fd")) == before


ATTRIBUTES = [
    "",
    "; Path=/",
    "; Path=/a",
    "; Path=/a/",
    "; Path=/b",
    "; Path=a",
    "; Path",
    "; Path=/; Path=/b",
    ";;;",
    "; Unknown=1",
    "; Domain=example.org",
    "; Domain=.example.org",
    "; Domain=www.example.org",
    "; Domain=WWW.Example.ORG",
    "; Domain=other.example.org",
    "; Domain=org",
    "; Domain=example.com",
    "; Domain=",
    "; Domain=ample.org",
    "; Secure",
    "; secure ; x=",
    "; Max-Age=0",
    "; Max-Age=-1",
    "; Max-Age=60",
    "; Max-Age=x",
    "; Max-Age=+60",
    "; Expires=never",
    "; Expires=1 jan 2150 1:1:1",
    "; Expires=Wed, 09 Jun 1999 10:18:14 GMT",
    "; Expires=Wed, 09 Jun 2199 10:18:14 GMT",
    "; Expires=9 Jun 1999 10:18:14; Max-Age=60",
    "; SameSite=None",
    "; SameSite=None; Secure",
    "; SameSite=Lax",
    "; SameSite=x",
]
PAIRS = [
    "{}=1",
    " {} = 1 2 ",
    "{}",
    '{}="x y"',
    "{}=a=b",
    "__Secure-{}=1",
    "__Host-{}=1",
    "{}=ü",
    "{}=a,b",
    "{}=",
]


@pytest.mark.prove
@pytest.mark.parametrize(
    "url", ["http://www.example.org/a/x", "https://www.example.org/a/x", "http://example.org/"]
)
def test_cookie_jar_agrees_with_chromium(render: Rendering, url: str) -> None:
    """For 350 Set-Cookie fields, `document.cookie` equals the header of the cookie jar."""
    lines = []
    for number, (attributes, pair) in enumerate(itertools.product(ATTRIBUTES, PAIRS)):
        if "=" in pair or not attributes:
            lines.append(pair.format(f"c{number}") + attributes)
    different = {}
    for start in range(0, len(lines), 100):
        part = lines[start : start + 100]
        page = job(
            "<script>document.body.textContent = 'found ' + document.cookie + ' end'</script>", url
        )
        page.head += [("Set-Cookie", line) for line in part]
        render(page)
        output = (
            page.html.decode()
            .partition("found ")[2]
            .partition(" end")[0]
            .replace("&lt;", "<")
            .replace("&amp;", "&")
        )
        jar = CookieJar(Domains(bundled_suffix_list()))
        jar.store(url, part, time.time_ns() // 1_000_000)
        ours = jar.header(url, time.time_ns() // 1_000_000)
        for pair in set(output.split("; ")) ^ set(ours.split("; ")):
            different[pair] = (
                "Chromium" if pair in output.split("; ") else "ours",
                [line for line in part if pair.partition("=")[0] in line][:1],
            )
        assert len(output.split("; ")) > 5, page.error
    assert different == {}


@pytest.mark.prove
def test_unanswered_request_does_not_block_the_page() -> None:
    """For example, because the host of a subresource is paused.

    The browser is not restarted.
    """
    page, other = (
        job("<p>early<script>fetch('/never.json'); document.body.append(' made')</script>"),
        job("<p>well"),
    )
    with rendering(BrowserLimits(1, 1_500, 10, 2**20, 2**31)) as render:
        render.unanswered = True
        render(page)
        render(other)
        assert render.browser.starts == 1
    assert (page.error, page.requests) == ("", 1)
    assert b"early" in page.html
    assert b" made" in page.html
    assert b"well" in other.html
