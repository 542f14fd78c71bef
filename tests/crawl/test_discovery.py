"""Pages that no link names: sitemaps of robots.txt, feeds of pages, and both as configured."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lycosa.core.clock import SystemClock
from tests.crawl.conftest import Crawled, RunCrawl, ServeWeb, SmallWeb, page
from tests.crawl.sessions import LaterClock, collection, work

DAY_MS = 86_400_000
FEED_LINK = '<link rel="alternate" type="application/rss+xml" href="/news.rss">'


def urlset(*entries: str | tuple[str, str]) -> str:
    """A sitemap of URLs, or (URL, lastmod)."""
    parts = [(entry, "") if isinstance(entry, str) else entry for entry in entries]
    urls = "".join(
        f"<url><loc>{url}</loc>{f'<lastmod>{at}</lastmod>' if at else ''}</url>"
        for url, at in parts
    )
    return (
        '<?xml version="1.0"?><urlset '
        f'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
    )


def rss(*urls: str) -> str:
    items = "".join(f"<item><title>{url}</title><link>{url}</link></item>" for url in urls)
    return (
        '<?xml version="1.0"?><rss '
        f'version="2.0"><channel><title>news</title>{items}</channel></rss>'
    )


def file(web: SmallWeb, path: str, content: str | bytes, host: int = 1) -> None:
    target = web.server.servers[host - 1].root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content if isinstance(content, bytes) else content.encode())


def listed_site(serve: ServeWeb) -> SmallWeb:
    """robots.txt -> index -> gzip -> two pages, one of them of another host; a feed with one
    more.
    """
    web = serve(
        {
            "/index.html": page(head=FEED_LINK),
            "/s1.html": page(text="s1"),
            "/n1.html": page(text="n1"),
        },
        {"/x.html": page()},
    )
    file(web, "robots.txt", f"User-agent: *\nDisallow:\nSitemap: {web.url('/index.xml')}\n")
    file(
        web,
        "index.xml",
        f"<sitemapindex><sitemap><loc>{web.url('/part.xml.gz')}</loc></sitemap></sitemapindex>",
    )
    file(
        web,
        "part.xml.gz",
        gzip.compress(urlset(web.url("/s1.html"), web.url("/x.html", host=2)).encode()),
    )
    file(web, "news.rss", rss(web.url("/n1.html"), web.url("/x.html", host=2)))
    return web


def operations(crawled: Crawled) -> Counter[tuple[str, str]]:
    return Counter(
        (str(row["operation"]), str(row["state"]))
        for row in crawled.rows("urls")
        if row["operation"]
    )


def test_what_only_sitemaps_and_feeds_name_is_found_and_foreign_urls_are_not(
    serve: ServeWeb, run: RunCrawl
) -> None:
    web = listed_site(serve)
    crawled = run(web.url(), scope="any", seeds=[])
    assert {"/", "/s1.html", "/n1.html"} <= set(crawled.pages())
    assert crawled.progress.refused["foreign_sitemap"] == 1
    hosts = {
        request.host.partition(":")[0]
        for request in web.server.requests()
        if request.uri == "/x.html"
    }
    assert hosts <= {"127.0.3.2"}  # the feed may name it, the sitemap may not
    assert operations(crawled) == Counter({("sitemap", "visited"): 2, ("feed", "visited"): 1})
    kinds = Counter(str(row["kind"]) for row in crawled.rows("visits"))
    assert (kinds["sitemap"], kinds["feed"]) == (2, 1)
    assert not {"/index.xml", "/part.xml.gz", "/news.rss"} & set(crawled.pages())
    assert max(Counter(web.asked()).values()) == 1


def test_both_can_be_switched_off(serve: ServeWeb, run: RunCrawl) -> None:
    web = listed_site(serve)
    crawled = run(web.url(), sitemaps=False, feeds=False)
    assert crawled.pages() == ["/"]
    assert operations(crawled) == Counter()


def test_configured_feeds_are_read(serve: ServeWeb, run: RunCrawl) -> None:
    web = serve({"/index.html": page(), "/n1.html": page(), "/s1.html": page()})
    file(web, "hidden.rss", rss(web.url("/n1.html")))
    file(web, "hidden.xml", urlset(web.url("/s1.html")))
    crawled = run(
        web.url(),
        sitemaps=False,
        feeds=False,
        feed_urls=[web.url("/hidden.rss"), web.url("/hidden.xml")],
    )
    assert crawled.pages() == ["/", "/n1.html", "/s1.html"]


def test_what_waits_to_be_read_survives_a_resume(serve: ServeWeb, run: RunCrawl) -> None:
    web = listed_site(serve)
    first = run(web.url(), max_pages=0)
    assert first.count("pages") == 0
    run(web.url(), max_pages=1)
    crawled = run()
    assert {"/", "/s1.html", "/n1.html"} <= set(crawled.pages())
    assert max(Counter(web.asked()).values()) == 1


def test_what_a_sitemap_calls_changed_is_fetched_again(serve: ServeWeb, tmp_path: Path) -> None:
    """Two days later the sitemap is due again and says that one of two pages changed a day after
    our visit.
    """
    web = serve(
        {
            "/index.html": page("/a.html", "/b.html"),
            "/a.html": page(text="a"),
            "/b.html": page(text="b"),
        }
    )
    file(web, "robots.txt", f"Sitemap: {web.url('/map.xml')}\n")
    file(web, "map.xml", urlset(web.url("/a.html"), web.url("/b.html")))
    chosen = collection("default", recrawl="age", max_age="30d")
    first = work(tmp_path / "w", [(chosen, [web.url()])])
    assert first.count("pages") == 3
    assert operations(first) == Counter({("sitemap", "known"): 1})
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    file(
        web,
        "map.xml",
        urlset(
            (web.url("/a.html"), tomorrow.isoformat(timespec="seconds")),
            (web.url("/b.html"), "2020-01-01"),
        ),
    )
    mark = web.server.mark()
    later = work(tmp_path / "w", [(chosen, [web.url()])], clock=LaterClock(2 * DAY_MS))
    assert web.asked(mark) == ["/map.xml", "/a.html"]
    state = next(row for row in later.rows("urls") if str(row["url"]).endswith("/a.html"))
    assert state["state"] == "visited"


def test_a_sitemap_that_is_not_due_is_left_alone(serve: ServeWeb, tmp_path: Path) -> None:
    web = listed_site(serve)
    chosen = collection("default", recrawl="age", max_age="30d")
    work(tmp_path / "w", [(chosen, [web.url()])])
    mark = web.server.mark()
    crawled = work(tmp_path / "w", [(chosen, [web.url()])], clock=SystemClock())
    assert web.asked(mark) == []
    assert operations(crawled) == Counter({("sitemap", "known"): 2, ("feed", "known"): 1})
