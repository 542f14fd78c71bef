"""Pages made to kill or to slow a parser: each gives a page, in time in proportion to its size."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import lycosa
from lycosa.fetch.login import asks_for_password, read_form
from lycosa.page.feeds.sitemap import read_sitemap
from lycosa.page.parse import parse_page

# CPU; the slowest below takes .6 on an idle core, unguarded ones 100 and more
SECONDS_A_MEGABYTE = 6.0
DEEP = 200_000


def parse_in_time(
    payload: bytes, content_type: str = "text/html; charset=utf-8"
) -> tuple[str, list[str]]:
    started = time.process_time()
    page = parse_page(payload, url="http://www.example.org/", content_type=content_type)
    used = time.process_time() - started
    assert used < SECONDS_A_MEGABYTE * max(1.0, len(payload) / 1e6)
    return page.text, page.faults


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
    ],
)
def test_deep_nesting(opening: bytes) -> None:
    text, faults = parse_in_time(opening * DEEP + b"last words")
    assert "last words" in text
    assert "nesting_cut" in faults


def test_nesting_that_is_closed_again() -> None:
    text, faults = parse_in_time(b"<div>" * DEEP + b"deep" + b"</div>" * DEEP + b"<p>after")
    assert (text, faults) == ("deep\nafter", ["nesting_cut"])


def test_formatting_that_each_block_reopens() -> None:
    text, _ = parse_in_time(b"".join(b"<font size=%d><p>x" % number for number in range(50_000)))
    assert text.count("x") == 50_000


@pytest.mark.parametrize("start", [b"<p ", b'<p a="<" ', b'<p a" '])
def test_attributes_without_end(start: bytes) -> None:
    text, faults = parse_in_time(
        start + b" ".join(b"a%d" % number for number in range(DEEP)) + b">text</p><p>more</p>"
    )
    assert text.endswith("more")
    assert "attributes_cut" in faults


def test_a_usual_page_is_not_touched_by_the_guard() -> None:
    rows = b"".join(
        b"<tr><td><a href=/%d>%d</a><br><td><b>x</b>" % (number, number) for number in range(3_000)
    )
    text, faults = parse_in_time(
        b"<html><table>" + rows + b"</table><p class='" + b"word " * 500 + b"'>end"
    )
    assert (faults, text.count("\n")) == ([], 6_000)


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
    assert text.replace("\ufffd", "") == "ab\nc"
    assert faults == []


def test_a_sequence_cut_in_the_middle() -> None:
    text, faults = parse_in_time("<p>слово".encode()[:-1])
    assert (text, faults) == ("слов", ["charset_invalid"])


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


def test_white_space_where_xhtml_may_close_itself() -> None:
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
    assert asks_for_password(b"<form><input type=password>" + b"<div>" * 200_000)
    assert time.process_time() - started < 20  # 60 s and more without a bound


def test_nothing_else_imports_the_html_parser() -> None:
    sources = (
        path
        for path in Path(lycosa.__file__).parent.rglob("*.py")
        if "selectolax" in path.read_text()
    )
    assert [path.parts[-3:] for path in sources] == [("page", "html", "tree.py")]


def test_entities_of_a_document_are_not_expanded() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><a>before &b;&b;</a>'
    text, faults = parse_in_time(bomb, "text/xml")
    assert "aaaa" not in text
    assert faults == ["xml_entities"]
