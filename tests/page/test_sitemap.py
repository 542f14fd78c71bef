"""Test sitemaps of all formats: entries, limits and invalid input."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lycosa.page.feeds.sitemap import (
    MAX_BYTES,
    Sitemap,
    SitemapEntry,
    may_list,
    parse_w3c_date,
    read_sitemap,
)
from tests.page.dates import ms

BASE = "https://www.example.org/maps/sitemap.xml"
HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?><urlset '
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
)


def read(text: str | bytes, limit: int = 1_000_000, max_bytes: int = MAX_BYTES) -> Sitemap:
    return read_sitemap(
        text if isinstance(text, bytes) else text.encode(), BASE, limit=limit, max_bytes=max_bytes
    )


def urls(sitemap: Sitemap) -> list[str]:
    return [entry.url for entry in sitemap.entries]


def test_entries_of_a_urlset() -> None:
    sitemap = read(
        HEAD
        + "<url><loc> https://www.example.org/%7Ea?b=1&amp;c=2#top\n</loc><lastmod>2026-11-20T08:30:00+02:00</lastmod>"
        "<changefreq>Daily</changefreq><priority>0.8</priority></url>"
        "<url><loc><![CDATA[/relative?x=1&y=2]]></loc><lastmod>yesterday</lastmod><changefreq>often</changefreq><priority>7</priority></url>"
        "<url><loc>https://www.example.org/~a?b=1&amp;c=2</loc></url><url><loc>mailto:x@example.org</loc></url><url><loc/></url></urlset>"
    )
    assert sitemap.kind == "urls"
    assert sitemap.entries == [
        SitemapEntry("https://www.example.org/~a?b=1&c=2", ms(2026, 11, 20, 6, 30)),
        SitemapEntry("https://www.example.org/relative?x=1&y=2"),
    ]
    assert sitemap.faults == ["date_unusable", "url_unusable"]


def test_entries_of_a_sitemap_index() -> None:
    sitemap = read(
        '<sitemapindex xmlns="x"><sitemap><loc>https://www.example.org/1.xml.gz</loc><lastmod>2026-11</lastmod></sitemap>'
        "<sitemap><loc>https://www.example.org/2.xml</loc></sitemap></sitemapindex>"
    )
    assert (sitemap.kind, sitemap.entries, sitemap.faults) == ("index", [], [])
    assert sitemap.sitemaps == [
        SitemapEntry("https://www.example.org/1.xml.gz", ms(2026, 11, 1)),
        SitemapEntry("https://www.example.org/2.xml"),
    ]


def test_extensions_and_prefixes() -> None:
    sitemap = read(
        '<s:urlset xmlns:s="x" xmlns:image="i" xmlns:n="news" xmlns:xhtml="h" '
        'xmlns:video="v"><s:url>'
        "<image:image><image:loc>/image.png</image:loc><image:title>No</image:title></image:image><s:loc>/story</s:loc><video:video><video:title>No</video:title>"
        "<video:publication_date>2001-01-01</video:publication_date></video:video><n:news><n:publication><n:name>P</n:name></n:publication>"
        "<n:publication_date>2026-11-19</n:publication_date><n:title>A &amp;amp; "
        "B</n:title></n:news>"
        '<xhtml:link rel="alternate" hreflang="DE" href="/de/story"/><xhtml:link rel="alternate" '
        'hreflang="x-default" href=" /story "/>'
        '<xhtml:link rel="alternate" hreflang="fr" '
        'href="javascript:1"/></s:url><s:url><s:loc>/plain</s:loc></s:url></s:urlset>'
    )
    site = "https://www.example.org"
    assert sitemap.entries == [
        SitemapEntry(f"{site}/story"),
        SitemapEntry(f"{site}/plain"),
    ]


def test_text_feeds_and_other_content() -> None:
    text = read(
        "\ufeffhttps://www.example.org/a\r\n\n# no "
        "address\nHTTPS://www.example.org/b\rhttps://www.example.org/a"
    )
    assert (text.kind, urls(text), text.faults) == (
        "text",
        ["https://www.example.org/a", "https://www.example.org/b"],
        ["url_unusable"],
    )
    feed = read(
        "<rss><channel><item><link>/n</link><title>N</title><pubDate>Thu, 19 Nov 2026 10:00:00 "
        "GMT</pubDate></item></channel></rss>"
    )
    assert feed.kind == "feed"
    assert feed.entries == [SitemapEntry("https://www.example.org/n", ms(2026, 11, 19, 10))]
    for neither in (
        "<!doctype html><html><body><a href='/a'>a</a></body></html>",
        "Not found",
        "",
        "<x><url><loc>/a</loc></url></x>",
    ):
        assert read(neither) == Sitemap(faults=["not_a_sitemap"]), neither
    assert read(b"\x89PNG\r\n\x1a\n\0\0") == Sitemap(faults=["not_a_sitemap"])


@pytest.mark.parametrize(
    ("encoding", "label"),
    [
        ("iso-8859-1", "ISO-8859-1"),
        ("utf-16", "UTF-16"),
        ("shift_jis", "Shift_JIS"),
        ("windows-1251", "windows-1251"),
    ],
)
def test_the_declared_encoding_is_used(encoding: str, label: str) -> None:
    word = {
        "iso-8859-1": "été",
        "utf-16": "雪",
        "shift_jis": "日本語のページ",
        "windows-1251": "новости",
    }[encoding]
    text = f'<?xml version="1.0" encoding="{label}"?><urlset><url><loc>/{word}</loc></url></urlset>'
    assert urls(read(text.encode(encoding))) == urls(
        read(f"<urlset><url><loc>/{word}</loc></url></urlset>")
    )


def test_invalid_xml_is_read_up_to_the_error() -> None:
    broken = HEAD + "<url><loc>/a</loc></url><url><loc>/b</loc></urll>"
    assert urls(read(broken)) == ["https://www.example.org/a"]
    assert read(broken).faults == ["xml_invalid"]
    cut = HEAD + "<url><loc>/a</loc></url><url><loc>/b"
    assert urls(read(cut)) == ["https://www.example.org/a"]


def test_common_mistakes_are_repaired() -> None:
    sitemap = read(
        "\n <urlset><url><loc>/a?b=1&c=2</loc></url><url><loc>/\x0bd?e&eacute;=&amp;f</loc></url>"
        "<url><loc><![CDATA[/g?h=1&i=2]]></loc></url></urlset>"
    )
    site = "https://www.example.org"
    assert urls(sitemap) == [f"{site}/a?b=1&c=2", f"{site}/d?e%C3%A9=&f", f"{site}/g?h=1&i=2"]
    assert sitemap.faults == ["xml_invalid"]
    without_scheme = read(
        "<urlset><url><loc>www.example.org/a</loc></url><url><loc>example.org/b</loc></url>"
        "<url><loc>c.org/d</loc></url></urlset>"
    )
    assert urls(without_scheme) == [f"{site}/a", "https://example.org/b", f"{site}/maps/c.org/d"]
    less = read("<urlset><url><loc>/a?b<3</loc></url><url><loc>/c</loc></url></urlset>")
    assert (urls(less), less.faults) == ([f"{site}/a?b%3C3", f"{site}/c"], ["xml_invalid"])


@pytest.mark.parametrize("before", ["<br />\n<b>Warning</b>: x\n", "Notice: y\n", "<!-- z -->"])
def test_text_before_the_xml_declaration_is_ignored(before: str) -> None:
    sitemap = read(f"{before}<?xml version='1.0'?><urlset><url><loc>/a</loc></url></urlset>")
    assert urls(sitemap) == ["https://www.example.org/a"]


@pytest.mark.proves("limits-entities")
def test_entities_are_refused() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    for trick in (
        f'<!DOCTYPE u [<!ENTITY l0 "ha">{laughs}]>',
        '<!DOCTYPE u [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>',
    ):
        sitemap = read(trick + "<urlset><url><loc>/&l9;</loc></url></urlset>")
        assert (sitemap.entries, sitemap.faults) == ([], ["not_a_sitemap", "xml_entities"])
    declared_late = read(
        "<!DOCTYPE urlset [<!ELEMENT urlset ANY>]><urlset><url><loc>/a</loc></url></urlset>"
    )
    assert urls(declared_late) == ["https://www.example.org/a"]


@pytest.mark.proves("limits-sitemaps")
def test_bounds() -> None:
    many = HEAD + "".join(f"<url><loc>/{number}</loc></url>" for number in range(20)) + "</urlset>"
    few = read(many, limit=7)
    assert (len(few.entries), few.faults) == (7, ["too_many_urls"])
    assert len(read(many, limit=20).entries) == 20
    short = read(many, max_bytes=len(HEAD) + 60)
    assert len(short.entries) in (1, 2)
    assert set(short.faults) == {"too_large", "xml_invalid"}
    lines = read("\n".join(f"https://www.example.org/{number}" for number in range(20)), limit=7)
    assert (len(lines.entries), lines.faults) == (7, ["too_many_urls"])


def test_gzip_is_bounded_and_tolerant() -> None:
    plain = (
        HEAD + "".join(f"<url><loc>/{number}</loc></url>" for number in range(3000)) + "</urlset>"
    ).encode()
    packed = gzip.compress(plain)
    assert len(read(packed).entries) == len(read(gzip.compress(packed)).entries) == 3000
    halves = gzip.compress(plain[:30_000]) + gzip.compress(plain[30_000:]) + b"\0\0\0"
    assert len(read(halves).entries) == 3000
    cut = read(packed[: len(packed) // 2])
    assert 0 < len(cut.entries) < 3000
    assert set(cut.faults) == {"gzip_broken", "xml_invalid"}
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    bytes_of_bomb = bomb.compress(plain[:-9] + b" " * 5_000_000) + bomb.flush()
    bounded = read(bytes_of_bomb, max_bytes=len(plain))
    assert len(bounded.entries) == 3000
    assert "too_large" in bounded.faults
    assert read(b"\x1f\x8b\x08broken").kind == "none"


@pytest.mark.proves("limits-decompression")
def test_memory_for_a_gzip_bomb_is_bounded() -> None:
    bomb = gzip.compress(bytes(60_000_000))
    tracemalloc.start()
    try:
        read(bomb, max_bytes=100_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.proves("limits-sitemaps")
def test_sitemap_urls_of_other_hosts_need_permission() -> None:
    assert may_list(BASE, "http://www.example.org:8080/a")
    assert not may_list(BASE, "https://example.org/a")
    assert may_list(BASE, "https://example.org/a", {"example.org"})
    assert not may_list(BASE, "https://other.org/a", {"example.org"})
    assert not may_list(BASE, "ftp://www.example.org/a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026", ms(2026, 1, 1)),
        ("2026-02", ms(2026, 2, 1)),
        ("2026-02-03", ms(2026, 2, 3)),
        ("2026-02-03T04:05Z", ms(2026, 2, 3, 4, 5)),
        ("2026-02-03T04:05:06.789-01:00", ms(2026, 2, 3, 5, 5, 6)),
        ("2026-13", None),
        ("0001-01-01", None),
        ("2026-02-31", None),
        ("now", None),
        ("", None),
    ],
)
def test_w3c_dates(text: str, expected: int | None) -> None:
    assert parse_w3c_date(text) == expected


TOKENS = st.sampled_from(
    (
        *(
            "<urlset>",
            "<url>",
            "<loc>",
            "/a",
            "</loc>",
            "</url>",
            "</urlset>",
            "<sitemapindex>",
            "<sitemap>",
            "&",
            "&amp;",
            "<![CDATA[",
            "]]>",
        ),
        *(
            "<lastmod>",
            "2026",
            "</lastmod>",
            "<n:news>",
            '<x:link hreflang="a" href="//["/>',
            "\0",
            "é",
            "<!DOCTYPE a [",
            "<rss>",
            "<item>",
            "</item>",
            "<entry xml:base='//['>",
            "</entry>",
            "<link href='/a'/>",
            "<guid>",
            "</guid>",
            '"items":[',
            "<!DOCTYPE a [<!ENTITY b 'c'>]>",
        ),
    )
)


@pytest.mark.proves("isolation-any-input")
@given(
    st.binary(max_size=300)
    | st.lists(TOKENS, max_size=30).map(lambda tokens: "".join(tokens).encode())
)
@example(b"\x1f\x8b")
@example(b'{"version":"jsonfeed.org","items":[' + b"[" * 100_000)
@example(b"{" + b"\xff")
@example(b"<urlset" + b"<a>" * 50_000)
@example(b"<urlset>&" + b"<![CDATA[" * 50_000)
@example(b"\xff\xfe<\0u\0")
def test_no_bytes_raise(data: bytes) -> None:
    for payload in (data, gzip.compress(data), gzip.compress(data)[:-5]):
        sitemap = read_sitemap(payload, BASE, limit=3)
        assert len(sitemap.entries) + len(sitemap.sitemaps) <= 3
        assert len(set(sitemap.faults)) == len(sitemap.faults)


def test_a_json_feed_as_a_sitemap() -> None:
    items = (
        '[{"url": "/n", "title": "N\\ud800<b>", "date_published": "2024-03-01T10:00:00Z"}, '
        '{"url": "http://[\\udfff"}]'
    )
    feed = read(f'{{"version": "https://jsonfeed.org/version/1.1", "items": {items}}}'.encode())
    assert (feed.kind, urls(feed)) == ("feed", ["https://www.example.org/n"])
    assert read(b"{}").faults == ["not_a_sitemap"]
