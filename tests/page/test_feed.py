"""Feeds and other XML: title, text, links, date; nothing expanded, nothing raised."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lycosa.page.parse import parse_page

URL = "http://www.example.org/feed"


def test_rss() -> None:
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
    assert [(link.target, link.anchor, link.kind) for link in page.links] == [
        ("http://www.example.org/", "", "a"),
        ("http://www.example.org/first?a=1&b=2", "First", "a"),
        ("http://www.example.org/in", "a link", "a"),
        ("http://www.example.org/second", "Second & last", "a"),
    ]
    assert (
        page.published_at == int(datetime(2019, 11, 19, 8, 30, 15, tzinfo=UTC).timestamp()) * 1000
    )


def test_atom() -> None:
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


def test_broken_xml_gives_what_stood_before_the_fault() -> None:
    page = parse_page(
        b"<rss><channel><title>News</title><item><title>One</title></rss>",
        url=URL,
        content_type="text/xml",
    )
    assert (page.text, page.faults) == ("News\nOne", ["xml_invalid"])


def test_a_feed_served_as_html_is_read_as_a_feed() -> None:
    page = parse_page(
        b'<?xml version="1.0"?><rss><channel><title>News</title><link>/n</link></channel></rss>',
        url=URL,
        content_type="text/html",
    )
    assert [link.target for link in page.links] == ["http://www.example.org/n"]


def test_xhtml_may_close_any_element() -> None:
    page = parse_page(
        b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><script '
        b'src="/s.js"/><title>T</title></head>'
        b'<body><a id="x"/><p>Text</p></body></html>',
        url=URL,
        content_type="application/xhtml+xml",
    )
    assert (page.title, page.text) == ("T", "Text")


def test_plain_text() -> None:
    page = parse_page(b"First  line\r\n\n second <b>\n", url=URL, content_type="text/plain")
    assert page.text == page.main_text == "First line\nsecond <b>"
    assert page.links == []


JSON_FEED = b"""{"version": "https://jsonfeed.org/version/1.1", "title": "News  of \\u00e9", "home_page_url": "/", "items": [
  {"id": "1", "url": "/first", "title": "First", "content_html": "<p>Text with <a href='/in'>a link</a></p>",
   "date_published": "2019-11-19T08:30:15Z"},
  {"id": "2", "url": "/second", "content_text": "Only text \\ud800", "summary": "not this"}, 7, {"id": "3", "title": "No address"}]}"""


def test_json_feed() -> None:
    page = parse_page(JSON_FEED, url=URL, content_type="application/feed+json; charset=utf-8")
    assert page.title == "News of é"
    assert page.text.split("\n") == [
        "News of é",
        "First",
        "Text with a link",
        "Only text ?",
        "No address",
    ]
    assert [(link.target, link.anchor, link.kind) for link in page.links] == [
        ("http://www.example.org/first", "First", "a"),
        ("http://www.example.org/in", "a link", "a"),
        ("http://www.example.org/second", "", "a"),
    ]
    assert (
        page.published_at == int(datetime(2019, 11, 19, 8, 30, 15, tzinfo=UTC).timestamp()) * 1000
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
def test_what_is_no_json_feed(payload: bytes) -> None:
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
