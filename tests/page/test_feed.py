"""Test contents of feeds, other XML and directory listings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.page.directory_listing import ListingEntry, ftp_listing, gopher_menu
from lycosa.page.feeds.sitemap import Sitemap, SitemapEntry, read_sitemap
from lycosa.page.parse import parse_page
from tests.page.dates import ms

URL = "http://www.example.org/feed"


def test_page_of_an_rss_feed() -> None:
    page = parse_page(
        b"""<?xml version="1.0" encoding="windows-1252"?><rss version="2.0"><channel><title>Caf\xe9 news</title><link>http://www.example.org/</link>
        <item><title>First</title><link>/first?a=1&amp;b=2</link>
        <description>&lt;p&gt;Text with &lt;a href="/in"&gt;a link&lt;/a&gt;&lt;/p&gt;</description>
        <pubDate>Tue, 19 Nov 2019 08:30:15 GMT</pubDate></item>
        <item><link>/second</link><title><![CDATA[Second & last]]></title></item></channel></rss>""",
        url=URL,
        content_type="application/rss+xml",
    )
    assert (page.title, page.charset) == ("Café news", "windows-1252")
    assert page.text.split("\n") == ["Café news", "First", "Text with a link", "Second & last"]
    assert ([(link.target, link.anchor, link.kind) for link in page.links], page.published_at) == (
        [
            ("http://www.example.org/", "", "a"),
            ("http://www.example.org/first?a=1&b=2", "First", "a"),
            ("http://www.example.org/in", "a link", "a"),
            ("http://www.example.org/second", "Second & last", "a"),
        ],
        ms(2019, 11, 19, 8, 30, 15),
    )


def test_page_of_an_atom_feed() -> None:
    page = parse_page(
        b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><link rel="self" href="/feed"/><link href="/"/>
        <entry><title>Entry</title><link rel="alternate" href="/entry"/><link rel="edit" href="/edit"/>
        <summary>Summary</summary></entry></feed>""",
        url=URL,
        content_type="application/xml",
    )
    assert page.text.split("\n") == ["News", "Entry", "Summary"]
    assert [(link.target, link.anchor, link.kind) for link in page.links] == [
        ("http://www.example.org/feed", "", "feed"),
        ("http://www.example.org/", "", "a"),
        ("http://www.example.org/entry", "Entry", "a"),
    ]


def test_invalid_xml_is_read_up_to_the_error() -> None:
    page = parse_page(
        b"<rss><channel><title>News</title><item><title>One</title></rss>",
        url=URL,
        content_type="text/xml",
    )
    assert (page.text, page.faults) == ("News\nOne", ["xml_invalid"])
    page = parse_page(
        b"Warning: x\n<?xml version='1.0'?><rss><channel><title>1 < 2</title></channel></rss>",
        url=URL,
        content_type="text/xml",
    )
    assert (page.text, page.faults) == ("1 < 2", ["xml_invalid"])


@pytest.mark.parametrize("content_type", ["text/html", "text/plain; charset=utf-8"])
def test_a_feed_with_a_wrong_type_is_read_as_a_feed(content_type: str) -> None:
    page = parse_page(
        b'<?xml version="1.0"?><rss><channel><title>News</title><link>/n</link></channel></rss>',
        url=URL,
        content_type=content_type,
    )
    assert [link.target for link in page.links] == ["http://www.example.org/n"]


def test_a_feed_shows_what_its_readers_show() -> None:
    page = parse_page(
        b"""<rss xmlns:media="m" xmlns:itunes="i"><channel><image><title>Logo</title><url>/l.png</url></image>
        <title>Q&amp;amp;A</title><language>de-AT</language><generator>G 1.0</generator>
        <item><title>One &lt;em&gt;new&lt;/em&gt; x &amp;lt; y</title><guid>http://www.example.org/1</guid>
        <media:title>Picture</media:title><itunes:title>One new x &lt; y</itunes:title>
        <itunes:duration>0:12</itunes:duration><category>News</category><comments>http://www.example.org/c</comments>
        <description><![CDATA[<p>F<b>ir</b>st</p><script>x()</script><p>It&#8217;s]]></description></item>
        <item><guid isPermaLink="false">http://www.example.org/2</guid><title>Two</title></item>
        </channel></rss>""",
        url=URL,
        content_type="text/xml",
    )
    assert (page.title, page.declared_language) == ("Q&A", "de")
    assert page.text.split("\n") == [
        "Q&A",
        "One new x < y",
        "Picture",
        "News",
        "First",
        "It’s",
        "Two",
    ]
    assert [(link.target, link.anchor) for link in page.links] == [
        ("http://www.example.org/1", "One new x < y")
    ]


def test_xhtml_in_an_atom_feed() -> None:
    page = parse_page(
        b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="fr" xml:base="/blog/"><title type="html">A &lt;b&gt;B&lt;/b&gt;</title>
        <entry><title type="xhtml"><div>An <em>en</em>try</div></title><link href="e"/><source><title>Other</title></source>
        <content type="xhtml"><div><p>Text <a href="x">with <i>a</i></a> link.</p><p>More</p></div></content></entry></feed>""",
        url=URL,
        content_type="application/atom+xml",
    )
    assert (page.title, page.declared_language) == ("A B", "fr")
    assert page.text.split("\n") == ["A B", "An entry", "Text with a link.", "More"]
    assert [(link.target, link.anchor) for link in page.links] == [
        ("http://www.example.org/blog/e", "An entry"),
        ("http://www.example.org/blog/x", "with a"),
    ]


def test_bases_of_entries_are_relative_to_outer_ones() -> None:
    page = parse_page(
        b"""<feed xml:base="/blog/"><link href="a"/><entry xml:base="one/"><link href="b"/>
        <content xml:base="in/" type="html">&lt;a href=c&gt;c&lt;/a&gt;</content><link href="/d"/></entry>
        <entry xml:base="http://["><link href="e"/></entry><link href="f"/></feed>""",
        url=URL,
        content_type="application/atom+xml",
    )
    site = "http://www.example.org"
    assert [link.target for link in page.links] == [
        site + path
        for path in ("/blog/a", "/blog/one/b", "/blog/one/in/c", "/d", "/blog/e", "/blog/f")
    ]


def test_xhtml_may_close_any_element() -> None:
    page = parse_page(
        b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><script '
        b'src="/s.js"/><title>T</title></head>'
        b'<body><a id="x"/><p>Text <![CDATA[a < b & c]]></p></body></html>',
        url=URL,
        content_type="application/xhtml+xml",
    )
    assert (page.title, page.text) == ("T", "Text a < b & c")


def test_plain_text() -> None:
    page = parse_page(b"First  line\r\n\n second <b>\n", url=URL, content_type="text/plain")
    assert page.text == page.main_text == "First line\nsecond <b>"
    assert page.links == []


JSON_FEED = b"""{"version": "https://jsonfeed.org/version/1.1", "title": "News  of \\u00e9", "home_page_url": "/", "items": [
  {"id": "1", "url": "/first", "title": "First", "content_html": "<p>Text with <a href='/in'>a link</a></p>",
   "date_published": "2019-11-19T08:30:15Z"},
  {"id": "2", "url": "/second", "content_text": "Only text \\ud800", "summary": "not this"}, 7, {"id": "3", "title": "No address"}]}"""


def test_page_of_a_json_feed() -> None:
    page = parse_page(JSON_FEED, url=URL, content_type="application/feed+json; charset=utf-8")
    assert page.title == "News of é"
    assert page.text.split("\n") == [
        "News of é",
        "First",
        "Text with a link",
        "Only text ?",
        "No address",
    ]
    assert ([(link.target, link.anchor, link.kind) for link in page.links], page.published_at) == (
        [
            ("http://www.example.org/first", "First", "a"),
            ("http://www.example.org/in", "a link", "a"),
            ("http://www.example.org/second", "", "a"),
        ],
        ms(2019, 11, 19, 8, 30, 15),
    )
    assert page.faults == []


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b'{"items": 1}',
        b"[" * 100_000,
        b'{"items": [{"url": 3, "title": {}}]',
        b"\xff{",
        b"9" * 9_999,
    ],
)
def test_invalid_json_feeds_are_reported(payload: bytes) -> None:
    page = parse_page(payload, url=URL, content_type="application/feed+json")
    assert (page.text, page.links) == ("", [])
    assert "json_invalid" in page.faults


def test_a_bare_ampersand_does_not_end_a_feed() -> None:
    feed = (
        b"<rss><channel><item><title>A & "
        b"B</title><link>http://a.test/1?x=1&y=2</link></item><item><link>http://a.test/2</link></item></channel></rss>"
    )
    page = parse_page(feed, url="http://a.test/feed", content_type="application/rss+xml")
    assert [link.target for link in page.links] == ["http://a.test/1?x=1&y=2", "http://a.test/2"]
    assert page.faults == ["xml_invalid"]


BASE = "https://news.example.org/rss/all.xml"
SITE = "https://news.example.org"


def read(text: str, limit: int = 100) -> Sitemap:
    return read_sitemap(text.encode(), BASE, limit=limit)


def test_entries_of_rss_2() -> None:
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


def test_entries_of_rss_0_91_and_rdf() -> None:
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


def test_entries_of_atom() -> None:
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


def test_entries_of_a_json_feed() -> None:
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


def test_invalid_and_long_feeds() -> None:
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
    repaired = read(
        "<rss><channel><item><title>Q&A&nbsp;now</title><link>/a?b=1&c=2</link></item></channel></rss>"
    )
    assert repaired.entries == [SitemapEntry(f"{SITE}/a?b=1&c=2")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "-rw-r--r--   1 ftp      ftp          1234 Nov 21 10:00 read me.txt",
            ("read me.txt", "./read%20me.txt"),
        ),
        ("drwxr-xr-x    5 1000     1000         4096 Mar 02  2019 pub", ("pub", "./pub/")),
        (
            "lrwxrwxrwx   1 root     root           11 Jan  1  2020 latest -> v2/file.txt",
            ("latest", "./latest"),
        ),
        ("-rw-r--r--+  1 0 512 2026-11-21 10:00 access-list", ("access-list", "./access-list")),
        ("-rw-r--r--   1 owner     10 Nov 21 10:00 no group", ("no group", "./no%20group")),
        ("-rw-r--r--   1 a b 10 21 Nov 10:00 day first", ("day first", "./day%20first")),
        (
            "-rw-r--r--   1 a b 10 Nov 21 10:00  begins with a space",
            (" begins with a space", "./%20begins%20with%20a%20space"),
        ),
        (
            "11-21-26  10:00AM       <DIR>          Program Files",
            ("Program Files", "./Program%20Files/"),
        ),
        ("11-21-2026  10:00               45 a.txt", ("a.txt", "./a.txt")),
        ("type=file;size=10;modify=20261121100000; b.txt", ("b.txt", "./b.txt")),
        ("type=dir;perm=el; c", ("c", "./c/")),
        (
            "-rw-r--r--   1 a b 10 Nov 21 10:00 ключ?#.txt",
            ("ключ?#.txt", "./%D0%BA%D0%BB%D1%8E%D1%87%3F%23.txt"),
        ),
        ("Welcome to this server", ("Welcome to this server", "")),
    ],
)
def test_ftp_lines(line: str, expected: tuple[str, str]) -> None:
    assert ftp_listing(line.encode()) == [ListingEntry(*expected)]


def test_lines_that_are_not_entries() -> None:
    dots = (
        b"total 8\r\ndrwxr-xr-x 2 a b 1 Nov 21 10:00 .\r\ndrwxr-xr-x 2 a b 1 Nov 21 10:00 "
        b"..\r\ntype=cdir; /pub\r\n\r\n"
    )
    assert ftp_listing(dots) == []
    assert ftp_listing(b"-rw-r--r-- 1 a b 1 Nov 21 10:00 \xe9t\xe9") == [
        ListingEntry("�t�", "./%E9t%E9")
    ]


def test_gopher_menus() -> None:
    menu = (
        "iWelcome\tfake\t(NULL)\t0\r\n0About\t/about "
        "me.txt\tHost.example\t70\r\n1More\t\thost.example\t7070\r\n"
        "hThe web\tURL:https://example.org/\thost.example\t70\r\n8Telnet\t\thost.example\t23\r\n3Error\t\terror.host\t1\r\n"
        "0Bad port\t/x\th.example\tx\r\n0Bad host\t/x\th "
        "e\t70\r\n0Short\r\n.\r\n0After\t/x\th.example\t70\r\n"
    )
    assert gopher_menu(menu.encode()) == [
        ListingEntry("Welcome", ""),
        ListingEntry("About", "gopher://host.example/0/about%20me.txt"),
        ListingEntry("More", "gopher://host.example:7070/"),
        ListingEntry("The web", "https://example.org/"),
        ListingEntry("Telnet", ""),
        ListingEntry("Error", ""),
        ListingEntry("Bad port", ""),
        ListingEntry("Bad host", ""),
        ListingEntry("Short", ""),
    ]


@given(st.binary(max_size=400))
def test_listings_of_any_bytes(data: bytes) -> None:
    for entries in (ftp_listing(data), gopher_menu(data)):
        for entry in entries:
            entry.text.encode()
            assert "\n" not in entry.reference
            assert "\r" not in entry.reference
