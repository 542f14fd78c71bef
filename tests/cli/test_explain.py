"""`lycosa explain` names every rule that may prevent or delay the fetch of a URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import NO_DELAY, Lycosa, run_here
from tests.servers.local_http import QuietHandler, serving_handler
from tests.servers.nginx import Nginx, Server, nginx

PAGES = {
    "robots.txt": "User-agent: *\nCrawl-delay: 0.2\nDisallow: /closed/\nSitemap: /sitemap.xml\n",
    "sitemap.xml": '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>ADDRESS/listed.html</loc></url></urlset>',
    "index.html": '<p>Home, with some unique text.</p><a href="/one.html">1</a><a '
    'href="/pic.jpg">p</a><a href="/list.html?a=1&b=2">ab</a>'
    '<a href="/list.html?b=2&a=1">ba</a><a href="/cal/2099-05-05/">c</a><a href="/ad.html" '
    'rel="nofollow">ad</a><a href="/print/one.html">',
    "one.html": '<p>The first page is about rivers.</p><a href="/two.html">2</a>',
    "two.html": '<p>The second page is about hills.</p><a href="/three.html">3</a>',
    "listed.html": "<p>Only the sitemap names this page about lakes.</p>",
    "list.html": "<p>A list of items that were counted twice.</p>",
}
CONFIGURATION = """
[crawl]
exclusions = "EXCLUSIONS"
patience = "3s"
[[collection]]
name = "news"
depth = 2
deny = ["/print/"]
delay = "100ms"
courtesy_factor = 0.0
recrawl = "age"
max_age = "2h"
strategy = "server-first"
max_pages_per_host = 50
schedule = "00:00-24:00"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    root = tmp_path_factory.mktemp("explained")
    with nginx([Server("127.0.4.3", root, index="index.html", autoindex=False)]) as server:
        for name, content in PAGES.items():
            (root / name).write_text(content.replace("ADDRESS", f"http://127.0.4.3:{server.port}"))
        yield server


@pytest.fixture(scope="module")
def workspace(site: Nginx, tmp_path_factory: pytest.TempPathFactory) -> str:

    root = tmp_path_factory.mktemp("explain") / "w"
    root.mkdir()
    (root / "lycosa.toml").write_text(
        CONFIGURATION.replace("EXCLUSIONS", str(root.parent / "exclusions.txt"))
    )
    (root.parent / "exclusions.txt").write_text("host bad.example  # removal requested\n")
    outcome = run_here(
        "-w", str(root), "crawl", f"http://127.0.4.3:{site.port}/", "--collection", "news"
    )
    assert outcome.code == 0, outcome.err
    return str(root)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/pic.jpg", "refused (unindexable_image)"),
        (
            "/cal/2099-05-05/",
            "refused (trap_calendar): suspected crawler trap: a date more than 2 years ahead",
        ),
        ("/x/a/b/a/b/a/b/", "refused (trap_repeated_segments)"),
        ("/page.html;jsessionid=0123456789ABCDEF0123456789ABCDEF", "refused (trap_session_id)"),
        ("/ad.html", "refused (nofollow): the only link to it is marked nofollow"),
        (
            "/three.html",
            "refused (depth): the nearest page that links to it is at depth 2, and "
            "the limit (depth) is 2",
        ),
        ("/print/one.html", "refused (pattern): deny '/print/' matches"),
        ("/unlinked.html", "no link to it was found, and no rule would refuse it"),
    ],
)
def test_url_that_was_never_admitted_is_explained_by_the_refusing_rule(
    here: Lycosa, workspace: str, site: Nginx, path: str, message: str
) -> None:
    outcome = here("-w", workspace, "explain", f"http://127.0.4.3:{site.port}{path}")
    outcome.expect(0, "never admitted", message)


def test_documents_are_refused_if_the_crawl_does_not_read_them(
    here: Lycosa, workspace: str, site: Nginx
) -> None:
    url = f"http://127.0.4.3:{site.port}/report.pdf"
    outcome = here("-w", workspace, "explain", url)
    assert "no rule would refuse it" in outcome.out
    outcome = here("-w", workspace, "--set", "crawl.documents=0", "explain", url)
    assert "refused (unindexable_document)" in outcome.out


def test_known_url_with_permuted_query_parameters_is_named(
    here: Lycosa, workspace: str, site: Nginx
) -> None:
    outputs = [
        here("-w", workspace, "explain", f"http://127.0.4.3:{site.port}/list.html?{query}").out
        for query in ("a=1&b=2", "b=2&a=1")
    ]
    refused = next(text for text in outputs if "trap_query_permutation" in text)
    assert (
        "a URL with the same query parameters in another order is already known: http://127.0.4.3"
        in refused
    )
    assert sum("visited" in text for text in outputs) >= 1


def test_schedule_delays_and_settings_are_shown(here: Lycosa, workspace: str, site: Nginx) -> None:
    address = f"http://127.0.4.3:{site.port}/one.html"
    outcome = here("-w", workspace, "explain", address).out
    assert "recrawl = age: when it is older than 2h" in outcome
    assert "Crawl-delay in robots.txt" in outcome
    assert "crawl_delay 200ms, delay 100ms" in outcome
    assert "server-first, recrawl age" in outcome
    assert "5 of 50 pages of the host" in outcome
    document = here("-w", workspace, "explain", address, "--json").json
    entry = document["collections"][0]  # type: ignore[index]
    assert entry["due_at"] > entry["visited_at"].replace(" ", "T")[:19]
    assert document["host_clock"][0]["rules"][0] == {"rule": "crawl_delay", "ms": 200}  # type: ignore[index]
    assert entry["settings"]["host_pages"] == 5
    assert "domain_pages" not in entry["settings"]  # not counted without a limit


def test_sitemap_and_its_urls_are_explained(here: Lycosa, workspace: str, site: Nginx) -> None:
    outcome = here("-w", workspace, "explain", f"http://127.0.4.3:{site.port}/sitemap.xml").out
    assert "in news (sitemap)" in outcome
    assert "read periodically" in outcome
    assert (
        "found on"
        in here("-w", workspace, "explain", f"http://127.0.4.3:{site.port}/listed.html").out
    )


def test_exclusion_is_named_with_its_comment(here: Lycosa, workspace: str) -> None:
    outcome = here("-w", workspace, "explain", "http://bad.example/x").out
    assert "crawl.exclusions: host bad.example (line 1: removal requested)" in outcome
    assert "refused (excluded): excluded by the operator" in outcome


class _Failing(QuietHandler):
    def do_GET(self) -> None:
        self.send_error(503)


def test_unreachable_robots_txt_defers_its_urls(here: Lycosa, tmp_path: Path) -> None:
    with serving_handler(_Failing) as origin:
        url = f"{origin}/page.html"
        quick = ("--set", "fetch.retries=0", "--set", "collection.backoff=50ms")
        options = (*NO_DELAY, *quick)
        crawled = here("-w", str(tmp_path / "w"), "crawl", url, *options)
    assert crawled.code == 1
    outcome = here("-w", str(tmp_path / "w"), "explain", url)
    outcome.expect(
        0,
        "when robots.txt is requested again: no URL is allowed: robots.txt is unreachable",
        absent=("due now", "paused until"),  # the pause of the domain is over
    )
