"""No reference makes Lycosa connect to a private address (SSRF).

Run by `test_names.py` in an isolated network, in which all private addresses have a listener that
records connections.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from lycosa.commands.crawling.submissions import propose
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config, FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.errors import UrlError, UsageError
from lycosa.crawl.session.submission import submit
from lycosa.fetch.check import Check, CheckFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.hunt.session import HuntOrder, HuntRequest, hunt
from lycosa.mcp.server import McpOptions
from lycosa.notify.transports import DeliveryError, Notice, notifier_of
from lycosa.search.federation.backend import BackendError
from lycosa.search.federation.peer_backend import PeerHttp
from lycosa.search.federation.wire import UrlsMessage as AnswerMessage
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import add_monitor
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname
from tests.crawl.sessions import collection, select, work
from tests.fetch.fetching import fetch, open_fetcher
from tests.mcp.conftest import QUICK, ask, call, failure
from tests.servers.ftp import false_address_ftp
from tests.servers.system import require_program
from tests.trust.isolation import PUBLIC, Answer, IsolatedNetwork, addresses, isolated_network

PRIVATE_NAMES = {
    "inner.test": addresses("10.1.2.3"),
    "loop.test": addresses("127.0.0.99"),
    "both.test": addresses("192.168.7.7", "10.1.2.3"),
    "cloud.test": addresses("169.254.169.254"),
    "six.test": addresses("fd00::7"),
    "mapped.test": addresses("::ffff:10.1.2.3"),
    "translated.test": addresses("64:ff9b::a01:203"),
    "relayed.test": addresses("2002:a01:203::1"),
}

TARGETS = {
    "dotted": "http://10.1.2.3/",
    "loopback": "http://127.0.0.99/",
    "another port": "http://127.0.0.1:6379/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "shared": "http://100.64.1.1/",
    "documentation": "http://192.0.2.7/",
    "benchmarks": "http://198.18.0.7/",
    "decimal": "http://167838211/",
    "hexadecimal": "http://0x0a010203/",
    "hexadecimal parts": "http://0x0a.0x1.0x2.0x3/",
    "octal": "http://012.01.02.03/",
    "octal with zeros": "http://0000012.0001.0002.0003/",
    "short": "http://10.66051/",
    "shorter": "http://127.99/",
    "zero": "http://0/",
    "all zeros": "http://0.0.0.0/",
    "trailing dot": "http://10.1.2.3./",
    "percent-encoded": "http://%31%30.1.2.3/",
    "full width": "http://１０.１.２.３/",
    "ideographic dots": "http://10。1。2。3/",
    "circled": "http://①⓪.①.②.③/",
    "user name": "http://w0.test@10.1.2.3/",
    "user name and password": "http://w0.test:80@10.1.2.3/",
    "backslash": "http:\\\\10.1.2.3\\w0.test",
    "fragment as host": "http://10.1.2.3#@w0.test/",
    "tab within": "http://10.1\t.2.3/",
    "no slashes": "http:10.1.2.3/",
    "scheme of the page": "//10.1.2.3/",
    "upper case": "HTTP://10.1.2.3/",
    "IPv6 loopback": "http://[::1]/",
    "IPv6 unspecified": "http://[::]/",
    "mapped": "http://[::ffff:10.1.2.3]/",
    "mapped in hexadecimal": "http://[::ffff:a01:203]/",
    "mapped loopback": "http://[::ffff:7f00:63]/",
    "compatible": "http://[::10.1.2.3]/",
    "unique local": "http://[fd00::7]/",
    "link-local": "http://[fe80::7]/",
    "with a zone": "http://[fe80::7%25lo]/",
    "NAT64": "http://[64:ff9b::10.1.2.3]/",
    "6to4": "http://[2002:a01:203::1]/",
    "localhost": "http://localhost/",
    "under localhost": "http://www.localhost/",
    "https": "https://10.1.2.3/",
    "ftp": "ftp://10.1.2.3/",
    "gopher": "gopher://127.0.0.1:6379/_FLUSHALL",
    "file": "file:///etc/passwd",
    **{f"name {name}": f"http://{name}/" for name in PRIVATE_NAMES},
}


@pytest.fixture
def network() -> IsolatedNetwork:
    network = isolated_network()
    network.clear()
    network.name_server.names.update(PRIVATE_NAMES)
    return network


def page(markup: str = "", head: str = "") -> Answer:
    return Answer(
        f"<!doctype html><html><head><title>a page</title>{head}</head><body><p>Some "
        f"words of text.</p>{markup}</body></html>"
    )


def moved(status: int) -> Callable[[str], dict[str, Answer]]:
    return lambda to: {"/": Answer("moved", status, [("Location", to)])}


def text(body: str, kind: str = "text/plain") -> Answer:
    return Answer(body, 200, [("Content-Type", kind)])


RSS = (
    '<?xml version="1.0"?><rss '
    'version="2.0"><channel><title>t</title><link>{to}</link><item><title>i</title><link>{to}</link></item></channel></rss>'
)
SITEMAP = (
    '<?xml version="1.0"?><urlset '
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{to}</loc></url></urlset>'
)
INDEX = (
    '<?xml version="1.0"?><sitemapindex '
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>{to}</loc></sitemap></sitemapindex>'
)
ENTITY = (
    '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e SYSTEM "{to}"><!ENTITY % p SYSTEM "{to}"> %p;]>'
)
ROBOTS = "User-agent: *\nDisallow:\nSitemap: http://{host}/map.xml\n"
FEED = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'

# How a site refers to an address: its responses by path. `{host}` stands for its own name.
REFERENCES: dict[str, Callable[[str], dict[str, Answer]]] = {
    "link": lambda to: {"/": page(f'<a href="{to}">there</a>')},
    "redirect 301": moved(301),
    "redirect 302": moved(302),
    "redirect 303": moved(303),
    "redirect 307": moved(307),
    "redirect 308": moved(308),
    "two redirects": lambda to: {"/": Answer("", 302, [("Location", "/on")]), "/on": Answer("", 302, [("Location", to)])},
    "meta refresh": lambda to: {"/": page(head=f'<meta http-equiv="refresh" content="0; url={to}">')},
    "Refresh": lambda to: {"/": Answer("<p>wait", 200, [("Content-Type", "text/html"), ("Refresh", f"0; url={to}")])},
    "Link": lambda to: {"/": Answer("<p>on", 200, [("Content-Type", "text/html"), ("Link", f'<{to}>; rel="next"')])},
    "Content-Location": lambda to: {"/": Answer("<a href=on>", 200, [("Content-Type", "text/html"), ("Content-Location", to)])},
    "Alt-Svc": lambda to: {"/": Answer("<a href=/on>", 200, [("Content-Type", "text/html"), ("Alt-Svc", 'h2="10.1.2.3:443", http/1.1="10.1.2.3:80"')])},
    "base": lambda to: {"/": page('<a href="on">on</a>', f'<base href="{to}">')},
    "canonical": lambda to: {"/": page(head=f'<link rel="canonical" href="{to}">')},
    "next and others": lambda to: {"/": page(head="".join(f'<link rel="{rel}" href="{to}">' for rel in ("next", "prev", "alternate", "amphtml", "prefetch", "preconnect", "dns-prefetch", "preload", "stylesheet", "icon", "manifest", "pingback", "modulepreload")))},
    "hreflang": lambda to: {"/": page(head=f'<link rel="alternate" hreflang="fi" href="{to}">')},
    "frames": lambda to: {"/": page(f'<iframe src="{to}"></iframe><frame src="{to}"><embed '
                                    f'src="{to}"><object data="{to}"></object>')},
    "pictures": lambda to: {"/": page(f'<img src="{to}a.png" srcset="{to}b.png 2x"><video '
                                      f'poster="{to}c.png" src="{to}d.mp4"></video><script '
                                      f'src="{to}e.js"></script>')},
    "styles": lambda to: {"/": page(f"<style>@import url({to}a.css); p {{background: "
                                    f"url({to}b.png)}}</style><p style='background: "
                                    f"url({to}c.png)'>")},
    "style sheet": lambda to: {"/": page(head='<link rel="stylesheet" href="/a.css">'), "/a.css": text(f"@import '{to}a.css'; p {{background: url({to}b.png)}}", "text/css")},
    "forms and maps": lambda to: {"/": page(f'<form action="{to}"><button '
                                            f'formaction="{to}">go</button></form><map><area '
                                            f'href="{to}"></map><blockquote cite="{to}">')},
    "robots.txt redirect": lambda to: {"/": page(), "/robots.txt": Answer("", 302, [("Location", to)])},
    "robots.txt sitemap": lambda to: {"/": page(), "/robots.txt": text(f"User-agent: *\nDisallow:\nSitemap: {to}\nSitemap: {to}map.xml\n")},
    "sitemap redirect": lambda to: {"/": page(), "/robots.txt": text(ROBOTS), "/map.xml": Answer("", 302, [("Location", to)])},
    "sitemap entry": lambda to: {"/": page(), "/robots.txt": text(ROBOTS), "/map.xml": text(SITEMAP.format(to=to), "application/xml")},
    "sitemap index": lambda to: {"/": page(), "/robots.txt": text(ROBOTS), "/map.xml": text(INDEX.format(to=to), "application/xml")},
    "sitemap entity": lambda to: {"/": page(), "/robots.txt": text(ROBOTS), "/map.xml": text(ENTITY.format(to=to) + SITEMAP.format(to="&e;")[38:], "application/xml")},
    "feed redirect": lambda to: {"/": page(head=FEED), "/feed.xml": Answer("", 302, [("Location", to)])},
    "feed entry": lambda to: {"/": page(head=FEED), "/feed.xml": text(RSS.format(to=to), "application/rss+xml")},
    "feed entity": lambda to: {"/": page(head=FEED), "/feed.xml": text(ENTITY.format(to=to) + RSS.format(to="&e;")[38:], "application/rss+xml")},
    "feed at the address": lambda to: {"/": page(head=FEED.replace("/feed.xml", to))},
    "XHTML entity": lambda to: {"/": text(ENTITY.format(to=to) + "<html xmlns='http://www.w3.org/1999/xhtml'><body>&e;</body></html>", "application/xhtml+xml")},
    "SVG": lambda to: {"/": text(f"<svg xmlns='http://www.w3.org/2000/svg'><a href='{to}'/><image href='{to}'/><use href='{to}'/></svg>", "image/svg+xml")},
    "a script's redirect": lambda to: {"/": page(f"<script>location = '{to}'</script>")},
}  # fmt: skip


@dataclass
class ReferringSite:
    """A site that refers to a private address."""

    host: str
    reference: str
    target: str


def add_sites(
    network: IsolatedNetwork, references: Sequence[str], targets: Sequence[str]
) -> list[ReferringSite]:
    """Add a site per reference and target.

    Combines `references` with all targets, and `targets` with all references.
    """
    pairs = [(reference, target) for reference in references for target in TARGETS]
    pairs += [(reference, target) for reference in REFERENCES for target in targets]
    sites = [ReferringSite(f"w{number}.test", *pair) for number, pair in enumerate(pairs)]
    for site in sites:
        for path, answer in REFERENCES[site.reference](TARGETS[site.target]).items():
            answer.body = answer.body.replace("{host}", site.host)
            network.sites[site.host, path] = answer
    return sites


@pytest.mark.parametrize(
    ("references", "targets"),
    [
        pytest.param(["link"], ["dotted"], id="few"),
        pytest.param(
            [
                "redirect 301",
                "meta refresh",
                "robots.txt redirect",
                "sitemap redirect",
                "feed redirect",
                "base",
            ],
            ["loopback", "name inner.test", "NAT64", "decimal", "mapped"],
            id="many",
            marks=pytest.mark.prove,
        ),
    ],
)
def test_crawl_connects_to_no_private_address(
    network: IsolatedNetwork,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    references: list[str],
    targets: list[str],
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for spelling in (name, name.upper()):
            monkeypatch.setenv(spelling, "http://10.1.2.3:8080")
    sites = add_sites(network, references, targets)
    chosen = collection(
        "c",
        scope="any",
        delay=0,
        requisites=True,
        sitemaps=True,
        feeds=True,
        respect_nofollow=False,
    )
    settings = (
        "fetch.other_schemes=true",
        "fetch.retries=1",
        "crawl.patience=1s",
        "fetch.connect_timeout=3s",
    )
    crawled = work(
        tmp_path, [(chosen, [f"http://{site.host}/" for site in sites])], settings=settings
    )
    assert (crawled.progress.ended, network.private.connections) == ("finished", [])
    assert not [
        site
        for site in sites
        if not network.requests[site.host, "/"] and site.reference != "robots.txt redirect"
    ]
    rows = {str(row["url"]): row for row in select(tmp_path, "SELECT url, state, reason FROM urls")}
    private = {url: row for url, row in rows.items() if is_private(url)}
    print(len(sites), "sites refer to", len(private), "private URLs:", sorted(private))
    assert len(private) > 30
    assert {(row["state"], row["reason"]) for row in private.values()} == {
        ("excluded", "address_refused")
    }, private
    visits = select(tmp_path, "SELECT url, error, ip, kind FROM visits")
    errors = {str(row["url"]): row["error"] for row in visits if is_private(str(row["url"]))}
    assert set(errors.values()) == {"address_refused"}, errors
    assert all(row["ip"] in PUBLIC for row in visits if not row["error"])


def is_private(url: str) -> bool:
    return ".test/" not in url or url.split("/")[2] in PRIVATE_NAMES


def test_private_address_is_contacted_only_if_it_is_a_seed(
    network: IsolatedNetwork, tmp_path: Path
) -> None:
    """Also shows that the listeners record connections."""
    network.sites["w0.test", "/"] = page(
        '<a href="http://10.1.2.3/">in</a><a href="http://10.1.2.3:8080/">in</a><a '
        'href="http://127.0.0.99/">in</a>'
    )
    work(
        tmp_path, [(collection("c", scope="any", delay=0), ["http://w0.test/", "http://10.1.2.3/"])]
    )
    assert set(network.private.connections) == {("10.1.2.3", 80)}


def test_proposals_monitors_and_notifications_refuse_private_addresses(
    network: IsolatedNetwork, tmp_path: Path
) -> None:
    Workspace.create(str(tmp_path / "w"))
    storage = Workspace.open(str(tmp_path / "w")).storage
    quick = parse_config("", overrides=("notify.timeout=2s",))
    wrong: list[str] = []
    fetcher = CheckFetcher(FetchSettings(), AddressGuard(), SystemClock())
    with fetcher:
        for name, target in TARGETS.items():
            literal = not name.startswith("name ")
            try:
                url = normalise(target)
            except UrlError:
                continue
            if not url.startswith("http"):
                continue
            fetcher.check(Check(url, 20_000))
            while not (done := fetcher.wait(100)):
                pass
            if done[0].error != "address_refused":
                wrong.append(f"check of {target}: {done[0].status} {done[0].error}")
            for operation, action in (
                ("proposal", partial(propose, storage, target)),
                (
                    "monitor",
                    partial(
                        add_monitor, str(tmp_path / "w"), Config(), {"url": target}, private=False
                    ),
                ),
            ):
                if (
                    literal
                    and hostname(url) not in ("localhost", "www.localhost")
                    and not refused(action)
                ):
                    wrong.append(f"{operation} of {target}")
            with suppress(UsageError):
                notifier = notifier_of(f"webhook {target}", quick)
                with suppress(DeliveryError):
                    notifier.send(NOTICE)
                    wrong.append(f"notification to {target}")
                notifier.close()
    assert not wrong, "\n".join(wrong)
    assert network.private.connections == []


NOTICE = Notice("id", "match", "name", "http://a.test/", datetime(2026, 1, 1, tzinfo=UTC), "text")


def refused(action: Callable[[], object]) -> bool:
    try:
        action()
    except UsageError:
        return True
    return False


@pytest.mark.prove
def test_submitted_urls_and_focused_crawls_refuse_private_addresses(
    network: IsolatedNetwork, tmp_path: Path
) -> None:
    network.sites["w0.test", "/"] = page()
    private_urls = [
        "http://10.1.2.3/",
        "http://127.1/",
        "http://inner.test/",
        "http://[::ffff:10.1.2.3]/",
        "http://localhost/",
    ]
    chosen = collection("default", scope="any", delay=0)
    work(tmp_path, [(chosen, ["http://w0.test/"])])
    submit(str(tmp_path), parse_config(""), private_urls)
    work(tmp_path, [(chosen, ["http://w0.test/"])])
    request = HuntRequest("secret", tuple(private_urls), typed=False, time_ms=20_000)
    hunt(
        HuntOrder(
            str(tmp_path), parse_config("", overrides=("crawl.patience=1s",)), request, index=False
        )
    )
    rows = {
        str(row["url"]): row["reason"] for row in select(tmp_path, "SELECT url, reason FROM urls")
    }
    assert {rows[normalise(url)] for url in private_urls} == {"address_refused"}
    assert network.private.connections == []


def test_mcp_tools_refuse_private_addresses(network: IsolatedNetwork, tmp_path: Path) -> None:
    network.sites["w0.test", "/"] = page()
    options = McpOptions(str(tmp_path / "w"), QUICK, allow_fetch=True, allow_crawl=True)
    for number, target in enumerate(TARGETS.values(), 1):
        network.sites[f"w{number}.test", "/"] = Answer("moved", 302, [("Location", target)])
        failure(options, "fetch_page", url=target)
        ask(options, "fetch_page", {"url": f"http://w{number}.test/"})
    assert call(options, "fetch_page", url="http://w0.test/")["title"] == "a page"
    private_urls = ["http://10.1.2.3/", "http://127.1/", "http://inner.test/", "http://[::1]/"]
    for url in private_urls:
        assert call(options, "crawl_site", url=url)["pages"] == 0
    seeds = [*private_urls, "http://w0.test/"]
    result = call(options, "focused_crawl", question="secret", seeds=seeds)
    assert (result["pages"], network.private.connections) == (1, [])


@pytest.mark.parametrize("target", ["http://10.1.2.3/", "http://inner.test/", "http://127.1:8080/"])
def test_redirect_by_a_peer_is_not_followed(network: IsolatedNetwork, target: str) -> None:
    network.sites["peer.test", "/api/v1/x?"] = Answer("", 307, [("Location", target)])
    peer = PeerHttp("http://peer.test", FetchSettings())
    with pytest.raises(BackendError, match="307"):
        peer.ask("/api/v1/x?", None, AnswerMessage, 5.0)
    peer.close()
    assert network.private.connections == []


@pytest.mark.parametrize("data_address", ["127.0.0.1", "10.1.2.3", "192.168.7.7"])
def test_data_address_given_by_an_ftp_server_is_ignored(
    network: IsolatedNetwork, data_address: str
) -> None:
    with (
        false_address_ftp(data_address, PUBLIC[1]) as port,
        open_fetcher([], other_schemes=True) as fetcher,
    ):
        network.name_server.names["files.test"] = addresses(PUBLIC[1])
        exchange = fetch(fetcher, f"ftp://files.test:{port}/file.txt")
    assert (exchange.status, exchange.body, exchange.ip) == (200, b"the text", PUBLIC[1])
    assert network.private.connections == []


SCRIPTS = """
for (const to of TARGETS) {
  const host = to.split('/')[2];
  try { fetch(to, {mode: 'no-cors'}).catch(() => 0) } catch (e) {}
  try { new WebSocket('ws://' + host + '/') } catch (e) {}
  try { new EventSource(to) } catch (e) {}
  try { navigator.sendBeacon(to, 'x') } catch (e) {}
  try { const x = new XMLHttpRequest(); x.open('GET', to); x.send() } catch (e) {}
  try { new Image().src = to + 'a.png' } catch (e) {}
  try { new Worker(to + 'w.js') } catch (e) {}
  try { import(to + 'm.js').catch(() => 0) } catch (e) {}
  try { window.open(to) } catch (e) {}
  try { new RTCPeerConnection({iceServers: [{urls: 'stun:' + host}]}).createDataChannel('x') } catch (e) {}
  for (const [tag, name] of [['script', 'src'], ['iframe', 'src'], ['link', 'href'], ['video', 'src'], ['object', 'data']]) {
    const made = document.createElement(tag); made[name] = to; made.rel = 'stylesheet'; document.body.append(made);
  }
}
document.body.append('run through');
"""


@pytest.mark.prove
def test_scripts_of_a_rendered_page_reach_no_private_address(
    network: IsolatedNetwork, tmp_path: Path
) -> None:
    """Chromium has its own resolver and network stack."""
    require_program("chromium")
    targets = [
        TARGETS[name]
        for name in (
            "dotted",
            "loopback",
            "decimal",
            "mapped",
            "IPv6 loopback",
            "NAT64",
            "localhost",
            "name inner.test",
        )
    ]
    network.sites["w0.test", "/"] = page(
        f"<script>const TARGETS = {json.dumps(targets)};{SCRIPTS}</script>"
    )
    chosen = collection("c", scope="any", delay=0, render="always")
    work(
        tmp_path,
        [(chosen, ["http://w0.test/"])],
        settings=(
            "crawl.patience=1s",
            "fetch.connect_timeout=3s",
            "render.timeout=60s",
            "render.sandbox=false",
        ),
    )
    [read] = select(tmp_path, "SELECT text FROM pages")
    assert "run through" in str(read["text"])
    assert network.private.connections == []
