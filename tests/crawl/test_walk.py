"""Depths over several hosts and calls: what falls is walked again from what is stored, and nothing
is fetched for it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.crawl.conftest import RunCrawl, ServeWeb, SmallWeb, page
from tests.crawl.test_crawl import assert_counts_add_up


def chain(serve: ServeWeb) -> SmallWeb:
    """Host 1: / -> 1 -> 2 -> host 2's /t -> u -> v -> w, and a short way from a seed that is named
    later.
    """
    web = serve({}, {})
    far = web.url("/t.html", host=2)
    web.write(
        {
            "index.html": page("/1.html"),
            "1.html": page("/2.html", text="1"),
            "2.html": page(far, text="2"),
            "short.html": page(far, text="short"),
        }
    )
    names = {"t": "u", "u": "v", "v": "w"}
    pages = {f"{name}.html": page(f"/{after}.html", text=name) for name, after in names.items()}
    pages |= {"w.html": page(text="w"), "index.html": page(text="home of the second")}
    web.write(pages, host=2)
    return web


@pytest.mark.parametrize("depth", [4, None])
def test_a_depth_that_decreases_does_so_over_hosts_and_admits_what_was_too_deep(
    serve: ServeWeb, run: RunCrawl, depth: int | None
) -> None:
    web = chain(serve)
    first = run(web.url(), web.url(host=2), scope="any", depth=depth)
    assert first.depths()["/u.html"] == 4
    assert ("/v.html" in first.depths()) == (depth is None)
    mark = web.server.mark()
    second = run(web.url("/short.html"), scope="any", depth=depth)
    assert web.asked(mark) == ["/short.html", *(["/v.html", "/w.html"] if depth else [])]
    depths = {"/t.html": 1, "/u.html": 2, "/v.html": 3, "/w.html": 4}
    assert depths.items() <= second.depths().items()
    assert_counts_add_up(second)


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
    robots = f"Sitemap: {web.url('/map.txt')}\n"
    web.write({"robots.txt": robots, "map.txt": web.url("/alone.html")})
    run(web.url(), max_pages=0)
    run(web.url(), depth=0, max_pages=0)
    crawled = run(web.url())
    assert crawled.pages() == ["/", "/1.html", "/2.html", "/alone.html"]
    operations = Counter((str(row["operation"]), str(row["state"])) for row in crawled.rows("urls"))
    assert operations[("sitemap", "visited")] == 1
    assert max(Counter(web.asked()).values()) == 1
    assert_counts_add_up(crawled)
