"""Test metadata of pages: cases by format, limits and hostile input."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.records import Metadata
from lycosa.page.metadata.bounds import MAX_CHARACTERS, MAX_DEPTH, MetadataBudget, clean
from lycosa.page.metadata.entities import type_names
from lycosa.page.metadata.names import author_names
from lycosa.page.metadata.offers import number
from lycosa.page.parse import ParseOptions, parse_page
from tests.page.dates import ms

URL = "https://www.example.org/news/a.html"


def metadata(html: str, *, url: str = URL, fetched_at: int | None = None) -> Metadata:
    return parse_page(
        html.encode("utf-8", "surrogatepass"),
        url=url,
        content_type="text/html; charset=utf-8",
        options=ParseOptions(at_ms=fetched_at),
    ).metadata


def script(value: object) -> str:
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


ARTICLE = {
    "@context": "https://schema.org",
    "@type": "NewsArticle",
    "headline": "A headline",
    "author": [{"@type": "Person", "name": "Jane Doe"}, {"@type": "Person", "name": "John Roe"}],
    "datePublished": "2024-05-13T10:00:00+02:00",
    "dateModified": "2024-05-14",
    "image": {"@type": "ImageObject", "url": "/images/a.jpg"},
    "publisher": {"@type": "Organization", "name": "The Daily"},
    "articleSection": "Science",
    "keywords": "spiders, silk",
    "inLanguage": "en-GB",
    "license": "https://creativecommons.org/licenses/by/4.0/",
}
PRODUCT = {
    "@type": "Product",
    "name": "A chair",
    "brand": {"@type": "Brand", "name": "Sitters"},
    "offers": {
        "@type": "AggregateOffer",
        "lowPrice": "1,299.50",
        "priceCurrency": "eur",
        "availability": "https://schema.org/InStock",
    },
    "aggregateRating": {"ratingValue": "4,5", "reviewCount": 12},
}
OF_ARTICLE: dict[str, Any] = {
    "type": "NewsArticle",
    "headline": "A headline",
    "authors": ["Jane Doe", "John Roe"],
    "published_at": ms(2024, 5, 13, 8),
    "modified_at": ms(2024, 5, 14),
    "image": "https://www.example.org/images/a.jpg",
    "publisher": "The Daily",
    "section": "Science",
    "keywords": ["spiders", "silk"],
    "language": "en",
    "license": "https://creativecommons.org/licenses/by/4.0/",
}
OF_PRODUCT: dict[str, Any] = {
    "type": "Product",
    "headline": "A chair",
    "publisher": "Sitters",
    "price": 1299.5,
    "currency": "EUR",
    "availability": "InStock",
    "rating": 4.5,
    "best_rating": 5.0,
    "rating_count": 12,
}
MICRODATA = """
    <div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">A chair</h1>
    <span itemprop="brand" itemscope itemtype="http://schema.org/Brand">
    <meta itemprop="name" content="Sitters"></span>
    <div itemprop="offers" itemscope itemtype="http://schema.org/Offer">
    <span itemprop="price" content="1299.50">EUR 1,299.50</span>
    <meta itemprop="priceCurrency" content="EUR">
    <link itemprop="availability" href="http://schema.org/InStock"></div>
    <div itemprop="aggregateRating" itemscope><span itemprop="ratingValue">4.5</span>
    <span itemprop="reviewCount">12</span></div></div>
"""
RDFA = """
    <div vocab="http://schema.org/" typeof="Product"><h1 property="name">A chair</h1>
    <span property="brand" typeof="Brand"><span property="name">Sitters</span></span>
    <div property="offers" typeof="Offer"><span property="price" content="1299.50">much</span>
    <meta property="priceCurrency" content="EUR">
    <link property="availability" href="http://schema.org/InStock"></div>
    <div property="aggregateRating" typeof="AggregateRating"><span property="ratingValue">4.5</span>
    <span property="reviewCount">12</span></div></div>
"""


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (script(ARTICLE), OF_ARTICLE),
        (script([ARTICLE]), OF_ARTICLE),
        (script({"@graph": [{"@type": "WebSite", "name": "S"}, ARTICLE]}), OF_ARTICLE),
        (script({"@type": "WebPage", "mainEntity": ARTICLE}), OF_ARTICLE),
        (
            script(
                {
                    "@graph": [
                        ARTICLE | {"author": {"@id": "#j"}},
                        {"@type": "Person", "@id": "#j", "name": "Jane Doe"},
                    ]
                }
            ),
            OF_ARTICLE | {"authors": ["Jane Doe"]},
        ),
        (script({"@type": "schema:NewsArticle", "schema:author": "J. Doe"}), {"authors": ["J. Doe"]}),
        (script({"https://schema.org/headline": "A title", "@type": "https://schema.org/Article"}),
         {"type": "Article", "headline": "A title"}),
        (script(ARTICLE).replace("application/ld+json", "Application/LD+JSON"), OF_ARTICLE),
        (
            script({"@type": "Article", "headline": "Q&amp;A", "author": "M. O&#039;Neil",
                    "description": "&quot;D&quot; &hellip;"}),
            {"headline": "Q&A", "authors": ["M. O'Neil"], "description": '"D" …'},
        ),
        (
            '<script type="application/ld+json">/* x */ {"@type": "Article", // y\n "author": '
            '"Jane Doe",}</script>',
            {"type": "Article", "authors": ["Jane Doe"]},
        ),
        (
            '<script type="application/ld+json"><!-- {"@type": "Article", "url": "http://a//b"} -->'
            "</script>",
            {"type": "Article"},
        ),
        (script(PRODUCT), OF_PRODUCT),
        (MICRODATA, OF_PRODUCT),
        (RDFA, OF_PRODUCT),
        (
            '<meta property="og:type" content="article"><meta property="og:title" content="A title">'
            '<meta property="og:image" content="../b.png"><meta property="og:site_name" content="S">'
            '<meta property="og:locale" content="de_DE"><meta property="og:description" content="D">'
            '<meta property="article:author" content="https://facebook.com/jane">'
            '<meta property="article:author" content="Jane Doe">'
            '<meta property="article:tag" content="one"><meta property="article:tag" content="two">'
            '<meta property="article:section" content="Sport">'
            '<meta property="article:published_time" content="2024-05-13">'
            '<meta property="article:modified_time" content="2024-05-14">',
            {
                "type": "Article",
                "headline": "A title",
                "image": "https://www.example.org/b.png",
                "site_name": "S",
                "language": "de",
                "description": "D",
                "authors": ["Jane Doe"],
                "keywords": ["one", "two"],
                "section": "Sport",
                "published_at": ms(2024, 5, 13),
                "modified_at": ms(2024, 5, 14),
            },
        ),
        (
            '<meta property="og:type" content="product">'
            '<meta property="product:price:amount" content="9,99">'
            '<meta property="product:price:currency" content="USD">'
            '<meta property="product:availability" content="out of stock">',
            {"type": "Product", "price": 9.99, "currency": "USD", "availability": "OutOfStock"},
        ),
        (
            '<meta name="twitter:image" content="//cdn.example.org/i.png">'
            '<meta name="twitter:description" content="D">',
            {"image": "https://cdn.example.org/i.png", "description": "D"},
        ),
        ('<meta name="twitter:title" property="og:title" content="T">', {"headline": "T"}),
        ('<meta name="author" content="By Jane Doe and John Roe">',
         {"authors": ["Jane Doe", "John Roe"]}),
        (
            '<meta name="citation_author" content="Doe, Jane"><meta name="citation_author" '
            'content="John Roe">',
            {"authors": ["Doe, Jane", "John Roe"]},
        ),
        ('<meta name="author" content="admin">', {"authors": []}),
        ('<meta name="keywords" content="a, b,,a">', {"keywords": ["a", "b"]}),
        ("<title>Spiders | Example</title>", {"headline": "Spiders"}),
        ("<title>Spiders of the world - Site</title><h1>Spiders of the world</h1>",
         {"headline": "Spiders of the world"}),
        ("<title>Spiders - Big Site</title><h1>Big Site</h1>", {"headline": "Spiders"}),
        ("<h1>Only a heading</h1>", {"headline": "Only a heading"}),
        (script({"@type": "Product", "offers": [{"price": 5}, {"price": "3.50"}]}), {"price": 3.5}),
        (script({"@type": ["Recipe", "Thing"], "name": "Soup"}), {"type": "Recipe"}),
        (script([{"@type": "BreadcrumbList"}, {"@type": "Organization", "name": "O"}]), {"type": ""}),
        ("<p>Nothing</p>", {"type": "", "authors": [], "published_at": None, "image": ""}),
    ],
)  # fmt: skip
def test_values_of_each_format(html: str, expected: dict[str, Any]) -> None:
    declared = metadata(f"<html><head></head><body>{html}<p>Text.</p></body></html>")
    assert {name: getattr(declared, name) for name in expected} == expected


def test_visible_author_and_date_of_an_article() -> None:
    text = "<p>" + "A sentence of an article, which goes on for a while. " * 20 + "</p>"
    for shown in (
        '<div class="byline">By <a href="/author/jane-doe">Jane Doe</a>, May 13, 2024</div>',
        "<p>By Jane Doe | 13 May 2024</p>",
        '<span class="author">Jane Doe</span> <time datetime="2024-05-13">today</time>',
        '<p><a rel="author" href="/x">Jane Doe</a> on May 13th, 2024</p>',
    ):
        declared = metadata(f"<h1>Spiders</h1>{shown}<article>{text}</article>")
        assert (declared.authors, declared.published_at) == (["Jane Doe"], ms(2024, 5, 13)), shown
    for date in ("发布于2024年5月13日", "2024. május 13.", "13 مايو (أيار) 2024"):
        declared = metadata(f"<h1>Spiders</h1><p>{date}</p><article>{text}</article>")
        assert declared.published_at == ms(2024, 5, 13), date
    dated = metadata(f"<h1>Spiders</h1>{text}", url="https://example.org/2024/05/13/spiders")
    assert dated.published_at == ms(2024, 5, 13)
    others = "<p>Last updated May 13, 2024</p><p>© 2024-05-13 Example</p><p>05/06/2024</p>"
    assert metadata(f"<h1>Spiders</h1>{others}{text}").published_at is None


def test_dates_of_teasers_and_comments_are_not_those_of_an_article() -> None:
    text = "<p>" + "A sentence of an article, which goes on for a while. " * 20 + "</p>"
    time = '<time datetime="2020-01-01">then</time>'
    for other in (
        f"<section class=related><div class=teaser><a href=/b>B</a>{time}</div></section>",
        f"<div id=comments><article class=comment>{time}<p>Yes</p></article></div>",
        f"<aside>{time}</aside>",
    ):
        page = f"<h1>Spiders</h1>{{}}<article>{text}</article>{other}"
        assert metadata(page.format("")).published_at is None, other
        dated = metadata(page.format("<p class=date>13 May 2024</p>"))
        assert dated.published_at == ms(2024, 5, 13), other
        first = metadata(
            f"{other}<article><h1>Spiders</h1>{{}}{text}</article>".format(
                time.replace("2020-01-01", "2024-05-13")
            )
        )
        assert first.published_at == ms(2024, 5, 13), other
    wrapped = f"<div class=comments-open><h1>Spiders</h1>{time}<article>{text}</article></div>"
    assert metadata(wrapped).published_at == ms(2020, 1, 1)


def test_a_description_is_shown_without_escapes() -> None:
    page = parse_page(
        b'<meta name=description content="Q&amp;amp;A: &amp;quot;why&amp;quot;">',
        url=URL,
        content_type="text/html",
    )
    assert page.description == page.metadata.description == 'Q&A: "why"'


def test_dates_are_never_later_than_the_fetch() -> None:
    future = {"@type": "Article", "datePublished": "2030-01-01", "dateModified": "2030-01-01"}
    meta = '<meta name="date" content="2024-05-13">'
    now = ms(2024, 6, 1, 12)
    assert metadata(script(future) + meta).published_at == ms(2030, 1, 1)
    trusted = metadata(script(future) + meta, fetched_at=now)
    assert (trusted.published_at, trusted.modified_at) == (ms(2024, 5, 13), None)
    # A date without a zone may be some hours in the future.
    soon = script({"@type": "Article", "datePublished": "2024-06-01T20:00:00"})
    assert metadata(soon, fetched_at=now).published_at == now


def test_the_main_entity_of_the_page_is_chosen() -> None:
    teasers = [{"@type": "Article", "headline": f"T {n}", "url": f"/{n}"} for n in range(5)]
    assert metadata(script(teasers)).type == ""
    own = ARTICLE | {"mainEntityOfPage": {"@type": "WebPage", "@id": f"{URL}#main"}}
    assert metadata(script([*teasers, own])).authors == ["Jane Doe", "John Roe"]
    listed = {"@type": "CollectionPage", "name": "All"}
    assert metadata(script([*teasers, listed])).type == "CollectionPage"


def test_raw_values_by_format() -> None:
    html = (
        '<meta property="og:image" content="a"><meta property="og:image" content="b">'
        '<meta name="twitter:card" content="summary"><meta name="generator" content="G">'
        + script({"@type": "Article", "x": [1, None, True, 2.5]})
        + MICRODATA
        + RDFA
    )
    raw = json.loads(metadata(html).raw)
    assert raw["opengraph"] == {"og:image": ["a", "b"], "pricecurrency": ["EUR"]}
    assert raw["twitter"] == {"twitter:card": ["summary"]}
    assert raw["meta"] == {"generator": ["G"]}
    assert raw["json-ld"] == [{"@type": "Article", "x": [1, True, 2.5]}]
    [item] = raw["microdata"]
    assert item["@type"] == "https://schema.org/Product"
    assert item["offers"]["availability"] == "http://schema.org/InStock"
    assert raw["rdfa"][0]["brand"] == {"@type": "http://schema.org/Brand", "name": "Sitters"}


def test_microdata_of_referenced_elements() -> None:
    html = (
        '<div itemscope itemtype="http://schema.org/Product" itemref="n o"></div>'
        '<p id="n"><b itemprop="name">A chair</b></p><i id="o" itemprop="sku">7</i>'
    )
    assert json.loads(metadata(html).raw)["microdata"] == [
        {"@type": "http://schema.org/Product", "name": "A chair", "sku": "7"}
    ]
    # Cyclic references end.
    loop = '<div id="a" itemscope itemprop="x" itemref="b"></div><p id="b" itemscope itemprop="y" itemref="a c">'
    metadata(
        f'{loop}</p><p itemscope itemref="a"></p><p id="c" itemscope itemref="c" itemprop=z></p>'
    )


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


HOSTILE = {
    "deep JSON": f'<script type="application/ld+json">{_nested(200_000)}</script>',
    "deep objects": '<script type="application/ld+json">' + '{"a":' * 50_000 + "1" + "}" * 50_000,
    "open strings": '<script type="application/ld+json">' + '\\"' * 200_000 + "</script>",
    "open escapes": '<script type="application/ld+json">{' + '"\\' * 200_000 + "</script>",
    "open comments": '<script type="application/ld+json">' + "/*" * 200_000 + "</script>",
    "large number": '<script type="application/ld+json">{"@type":"Product","price":'
    + "9" * 10_000
    + "}</script>",
    "infinite": '<script type="application/ld+json">{"@type":"Product","offers":{"price":1e999}}',
    "scripts": script({"@type": "Article"}) * 5_000,
    "entities": script([{"@type": "Article", "author": {"name": "x"}}] * 20_000),
    "nested graph": script({"@type": "A", "@graph": [{"@type": "B", "@graph": [{"@type": "C"}] * 50}] * 50}),
    "items": '<div itemscope itemprop="a">' * 20_000 + "text",
    "properties": "<div itemscope>" + '<b itemprop="a">x' * 20_000,
    "references": '<p id="a" itemscope itemref="a b" itemprop="a">' * 5_000,
    "typeof": '<div typeof="A" property="b" vocab="v">' * 20_000,
    "names": '<div class="author">' * 20_000 + "x" * 100_000,
    "metas": '<meta property="og:title" content="x">' * 50_000,
    "title": "<title>" + " | " * 100_000 + "</title><h1>" + "- " * 100_000,
    "dates": "<h1>h</h1>" + "<p>1 jan 1 jan 1 jan 2020-1-1 </p>" * 10_000,
    "long date": "<meta name=date content='" + "1" * 100_000 + "'>",
    "spaces": '<script type="application/ld+json">-->' + " " * 300_000 + "x</script>",
    "surrogates": script({"@type": "Article", "headline": b"\\ud800".decode("unicode_escape")}),
    "wrong types": script({"@type": {"a": 1}, "author": 5, "image": [[[]]], "offers": "x"}),
    "numbers": script({"@type": "Product", "offers": {"price": "1" * 500}, "aggregateRating": [7]}),
    "empty": "",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_read_in_bounded_time(name: str) -> None:
    start = time.process_time()
    declared = metadata(HOSTILE[name], fetched_at=ms(2026, 1, 1))
    assert time.process_time() - start < 10
    require_bounded(declared)


def require_bounded(declared: Metadata) -> None:
    """Assert the limits of the tables. No text has control characters."""
    raw = json.loads(declared.raw) if declared.raw else {}
    assert len(declared.raw) < 10 * MAX_CHARACTERS
    assert _depth(raw) <= MAX_DEPTH + 2
    texts = [
        value
        for name in Metadata.__dataclass_fields__
        if isinstance(value := getattr(declared, name), str)
    ]
    for text in (*texts, *declared.authors, *declared.keywords):
        text.encode()
        if text is not declared.raw:
            assert len(text) <= 5_000
            assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in text)
    for moment in (declared.published_at, declared.modified_at, declared.rating_count):
        assert moment is None or abs(moment) < 2**53
    for amount in (declared.price, declared.rating, declared.best_rating):
        assert amount is None or 0 <= amount < 1e15


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["@type", "@id", "@graph", "name", "author", "image", "offers", "price", "datePublished",
             "aggregateRating", "ratingValue", "keywords", "mainEntity", "publisher", "inLanguage"]
        ),
        inner | st.sampled_from(["Article", "Product", "WebPage", "2024-01-01", "#a"]),
        max_size=6,
    ),
    max_leaves=25,
)  # fmt: skip


@given(JSON)
def test_any_json_ld_gives_bounded_and_equal_metadata(value: Any) -> None:
    once = metadata(script(value).replace("</", "<\\/", script(value).count("</") - 1))
    require_bounded(once)
    assert once == metadata(script(value).replace("</", "<\\/", script(value).count("</") - 1))


@given(st.text(max_size=200))
def test_cleaning_is_idempotent(text: str) -> None:
    once = clean(text, 50)
    assert clean(once, 50) == once
    assert len(once) <= 50
    names = author_names([text], 5)
    assert author_names(names, 5) == names or len(names) <= 5


def test_a_budget_is_never_exceeded() -> None:
    values = MetadataBudget().value({f"k{n}": ["x" * 5_000] * 10 for n in range(1_000)})
    assert sum(len(text) for texts in values.values() for text in texts) <= MAX_CHARACTERS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,299.00", 1299.0),
        ("1.299,00 €", 1299.0),
        ("1 299,5", 1299.5),
        ("1,299", 1299.0),
        ("9,99", 9.99),
        ("4.5", 4.5),
        ("12.345", 12.345),
        ("1.234.567", 1234567.0),
        ("$ 5", 5.0),
        ("free", None),
        ("", None),
        ("1e5", 1.0),
    ],
)
def test_numbers(text: str, expected: float | None) -> None:
    assert number(text) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["by Jane Doe"], ["Jane Doe"]),
        (["Jane Doe, John Roe & Ann Poe"], ["Jane Doe", "John Roe", "Ann Poe"]),
        (["Jane Doe, PhD"], ["Jane Doe"]),
        (["von der Leyen"], ["von der Leyen"]),
        (["Von: Erika Muster"], ["Erika Muster"]),
        (["https://example.org/jane", "jane@example.org"], []),
        (["Jane Doe", "jane doe"], ["Jane Doe"]),
        (["Admin", "", "12", "x" * 500], []),
        (["作者：山田太郎"], ["山田太郎"]),
        (["بقلم أحمد حسن"], ["أحمد حسن"]),
        (["نویسنده: علی رضایی", "Tác giả: Nguyễn Văn An"], ["علی رضایی", "Nguyễn Văn An"]),
        (["Autorin: Erika Muster"], ["Erika Muster"]),
        (["a\x1b[31mb"], ["a [31mb"]),
    ],
)
def test_author_names(values: list[str], expected: list[str]) -> None:
    assert author_names(values, 10) == expected


@pytest.mark.parametrize(
    ("language", "byline", "expected"),
    [
        ("de", "Von Anna Müller", ["Anna Müller"]),
        ("de-AT", "Von Anna Müller und Peter von der Heide, Wien", ["Anna Müller", "Peter von der Heide"]),
        ("de", "Von Haus aus ein Problem", []),
        ("de", "von der Leyen", []),
        ("fr", "Par Élodie Lefèvre | 27 novembre 2026", ["Élodie Lefèvre"]),
        ("es", "Por José García", ["José García"]),
        ("zh", "<b class=author>本报记者 王小明</b>", ["王小明"]),
        ("zh-TW", "<b class=author>記者王小明／台北報導</b>", ["王小明"]),
        ("ko", "<b class=author>김민수 기자</b>", ["김민수"]),
        ("ja", "<b class=author>山田太郎 記者</b>", ["山田太郎"]),
        ("de", "<b class=author>von der Leyen</b>", ["von der Leyen"]),
        ("en", "<b class=author>Von Miller</b>", ["Von Miller"]),
    ],
)  # fmt: skip
def test_bylines_in_the_language_of_the_page(
    language: str, byline: str, expected: list[str]
) -> None:
    text = "<p>" + "A sentence of an article, which goes on for a while. " * 20 + "</p>"
    page = f"<html lang={language}><h1>Spiders</h1><p>{byline}</p><article>{text}</article>"
    assert metadata(page).authors == expected


@pytest.mark.parametrize(
    ("declared", "page_type", "expected"),
    [
        ("NewsArticle", "service", ["article", "newsarticle"]),
        ("Product", "listing", ["product"]),
        ("QAPage", "forum", ["forum", "qapage"]),
        ("Recipe", "article", ["article", "recipe"]),
        ("", "listing", ["listing"]),
        ("", "", []),
    ],
)
def test_names_of_types(declared: str, page_type: str, expected: list[str]) -> None:
    assert type_names(declared, page_type) == expected
