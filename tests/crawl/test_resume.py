"""Resuming and reparsing from stored data, and crawls with small queues."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.config.settings import Config
from lycosa.core.records import Link, Page
from lycosa.crawl.processing import page_reader as parse
from lycosa.crawl.worker import Limits
from lycosa.index.indexer import Indexer
from lycosa.page.parse import parse_page
from lycosa.search.engine.searcher import Searcher, SearchRequest
from tests.crawl.conftest import RunCrawl, ServeWeb, full_disk, page
from tests.crawl.sessions import LaterClock, collection, work
from tests.crawl.test_crawl import assert_counts_add_up

DAY_MS = 86_400_000


def many(number: int) -> dict[str, str]:
    """Return a site whose home page links to `number` pages."""
    return {"/index.html": page(*(f"/{n}.html" for n in range(number)))} | {
        f"/{n}.html": page(text=f"page {n}") for n in range(number)
    }


@pytest.mark.proves("limits-memory")
def test_more_queued_urls_than_fit_in_memory_are_all_fetched(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = serve(many(260), many(120))
    # a long timeout: no retries on a busy machine
    tight = ("crawl.waiting_urls=100", "crawl.commit_interval=200ms", "fetch.first_byte_timeout=1m")
    crawled = run(web.url(), web.url(host=2), settings=tight)
    assert crawled.count("pages") == 382
    assert Counter(request.url for request in web.server.requests()).most_common(1)[0][1] == 1
    assert_counts_add_up(crawled)


@pytest.mark.proves("limits-memory")
def test_more_hosts_than_active_hosts_are_all_fetched(serve: ServeWeb, run: RunCrawl) -> None:
    """One active host at a time: the pages of each host link to the next one."""
    web = serve(*({} for _ in range(6)))
    for number in range(1, 7):
        following = [web.url(host=number + 1)] if number < 6 else []
        site = {
            "index.html": page("/a.html", text=f"home {number}"),
            "a.html": page("/b.html", *following, text=f"a {number}"),
            "b.html": page(text=f"b {number}"),
        }
        web.write(site, number)
    crawled = run(
        *(web.url("/robots.txt", host=number) for number in range(1, 7)),
        web.url(),
        scope="any",
        settings=("crawl.active_hosts=1",),
    )
    assert (crawled.count("pages"), crawled.progress.later) == (18, Counter())
    assert_counts_add_up(crawled)


def test_page_is_fetched_completely_after_a_temporary_redirect(
    serve: ServeWeb, tmp_path: Path
) -> None:
    """The page left the index, so an answer 304 would not restore it."""
    moved = "location = /a.html { if (-f $document_root/moved) { return 302 /b.html; } }"
    web = serve(
        {
            "/index.html": page("/a.html"),
            "/a.html": page("/c.html", text="a"),
            "/b.html": page(text="b"),
            "/c.html": page(),
        },
        extra=[moved],
    )
    chosen = collection("default", recrawl="age", max_age="1d")
    root = web.server.servers[0].root
    assert work(tmp_path / "w", [(chosen, [web.url()])]).pages() == ["/", "/a.html", "/c.html"]
    (root / "moved").write_text("")
    second = work(tmp_path / "w", [(chosen, [web.url()])], clock=LaterClock(2 * DAY_MS))
    assert second.states()["/a.html"] == ("visited", "redirect")
    assert second.states()["/b.html"] == ("visited", "")
    (root / "moved").unlink()
    mark = web.server.mark()
    third = work(tmp_path / "w", [(chosen, [web.url()])], clock=LaterClock(4 * DAY_MS))
    assert {request.uri: request.status for request in web.server.requests(mark)}["/a.html"] == 200
    assert third.states()["/a.html"] == ("visited", "")
    assert third.pages() == ["/", "/a.html", "/b.html", "/c.html"]
    statuses = [
        row["http_status"] for row in third.rows("visits") if str(row["url"]).endswith("/a.html")
    ]
    assert sorted(int(str(status)) for status in statuses) == [200, 200, 302]
    assert [row["pages"] for row in third.rows("hosts")] == [4]
    assert_counts_add_up(third)


def test_304_without_a_condition_is_a_failure(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve({"/index.html": page("/a.html")}, extra=["location = /a.html { return 304; }"])
    crawled = run(web.url(), settings=("fetch.retries=1", "fetch.retry_wait=10ms"))
    assert web.requested_paths() == ["/", "/a.html", "/a.html"]
    assert crawled.states()["/a.html"] == ("known", "http_304")


def test_304_is_replayed_only_for_collections_that_have_the_page(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve({"/index.html": page(text="home")})
    chosen = collection("one", recrawl="age", max_age="1d")
    work(tmp_path / "w", [(chosen, [web.url()])])
    with full_disk(monkeypatch):
        work(tmp_path / "w", [(chosen, [web.url()])], clock=LaterClock(2 * DAY_MS))
    both = [(chosen, [web.url()]), (collection("two"), [web.url()])]
    crawled = work(tmp_path / "w", both, clock=LaterClock(2 * DAY_MS))
    assert Counter(str(row["collection"]) for row in crawled.rows("pages")) == Counter(
        ["one", "two"]
    )
    assert [request.status for request in web.server.requests() if request.uri == "/"] == [
        200,
        304,
        200,
    ]


def test_robots_txt_behind_a_redirect_is_replayed_and_not_requested_again(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first hop is committed, the last one is only archived.

    The host of the robots.txt has no queued URL then.
    """
    other = serve({}, {"/there.txt": "User-agent: *\nDisallow: /1.html\n"})
    moved = f"location = /robots.txt {{ return 302 {other.url('/there.txt', host=2)}; }}"
    web = serve(
        {"/index.html": page("/1.html", "/2.html"), "/1.html": page(), "/2.html": page()},
        extra=[moved],
    )
    jobs = [(collection("default"), [web.url(), other.url("/there.txt", host=2)])]
    sequential = ("fetch.connections=1", "crawl.commit_pages=1")
    work(tmp_path / "w", jobs, limits=Limits(max_pages=0))
    with full_disk(monkeypatch, commits=1):
        work(tmp_path / "w", jobs, settings=sequential)
    mark = web.server.mark()
    crawled = work(tmp_path / "w", jobs)
    assert "/robots.txt" not in [
        request.uri
        for request in web.server.requests(mark)
        if request.host.startswith("127.0.3.1:")
    ]
    assert crawled.states()["/1.html"] == ("excluded", "robots")
    assert "/2.html" in crawled.pages()


def test_damaged_archive_is_reported_at_replay_and_its_pages_are_fetched_again(
    serve: ServeWeb, run: RunCrawl
) -> None:
    """The commit is missing and a bit of its archive has changed."""
    web = serve(many(8))
    first = run(web.url())
    log = Path(first.root) / "log"
    for number in (2, 3):
        (log / f"{number:08d}.json").unlink()
    [archive] = Path(first.root).glob("data/*/archive.warc.gz")
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    again = run(web.url())
    assert again.progress.damaged == Counter({str(archive.relative_to(first.root)): 1})
    assert again.progress.summary(0)["damaged"] == dict(again.progress.damaged)
    assert 0 < again.progress.replayed < again.count("visits")
    assert again.count("pages") == 9
    assert_counts_add_up(again)


SITE = {
    "/index.html": page("/a.html", "/b.html", text="The home page of a small site."),
    "/a.html": page("/", text="Seite über Spinnen und Käfer im Garten."),
    "/b.html": page("/a.html", "/a.html#x", text="Another page."),
    "/c.html": page(text="Only a newer parser sees the link to this page."),
}


def test_reparse_with_the_same_parser_changes_nothing(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(SITE)
    crawled = run(web.url())
    before = {str(row["url"]): row for row in crawled.rows("pages")}
    mark = web.server.mark()
    report = reparse_workspace(str(crawled.root), Config(), None, None, "test")
    assert (report.pages, report.changed, report.text_changed, report.unreadable) == (3, 0, 0, 0)
    assert {str(row["url"]): row for row in crawled.rows("pages")} == before
    assert web.server.requests(mark) == []


def test_reparse_updates_changed_pages_and_new_links_are_followed(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve(SITE)
    crawled = run(web.url())

    def newer(payload: bytes, **about: object) -> Page:
        read = parse_page(payload, **about)  # type: ignore[arg-type]
        if str(about["url"]).endswith("/b.html"):
            read.title = "B, reparsed"
            read.links.append(Link(web.url("/c.html"), "c", "", "a", len(read.links)))
        return read

    monkeypatch.setattr(parse, "parse_page", newer)
    report = reparse_workspace(str(crawled.root), Config(), None, None, "test")
    assert (report.pages, report.changed, report.text_changed) == (3, 1, 0)
    titles = {str(row["url"]).rsplit("/", 1)[1]: row["title"] for row in crawled.rows("pages")}
    assert (titles["b.html"], len(crawled.rows("pages"))) == ("B, reparsed", 3)
    assert [
        row["source"] for row in crawled.rows("links") if row["target"] == web.url("/c.html")
    ] == [web.url("/b.html")]
    mark = web.server.mark()
    again = run()
    assert web.requested_paths(mark) == ["/c.html"]
    assert "/c.html" in again.pages()


def test_reparse_is_limited_to_a_collection_and_a_time(serve: ServeWeb, run: RunCrawl) -> None:
    crawled = run(serve(SITE).url())
    assert reparse_workspace(str(crawled.root), Config(), "other", None, "test").pages == 0
    assert (
        reparse_workspace(str(crawled.root), Config(), "default", 4_000_000_000_000, "test").pages
        == 0
    )
    assert reparse_workspace(str(crawled.root), Config(), "default", 0, "test").pages == 3


def test_reparse_does_not_restore_gone_pages(
    serve: ServeWeb, run: RunCrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled = run(serve(SITE).url(), index=True)
    (tmp_path / "site-1/a.html").unlink()
    run(recrawl="age", max_age="1h", index=True, clock=LaterClock(2 * 3_600_000))
    assert crawled.states()["/a.html"] == ("gone", "http_404")
    root = str(crawled.root)
    assert Searcher(root).search(SearchRequest("Spinnen")).total == 0

    def newer(payload: bytes, **about: object) -> Page:
        read = parse_page(payload, **about)  # type: ignore[arg-type]
        read.title = "reparsed"
        return read

    monkeypatch.setattr(parse, "parse_page", newer)
    assert reparse_workspace(root, Config(), None, None, "test").pages == 2
    with Indexer(root) as indexer:
        indexer.update()
    searcher = Searcher(root)
    assert searcher.search(SearchRequest("Spinnen")).total == 0
    assert searcher.search(SearchRequest("reparsed")).total == 2
