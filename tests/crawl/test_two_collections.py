"""Two collections in one worker: common URLs are fetched once."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from tests.crawl.conftest import Crawled, ServeWeb, page, path_of
from tests.crawl.sessions import collection, work
from tests.crawl.test_resume import many

SITE = {
    "/index.html": page("/a.html", "/b.html"),
    "/a.html": page("/c.html", text="a"),
    "/b.html": page(),
    "/c.html": page(text="c"),
}


def pages_of(crawled: Crawled, name: str) -> list[str]:
    return sorted(
        path_of(str(row["url"])) for row in crawled.rows("pages") if row["collection"] == name
    )


def responses(root: Path) -> Counter[str]:
    """Return the number of response records of all WARCs by path."""
    results: Counter[str] = Counter()
    for warc in root.glob("data/*/archive.warc.gz"):
        with warc.open("rb") as stream:
            results.update(
                "/" + record.headers["WARC-Target-URI"].split("/", 3)[3]
                for record in ArchiveIterator(stream, record_types=WarcRecordType.response)
            )
    return results


@pytest.mark.proves("consistency-once")
def test_url_of_two_collections_is_requested_once_and_has_a_row_per_collection(
    serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve(SITE)
    jobs = [(collection("one"), [web.url()]), (collection("two", depth=1), [web.url()])]
    crawled = work(tmp_path / "w", jobs)
    assert (
        Counter(web.requested_paths()),
        responses(tmp_path / "w"),
        pages_of(crawled, "one"),
    ) == (
        Counter(["/", "/a.html", "/b.html", "/c.html"]),
        Counter(["/robots.txt", "/", "/a.html", "/b.html", "/c.html"]),
        ["/", "/a.html", "/b.html", "/c.html"],
    )
    assert pages_of(crawled, "two") == ["/", "/a.html", "/b.html"]
    visits = Counter(
        (str(row["url"]).rsplit("/", 1)[1], row["collection"])
        for row in crawled.rows("visits")
        if row["kind"] == "page"
    )
    assert visits[("a.html", "one")] == visits[("a.html", "two")] == 1
    assert visits[("c.html", "two")] == 0
    ids = {
        str(row["record_id"])
        for row in crawled.rows("visits")
        if str(row["url"]).endswith("/a.html")
    }
    assert len(ids) == 1
    links = [row for row in crawled.rows("links") if str(row["source"]).endswith("/a.html")]
    assert len(links) == 1  # links are stored per exchange, not per collection
    crawled.assert_sound()


@pytest.mark.proves("politeness-collections")
def test_longest_delay_of_two_collections_applies(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve(SITE)
    work(
        tmp_path / "w",
        [
            (collection("hasty"), [web.url()]),
            (collection("calm", delay="300ms", depth=0), [web.url()]),
        ],
    )
    times = [request.at for request in web.server.requests()]
    assert len(times) == 5
    assert min(after - before for before, after in itertools.pairwise(times)) >= 295


def test_page_quota_of_a_collection_does_not_limit_others(serve: ServeWeb, tmp_path: Path) -> None:
    web = serve(many(12))
    jobs = [
        (collection("small", max_pages_per_host=4), [web.url()]),
        (collection("all"), [web.url()]),
    ]
    crawled = work(tmp_path / "w", jobs)
    assert (len(pages_of(crawled, "small")), len(pages_of(crawled, "all"))) == (4, 13)
    assert Counter(web.requested_paths()).most_common(1)[0][1] == 1
    reasons = {
        str(row["reason"])
        for row in crawled.rows("urls")
        if row["collection"] == "small" and row["state"] == "known"
    }
    assert reasons == {"host_budget"}


def test_both_collections_fetch_every_page_with_small_queues(
    serve: ServeWeb, tmp_path: Path
) -> None:
    """A request also removes the URL from the other collection's queue.

    An in-memory head that becomes empty in this way is refilled.
    """
    web = serve(many(230))
    tight = ("crawl.waiting_urls=100", "crawl.commit_interval=200ms")
    crawled = work(
        tmp_path / "w",
        [(collection("one"), [web.url()]), (collection("two"), [web.url()])],
        settings=tight,
    )
    assert len(pages_of(crawled, "one")) == len(pages_of(crawled, "two")) == 231
    crawled.assert_sound()


def test_a_second_collection_reads_the_sitemaps_of_a_stored_robots_txt(
    serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve({"/index.html": page(), "/listed.html": page(text="listed")})
    root = web.server.servers[0].root
    (root / "robots.txt").write_text(f"Sitemap: {web.url('/map.txt')}\n")
    (root / "map.txt").write_text(web.url("/listed.html") + "\n")
    work(tmp_path / "w", [(collection("first", sitemaps=False), [web.url()])])
    mark = web.server.mark()
    crawled = work(tmp_path / "w", [(collection("second"), [web.url()])])
    assert "/robots.txt" not in [request.uri for request in web.server.requests(mark)]
    assert pages_of(crawled, "second") == ["/", "/listed.html"]
    assert pages_of(crawled, "first") == ["/"]
