"""Crawls of sites with content created by scripts, with a real Chromium."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lycosa.archive.warc.reader import read_exchanges
from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.core.clock import SystemClock
from lycosa.core.records import Exchange, Link, Page
from lycosa.crawl.processing.page_mark import PageMark
from lycosa.crawl.processing.page_reader import ParsedExchange
from lycosa.crawl.rendering.learning import FIRST_SAMPLES, RenderLearner, RenderPlan, gains
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import AS_ROOT, Crawled, RunCrawl, assert_valid_warc
from tests.crawl.sessions import LaterClock, collection, work
from tests.fetch.test_browser import HOSTILE
from tests.servers.members import Request, served_site
from tests.servers.system import require_program
from tests.waiting import until

WORDS = (
    "The wolf spider hunts on the ground and carries her young on her back through the whole of "
    "the summer. " * 4
)


Answer = tuple[int, list[tuple[str, str]], str]


@dataclass
class ScriptedSite:
    """A site whose pages are created by scripts.

    `/` and `/app/N` are empty shells: the script `/app.js` loads text and links from
    `/api/N.json`. The pages `/plain/N` have a script, but do not need it.
    """

    pages: int = 3
    robots: str = ""
    elsewhere: str = ""
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    # path -> function that returns the response, or None for the default response
    overrides: dict[str, Callable[[], Answer | None]] = field(default_factory=dict)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def paths(self) -> list[str]:
        return [each.path for each in self.requests]

    def serve(self, path: str, content_type: str, content: str) -> None:
        self.overrides[path] = lambda: (200, [("Content-Type", content_type)], content)

    def answer(self, request: Request) -> Answer:
        path = request.path
        override = self.overrides.get(path, lambda: None)()
        if override is not None:
            return override
        if path == "/robots.txt":
            return (
                (200, [("Content-Type", "text/plain")], self.robots)
                if self.robots
                else (404, [], "")
            )
        if path == "/app.js":
            return 200, [("Content-Type", "text/javascript")], _APP
        if path.startswith("/api/"):
            number = int(path.removeprefix("/api/").removesuffix(".json"))
            links = (
                [f"/app/{following}" for following in range(1, self.pages)] if number == 0 else []
            )
            links_text = ",".join(f'"{link}"' for link in links)
            return (
                200,
                [("Content-Type", "application/json")],
                f'{{"title": "made {number}", "text": "{WORDS}", "links": [{links_text}]}}',
            )
        if path == "/" or path.startswith("/app/"):
            elsewhere = f"<script src='{self.elsewhere}'></script>" if self.elsewhere else ""
            shell = (
                f"<!doctype html><html><head><title>shell</title>{elsewhere}<script src=/app.js "
                "defer></script></head><body></body></html>"
            )
            return (
                200,
                [("Content-Type", "text/html"), ("ETag", '"same"'), ("Set-Cookie", "seen=1")],
                shell,
            )
        if path.startswith("/plain"):
            anchors = (
                "".join(f"<a href=/plain/{number}>{number}</a> " for number in range(self.pages))
                if path == "/plain"
                else ""
            )
            body = f"<p>{WORDS}</p>{anchors}<script>var x = 1</script>"
            return (
                200,
                [("Content-Type", "text/html")],
                f"<!doctype html><html><head><title>{path}</title></head><body>{body}</body></html>",
            )
        return 404, [], "nothing"


_APP = """
const number = location.pathname.split('/').pop() || '0';
fetch('/api/' + number + '.json').then(r => r.json()).then(data => {
  document.title = data.title;
  document.body.innerHTML = '<h1>' + data.title + '</h1><p>' + data.text + '</p>'
    + data.links.map(link => '<p><a href="' + link + '">' + link + '</a></p>').join('');
});
"""


@pytest.fixture(autouse=True)
def _chromium() -> None:
    require_program("chromium")


def test_without_rendering_the_shell_is_stored(run: RunCrawl) -> None:
    with served_site(ScriptedSite()) as site:
        assert run(site.url()).titles() == ["shell"]


def test_pages_created_by_scripts_are_parsed_and_their_links_followed(run: RunCrawl) -> None:
    with served_site(ScriptedSite(robots="User-agent: *\nDisallow: /api/2.json")) as site:
        crawled = run(site.url(), render="always", cookies=True)
    assert crawled.titles() == [
        "made 0",
        "made 1",
        "shell",
    ]  # robots.txt disallows the data of the third
    assert Counter(site.paths()) == Counter(
        ["/robots.txt", "/", "/app/1", "/app/2", "/app.js", "/api/0.json", "/api/1.json"]
    )
    assert all(each.headers["user-agent"].startswith("lycosa/") for each in site.requests)
    assert [each.headers.get("cookie") for each in site.requests if each.path == "/api/1.json"] == [
        "seen=1"
    ]
    pages = {str(row["title"]): row for row in crawled.rows("pages")}
    assert WORDS.strip() in str(pages["made 1"]["text"])
    assert all("rendered" in row["faults"] for row in pages.values())  # type: ignore[operator]
    assert Counter(str(row["kind"]) for row in crawled.rows("visits")) == {
        "robots": 1,
        "page": 3,
        "requisite": 3,
    }
    assert {
        str(row["target"]).rpartition("/")[2] for row in crawled.rows("links") if row["kind"] == "a"
    } == {"1", "2"}
    crawled.assert_sound()
    assert not list(crawled.root.glob("data/*/unread*"))


def test_archive_holds_the_response_and_the_rendered_document(run: RunCrawl) -> None:
    with served_site(ScriptedSite(pages=1)) as site:
        crawled = run(site.url(), render="always")
    [warc] = crawled.root.glob("data/*/archive.warc.gz")
    [home] = [
        stored.exchange for stored in read_exchanges(warc) if stored.exchange.url == site.url()
    ]
    assert b"<title>shell</title>" in home.body
    assert b"<h1>made 0</h1>" in home.rendered
    assert_valid_warc(warc)
    program = str(Path(sys.executable).with_name("warcio"))
    command = [program, "index", "-f", "warc-type", str(warc)]
    index = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert index.count('"conversion"') == 1
    report = reparse_workspace(str(crawled.root), Config(), None, None, "test")
    assert (report.pages, report.changed, report.unreadable) == (1, 0, 0)


@pytest.mark.prove
def test_unchanged_shell_is_rendered_again(tmp_path: Path) -> None:
    with served_site(ScriptedSite(pages=1)) as site:
        job = (collection("one", render="always", recrawl="age", max_age="1h"), [site.url()])
        work(tmp_path / "w", [job])
        crawled = work(tmp_path / "w", [job], clock=LaterClock(2 * 3_600_000))
    assert site.paths().count("/") == 2
    assert all("if-none-match" not in each.headers for each in site.requests)
    assert site.paths().count("/api/0.json") == 2
    visits = [row for row in crawled.rows("visits") if row["kind"] == "page"]
    assert [row["changed"] for row in visits] == [True, False]


@pytest.mark.prove
def test_auto_renders_pages_with_gain(run: RunCrawl) -> None:
    with served_site(ScriptedSite(pages=12)) as site:
        crawled = run(site.url(), site.url("/plain"), render="auto", depth=1, connections=1)
    assert sum(title.startswith("made") for title in crawled.titles()) == 12
    assert "shell" not in crawled.titles()


@pytest.mark.prove
def test_auto_renders_only_samples_of_pages_without_gain(run: RunCrawl) -> None:
    with served_site(ScriptedSite(pages=12)) as site:
        crawled = run(site.url("/plain"), render="auto", depth=1)
    assert len(crawled.titles()) == 13
    assert not any("rendered" in row["faults"] for row in crawled.rows("pages"))  # type: ignore[operator]
    entries = crawled.root.glob("log/*.json")
    assert sum('"rendered"' in entry.read_text() for entry in entries) <= FIRST_SAMPLES


@pytest.mark.proves("politeness-rendering", "isolation-browser-network")
@pytest.mark.prove
def test_requisites_are_requested_with_the_delay_of_the_host(run: RunCrawl) -> None:
    with served_site(ScriptedSite(pages=2)) as site:
        times = []
        answer = site.answer

        def timed(request: Request) -> Answer:
            times.append(time.monotonic())
            return answer(request)

        site.answer = timed  # type: ignore[method-assign]
        crawled = run(site.url(), render="always", delay="300ms")
    assert crawled.titles() == ["made 0", "made 1"]
    assert min(after - before for before, after in itertools.pairwise(times)) >= 0.29


@pytest.mark.proves("isolation-browser-network")
@pytest.mark.parametrize("render_hosts", [(), ("localhost",)])
def test_private_address_of_another_site_is_not_requested(
    run: RunCrawl, render_hosts: tuple[str, ...]
) -> None:
    """The address guard also applies to hosts in `render_hosts`.

    Here the private address of the host is not a seed.
    """
    with served_site(ScriptedSite(pages=1)) as other, served_site(ScriptedSite(pages=1)) as site:
        site.elsewhere = f"http://localhost:{other.port}/app.js"
        crawled = run(site.url(), render="always", render_hosts=render_hosts)
        assert other.requests == []
    assert crawled.titles() == ["made 0"]
    assert crawled.count("visits", error="address_refused") == len(render_hosts)


def test_script_of_a_host_in_render_hosts_is_loaded(run: RunCrawl) -> None:
    with served_site(ScriptedSite(pages=1)) as other, served_site(ScriptedSite(pages=1)) as site:
        site.elsewhere = f"http://localhost:{other.port}/app.js"
        run(
            site.url(),
            render="always",
            render_hosts=("localhost",),
            feed_urls=(f"http://localhost:{other.port}/feed",),
            depth=0,
        )
        assert [each.path for each in other.requests if each.path == "/app.js"] == ["/app.js"]
        assert all(each.path in ("/robots.txt", "/feed", "/app.js") for each in other.requests)


def test_page_with_an_endless_script_is_stored_unrendered(run: RunCrawl) -> None:
    with served_site(ScriptedSite(pages=1)) as site:
        site.serve("/app.js", "text/javascript", "for (;;) {}")
        crawled = run(
            site.url(), site.url("/plain"), render="always", settings=("render.timeout=1s",)
        )
    assert crawled.titles() == ["/plain", "/plain/0", "shell"]
    crawled.assert_sound()


def page(text: str = "", links: int = 0) -> Page:
    return Page(
        main_text=text,
        links=[Link(f"http://h/{number}", "", "", "a", number) for number in range(links)],
    )


def test_rendered_pages_are_marked_while_they_are_parsed(tmp_path: Path) -> None:
    mark = PageMark()
    marked: list[str] = []

    def read(*_: object, **__: object) -> ParsedExchange:
        marked.append(mark.url)
        return ParsedExchange(None)

    session = open_session(
        Workspace.open_or_create(str(tmp_path / "w")),
        parse_config("", overrides=AS_ROOT),
        [Job(collection("default", render="auto"), ("http://127.0.0.1:1/",))],
        SessionOptions(mark=mark.set),
        command="test",
        clock=SystemClock(),
    )
    with closing(session):
        renders = session.worker.dispatcher._renders
        assert renders is not None
        session.worker.processor._read = read
        renders._parse(Exchange("http://127.0.0.1:1/", "page", 1, 1))
    assert marked == ["http://127.0.0.1:1/"]
    assert not mark.url


def test_gain_is_a_large_increase_of_text_or_links() -> None:
    assert gains(page(), page("x" * 100))
    assert not gains(page("x" * 1_000), page("x" * 1_200))
    assert gains(page("x" * 1_000), page("x" * 1_300))
    assert gains(page(links=10), page(links=15))
    assert not gains(page(links=100), page(links=110))
    assert not gains(page("some", 5), page("some", 5))


@pytest.mark.parametrize(
    ("share", "rendered_at_least", "rendered_at_most"),
    [(1.0, 990, 1_000), (0.0, 3, 15), (0.5, 700, 1_000)],
)
def test_learner_renders_by_the_share_of_pages_with_gain(
    share: float, rendered_at_least: int, rendered_at_most: int
) -> None:
    learner = RenderLearner()
    rendered = 0
    for number in range(1_000):
        plan = learner.plan("h", shell=False)
        rendered += plan is not RenderPlan.PLAIN
        if plan is RenderPlan.COMPARE:
            learner.observe(
                "h",
                shell=False,
                gained=number % 10 < 10 * share if share != 0.5 else number % 2 == 0,
            )
    assert rendered_at_least <= rendered <= rendered_at_most


@pytest.mark.proves("durability-kill")
@pytest.mark.prove
def test_kill_during_rendering_stores_the_page_unrendered(tmp_path: Path) -> None:
    """The page is stored unrendered, and nothing is requested twice."""
    with served_site(ScriptedSite(pages=1)) as site:
        killed = threading.Event()

        def wait_for_kill() -> None:
            killed.wait(60)

        site.overrides["/api/0.json"] = wait_for_kill
        command: list[str | Path] = [
            Path(sys.executable).with_name("lycosa"),
            "-w",
            tmp_path / "w",
            *(word for name in ("collection.render=always", *AS_ROOT) for word in ("--set", name)),
        ]
        with subprocess.Popen(
            [*command, "crawl", site.url(), "--delay", "0s"], stderr=subprocess.DEVNULL
        ) as crawl:
            until(lambda: "/api/0.json" in site.paths(), alive=crawl)
            crawl.kill()
        killed.set()
        subprocess.run(
            [*command, "--set", "crawl.patience=1s", "crawl", site.url()],
            check=True,
            capture_output=True,
        )
        assert site.paths().count("/") == 1
    crawled = Crawled(tmp_path / "w", Progress(0))
    assert crawled.titles() == ["shell"]
    # the script was archived before the kill
    assert crawled.count("visits", kind="page") == crawled.count("visits", kind="requisite") == 1
    crawled.assert_sound()


@pytest.mark.proves("politeness-rendering", "isolation-browser")
@pytest.mark.prove
def test_hostile_pages_in_a_crawl(run: RunCrawl) -> None:
    """Every page is stored, the harmless ones rendered.

    Only robots.txt, pages and their permitted requisites are requested.
    """
    names = {f"/h{number}": markup for number, markup in enumerate(HOSTILE.values())}
    with served_site(ScriptedSite(pages=1)) as site:
        links = "".join(f"<a href={path}>{path}</a>" for path in [*names, "/"])
        pages = {"/index": f"<title>index</title>{links}"} | {
            path: f"<!doctype html><title>{path}</title><body>{markup}</body>"
            for path, markup in names.items()
        }
        for path, content in pages.items():
            site.serve(path, "text/html", content)
        crawled = run(
            site.url("/index"),
            render="always",
            depth=1,
            settings=("render.timeout=3s", "render.requests=5"),
        )
    assert set(names) < set(crawled.titles())
    assert "made 0" in crawled.titles()
    assert all(each.method == "GET" for each in site.requests)
    assert Counter(site.paths())["/"] == 1
    crawled.assert_sound()
    print(dict(crawled.progress.errors))
