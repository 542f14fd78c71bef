"""parse_page: what it makes of a page, and that no bytes stop it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.page.parse import parse_page, understands

URL = "http://www.example.org/dir/page.html"


def test_a_page_is_understood() -> None:
    page = parse_page(
        b"""<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title> A
        title </title><meta name=description content="What it is">
        <link rel=canonical href=/canonical><link rel=alternate hreflang=de href=de.html></head>
        <body><h1>Head<br>line</h1><p>One <b>bold</b>  word.<p>Two<br>lines<script>no</script>
        <a href="next.html">Next page</a></body></html>""",
        url=URL,
        content_type="text/html",
    )
    assert (page.title, page.headline, page.description) == ("A title", "Head line", "What it is")
    assert page.text == "Head\nline\nOne bold word.\nTwo\nlines Next page"
    assert page.canonical == "http://www.example.org/canonical"
    assert [tuple(item) for item in page.alternates] == [
        ("de", "http://www.example.org/dir/de.html")
    ]
    assert [(link.target, link.anchor, link.kind) for link in page.links] == [
        ("http://www.example.org/canonical", "", "canonical"),
        ("http://www.example.org/dir/de.html", "", "alternate"),
        ("http://www.example.org/dir/next.html", "Next page", "a"),
    ]


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
    understands(content_type, payload)
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
        ("application/pdf", b"%PDF-1.4", False),
    ],
)
def test_understands(content_type: str, payload: bytes, expected: bool) -> None:
    assert understands(content_type, payload) is expected


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One<p>Two", "One\nTwo"),
        ("<p>a<b>b</b>c <i>d</i>\n\te", "abc d e"),
        ("<a href=x>one</a> <a href=y>two</a>", "one two"),
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


def test_the_title_of_a_page_without_one() -> None:
    page = parse_page(
        b"<html><meta property=og:title content='Shared title'><p>x",
        url=URL,
        content_type="text/html",
    )
    assert (page.title, page.headline) == ("Shared title", "Shared title")
