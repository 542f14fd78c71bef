"""Directives for robots, and dates of publication."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.page.dates import parse_date
from lycosa.page.parse import Fetch, parse_page


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("Wed, 02 Oct 2002 08:00:00 EST", "2002-10-02T13:00"),
        ("Wed, 02 Oct 2002 08:00:00 PDT", "2002-10-02T15:00"),
        ("Wed, 02 Oct 2002 08:00:00 CEST", "2002-10-02T06:00"),
        ("Wed, 02 Oct 2002 08:00:00 Z", "2002-10-02T08:00"),
        ("02 Oct 02 15:00:00 GMT", "2002-10-02T15:00"),
        ("Mon, 5 Jan 99 10:00 +0100", "1999-01-05T09:00"),
        ("Mon, 5 Jan 49 10:00 UT", "2049-01-05T10:00"),
    ],
)
def test_zones_and_years_of_rfc_822(text: str, utc: str) -> None:
    parsed = parse_date(text)
    assert parsed is not None
    assert datetime.fromtimestamp(parsed / 1000, UTC).isoformat().startswith(utc)


URL = "http://www.example.org/"


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
        f"<html>{html}<p>text".encode(), url=URL, content_type="text/html", x_robots_tag=headers
    )
    assert (page.may_index, page.may_follow) == (may_index, may_follow)


def test_the_product_token_is_the_callers() -> None:
    html = b"<html><meta name=otherspider content=noindex>"
    assert not parse_page(
        html, url=URL, content_type="text/html", fetch=Fetch("OtherSpider")
    ).may_index


def _ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2019-11-19", _ms(2019, 11, 19)),
        ("2019-11-19T08:30:15Z", _ms(2019, 11, 19, 8, 30, 15)),
        ("2019-11-19T08:30:15.123+02:00", _ms(2019, 11, 19, 6, 30, 15)),
        ("2019-11-19 08:30 -0530", _ms(2019, 11, 19, 14, 0)),
        ("20191119T083015Z", _ms(2019, 11, 19, 8, 30, 15)),
        ("2019/1/9 8:05", _ms(2019, 1, 9, 8, 5)),
        ("Tue, 19 Nov 2019 08:30:15 GMT", _ms(2019, 11, 19, 8, 30, 15)),
        ("Tue, 19 Nov 2019 08:30:15 +0100", _ms(2019, 11, 19, 7, 30, 15)),
        ("19 November 2019", _ms(2019, 11, 19)),
        ("November 19, 2019", _ms(2019, 11, 19)),
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


@given(st.text(alphabet="0123456789-/.:TZ+ abcdefgJanNov,", max_size=40))
def test_no_text_is_a_date_outside_the_bounds(text: str) -> None:
    moment = parse_date(text)
    assert moment is None or _ms(1989, 12, 30) <= moment <= _ms(2101, 1, 2)


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
        f"<html>{html}<p>text".encode(), url=URL, content_type="text/html"
    ).published_at == _ms(2019, 11, 19)


def test_a_time_outside_an_article_is_not_the_pages() -> None:
    assert (
        parse_page(
            b"<html><time datetime=2019-11-19>x</time>", url=URL, content_type="text/html"
        ).published_at
        is None
    )
