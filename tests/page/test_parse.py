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
    assert page.title == "A title"
    assert page.headline == "Head line"
    assert page.description == "What it is"
    assert page.text == "Head\nline\nOne bold word.\nTwo\nlines Next page"
    assert page.canonical == "http://www.example.org/canonical"
    assert [tuple(item) for item in page.alternates] == [("de", "http://www.example.org/dir/de.html")]
    assert [(link.target, link.anchor, link.kind) for link in page.links] == [
        ("http://www.example.org/canonical", "", "canonical"),
        ("http://www.example.org/dir/de.html", "", "alternate"),
        ("http://www.example.org/dir/next.html", "Next page", "a"),
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=300),
    st.sampled_from(["", "text/html", "text/plain", "application/xml", "application/xhtml+xml", "text/html;charset=big5"]),
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
