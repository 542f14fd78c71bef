"""Entries of feeds: addresses and dates, in each format; nothing raised."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from lycosa.page.feeds.sitemap import Sitemap, SitemapEntry, read_sitemap

BASE = "https://news.example.org/rss/all.xml"
SITE = "https://news.example.org"


def ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1000  # type: ignore[misc,arg-type]


def read(text: str, limit: int = 100) -> Sitemap:
    return read_sitemap(text.encode(), BASE, limit=limit)


def test_rss_2() -> None:
    feed = read(
        """<rss version="2.0" xmlns:media="m" xmlns:atom="a" xmlns:dc="d"><channel><title>All &amp;amp; news</title>
        <atom:link rel="self" href="/rss/all.xml"/><link>https://news.example.org/</link><image><title>Logo</title><link>/logo</link></image>
        <item><title>One &lt;b&gt;bold&lt;/b&gt;</title><link> /one?a=1&amp;b=2 </link><guid isPermaLink="false">tag:1</guid>
        <media:group><media:title>Picture</media:title></media:group><media:title>Picture</media:title>
        <pubDate>Thu, 19 Nov 2026 08:30:15 +0100</pubDate></item>
        <item><guid>https://news.example.org/two</guid><title>Two</title><dc:date>2026-11-18T00:00:00Z</dc:date></item>
        <item><guid isPermaLink="false">https://news.example.org/no</guid><title>Without address</title></item>
        <item><link>/one?a=1&amp;b=2</link><title>Again</title></item></channel></rss>"""
    )
    assert (feed.kind, feed.faults) == ("feed", [])
    assert feed.entries == [
        SitemapEntry(f"{SITE}/one?a=1&b=2", ms(2026, 11, 19, 7, 30, 15)),
        SitemapEntry(f"{SITE}/two", ms(2026, 11, 18)),
    ]


def test_rss_0_91_and_rdf() -> None:
    old = read(
        "<rss version='0.91'><channel><title>Old</title><item><title>A</title><link>/a</link></item></channel></rss>"
    )
    assert (old.kind, old.entries) == ("feed", [SitemapEntry(f"{SITE}/a")])
    rdf = read(
        """<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/" xmlns:dc="d">
        <channel rdf:about="/"><title>RDF</title><link>/</link></channel>
        <item rdf:about="https://news.example.org/a"><title>A</title><link>/a</link><dc:date>2026-11-01</dc:date></item>
        <item rdf:about="https://news.example.org/b"><title>B</title></item></rdf:RDF>"""
    )
    assert rdf.kind == "feed"
    assert rdf.entries == [
        SitemapEntry(f"{SITE}/a", ms(2026, 11, 1)),
        SitemapEntry(f"{SITE}/b"),
    ]


def test_atom() -> None:
    feed = read(
        """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://blog.example.org/x/"><title type="text">Blog</title><link href="/"/>
        <link rel="self" href="/feed"/><entry><id>tag:1</id><link rel="edit" href="/edit"/>
        <link rel="alternate" type="application/pdf" href="a.pdf"/>
        <link type="text/html" href="a"/><title type="xhtml"><div>An <em>entry</em></div></title><published>2026-11-02T10:00:00Z</published>
        <updated>2026-11-03T10:00:00Z</updated><source><title>Other</title><id>http://o/</id><updated>2020-01-01</updated></source></entry>
        <entry xml:base="/y/"><link href="b"/><title>B</title></entry><entry><id>https://blog.example.org/c</id></entry></feed>"""
    )
    assert feed.kind == "feed"
    assert feed.entries == [
        SitemapEntry("https://blog.example.org/x/a", ms(2026, 11, 3, 10)),
        SitemapEntry("https://blog.example.org/y/b"),
        SitemapEntry("https://blog.example.org/c"),
    ]
    prefixed = read(
        '<a:feed xmlns:a="x"><a:entry><a:link href="/p"/><a:title>P</a:title></a:entry></a:feed>'
    )
    assert prefixed.entries == [SitemapEntry(f"{SITE}/p")]


def test_json() -> None:
    items: list[object] = [
        {
            "id": "1",
            "url": "/a",
            "title": "A <i>b</i>",
            "date_published": "2026-11-02T10:00:00+01:00",
            "date_modified": "2026-11-03",
        },
        {"id": "https://news.example.org/b"},
        {"id": 3, "url": None},
        {"url": "/a"},
        "no item",
    ]
    output = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "J",
        "home_page_url": "/",
        "items": items,
    }
    feed = read(json.dumps(output))
    assert (feed.kind, feed.faults) == ("feed", [])
    assert feed.entries == [
        SitemapEntry(f"{SITE}/a", ms(2026, 11, 3)),
        SitemapEntry(f"{SITE}/b"),
    ]
    for other in (
        '{"items": []}',
        "{",
        '{"version": "https://jsonfeed.org/version/1", "items": 3}',
        '{"a":' * 100_000,
    ):
        assert read(other) == Sitemap(faults=["not_a_sitemap"])


def test_what_is_no_feed_broken_or_too_long() -> None:
    assert read("<html><body><item><link>/a</link></item></body></html>") == Sitemap(
        faults=["not_a_sitemap"]
    )
    assert read("hello") == Sitemap(faults=["not_a_sitemap"])
    broken = read("<rss><channel><item><link>/a</link></item><item><link>/b</link></channel></rss>")
    assert ([entry.url for entry in broken.entries], broken.faults) == (
        [f"{SITE}/a"],
        ["xml_invalid"],
    )
    items = "".join(f"<item><link>/{number}</link></item>" for number in range(5))
    cut = read(f"<rss><channel>{items}</channel></rss>", limit=3)
    assert (len(cut.entries), cut.faults) == (3, ["too_many_urls"])
    mended = read(
        "<rss><channel><item><title>Q&A&nbsp;now</title><link>/a?b=1&c=2</link></item></channel></rss>"
    )
    assert mended.entries == [SitemapEntry(f"{SITE}/a?b=1&c=2")]
