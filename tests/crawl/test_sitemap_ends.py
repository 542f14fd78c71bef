"""Sitemaps and feeds that lead to others: redirects are followed, loops and endless indexes end."""

from __future__ import annotations

import pytest

from lycosa.crawl.admission import discovery
from tests.crawl.conftest import RunCrawl, ServeWeb, page

INDEX = "<sitemapindex>{}</sitemapindex>"
URLS = "<urlset>{}</urlset>"


def index(*paths: str) -> str:
    return INDEX.format("".join(f"<sitemap><loc>{path}</loc></sitemap>" for path in paths))


def urls(*paths: str) -> str:
    return URLS.format("".join(f"<url><loc>{path}</loc></url>" for path in paths))


def robots(*paths: str) -> str:
    return "User-agent: *\nDisallow:\n" + "".join(f"Sitemap: {path}\n" for path in paths)


def test_a_sitemap_that_redirects_is_read_where_it_leads_to(serve: ServeWeb, run: RunCrawl) -> None:
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
    assert crawled.pages() == ["/", "/alone.html"]
    assert sorted(web.asked()) == [
        "/",
        "/alone.html",
        "/maps/1.xml",
        "/maps/all.xml",
        "/sitemap.xml",
        "/sitemap_index.xml",
    ]
    assert {row["operation"] for row in crawled.rows("urls") if "/maps/" in str(row["url"])} == {
        "sitemap"
    }


def test_a_feed_that_redirects_out_of_scope_is_not_followed(serve: ServeWeb, run: RunCrawl) -> None:
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
    crawled = run(web.url())
    assert crawled.pages() == ["/", "/alone.html"]
    assert "/rss.xml" not in web.asked()


def test_indexes_that_name_one_another_end(serve: ServeWeb, run: RunCrawl) -> None:
    site = {
        "/robots.txt": robots("/a.xml"),
        "/index.html": page(),
        "/a.xml": index("/b.xml", "/a.xml"),
        "/b.xml": index("/a.xml", "/b.xml", "/c.xml"),
        "/c.xml": urls("/alone.html"),
        "/alone.html": page(text="Only the sitemap names it."),
    }
    web = serve(site)
    crawled = run(web.url())
    assert crawled.pages() == ["/", "/alone.html"]
    assert sorted(web.asked()) == ["/", "/a.xml", "/alone.html", "/b.xml", "/c.xml"]


def test_endless_indexes_and_redirects_end(
    serve: ServeWeb, run: RunCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each index names three more; each redirect leads to the next."""
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
    request_log = web.asked()
    assert sum(path.startswith("/tree/") for path in request_log) == 1 + 20
    assert sum(path.startswith("/chain/") for path in request_log) == 1 + discovery.MAX_HOPS
    assert crawled.progress.refused["too_many_sitemaps"] > 0
    assert crawled.progress.refused["sitemap_hops"] > 0
    assert crawled.progress.ended == "finished"
