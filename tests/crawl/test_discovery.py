"""Discovery of pages by sitemaps and feeds.

From robots.txt, pages and settings, behind redirects and in endless sitemap indexes.
"""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lycosa.core.clock import SystemClock
from lycosa.crawl.admission import discovery
from tests.crawl.conftest import Crawled, RunCrawl, ServeWeb, SmallWeb, page
from tests.crawl.sessions import LaterClock, collection, work

DAY_MS = 86_400_000
FEED_LINK = '<link rel="alternate" type="application/rss+xml" href="/news.rss">'


def urlset(*entries: str | tuple[str, str]) -> str:
    """Return a sitemap of URLs or pairs (URL, lastmod)."""
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
    """Serve a site with a sitemap index in robots.txt, and a feed.

    Sitemap and feed list one page of the site and one of another host.
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


@pytest.mark.proves("limits-sitemaps")
def test_urls_only_in_sitemaps_and_feeds_are_fetched_except_foreign_urls_of_sitemaps(
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
    assert hosts <= {"127.0.3.2"}  # feeds may list other hosts, sitemaps may not
    assert operations(crawled) == Counter({("sitemap", "visited"): 2, ("feed", "visited"): 1})
    kinds = Counter(str(row["kind"]) for row in crawled.rows("visits"))
    assert (kinds["sitemap"], kinds["feed"]) == (2, 1)
    assert not {"/index.xml", "/part.xml.gz", "/news.rss"} & set(crawled.pages())
    assert max(Counter(web.requested_paths()).values()) == 1


def test_sitemaps_and_feeds_can_be_disabled(serve: ServeWeb, run: RunCrawl) -> None:
    crawled = run(listed_site(serve).url(), sitemaps=False, feeds=False)
    assert (crawled.pages(), operations(crawled)) == (["/"], Counter())


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


def test_queued_sitemaps_and_feeds_are_read_after_a_resume(serve: ServeWeb, run: RunCrawl) -> None:
    web = listed_site(serve)
    assert run(web.url(), max_pages=0).count("pages") == 0
    run(web.url(), max_pages=1)
    assert {"/", "/s1.html", "/n1.html"} <= set(run().pages())
    assert max(Counter(web.requested_paths()).values()) == 1


def test_page_with_a_newer_lastmod_is_fetched_again(serve: ServeWeb, tmp_path: Path) -> None:
    """The second crawl is two days later, when the sitemap is due."""
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
    assert (first.count("pages"), operations(first)) == (3, Counter({("sitemap", "known"): 1}))
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
    assert web.requested_paths(mark) == ["/map.xml", "/a.html"]
    state = next(row for row in later.rows("urls") if str(row["url"]).endswith("/a.html"))
    assert state["state"] == "visited"


def test_sitemap_that_is_not_due_is_not_requested(serve: ServeWeb, tmp_path: Path) -> None:
    web = listed_site(serve)
    chosen = collection("default", recrawl="age", max_age="30d")
    work(tmp_path / "w", [(chosen, [web.url()])])
    mark = web.server.mark()
    crawled = work(tmp_path / "w", [(chosen, [web.url()])], clock=SystemClock())
    assert web.requested_paths(mark) == []
    assert operations(crawled) == Counter({("sitemap", "known"): 2, ("feed", "known"): 1})


INDEX = "<sitemapindex>{}</sitemapindex>"
URLS = "<urlset>{}</urlset>"


def index(*paths: str) -> str:
    return INDEX.format("".join(f"<sitemap><loc>{path}</loc></sitemap>" for path in paths))


def urls(*paths: str) -> str:
    return URLS.format("".join(f"<url><loc>{path}</loc></url>" for path in paths))


def robots(*paths: str) -> str:
    return "User-agent: *\nDisallow:\n" + "".join(f"Sitemap: {path}\n" for path in paths)


def test_redirects_of_a_sitemap_are_followed(serve: ServeWeb, run: RunCrawl) -> None:
    site = {
        "/robots.txt": robots("/sitemap.xml"),
        "/index.html": page(),
        "/maps/all.xml": index("/maps/1.xml"),
        "/maps/1.xml": urls("/alone.html"),
        "/alone.html": page(text="Only the sitemap names it."),
    }
    moved = (
        "location = /sitemap.xml { return 301 /sitemap_index.xml; } location = "
        "/sitemap_index.xml { return 302 /maps/all.xml; }"
    )
    web = serve(site, extra=[moved])
    crawled = run(web.url())
    assert (crawled.pages(), sorted(web.requested_paths())) == (
        ["/", "/alone.html"],
        [
            "/",
            "/alone.html",
            "/maps/1.xml",
            "/maps/all.xml",
            "/sitemap.xml",
            "/sitemap_index.xml",
        ],
    )
    assert {row["operation"] for row in crawled.rows("urls") if "/maps/" in str(row["url"])} == {
        "sitemap"
    }


def test_redirect_of_a_feed_out_of_scope_is_not_followed(serve: ServeWeb, run: RunCrawl) -> None:
    head = (
        '<link rel="alternate" type="application/feed+json" href="/feed"><link rel="alternate" '
        'type="application/rss+xml" href="/away">'
    )
    feed = '{"version": "https://jsonfeed.org/version/1.1", "items": [{"url": "/alone.html"}]}'
    site = {
        "/index.html": page(head=head),
        "/feed.json": feed,
        "/alone.html": page(text="Only the feed names it."),
    }
    other = {
        "/index.html": page(),
        "/rss.xml": "<rss><channel><item><link>/no.html</link></item></channel></rss>",
    }
    port = "$server_port"
    moved = (
        f"location = /feed {{ return 301 /feed.json; }} location = /away {{ return 301 "
        f"http://127.0.3.2:{port}/rss.xml; }}"
    )
    web = serve(site, other, extra=[moved, ""])
    assert run(web.url()).pages() == ["/", "/alone.html"]
    assert "/rss.xml" not in web.requested_paths()


@pytest.mark.proves("limits-sitemaps")
def test_number_of_feeds_of_a_host_is_limited(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "MAX_FEEDS_PER_HOST", 2)
    link = FEED_LINK.replace("news", "{}").format
    web = serve(
        {
            "/index.html": page("/1.html", "/2.html", "/3.html", head=FEED_LINK),
            **{f"/{n}.html": page(head=FEED_LINK + link(n)) for n in (1, 2, 3)},
            **{f"/{name}.rss": rss() for name in ("news", 1, 2, 3)},
        }
    )
    crawled = run(web.url())
    assert [path for path in web.requested_paths() if "rss" in path] == ["/news.rss", "/1.rss"]
    assert crawled.progress.refused["too_many_feeds"] == 4


@pytest.mark.proves("limits-sitemaps")
def test_sitemap_indexes_that_list_each_other_are_read_once(serve: ServeWeb, run: RunCrawl) -> None:
    site = {
        "/robots.txt": robots("/a.xml"),
        "/index.html": page(),
        "/a.xml": index("/b.xml", "/a.xml"),
        "/b.xml": index("/a.xml", "/b.xml", "/c.xml"),
        "/c.xml": urls("/alone.html"),
        "/alone.html": page(text="Only the sitemap names it."),
    }
    web = serve(site)
    assert run(web.url()).pages() == ["/", "/alone.html"]
    assert sorted(web.requested_paths()) == ["/", "/a.xml", "/alone.html", "/b.xml", "/c.xml"]


@pytest.mark.proves("limits-redirects", "limits-sitemaps")
def test_number_of_indexed_sitemaps_and_redirects_is_limited(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each index lists three more, and each redirect leads to another one."""
    monkeypatch.setattr(discovery, "MAX_INDEXED", 20)
    body = index("/tree/${number}1", "/tree/${number}2", "/tree/${number}3")
    tree = (
        f"location ~ ^/tree/(?<number>\\d*)$ {{ default_type application/xml; return 200 "
        f"'{body}'; }}"
    )
    chain = "location ~ ^/chain/(?<number>\\d*)$ { return 302 /chain/${number}1; }"
    web = serve(
        {"/robots.txt": robots("/tree/", "/chain/"), "/index.html": page()},
        extra=[f"{tree} {chain}"],
    )
    crawled = run(web.url())
    paths = web.requested_paths()
    assert sum(path.startswith("/tree/") for path in paths) == 1 + 20
    assert sum(path.startswith("/chain/") for path in paths) == 1 + discovery.MAX_HOPS
    assert crawled.progress.refused["too_many_sitemaps"] > 0
    assert crawled.progress.refused["sitemap_hops"] > 0
    assert crawled.progress.ended == "finished"
