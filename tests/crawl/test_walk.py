"""Depths over several hosts and calls: what falls is walked again from what is stored, and nothing
is fetched for it.
"""

from __future__ import annotations

from collections import Counter

from tests.crawl.conftest import RunCrawl, ServeWeb, SmallWeb, page
from tests.crawl.test_crawl import assert_counts_add_up


def chain(serve: ServeWeb) -> SmallWeb:
    """Host 1: / -> 1 -> 2 -> host 2's /t -> u -> v -> w, and a short way from a seed that is named
    later.
    """
    web = serve({}, {})
    root, other = (server.root for server in web.server.servers)
    (root / "index.html").write_text(page("/1.html"))
    (root / "1.html").write_text(page("/2.html", text="1"))
    (root / "2.html").write_text(page(web.url("/t.html", host=2), text="2"))
    (root / "short.html").write_text(page(web.url("/t.html", host=2), text="short"))
    for name, following in (("t", "u"), ("u", "v"), ("v", "w")):
        (other / f"{name}.html").write_text(page(f"/{following}.html", text=name))
    (other / "w.html").write_text(page(text="w"))
    (other / "index.html").write_text(page(text="home of the second"))
    return web


def test_a_depth_that_falls_goes_on_over_hosts_to_what_was_too_deep(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = chain(serve)
    seeds = (web.url(), web.url(host=2))
    first = run(*seeds, scope="any", depth=4)
    assert first.depths()["/u.html"] == 4
    assert "/v.html" not in first.depths()
    mark = web.server.mark()
    second = run(web.url("/short.html"), scope="any", depth=4)
    assert web.asked(mark) == ["/short.html", "/v.html", "/w.html"]
    assert {
        "/t.html": 1,
        "/u.html": 2,
        "/v.html": 3,
        "/w.html": 4,
    }.items() <= second.depths().items()
    assert_counts_add_up(second)


def test_without_a_limit_depths_fall_all_the_same(serve: ServeWeb, run: RunCrawl) -> None:
    web = chain(serve)
    run(web.url(), web.url(host=2), scope="any")
    mark = web.server.mark()
    second = run(web.url("/short.html"), scope="any")
    assert web.asked(mark) == ["/short.html"]
    assert {
        "/t.html": 1,
        "/u.html": 2,
        "/v.html": 3,
        "/w.html": 4,
    }.items() <= second.depths().items()


def test_a_narrower_call_and_a_wider_one_leave_sitemaps_alone(
    serve: ServeWeb, run: RunCrawl
) -> None:
    """Rows that are no pages are not excluded by depth, nor walked from."""
    web = serve(
        {
            "/index.html": page("/1.html"),
            "/1.html": page("/2.html"),
            "/2.html": page(),
            "/alone.html": page(text="alone"),
        }
    )
    root = web.server.servers[0].root
    (root / "robots.txt").write_text(f"Sitemap: {web.url('/map.txt')}\n")
    (root / "map.txt").write_text(web.url("/alone.html"))
    run(web.url(), max_pages=0)
    run(web.url(), depth=0, max_pages=0)
    crawled = run(web.url())
    assert crawled.pages() == ["/", "/1.html", "/2.html", "/alone.html"]
    operations = Counter((str(row["operation"]), str(row["state"])) for row in crawled.rows("urls"))
    assert operations[("sitemap", "visited")] == 1
    assert max(Counter(web.asked()).values()) == 1
    assert_counts_add_up(crawled)
