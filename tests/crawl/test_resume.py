"""Much waiting in little memory, and what a resume takes up."""

from __future__ import annotations

from collections import Counter

from tests.crawl.conftest import RunCrawl, ServeWeb, page
from tests.crawl.test_crawl import assert_counts_add_up


def many(number: int) -> dict[str, str]:
    return {"/index.html": page(*(f"/{n}.html" for n in range(number)))} | {f"/{n}.html": page(text=f"page {n}") for n in range(number)}


def test_more_waits_than_memory_may_hold_and_all_is_fetched(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve(many(260), many(120))
    tight = ("crawl.waiting_urls=100", "crawl.commit_interval=200ms")
    crawled = run(web.url(), web.url(host=2), settings=tight)
    assert crawled.count("pages") == 382
    assert Counter(request.url for request in web.server.requests()).most_common(1)[0][1] == 1
    assert_counts_add_up(crawled)


def test_more_hosts_than_places(serve: ServeWeb, run: RunCrawl) -> None:
    """One place: each host's pages link to the next host."""
    web = serve(*({} for _ in range(6)))
    for number, server in enumerate(web.server.servers, 1):
        (server.root / "index.html").write_text(page("/a.html", text=f"home {number}"))
        following = [web.url(host=number + 1)] if number < 6 else []
        (server.root / "a.html").write_text(page("/b.html", *following, text=f"a {number}"))
        (server.root / "b.html").write_text(page(text=f"b {number}"))
    crawled = run(
        *(web.url("/robots.txt", host=number) for number in range(1, 7)), web.url(), scope="any", settings=("crawl.active_hosts=1",)
    )
    assert crawled.count("pages") == 18
    assert crawled.progress.later == Counter()
    assert_counts_add_up(crawled)
