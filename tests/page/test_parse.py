"""Test `parse_page`: contents, directives, dates and hostile input."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lycosa
from lycosa.fetch.login import has_password_field, read_form
from lycosa.page.dates import parse_date
from lycosa.page.feeds.sitemap import read_sitemap
from lycosa.page.parse import ParseOptions, can_parse, parse_page
from tests.page.dates import ms

URL = "http://www.example.org/dir/page.html"


def test_title_text_and_links_of_a_page() -> None:
    page = parse_page(
        b"""<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title> A
        title </title><meta name=description content="What it is">
        <link rel=canonical href=/canonical><link rel=alternate hreflang=de href=de.html></head>
        <body><h1>Head<br>line</h1><p>One <b>bold</b>  word.<p>Two<br>lines<script>no</script>
        <a href="next.html">Next page</a></body></html>""",
        url=URL,
        content_type="text/html",
    )
    assert (page.title, page.headline, page.description, page.text, page.canonical) == (
        "A title",
        "Head line",
        "What it is",
        "Head\nline\nOne bold word.\nTwo\nlines Next page",
        "http://www.example.org/canonical",
    )
    assert [tuple(item) for item in page.alternates] == [
        ("de", "http://www.example.org/dir/de.html")
    ]
    assert [(link.target, link.anchor, link.kind) for link in page.links] == [
        ("http://www.example.org/canonical", "", "canonical"),
        ("http://www.example.org/dir/de.html", "", "alternate"),
        ("http://www.example.org/dir/next.html", "Next page", "a"),
    ]


@pytest.mark.proves("isolation-any-input")
@settings(max_examples=200)
@given(
    st.binary(max_size=300),
    st.sampled_from(
        [
            "",
            "text/html",
            "text/plain",
            "application/xml",
            "application/xhtml+xml",
            "text/html;charset=big5",
        ]
    ),
)
def test_no_bytes_raise_and_the_result_is_the_same_twice(payload: bytes, content_type: str) -> None:
    can_parse(content_type, payload)
    page = parse_page(payload, url=URL, content_type=content_type)
    assert page == parse_page(payload, url=URL, content_type=content_type)
    assert all(link.target.startswith(("http://", "https://")) for link in page.links)


@pytest.mark.parametrize(
    ("content_type", "payload", "expected"),
    [
        ("text/html", b"", True),
        ("text/html", b"\x89PNG\r\n\x1a\n", True),
        ("image/png", b"\x89PNG\r\n\x1a\n", False),
        ("", b"<!doctype html><p>x", True),
        ("application/octet-stream", b"<html>", True),
        ("application/octet-stream", b"\x7fELF\x00\x00", False),
        ("application/rss+xml", b"<rss/>", True),
        ("image/svg+xml", b"<svg/>", False),
        ("text/css", b"a{}", False),
        ("text/markdown; charset=utf-8", b"# A title", True),
        ("application/pdf", b"%PDF-1.4", False),
    ],
)
def test_understood_media_types(content_type: str, payload: bytes, expected: bool) -> None:
    assert can_parse(content_type, payload) is expected


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One<p>Two", "One\nTwo"),
        ("<p>a<b>b</b>c <i>d</i>\n\te", "abc d e"),
        ("<a href=x>one</a> <a href=y>two</a>", "one two"),
        ("<a href=x>one</a><b><a href=y><i>two</i></a></b><a href=z>three</a>.", "one two three."),
        ("re<a href=x>link</a>ed <a href=y>東京</a><a href=z>都</a>", "relinked 東京都"),
        ("<ul><li>one<li>two</ul>three", "one\ntwo\nthree"),
        ("<div>one<div>two</div>three</div>", "one\ntwo\nthree"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a\tb\n1\t2"),
        (f"<table><tr><td>{'long ' * 20}<td>short</table>", f"{('long ' * 20).strip()}\nshort"),
        ("<pre>one\n  two\n\nthree</pre>", "one\n  two\n\nthree"),
        ("<pre>one\n<a href=x>two</a>\n</pre>", "one\ntwo"),
        ("a<script>x</script><style>y</style><template>z</template><noscript>n</noscript>b", "ab"),
        ("a<span hidden>x</span><span style='color: red; DISPLAY : none'>y</span>b", "ab"),
        ("<div hidden><p>x</p></div><p>y", "y"),
        ("<ul><li Style='Display : None'>x<li>y</ul>", "y"),
        ("<p>a <a href=z><em>b</em></a> c <em>d</em>", "a b c d"),
        ("<select><option>x</select><textarea>y</textarea>z", "z"),
        ("<p><img src=i alt='An  image'>", "An image"),
        ("<p>text <img src=i alt=image> more", "text more\nimage"),
        ("soft\u00adhyphen\u00a0space", "softhyphen space"),
        ("<h2>Title<a href='#t'>¶</a></h2>", "Title"),
        ("<svg><title>x</title><text>y</text></svg>z", "z"),
        ("<title>t</title>", ""),
        ("<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>へ", "東京へ"),
        ("<html style=display:none><body hidden><p>y<p hidden>x", "y"),
        ("<body itemscope style='display: none'><p>y", "y"),
        ("<p hidden=until-found>found<p hidden>x", "found"),
        (
            "<p>a line that has a control\1character  and\2another",
            "a line that has a control character and another",
        ),
        (
            "a <span class=katex-mathml><math><mi>x</mi><mn>2</mn><annotation>x^2</annotation></math>"
            "</span><span class=katex-html>x2</span> b",
            "a x2 b",
        ),
        (
            "<template>x</template><a-b><template ShadowRootMode=open><p>sha<template>x</template>dow"
            "</p></template>light</a-b>",
            "shadow\nlight",
        ),
    ],
)
def test_visible_text(html: str, text: str) -> None:
    assert parse_page(html.encode(), url=URL, content_type="text/html; charset=utf-8").text == text


def test_headings_and_headline() -> None:
    page = parse_page(
        b"<html><h2>Zero</h2><h1> One <b>bold</b></h1><h1>Two</h1><h6></h6><h3 hidden>x</h3>",
        url=URL,
        content_type="text/html",
    )
    assert (page.headings, page.headline) == (["Zero", "One bold", "Two"], "One bold")


def test_language_and_digests_come_from_the_text() -> None:
    german = (
        b"<html lang=en><p>"
        + "Alle Menschen sind frei und gleich an Würde und Rechten geboren. ".encode() * 5
    )
    page = parse_page(german, url=URL, content_type="text/html")
    assert page.language == "de"
    assert page.text_digest != 0
    assert page.simhash != 0
    again = parse_page(german.replace(b"<p>", b"<p class=x>"), url=URL, content_type="text/html")
    assert (again.text_digest, again.simhash) == (page.text_digest, page.simhash)


def test_the_body_may_declare_the_language() -> None:
    page = parse_page(b"<html><body lang=de-AT><p>x", url=URL, content_type="text/html")
    assert page.declared_language == "de"


def test_og_title_replaces_a_missing_title() -> None:
    page = parse_page(
        b"<html><meta property=og:title content='Shared title'><p>x",
        url=URL,
        content_type="text/html",
    )
    assert (page.title, page.headline) == ("Shared title", "Shared title")


PAGE_URL = "http://www.example.org/"


@pytest.mark.proves("politeness-noindex")
@pytest.mark.parametrize(
    ("html", "headers", "may_index", "may_follow"),
    [
        ("", [], True, True),
        ("<meta name=robots content=noindex>", [], False, True),
        ("<meta name=ROBOTS content='NOFOLLOW, index'>", [], True, False),
        ("<meta name=robots content=none>", [], False, False),
        ("<meta name=robots content='noindex nofollow'>", [], False, False),
        ("<meta name=robots content=index><meta name=robots content=noindex>", [], False, True),
        ("<meta name=lycosa content=noindex>", [], False, True),
        ("<meta name=googlebot content=noindex>", [], True, True),
        ("<meta name=robots content='max-snippet:20, noarchive'>", [], True, True),
        ("<meta property=robots content=noindex>", [], True, True),
        ("", ["noindex"], False, True),
        ("", ["noindex, nofollow"], False, False),
        ("", ["Lycosa: noindex"], False, True),
        ("", ["otherbot: noindex"], True, True),
        ("", ["otherbot: noindex, nofollow"], True, True),
        ("", ["otherbot: noindex, lycosa: nofollow"], True, False),
        ("", ["otherbot: none", "nofollow"], True, False),
        ("", ["unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow"], True, False),
        ("", ["unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, noindex"], False, True),
        ("<meta name=robots content=nofollow>", ["noindex"], False, False),
    ],
)
def test_directives(html: str, headers: list[str], may_index: bool, may_follow: bool) -> None:
    page = parse_page(
        f"<html>{html}<p>text".encode(),
        url=PAGE_URL,
        content_type="text/html",
        x_robots_tag=headers,
    )
    assert (page.may_index, page.may_follow) == (may_index, may_follow)


def test_the_product_token_is_an_option() -> None:
    html = b"<html><meta name=otherspider content=noindex>"
    assert not parse_page(
        html, url=PAGE_URL, content_type="text/html", options=ParseOptions("OtherSpider")
    ).may_index


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2019-11-19", ms(2019, 11, 19)),
        ("2019-11-19T08:30:15Z", ms(2019, 11, 19, 8, 30, 15)),
        ("2019-11-19T08:30:15.123+02:00", ms(2019, 11, 19, 6, 30, 15)),
        ("2019-11-19 08:30 -0530", ms(2019, 11, 19, 14, 0)),
        ("20191119T083015Z", ms(2019, 11, 19, 8, 30, 15)),
        ("2019/1/9 8:05", ms(2019, 1, 9, 8, 5)),
        ("Tue, 19 Nov 2019 08:30:15 GMT", ms(2019, 11, 19, 8, 30, 15)),
        ("Tue, 19 Nov 2019 08:30:15 +0100", ms(2019, 11, 19, 7, 30, 15)),
        ("Wed, 02 Oct 2002 08:00:00 EST", ms(2002, 10, 2, 13)),
        ("Wed, 02 Oct 2002 08:00:00 PDT", ms(2002, 10, 2, 15)),
        ("Wed, 02 Oct 2002 08:00:00 CEST", ms(2002, 10, 2, 6)),
        ("Wed, 02 Oct 2002 08:00:00 Z", ms(2002, 10, 2, 8)),
        ("Wed, 02 Oct 2002 08:00:00 KST", ms(2002, 10, 1, 23)),
        ("Rabu, 2 Oktober 2002 08:00 WIB", ms(2002, 10, 2, 1)),
        ("2 Okt 2002 08:00 WITA", ms(2002, 10, 2, 0)),
        ("2002-10-02 08:00:15 KST", ms(2002, 10, 1, 23, 0, 15)),
        ("2002-10-02 08:00 UTC+8", ms(2002, 10, 2)),
        ("2002-10-02 12:30 AM", ms(2002, 10, 2, 0, 30)),
        ("2002-10-02 12:30 PM", ms(2002, 10, 2, 12, 30)),
        ("2002-10-02 08:30 PM", ms(2002, 10, 2, 20, 30)),
        ("2002-10-02T08:00:00 GMT-0330", ms(2002, 10, 2, 11, 30)),
        ("2 Oct 2002 08:00 GMT+08:00", ms(2002, 10, 2)),
        ("2002-10-02 08:00 -5 comments", ms(2002, 10, 2, 8)),
        ("2002-10-02 08:00 CET", ms(2002, 10, 2, 7)),
        ("2002-10-02 08:00 PM", ms(2002, 10, 2, 20)),
        ("2002. 10. 2. 8:00 KST", ms(2002, 10, 1, 23)),
        ("2.10.2002 08:00 EEST", ms(2002, 10, 2, 5)),
        ("October 2, 2002 08:00:00 ACST", ms(2002, 10, 1, 22, 30)),
        ("Wed Oct 02 2002 08:00:00 GMT", ms(2002, 10, 2, 8)),
        ("Wed Oct 02 08:00:00 WIB 2002", ms(2002, 10, 2, 1)),
        ("2 Oct 2002 08:00 IST", ms(2002, 10, 2, 8)),  # India, Ireland or Israel
        ("2 OCT 2002 EAT", ms(2002, 10, 2)),
        ("2.10.2002 08:00 Uhr", ms(2002, 10, 2, 8)),
        ("02 Oct 02 15:00:00 GMT", ms(2002, 10, 2, 15)),
        ("Mon, 5 Jan 99 10:00 +0100", ms(1999, 1, 5, 9)),
        ("Mon, 5 Jan 49 10:00 UT", ms(2049, 1, 5, 10)),
        ("19 November 2019", ms(2019, 11, 19)),
        ("November 19, 2019", ms(2019, 11, 19)),
        ("November 19th, 2019", ms(2019, 11, 19)),
        ("Tue,19 Nov 2019 08:30:15 GMT", ms(2019, 11, 19, 8, 30, 15)),
        ("19 Nov 2019 8:30 PM", ms(2019, 11, 19, 20, 30)),
        ("Tue Nov 19 08:30:15 2019", ms(2019, 11, 19, 8, 30, 15)),
        ("Tue Nov  9 08:30:15 CET 2019", ms(2019, 11, 9, 7, 30, 15)),
        ("Tue Nov 19 2019 08:30:15 GMT+0100 (CET)", ms(2019, 11, 19, 7, 30, 15)),
        ("2019-1-9 8:05", ms(2019, 1, 9, 8, 5)),
        ("2019年1月9日 08:05", ms(2019, 1, 9, 8, 5)),
        ("2019년 1월 9일", ms(2019, 1, 9)),
        ("9.1.2019 08:05", ms(2019, 1, 9, 8, 5)),
        ("9/1/2019", None),
        ("Dienstag, 19. November 2019, 08:30 Uhr", ms(2019, 11, 19, 8, 30)),
        ("9. März 2019", ms(2019, 3, 9)),
        ("mardi 1er janv. 2019", ms(2019, 1, 1)),
        ("9 de mayo de 2019", ms(2019, 5, 9)),
        ("9 de março de 2019 08:30", ms(2019, 3, 9, 8, 30)),
        ("вторник, 19 ноября 2019", ms(2019, 11, 19)),
        ("9 मई 2019", ms(2019, 5, 9)),
        ("\u0661\u0669 يناير \u0662\u0660\u0661\u0669", ms(2019, 1, 19)),
        ("ngày 9 tháng 5 năm 2019", ms(2019, 5, 9)),
        ("2019 оны 5 сарын 9", ms(2019, 5, 9)),
        ("2019 оны 5-р сарын 9", ms(2019, 5, 9)),
        ("9 كانون الثاني 2019", ms(2019, 1, 9)),
        ("9 يناير/كانون الثاني 2019", ms(2019, 1, 9)),
        ("2019. május 9.", ms(2019, 5, 9)),
        ("2019 жылғы 9 мамыр", ms(2019, 5, 9)),
        ("၂၀၁၉၊ မေ ၉", ms(2019, 5, 9)),
        ("9 майи соли 2019", ms(2019, 5, 9)),
        ("9 พฤษภาคม 2562", ms(2019, 5, 9)),
        ("9 במאי 2019", ms(2019, 5, 9)),
        ("9 \u095eरवरी 2019", ms(2019, 2, 9)),
        ("9 apples 2019", None),
        ("1970-01-01", None),
        ("2019-13-01", None),
        ("2019-02-30", None),
        ("2101-01-01", None),
        ("2019-11-19T08:30+99:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates(text: str, expected: int | None) -> None:
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    ("language", "zone", "hour"),
    [
        ("zh-CN", "CST", 0),
        ("cn", "CST", 0),
        ("en", "CST", 14),
        ("he", "IST", 6),
        ("en_IN", "IST", 2.5),
        ("hi", "IST", 2.5),
        ("en-IE", "IST", 8),
        ("", "CST", 14),
    ],
)
def test_the_language_of_the_page_decides_an_ambiguous_zone(
    language: str, zone: str, hour: float
) -> None:
    html = (
        f"<html lang='{language}'><meta property='article:published_time' "
        f"content='Wed Oct 02 08:00:00 {zone} 2002'><p>text"
    )
    published = parse_page(html.encode(), url=PAGE_URL, content_type="text/html").published_at
    assert published == ms(2002, 10, 2) + hour * 3_600_000


@given(st.text(alphabet="0123456789-/.:TZ+ abcdefgJanNov,", max_size=40))
def test_dates_are_within_bounds(text: str) -> None:
    moment = parse_date(text)
    assert moment is None or ms(1989, 12, 30) <= moment <= ms(2101, 1, 2)


@pytest.mark.parametrize(
    "html",
    [
        "<meta property='article:published_time' content='2019-11-19T00:00:00Z'>",
        '<script type=application/ld+json>{"@type": "NewsArticle", "datePublished": '
        '"2019-11-19"}</script>',
        "<meta name=DC.date content=2019-11-19>",
        "<meta name=date content='19 Nov 2019'>",
        "<meta itemprop=datePublished content=2019-11-19>",
        "<article><time datetime=2019-11-19>yesterday</time></article>",
        "<time pubdate datetime=2019-11-19>yesterday</time>",
        "<meta name=date content=soon><article><time datetime=2019-11-19></article>",
        "<time datetime=2011-01-01>then</time><article><time "
        "datetime=2019-11-19>now</time></article>",
    ],
)
def test_sources_of_the_date(html: str) -> None:
    assert parse_page(
        f"<html>{html}<p>text".encode(), url=PAGE_URL, content_type="text/html"
    ).published_at == ms(2019, 11, 19)


def test_a_time_outside_an_article_is_not_the_date_of_the_page() -> None:
    assert (
        parse_page(
            b"<html><time datetime=2019-11-19>x</time>",
            url=PAGE_URL,
            content_type="text/html",
        ).published_at
        is None
    )


# The slowest case takes 0.6 s on an idle core; without limits, 100 s and more.
MAX_CPU_S_PER_MB = 6.0
DEEP = 200_000


def parse_in_time(
    payload: bytes, content_type: str = "text/html; charset=utf-8"
) -> tuple[str, list[str]]:
    started = time.process_time()
    page = parse_page(payload, url="http://www.example.org/", content_type=content_type)
    assert time.process_time() - started < MAX_CPU_S_PER_MB * max(1.0, len(payload) / 1e6)
    return page.text, page.faults


@pytest.mark.proves("limits-markup")
@pytest.mark.parametrize(
    "opening",
    [
        b"<div>",
        b"<b>",
        b"<font color=red>",
        b"<table><tr><td>",
        b"<ul><li>",
        b"<h1>t<div>",
        b"<a href=x>t<table><td>",
        # elements that look as if they were closed
        b"<optgroup>",
        b"<dd><li>",
        b"<option><p>",
        b"<div></x>",
        b"<div></p>",
        b"<form><div></form>",
        b"<span><p></span></p>",
        b"<div><!--</div>-->",
        b'<div a="</div>">',
        b"<div><textarea></div></textarea>",
        b"<div><script><!--<script></script></div></script>-->",
        b"</use></img><details><div/><script><!--<img></script>",
        b"<form><marquee></form></marquee></form>",
    ],
)
def test_deep_nesting(opening: bytes) -> None:
    text, faults = parse_in_time(opening * DEEP + b"last words")
    assert "last words" in text
    assert "nesting_cut" in faults


@pytest.mark.proves("limits-markup")
def test_nesting_that_is_closed_again() -> None:
    text, faults = parse_in_time(b"<div>" * DEEP + b"deep" + b"</div>" * DEEP + b"<p>after")
    assert (text, faults) == ("deep\nafter", ["nesting_cut"])


@pytest.mark.proves("limits-markup")
def test_formatting_reopened_by_each_block_is_parsed_in_linear_time() -> None:
    text, _ = parse_in_time(b"".join(b"<font size=%d><p>x" % number for number in range(50_000)))
    assert text.count("x") == 50_000


@pytest.mark.parametrize("start", [b"<p ", b'<p a="<" ', b'<p a" '])
def test_very_many_attributes(start: bytes) -> None:
    text, faults = parse_in_time(
        start + b" ".join(b"a%d" % number for number in range(DEEP)) + b">text</p><p>more</p>"
    )
    assert text.endswith("more")
    assert "attributes_cut" in faults


def test_the_limits_do_not_change_a_normal_page() -> None:
    rows = b"".join(
        b"<tr><td><a href=/%d>%d</a><br><td><b>x</b>" % (number, number) for number in range(3_000)
    )
    text, faults = parse_in_time(
        b"<html><table>" + rows + b"</table><p class='" + b"word " * 500 + b"'>end"
    )
    assert (faults, text.count("\n")) == ([], 6_000)


@pytest.mark.proves("limits-markup")
def test_one_line_of_ten_megabytes() -> None:
    text, faults = parse_in_time(b"<p>" + b"word " * 2_000_000)
    assert (len(text), faults) == (9_999_999, [])


@pytest.mark.parametrize(
    "payload",
    [
        random.Random(7).randbytes(200_000),
        b"\x89PNG\r\n\x1a\n" + bytes(1000),
        b"%PDF-1.7\n",
        b"PK\x03\x04" + bytes(100),
        bytes(5000),
    ],
    ids=["random", "png", "pdf", "zip", "nul"],
)
def test_binary_data_served_as_html(payload: bytes) -> None:
    page = parse_page(payload, url="http://www.example.org/", content_type="text/html")
    assert (page.text, page.links, page.faults) == ("", [], ["binary"])


def test_nul_bytes_in_a_page() -> None:
    text, faults = parse_in_time(b"<!doctype html><html><p>a\0b</p><p title='\0'>c\0</p>\0")
    assert (text.replace("\ufffd", ""), faults) == ("ab\nc", [])


def test_a_truncated_character_is_reported() -> None:
    text, faults = parse_in_time("<p>слово".encode()[:-1])
    assert (text, faults) == ("слов", ["charset_invalid"])


@pytest.mark.proves("limits-markup")
@pytest.mark.parametrize(
    "payload",
    [
        b"<!--" * DEEP,
        b"<!-- x --><!-- x -->" * 100 + b"<",
        b"<meta " * DEEP,
        b"&amp;" * DEEP,
        b"<" * DEEP,
        b"<p" + b"/" * DEEP,
        b"</p>" * DEEP,
        b"<svg>" * DEEP,
    ],
)
@pytest.mark.parametrize(
    "content_type", ["text/html", "application/xhtml+xml", "text/xml", "text/plain", ""]
)
def test_repetitions(payload: bytes, content_type: str) -> None:
    parse_in_time(payload, content_type)
    parse_in_time(payload + b"\xff", content_type)


def test_white_space_in_an_unclosed_xhtml_tag() -> None:
    parse_in_time(b"<x" + b" " * 1_000_000, "application/xhtml+xml")


@pytest.mark.parametrize("wrapping", ["description", "title", "entry"])
def test_markup_nested_in_a_feed(wrapping: str) -> None:
    markup = "&lt;div&gt;" * 200_000
    if wrapping == "entry":
        feed = (
            "<feed xmlns='http://www.w3.org/2005/Atom'><entry><title>t</title><content "
            f"type='html'>{markup}</content></entry></feed>"
        )
    else:
        feed = f"<rss><channel><item><{wrapping}>{markup}</{wrapping}></item></channel></rss>"
    started = time.process_time()
    parse_page(feed.encode(), url="http://a.test/", content_type="application/rss+xml")
    read_sitemap(feed.encode(), "http://a.test/", limit=10_000)
    read_form(
        b"<form method=post><input type=password>" + b"<div>" * 200_000,
        "http://a.test/",
        "password",
    )
    assert has_password_field(b"<form><input type=password>" + b"<div>" * 200_000)
    assert time.process_time() - started < 20  # 60 s and more without a limit


def test_only_two_modules_import_the_html_parser() -> None:
    sources = (
        path
        for path in Path(lycosa.__file__).parent.rglob("*.py")
        if "selectolax" in path.read_text()
    )
    assert sorted(path.parts[-2:] for path in sources) == [
        ("config", "fields.py"),  # validates selectors of the configuration
        ("html", "tree.py"),
    ]


@pytest.mark.proves("limits-entities")
def test_entities_of_a_document_are_not_expanded() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><a>before &b;&b;</a>'
    text, faults = parse_in_time(bomb, "text/xml")
    assert "aaaa" not in text
    assert faults == ["xml_entities"]
