"""Lexical trap rules: URLs that are refused, and ordinary URLs."""

from __future__ import annotations

import gzip
import os
import re
from datetime import date
from html import unescape
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import UrlError
from lycosa.url.normalise import normalise
from lycosa.url.traps import (
    MAX_PARAMETERS,
    MAX_SAME_NAME,
    MAX_SEGMENTS,
    TrapRule,
    explain,
    query_signature,
    trap,
    without_session,
)
from tests.servers.sites import require_sites
from tests.url.strategies import absolute

TODAY = date(2026, 11, 21)
HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
ARTICLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "article-extraction" / "html"

TRAPS = [
    ("http://h/news/news/news/", TrapRule.REPEATED_SEGMENTS),
    ("http://h/news/x/news/y/news", TrapRule.REPEATED_SEGMENTS),
    ("http://h/about/team/about/team/", TrapRule.REPEATED_SEGMENTS),
    ("http://h/en/about/team/new/about/team/new/x", TrapRule.REPEATED_SEGMENTS),
    ("http://h/a/b/a/b/a/b/", TrapRule.REPEATED_SEGMENTS),
    ("http://h/1/1/1/1/1/1/", TrapRule.REPEATED_SEGMENTS),
    ("http://h/a///////b", TrapRule.REPEATED_SEGMENTS),
    ("http://h/a.html/b.php/c.html", TrapRule.RELATIVE_LOOP),
    ("http://www.h.org/www.h.org/www.h.org/x", TrapRule.RELATIVE_LOOP),
    ("http://h/p/http://a/http://b/http://c", TrapRule.REPEATED_SEGMENTS),
    ("http://h/?a=1?a=2?b=3?c=4", TrapRule.RELATIVE_LOOP),
    ("http://h/" + "/".join(f"s{n}" for n in range(MAX_SEGMENTS + 1)), TrapRule.MANY_SEGMENTS),
    ("http://h/a;jsessionid=" + HEX, TrapRule.SESSION_ID),
    ("http://h/a;jsessionid=" + HEX + "/b?c=1", TrapRule.SESSION_ID),
    ("http://h/sid-0a1b2c3d4e5f6071/a", TrapRule.SESSION_ID),
    ("http://h/x/session=0a1b2c3d4e5f60718293", TrapRule.SESSION_ID),
    ("http://h/(S(rm3nfyiwlmd2so45f1v4qkjt))/a.aspx", TrapRule.SESSION_ID),
    ("http://h/?a=1&PHPSESSID=" + HEX, TrapRule.SESSION_ID),
    ("http://h/?sid=" + HEX, TrapRule.SESSION_ID),
    (
        "http://h/?" + "&".join(f"a{n}=1" for n in range(MAX_PARAMETERS + 1)),
        TrapRule.MANY_PARAMETERS,
    ),
    ("http://h/?l=en&l=en&l=en", TrapRule.REPEATED_PARAMETER),
    (
        "http://h/?" + "&".join(f"tag={n}" for n in range(MAX_SAME_NAME + 1)),
        TrapRule.REPEATED_PARAMETER,
    ),
    ("http://h/?a=%25252525252F", TrapRule.ESCAPE_LOOP),
    ("http://h/?a=1&amp;amp;amp;b=2", TrapRule.ESCAPE_LOOP),
    ("http://h/events/2031/05/", TrapRule.CALENDAR),
    ("http://h/calendar/2028-12/list", TrapRule.CALENDAR),
    ("http://h/x/2031/05/12", TrapRule.CALENDAR),
    ("http://h/x/2931-05-12/week", TrapRule.CALENDAR),
    ("http://h/archive/1959/11", TrapRule.CALENDAR),
    ("http://h/x/1889/11/05/", TrapRule.CALENDAR),
    ("http://h/?date=2031-05-12", TrapRule.CALENDAR),
    ("http://h/?month=2031-05", TrapRule.CALENDAR),
    ("http://h/?date=20310512&view=day", TrapRule.CALENDAR),
    ("http://h/?view=m&tx_cal_date=19310512", TrapRule.CALENDAR),
    ("http://h/?year=2031&month=5", TrapRule.CALENDAR),
    ("http://h/?m=12&y=1989", TrapRule.CALENDAR),
    ("http://h/?time=2031-05-12T10:00", TrapRule.CALENDAR),
]

ORDINARY = [
    "http://h",
    "http://h/",
    "http://h/a/b/c.html",
    "http://h/2011/11/11/11/",
    "http://h/pool/main/a/a/aa_1.deb",
    "http://h/news/x/news/",
    "http://h/en/docs/en/",
    "http://h/ab/cd/ab/cd/abcd",
    "http://h/1/2/1/2",
    "http://h/cgi-bin/cvs.cgi/src/index.html",
    "http://h/web/2020/https://www.example.org/a/b",
    "http://h/click/type/dlg/" + "x/" * 4 + "https://e/" + "/".join(f"s{n}" for n in range(14)),
    "http://h/?u=http://x/?a=1",
    "http://h/?sid=3",
    "http://h/sid-12/session-beef/site-0a1b2c3d4e5f6071",
    "http://h/?commit=" + HEX,
    "http://h/" + HEX + "/a",
    "http://h/?" + "&".join(f"a{n}=1" for n in range(MAX_PARAMETERS)),
    "http://h/?tag=a&tag=b&tag=c",
    "http://h/?&&&&&&",
    "http://h/?a=50%2525",
    "http://h/events/2028/11/",
    "http://h/events/2026/12/24/",
    "http://h/1969/07/21/archives/men-walk-on-moon.html",
    "http://h/topic/1950/12/",
    "http://h/topic/2150/12",
    "http://h/events/2031/5/",
    "http://h/2031/13/01/",
    "http://h/?year=1956",
    "http://h/?year=2045&unit=t",
    "http://h/?id=20310512",
    "http://h/?month=12&page=2031",
    "http://h/?from=1990-01-01&to=2026-11-21",
    "http://h/2024/05/12/world/story-about-2050.html",
]


@pytest.mark.parametrize(("url", "rule"), TRAPS)
def test_trap_urls(url: str, rule: TrapRule) -> None:
    assert normalise(url) == url
    assert trap(url, TODAY) is rule


@pytest.mark.parametrize("url", ORDINARY)
def test_ordinary_urls(url: str) -> None:
    assert trap(normalise(url), TODAY) == ""


def test_every_rule_is_explained_and_tested() -> None:
    assert {rule for _, rule in TRAPS} == set(TrapRule) - {TrapRule.QUERY_PERMUTATION}
    assert len({explain(rule) for rule in TrapRule}) == len(TrapRule)


def test_calendar_limits_depend_on_date() -> None:
    assert trap("http://h/events/2031/05/", date(2030, 1, 1)) == ""


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"http://h/a;jsessionid={HEX}?b=1&sid={HEX}", "http://h/a?b=1"),
        ("http://h/sid-0a1b2c3d4e5f6071/a/?b=1", "http://h/a/?b=1"),
        ("http://h/sid-0a1b2c3d4e5f6071?b=1", "http://h/?b=1"),
        ("http://h", "http://h"),
        ("http://h/a?b=1", "http://h/a?b=1"),
    ],
)
def test_without_session(url: str, expected: str) -> None:
    assert without_session(url) == expected


def test_signature_is_independent_of_parameter_order() -> None:
    orders = ["http://h/a?" + "&".join(order) for order in permutations(("b=1", "c=2", "d="))]
    assert len({query_signature(url) for url in orders}) == 1
    others = [
        "http://h/a?b=1&c=2&d=3",
        "http://h/a?b=2&c=1&d=",
        "http://h/b?b=1&c=2&d=",
        "http://h/a?b=1&c=2",
    ]
    assert len({query_signature(url) for url in [orders[0], *others]}) == 5
    assert query_signature("http://h/a?b=1&b=2") != query_signature("http://h/a?b=2&b=1")
    for single in (
        "http://h/a",
        "http://h/a?",
        "http://h/a?b=1",
        "http://h/a?b&c",
        "http://h/a?c&b=1",
        "http://h/a?b=1&",
    ):
        assert query_signature(single) == 0, single


@given(absolute | st.text("/?&=;.-0129ahmpt()%:", max_size=80).map("http://h/".__add__))
def test_trap_rules_never_raise(url: str) -> None:
    try:
        url = normalise(url)
    except UrlError:
        return
    trap(url, TODAY)
    query_signature(url)


def test_no_page_of_real_sites_is_a_trap() -> None:
    urls = [
        normalise(f"http://{site.name}/{(Path(folder) / name).relative_to(site.root)}")
        for site in require_sites()
        for folder, _, files in os.walk(site.root, followlinks=True)
        for name in ("", *files)
    ]
    assert len(urls) > 6_000
    assert [url for url in urls if trap(url, TODAY)] == []


def test_no_link_of_real_articles_is_a_trap() -> None:
    if not ARTICLES.is_dir():
        pytest.skip(f"{ARTICLES} is absent")
    urls: set[str] = set()
    for file in sorted(ARTICLES.glob("*.html.gz")):
        page = gzip.decompress(file.read_bytes()).decode(errors="replace")
        for href in re.findall(r"<a [^>]*href=[\"'](https?:[^\"'<>]+)", page):
            try:
                urls.add(normalise(unescape(href)))
            except UrlError:
                continue
    assert len(urls) > 5_000
    assert [url for url in urls if trap(url, TODAY)] == []
