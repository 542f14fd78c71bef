"""Parsing the archive again: nothing changes when nothing changed; what reads otherwise gets new
rows; nothing is fetched.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.commands.crawling.reparse import reparse_workspace
from lycosa.config.settings import Config
from lycosa.core.records import Link, Page
from lycosa.crawl.processing import page_reader as parse
from lycosa.index.indexer import Indexer
from lycosa.page.parse import parse_page
from lycosa.search.engine.searcher import Searcher, SearchRequest
from tests.crawl.conftest import RunCrawl, ServeWeb, page

SITE = {
    "/index.html": page("/a.html", "/b.html", text="The home page of a small site."),
    "/a.html": page("/", text="Seite über Spinnen und Käfer im Garten."),
    "/b.html": page("/a.html", "/a.html#x", text="Another page."),
    "/c.html": page(text="Only a newer parser sees the link to this page."),
}


def test_nothing_changes_when_nothing_changed(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(SITE)
    crawled = run(web.url())
    before = {str(row["url"]): row for row in crawled.rows("pages")}
    mark = web.server.mark()
    report = reparse_workspace(str(crawled.root), Config(), None, None, "test")
    assert (report.pages, report.changed, report.text_changed, report.unreadable) == (3, 0, 0, 0)
    assert {str(row["url"]): row for row in crawled.rows("pages")} == before
    assert web.server.requests(mark) == []


def test_what_reads_otherwise_gets_new_rows_and_its_new_links_are_followed(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = serve(SITE)
    crawled = run(web.url())

    def newer(payload: bytes, **about: object) -> Page:
        read = parse_page(payload, **about)  # type: ignore[arg-type]
        if str(about["url"]).endswith("/b.html"):
            read.title = "B, read anew"
            read.links.append(Link(web.url("/c.html"), "c", "", "a", len(read.links)))
        return read

    monkeypatch.setattr(parse, "parse_page", newer)
    report = reparse_workspace(str(crawled.root), Config(), None, None, "test")
    assert (report.pages, report.changed, report.text_changed) == (3, 1, 0)
    titles = {str(row["url"]).rsplit("/", 1)[1]: row["title"] for row in crawled.rows("pages")}
    assert titles["b.html"] == "B, read anew"
    assert len(crawled.rows("pages")) == 3
    assert [
        row["source"] for row in crawled.rows("links") if row["target"] == web.url("/c.html")
    ] == [web.url("/b.html")]
    mark = web.server.mark()
    again = run()
    assert web.asked(mark) == ["/c.html"]
    assert "/c.html" in again.pages()


def test_only_what_is_asked_for(serve: ServeWeb, run: RunCrawl) -> None:
    crawled = run(serve(SITE).url())
    assert reparse_workspace(str(crawled.root), Config(), "other", None, "test").pages == 0
    assert (
        reparse_workspace(str(crawled.root), Config(), "default", 4_000_000_000_000, "test").pages
        == 0
    )
    assert reparse_workspace(str(crawled.root), Config(), "default", 0, "test").pages == 3


def test_what_is_gone_does_not_come_back(
    serve: ServeWeb, run: RunCrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled = run(serve(SITE).url(), index=True)
    (tmp_path / "site-1/a.html").unlink()
    run(recrawl="age", max_age="1s", max_pages=20, max_time_ms=4_000, index=True)
    assert crawled.states()["/a.html"] == ("gone", "http_404")
    root = str(crawled.root)
    assert Searcher(root).search(SearchRequest("Spinnen")).total == 0

    def newer(payload: bytes, **about: object) -> Page:
        read = parse_page(payload, **about)  # type: ignore[arg-type]
        read.title = "read anew"
        return read

    monkeypatch.setattr(parse, "parse_page", newer)
    assert reparse_workspace(root, Config(), None, None, "test").pages == 2
    with Indexer(root) as indexer:
        indexer.update()
    searcher = Searcher(root)
    assert searcher.search(SearchRequest("Spinnen")).total == 0
    assert searcher.search(SearchRequest("anew")).total == 2
