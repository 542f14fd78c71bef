"""Presentation of results: links, dates, titles, facets and page numbers."""

from __future__ import annotations

import unicodedata
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.search.engine.searcher import Hit, SearchResults
from lycosa.search.suggest.spelling import Spelling
from lycosa.serve.search.pages import languages_offered
from lycosa.serve.search.views import (
    PageQuery,
    facet_views,
    iso_day,
    joined,
    page_links,
    readable_url,
    result_view,
    web_href,
)
from lycosa.serve.web.i18n import direction, interface, language_name
from lycosa.serve.web.rendering import TEMPLATES
from tests.serve.pages import SEARCH_SCRIPTS, Document

NOON = 1_772_539_200_000  # 2026-03-03T12:00:00Z


def hit(
    url: str = "https://a.example/",
    title: str = "Title",
    language: str = "en",
    published_at: int | None = None,
) -> Hit:
    return Hit(
        url,
        title,
        [("some ", False), ("words", True)],
        language,
        "a.example",
        "default",
        NOON,
        published_at,
        1.0,
    )


def test_facets_that_filter_the_search_are_links() -> None:
    facets = {
        "language": {"en": 4, "de": 2},
        "host": {"a.example": 6},
        "type": {"html": 5, "pdf": 1},
        "date": {"earlier": 3, "2024": 1, "2026": 2},
        "collection": {},
    }
    views = facet_views(facets, PageQuery("wolf spider", sort="date"))
    assert [(view.label, view.values) for view in views] == [
        (
            "Language",
            [
                ("English", 4, "/?q=wolf+spider&lang=en&sort=date"),
                ("Deutsch", 2, "/?q=wolf+spider&lang=de&sort=date"),
            ],
        ),
        (
            "Type",
            [
                ("html", 5, "/?q=wolf+spider+filetype%3Ahtml&sort=date"),
                ("pdf", 1, "/?q=wolf+spider+filetype%3Apdf&sort=date"),
            ],
        ),
        (
            "Year",
            [
                ("2026", 2, "/?q=wolf+spider+after%3A2026+before%3A2027&sort=date"),
                ("2024", 1, "/?q=wolf+spider+after%3A2024+before%3A2025&sort=date"),
            ],
        ),
    ]


@pytest.mark.proves("access-escaping")
@pytest.mark.parametrize(
    ("url", "href"),
    [
        ("https://a.example/x", "https://a.example/x"),
        ("HTTP://a.example/", "HTTP://a.example/"),
        ("javascript:alert(1)", None),
        ("JavaScript://a.example/%0aalert(1)", None),
        (" http://a.example/", None),
        ("data:text/html,<script>", None),
        ("//a.example/", None),
        ("httpx://a.example/", None),
        ("", None),
    ],
)
def test_only_web_addresses_become_links(url: str, href: str | None) -> None:
    assert web_href(url) == href


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/%E8%8C%B6", "https://a.example/茶"),
        ("https://a.example/caf%C3%A9?q=%D0%BC", "https://a.example/café?q=м"),
        ("https://a.example/a%20b", "https://a.example/a%20b"),
        ("https://a.example/%2e%2F", "https://a.example/%2e%2F"),
        # right-to-left override
        ("https://a.example/%E2%80%AEgnp", "https://a.example/%E2%80%AEgnp"),
        ("https://a.example/%C2%A0x", "https://a.example/%C2%A0x"),  # no-break space
        ("https://a.example/%FF%FE", "https://a.example/%FF%FE"),
        ("https://a.example/%E8%8C", "https://a.example/%E8%8C"),
        ("https://a.example/100%", "https://a.example/100%"),
    ],
)
def test_readable_url_decodes_printable_characters(url: str, shown: str) -> None:
    assert readable_url(url) == shown


@given(st.text(max_size=30))
def test_readable_url_keeps_invisible_characters_encoded(text: str) -> None:
    shown = readable_url("https://a.example/" + quote(text, errors="replace"))
    assert unquote(shown) == unquote("https://a.example/" + quote(text, errors="replace"))
    assert not any(
        unicodedata.category(character) in ("Cc", "Cf", "Zs", "Zl", "Zp", "Cs")
        for character in shown
    )


@pytest.mark.parametrize(
    ("at_ms", "shown"),
    [
        (NOON, ("2026-03-03", "3 March 2026")),
        (0, ("1970-01-01", "1 January 1970")),
        (10**18, ("", "")),
        (-(10**18), ("", "")),
    ],
)
def test_formatted_day(at_ms: int, shown: tuple[str, str]) -> None:
    assert (iso_day(at_ms), interface("en").day(at_ms)) == shown


@given(st.text(max_size=40), st.text(max_size=8), st.text(max_size=20))
def test_address_of_a_query_contains_its_parameters(query: str, language: str, site: str) -> None:
    values = parse_qs(
        urlsplit(PageQuery(query, language, site).address(page=3)).query, keep_blank_values=True
    )
    expected = {
        name: [value]
        for name, value in {"q": query, "lang": language, "site": site, "page": "3"}.items()
        if value
    }
    assert values == expected


@pytest.mark.parametrize(
    ("total", "page", "numbers"),
    [
        (0, 1, []),
        (10, 1, []),
        (11, 1, [1, 2]),
        (11, 2, [1, 2]),
        (500, 1, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (500, 20, [16, 17, 18, 19, 20, 21, 22, 23, 24]),
        (500, 50, [42, 43, 44, 45, 46, 47, 48, 49, 50]),
        (10**9, 100, [92, 93, 94, 95, 96, 97, 98, 99, 100]),
    ],
)
def test_numbers_of_page_links(total: int, page: int, numbers: list[int]) -> None:
    links = page_links(total, page, PageQuery("x"), last_page=100)
    assert [link.number for link in links] == numbers
    assert [link.number for link in links if link.current] == ([page] if numbers else [])


def test_publication_date_takes_precedence_over_fetch_date() -> None:
    view = result_view(hit(), PageQuery("x"))
    assert (view.published, view.date) == (False, "2026-03-03")
    view = result_view(hit(published_at=0), PageQuery("x"))
    assert (view.published, view.date) == (True, "1970-01-01")


def test_url_replaces_a_missing_title() -> None:
    assert result_view(hit("https://a.example/%E8%8C%B6", title="  "), PageQuery("x")).title == [
        ("https://a.example/茶", False)
    ]


def test_similar_pages_are_offered_if_the_url_fits_a_query() -> None:
    views = [result_view(hit(f"https://a.example/{'a' * n}"), PageQuery("x")) for n in (9, 2000)]
    assert [bool(view.similar) for view in views] == [True, False]


def test_adjacent_matches_are_joined() -> None:
    assert joined([("喝", False), ("龙井", True), ("茶", True), ("，", False)]) == [
        ("喝", False),
        ("龙井茶", True),
        ("，", False),
    ]
    assert joined([]) == []


def test_direction_and_name_of_languages() -> None:
    assert [direction(code) for code in ("ar", "fa", "he", "en", "zh", "")] == [
        "rtl",
        "rtl",
        "rtl",
        "ltr",
        "ltr",
        "auto",
    ]
    assert (language_name("zh"), language_name("tlh")) == ("中文", "tlh")


def test_offered_languages_are_those_of_the_index_and_the_selected_one() -> None:
    assert languages_offered({"en": 2, "zh": 1300, "": 5}, "fr") == [
        ("zh", "中文 (1,300)"),
        ("en", "English (2)"),
        ("fr", "Français"),
    ]
    assert languages_offered({"zh": 13000}, "", interface("es").number) == [("zh", "中文 (13.000)")]


@pytest.mark.proves("access-escaping")
@given(
    st.text(),
    st.text(),
    st.lists(st.tuples(st.text(), st.booleans())),
    st.text(max_size=12),
    st.text(),
)
def test_any_text_is_escaped_in_the_page(
    url: str, title: str, snippet: list[tuple[str, bool]], language: str, query: str
) -> None:
    evil = '</p><script src="x"></script><img onerror=y>"\'>'
    evil_hit = Hit(
        url + evil,
        title + evil,
        [*snippet, (evil, True)],
        language + evil,
        evil,
        evil,
        NOON,
        None,
        1.0,
        [(evil, True)],
    )
    filters = PageQuery(query + evil, language + evil, evil, evil)
    results = SearchResults(
        query, 1, [evil_hit], 1.0, 0, 1, [evil], did_you_mean=Spelling(query + evil, 1)
    )
    for html in (
        TEMPLATES.get_template("results.html").render(
            filters=filters,
            languages=languages_offered({evil: 1}, evil),
            results=results,
            facets=facet_views({"host": {evil: 1, "b": 1}}, filters),
            views=[result_view(each, filters) for each in results.hits],
            page=1,
            pages=[],
            last_page=1,
            own="",
            translations=[],
        ),
        TEMPLATES.get_template("start.html").render(
            filters=filters, languages=languages_offered({evil: 1}, evil)
        ),
        TEMPLATES.get_template("error.html").render(status=400, title=evil, detail=evil),
    ):
        page = Document(html)
        assert all(script in SEARCH_SCRIPTS for script in page.all("script"))
        assert page.all("img") == []
        assert {
            href
            for link in page.all("a")
            if not (href := link["href"]).startswith(("/", "#", "http://", "https://"))
        } == set()
