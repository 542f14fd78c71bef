"""Fuzz targets: parsers of untrusted input and their properties.

A target fails by an assertion or by an exception that the tested function does not document.
`tests.fuzz.mutate` generates inputs from the seeds of a target; `python -m tests.fuzz TARGET` uses
atheris, if installed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lycosa.archive.import_formats import read_captures
from lycosa.archive.warc import metadata
from lycosa.archive.warc.members import Damage
from lycosa.archive.warc.reader import read_exchanges
from lycosa.archive.warc.writer import WarcWriter
from lycosa.config.reading import parse_config
from lycosa.core.errors import ArchiveError, ConfigError, Refusal, UrlError, WorkspaceError
from lycosa.core.records import Page, UrlId, Visit
from lycosa.fetch.robots_txt import Robots
from lycosa.fields.extraction import MAX_PROBLEMS
from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document
from lycosa.page.encoding import decode
from lycosa.page.feeds.sitemap import read_sitemap
from lycosa.page.html.markdown import MarkdownMode
from lycosa.page.parse import ParseOptions, parse_page
from lycosa.search.query.query import parse_query
from lycosa.store.log.entry import decode_entry, encode_entry
from lycosa.url.normalise import MAX_URL_LENGTH, LinkResolver, normalise
from tests.fields.pages import items, shop
from tests.fields.test_extraction import CSS, SHOP, XPATH
from tests.page.document_files import MADE
from tests.page.test_metadata import require_bounded
from tests.store.builders import make_exchange, make_visit

BASE = "http://www.example.org/folder/page.html?q=1"
TYPES = (
    "",
    "text/html",
    "text/html; charset=utf-8",
    "text/html; charset=gb18030",
    "application/xhtml+xml",
    "text/plain",
    "application/xml",
)


@dataclass(slots=True, frozen=True)
class Target:
    """A fuzz target: its check, seed inputs and tokens of its grammar."""

    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    tokens: Sequence[bytes]


def url(data: bytes) -> None:
    """URLs: normalisation is idempotent, and links resolve reproducibly."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        once = normalise(text)
    except UrlError:
        pass
    else:
        assert once.isascii()
        assert len(once) <= MAX_URL_LENGTH
        assert "#" not in once or once.startswith("gopher:")
        assert normalise(once) == once
    result = LinkResolver(BASE).resolve(text)
    assert LinkResolver(BASE).resolve(text) == result
    if not isinstance(result, Refusal):
        assert normalise(result) == result


def robots(data: bytes) -> None:
    """robots.txt: always a verdict, and a delay within an hour."""
    rules = Robots(data.decode("utf-8", "replace"), "Lycosa/0.1 (+https://example.org/)")
    for where in ("/", "/a/b.html?q=1&r=%20", "/robots.txt", "/" + "a" * 40, "/*$?%zz"):
        verdict = rules.allowed(f"http://example.org{where}")
        assert isinstance(verdict, bool)
        assert rules.line(f"http://example.org{where}") or verdict or where == "/robots.txt"
    delay = rules.crawl_delay_ms()
    assert delay is None or 0 <= delay <= 3_600_000
    assert all(isinstance(each, str) for each in rules.sitemaps())


def html(data: bytes) -> None:
    """Pages: any bytes give a page that the tables can store."""
    content_type = TYPES[data[0] % len(TYPES)] if data else ""
    _require_page(
        parse_page(
            data[1:], url=BASE, content_type=content_type, link_headers=('<a>; rel="canonical"',)
        )
    )


def declared(data: bytes) -> None:
    """Metadata: bounded, without control characters, reproducible."""
    page = parse_page(
        data, url=BASE, content_type="text/html", options=ParseOptions(at_ms=1_700_000_000_000)
    )
    _require_page(page)
    for moment in (page.metadata.published_at, page.metadata.modified_at):
        assert moment is None or moment <= 1_700_000_000_000
    again = parse_page(
        data, url=BASE, content_type="text/html", options=ParseOptions(at_ms=1_700_000_000_000)
    )
    assert again.metadata == page.metadata


def fields(data: bytes) -> None:
    """Items: values have the types of the schema; problems are limited."""
    content_type = TYPES[data[0] % len(TYPES)] if data else ""
    for schema in map(shop, (CSS, XPATH)):
        for item in items(schema, data[1:], BASE, content_type):
            values = json.loads(item.values)
            assert item.position is not None or not values
            assert isinstance(values.get("id"), int | None)
            assert isinstance(values.get("price"), float | None)
            assert all(isinstance(tag, str) for tag in values.get("tags", []))
            assert len(item.problems) <= MAX_PROBLEMS


def encodings(data: bytes) -> None:
    """Encodings: the result is UTF-8, whatever the declared charset."""
    label, _, payload = data.partition(b"\n")
    result = decode(payload, f"text/html; charset={label.decode('latin-1')}")
    assert result.charset
    if result.data is not payload:  # unchanged bytes are treated as UTF-8
        result.data.decode("utf-8")


def feeds(data: bytes) -> None:
    """Feeds: URLs of entries are normalised and unique."""
    feed = read_sitemap(data, BASE)
    addresses = [entry.url for entry in feed.entries]
    assert len(set(addresses)) == len(addresses)
    assert all(normalise(address) == address for address in addresses)
    for entry in feed.entries:
        assert entry.last_modified_at is None or abs(entry.last_modified_at) < 2**53


def sitemaps(data: bytes) -> None:
    """Sitemaps: numbers of entries are limited, URLs are normalised."""
    sitemap = read_sitemap(data, BASE, limit=20, max_bytes=20_000)
    assert len(sitemap.entries) + len(sitemap.sitemaps) <= 20
    assert all(normalise(entry.url) == entry.url for entry in sitemap.entries)


def documents(data: bytes) -> None:
    """PDF, office files, images: a valid page, or none."""
    kind = kind_of(data)
    if kind is not None:
        _require_page(
            parse_document(data, kind, url=BASE, options=ParseOptions(markdown=MarkdownMode.FULL))
        )


def warcs(data: bytes) -> None:
    """Archives: complete exchanges, reported damage, or `ArchiveError`."""
    with tempfile.NamedTemporaryFile(
        dir="/dev/shm" if os.path.isdir("/dev/shm") else None, suffix=".warc.gz"
    ) as file:
        file.write(data)
        file.flush()
        damages: list[Damage] = []
        with suppress(ArchiveError):
            for stored in read_exchanges(file.name, on_damage=damages.append):
                assert stored.visit.warc_offset + stored.visit.warc_length <= len(data)
        assert all(0 <= damage.offset < damage.end <= len(data) for damage in damages)
        with suppress(ArchiveError):
            for capture in read_captures(Path(file.name), limit=10_000, others=Counter()):
                assert len(capture.body) <= 10_000


def records(data: bytes) -> None:
    """Metadata records of Lycosa from untrusted archives: only `ArchiveError`."""
    if metadata.is_ours(metadata.CONTENT_TYPE, data):
        with suppress(ArchiveError):
            metadata.decode(data, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"body")


def queries(data: bytes) -> None:
    """Queries: any text is valid, and equal texts give equal queries."""
    text = data.decode("utf-8", "surrogateescape")
    assert parse_query(text) == parse_query(text)


def configuration(data: bytes) -> None:
    """lycosa.toml: valid settings, or `ConfigError`."""
    with suppress(ConfigError):
        parse_config(data.decode("utf-8", "replace"))


def entries(data: bytes) -> None:
    """Log entries: encoding and decoding are inverse; else `WorkspaceError`."""
    with suppress(WorkspaceError):
        entry = decode_entry(data, 7)
        assert decode_entry(encode_entry(entry), 7) == entry


def _require_page(page: Page) -> None:
    """Assert what the tables and the index require of a page."""
    for text in (
        page.title,
        page.description,
        page.text,
        page.main_text,
        *page.headings,
        *page.faults,
    ):
        text.encode()
    for link in page.links:
        assert normalise(link.target) == link.target
        link.anchor.encode()
    assert 0 <= page.language_score <= 1
    assert page.published_at is None or abs(page.published_at) < 2**53
    require_bounded(page.metadata)


def _visit() -> Visit:
    return make_visit(UrlId("http://example.org/", "example.org", 1, 2, 3))


def _warc() -> bytes:
    """Return a WARC file with two exchanges, as a crawl writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.warc.gz"
        writer = WarcWriter(path, relative_path="a.warc.gz", info={"software": "test"})
        for _ in range(2):
            writer.append(make_exchange("http://example.org/", b"<p>text"), _visit())
        writer.close(sync=False)
        return path.read_bytes()


def _record() -> bytes:
    return metadata.encode(
        make_exchange("http://example.org/", b"<p>text"),
        _visit(),
        metadata.Wire(3, "", "", {"body": b"x"}),
        None,
    )


_PLAIN_WARC = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Date: "
    b"2026-11-21T00:00:00Z\r\n"
    b"WARC-Target-URI: http://example.org/\r\nContent-Type: application/http\r\nContent-Length: "
    b"26\r\n\r\n"
    b"HTTP/1.1 200 OK\r\n\r\n<p>text\r\n\r\n"
)
_ARC = (
    b"filedesc://a.arc 0.0.0.0 20010101000000 text/plain 76\n1 0 X\nURL IP-address Archive-date "
    b"Content-type Archive-length\n\n"
    b"http://example.org/ 1.2.3.4 20010101000000 text/html 26\nHTTP/1.1 200 OK\n\n<p>text\n\n"
)
_HTML = (
    b"\0<!doctype html><html lang=en><head><meta charset=utf-8><title>Title</title><link "
    b"rel=canonical href=/a><base href='/b/'>"
    b"<meta name=robots content=noindex><script "
    b'type=\'application/ld+json\'>{"@type":"Article","datePublished":"2020-01-01"}</script>'
    b"</head><body><nav><a href=x>x</a></nav><main><h1>Head</h1><p>Text &amp; "
    b"more<table><tr><td>cell</table><pre>a\n b</pre></main></html>"
)
_XML = b'<?xml version="1.0" encoding="UTF-8"?>'
_RSS = _XML + (
    b'<rss version="2.0"><channel><title>t</title><link>http://e.org/</link><item><title>a</title><link>/a</link>'
    b"<pubDate>Mon, 06 Sep 2021 00:01:00 "
    b"+0000</pubDate><guid>http://e.org/a</guid></item></channel></rss>"
)
_ATOM = _XML + (
    b'<feed xmlns="http://www.w3.org/2005/Atom"><title type="html">&lt;b&gt;t</title><entry><link '
    b'rel="alternate" href="a"/>'
    b"<updated>2021-01-01T00:00:00Z</updated></entry></feed>"
)
_MAP = _XML + (
    b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://www.example.org/a</loc><lastmod>2021-01-01</lastmod>'
    b"<priority>0.5</priority></url></urlset>"
)
_INDEX = (
    _MAP.replace(b"urlset", b"sitemapindex")
    .replace(b"<url>", b"<sitemap>")
    .replace(b"</url>", b"</sitemap>")
)
_ENTITIES = (
    _XML + b'<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b '
    b'"&a;&a;&a;">]><rss><channel><title>&b;</title></channel></rss>'
)
_JSON_FEED = b'{"version":"https://jsonfeed.org/version/1.1","title":"t","items":[{"id":"1","url":"/a","date_published":"2020-01-01T00:00:00Z"}]}'
_ENTRY = (
    b'{"kind":"commit","number":7,"attempt":"aa","claim":1,"at":"2026-11-21T00:00:00Z","worker":"w","partitions":[[0,3]],'
    b'"files":{"urls":[{"path":"data/1/urls.parquet","rows":1,"bytes":2,"digest":"00","as_of":3}]},"warcs":[],"applied":{"1":2},'
    b'"counters":{"n":1},"settings":{"default":{"depth":2}},"exclusions":["host:a.example"]}\n'
)
_TOML = (
    b'[fetch]\nuser_agent = "x"\nmax_body = "10MiB"\ntotal_timeout = "1m"\n[[collection]]\nname = '
    b'"a"\nseeds = ["http://e.org/"]\n'
    b"depth = 3\n"
    b'hours = "mon-fri 20:00-06:00"\nallow = ["^http://e"]\n[[monitor]]\nurl = "http://e.org/"\n'
)
_TAGS = (
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"<svg>",
    b"<math>",
    b"<template>",
    b"<select>",
    b"<table>",
    b"<p",
    b"</p>",
    b"<a href=",
    b"&#0;",
)

_DECLARED = (
    b'<meta property="og:type" content="article"><meta name="author" content="By Jane Doe">'
    b'<script type="application/ld+json">{"@graph":[{"@type":"Product","@id":"#a","offers":'
    b'{"price":"1,5","priceCurrency":"EUR"},"author":{"@id":"#a"},"image":["/a"]}]}</script>',
    b'<div itemscope itemtype="http://schema.org/Article" itemref="a"><b itemprop="author">J</b>'
    b'</div><p id=a><time itemprop="datePublished" datetime="2020-01-01">x</time>',
    b'<div vocab="http://schema.org/" typeof="Recipe"><b property="author" typeof="Person">'
    b'<i property="name">J</i></b></div><h1>h</h1><p class=byline>By A B, 1 May 2020',
)

TARGETS: dict[str, Target] = {
    "url": Target(
        url,
        (
            b"http://www.Example.org:80/a/../b%7e?x=1&y=%zz#f",
            b"//h/x",
            b"../../a b",
            b"gopher://h:70/1/sel",
            b"ftp://u:p@h/a;type=i",
            b"?q",
        ),
        (
            b"%",
            b"%2",
            b"%25",
            b"//",
            b"\\",
            b"@",
            b"[::1]",
            b":",
            b"#",
            b"?",
            b"\xed\xa0\x80",
            b"xn--",
            b"\xc3\x9f",
            b"\t",
            b"0x7f.1",
            b"data:",
        ),
    ),
    "fields": Target(
        fields,
        (b"\1" + SHOP.encode(), b"\4" + SHOP.encode()),
        (
            *(b"<article data-id=1>", b"<h3><a href=x title=y>", b"<b class=price>1.299,00"),
            *(b"</article>", b"<a class=tag>", b"<base href=//h/>", b"<div>", b"<ul class=offer>"),
            *(b"&#8239;", b"\xc2\xa0", b"<i class=in>", b"\0", b"<!--", b"<script>"),
        ),
    ),
    "robots": Target(
        robots,
        (
            b"User-agent: *\nDisallow: /a*b$\nAllow: /\nCrawl-delay: 1.5\nSitemap: "
            b"http://e.org/s.xml\n",
            b"user-agent lycosa\ndisalow /",
        ),
        (
            b"User-agent:",
            b"Disallow:",
            b"Allow:",
            b"Crawl-delay:",
            b"Sitemap:",
            b"*",
            b"$",
            b"*" * 50,
            b"\r",
            b"\x0b",
            b"%2f",
            b"#",
            b"\xef\xbb\xbf",
        ),
    ),
    "html": Target(
        html,
        (_HTML, b"\4" + _HTML[1:], b"\5plain text", b"\6" + _RSS),
        (*_TAGS, b"<frameset>", b"\0", b"\x1b$B", b"style='display:none'"),
    ),
    "declared": Target(
        declared,
        _DECLARED,
        (
            *(b"itemscope", b'itemprop="name"', b'itemref="a"', b'typeof="A"', b'property="b"'),
            *(b'"@type":', b'"@id":"#a"', b'"@graph":[', b'"author":{', b"\\ud800", b"1e999"),
            *(b'class="author"', b'rel="author"', b"2030-01-01", b"<script type=ld+json>"),
        ),
    ),
    "encodings": Target(
        encodings,
        (
            b"utf-8\n<p>\xc3\xa4",
            b"shift_jis\n\x83\x65",
            b"utf-16\n\xff\xfea\0",
            b"iso-2022-jp\n\x1b$B%F\x1b(B",
            b"gb2312\n~{VPND~}",
            b"\n<meta charset=big5>\xa4\xa4",
        ),
        (
            b"<meta charset=",
            b"<meta http-equiv=content-type content='text/html;charset=",
            b"\xff\xfe",
            b"\xfe\xff",
            b"\xef\xbb\xbf",
            b"\x1b$B",
            b"~{",
            b"\0",
            b"utf-7",
            b"x-user-defined",
            b"hz",
        ),
    ),
    "feeds": Target(
        feeds,
        (_RSS, _ATOM, _JSON_FEED, _ENTITIES),
        (
            *_TAGS,
            b"xml:base='",
            b"&b;",
            b"<!DOCTYPE ",
            b"{",
            b"[",
            b"9" * 30,
            b"-0001-01-01",
            b"\\ud800",
        ),
    ),
    "sitemaps": Target(
        sitemaps,
        (_MAP, _INDEX, b"http://www.example.org/a\nhttp://other.example/\n", _RSS, _ENTITIES),
        (*_TAGS, b"<loc>", b"&b;", b"\x1f\x8b\x08", b"1e999"),
    ),
    "documents": Target(
        documents,
        tuple(make() for make in MADE.values()),
        (
            b"PK\x03\x04",
            b"PK\x01\x02",
            b"\\bin9999999999 ",
            b"/Kids",
            b"endobj",
            b"{\\*\\",
            b"\\u-99999 ",
        ),
    ),
    "warcs": Target(
        warcs,
        (_warc(), _PLAIN_WARC, _ARC),
        (
            b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
            b"Content-Length: 99999999999999999999",
            b"WARC/1.1\r\n",
            b"\r\n\r\n",
            b"WARC-Type: metadata",
            b"\xff" * 8,
        ),
    ),
    "records": Target(
        records,
        (_record(),),
        (b"{", b"null", b"[" * 60, b"-1", b"1e999", b"NaN", b"9" * 30, b'""', b"\\ud800", b"true"),
    ),
    "queries": Target(
        queries,
        (
            b'"exact phrase" -not site:example.org OR (a b*) before:2020-01-01',
            b"intitle:x filetype:pdf sort:date collection:a",
        ),
        (
            b'"',
            b"(",
            b")",
            b" OR ",
            b"-",
            b"site:",
            b"*",
            b"before:",
            b"\xe2\x80\x9c",
            b"((((((((((",
            b":",
            b"\xed\xb0\x80",
            b"link:http://",
        ),
    ),
    "configuration": Target(
        configuration,
        (_TOML,),
        (
            b"[",
            b"]",
            b"[[",
            b'"""',
            b"=",
            b"{",
            b"9" * 40,
            b"nan",
            b"1e400",
            b"inf",
            b"\\u0000",
            b"[" * 60,
            b"(?:a+)+$",
        ),
    ),
    "entries": Target(
        entries,
        (_ENTRY,),
        (
            b"{",
            b"[",
            b'"',
            b"null",
            b"true",
            b"1e999",
            b"-1",
            b"NaN",
            b"9" * 30,
            b"[" * 60,
            b"\\ud800",
            b'"kind":"claim"',
        ),
    ),
}
