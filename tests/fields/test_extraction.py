"""Test items of pages: selectors, types, problems and hostile pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.records import ItemProblem
from lycosa.fields.extraction import MAX_ITEMS, MAX_TEXT, MISSING
from tests.fields.pages import field_value, items, shop, values

SHOP = """
<html lang="de"><base href="/b/"><title>Shop</title>
<article data-id="7"><h3><a href="x.html#f" title="Full title">Full t…</a></h3>
<i class="in"></i><a class="tag">a</a><a class="tag"> b </a><p class="price">1.299</p>
<div><p>One <b>t</b>wo</p><p>three<!-- c --><script>f()</script></p></div>
<ul class="offer"><b class="p">5,50</b><b class="s">S</b></ul>
<ul class="offer"><b class="p">ask</b></ul></article>
<article data-id="x"><h3></h3></article>
"""
CSS = """
[[collection.items]]
name = "book"
css = "article"
[collection.items.fields]
title = { css = "h3 a", attribute = "title", required = true }
link = { css = "h3 a", type = "url" }
id = { attribute = "data-id", type = "integer" }
price = { css = ".price", type = "number" }
in_stock = { css = ".in", type = "boolean" }
tags = { css = "a.tag", list = true }
body = "div"
offers = { css = ".offer", list = true, fields = { p = { css = ".p", type = "number" }, s = ".s" } }
"""
XPATH = """
[[collection.items]]
name = "book"
xpath = "//article"
[collection.items.fields]
title = { xpath = "h3/a/@title", required = true }
link = { xpath = "h3/a", type = "url" }
id = { xpath = "@data-id", type = "integer" }
price = { xpath = ".//*[@class='price']/text()", type = "number" }
in_stock = { xpath = ".//i[re:test(@class, '^in$')]", type = "boolean" }
tags = { xpath = ".//a[@class='tag']", list = true }
body = { xpath = "div" }
[collection.items.fields.offers]
xpath = ".//*[@class='offer']"
list = true
[collection.items.fields.offers.fields]
p = { xpath = ".//*[@class='p']", type = "number" }
s = { xpath = ".//*[@class='s']" }
"""


@pytest.mark.parametrize("schema", [CSS, XPATH], ids=["css", "xpath"])
def test_css_and_xpath_schemas_give_the_same_items(schema: str) -> None:
    first, second = items(shop(schema), SHOP)
    assert json.loads(first.values) == {
        "title": "Full title",
        "link": "http://shop.test/b/x.html",
        "id": 7,
        "price": 1299.0,
        "in_stock": True,
        "tags": ["a", "b"],
        "body": "One two three",
        "offers": [{"p": 5.5, "s": "S"}, {"p": None, "s": None}],
    }
    assert (first.valid, first.missing, first.position) == (True, (), 0)
    [problem] = first.problems
    assert (problem.field, problem.value, problem.problem) == ("offers.p", "ask", "not a number")
    assert json.loads(second.values)["in_stock"] is False
    assert (second.valid, second.position) == (False, 1)
    assert second.missing == ("title", "link", "price", "tags", "body", "offers")
    assert [(problem.field, problem.problem) for problem in second.problems] == [
        ("title", MISSING),
        ("id", "not a number"),
    ]


@pytest.mark.parametrize(
    ("rule", "page", "value"),
    [
        ('"h1"', "<h1> A \n <b>title</b> </h1>", "A title"),
        ('"h1"', "<h1></h1><h1>second</h1>", "second"),
        ('"p, p.a"', "<p class=a>x</p>", "x"),
        ('{ css = "p, p.a", list = true }', "<p class=a>x</p><p>y</p>", ["x", "y"]),
        ('{ css = "a", attribute = "rel" }', "<a>x</a><a rel=next>y</a>", "next"),
        ('{ css = "a", type = "url" }', '<a href="?q=ä b">x</a>', "http://shop.test/dir/page?q=%C3%A4%20b"),
        ('{ css = "img", type = "url" }', "<img src=//cdn.test/i.png>", "http://cdn.test/i.png"),
        ('{ css = "meta", type = "url" }', "<meta content=/x>", "http://shop.test/x"),
        ('{ css = "a", type = "url" }', "<a href='mailto:x@y.z'>x</a>", None),
        ('{ css = "a, i", type = "url", list = true }', "<a name=x>y</a><i>http://a.test/</i>", ["http://a.test/"]),
        ('{ css = "html[lang]", attribute = "lang" }', "<html lang=de>", "de"),
        ('{ css = "[lang]", attribute = "lang", list = true }', "<html lang=de><p lang=en>", ["de", "en"]),
        ('{ css = "b", type = "html" }', "<b class=x>y<i>z</i></b>", '<b class="x">y<i>z</i></b>'),
        ('{ css = "b", type = "integer" }', "<b>1,234 reviews</b>", 1234),
        ('{ css = "b", type = "integer" }', "<b>4.5</b>", None),
        ('{ css = "b", type = "date" }', "<b>2024-05-13</b>", "2024-05-13T00:00:00Z"),
        ('{ css = "b", type = "boolean", attribute = "v" }', "<b v=no>x</b>", False),
        ('{ css = "b", type = "boolean", attribute = "v" }', "<b v>x</b>", True),
        ('{ css = "b", type = "boolean", pattern = "stock" }', "<b>in stock</b>", True),
        ('{ css = "b", type = "boolean", pattern = "stock" }', "<b>sold out</b>", False),
        ('{ css = "b", type = "boolean" }', "<i>x</i>", False),
        ('{ css = "b", default = "none" }', "<i>x</i>", "none"),
        ('{ css = "b", pattern = "no. (\\\\d+)" }', "<b>Article no. 77 b</b>", "77"),
        ('{ css = "b", pattern = "\\\\d+", type = "integer" }', "<b>Article no. 77 b</b>", 77),
        ('{ css = "b", pattern = "\\\\d+" }', "<b>none</b>", None),
        ('{ css = "script", pattern = "id: (\\\\d+)" }', "<script>a = {id: 5}</script>", "5"),
        ('{ xpath = "count(//b)", type = "integer" }', "<b></b><b></b>", 2),
        ('{ xpath = "boolean(//i)", type = "boolean" }', "<b></b>", False),
        ('{ xpath = "//comment()" }', "<b><!-- c --></b>", "c"),
        ('{ xpath = "//p[2]", type = "html" }', "<p>1<p>2<i>3</i>", "<p>2<i>3</i></p>"),
        ('{ fields = { a = "h1", b = "h2" } }', "<h1>x</h1>", {"a": "x", "b": None}),
    ],
)  # fmt: skip
def test_values_of_fields(rule: str, page: str, value: Any) -> None:
    assert field_value(rule, page) == value


def test_a_value_that_does_not_fit_names_its_selector() -> None:
    collection = shop('[collection.fields]\nprice = { css = ".p", type = "number" }')
    [item] = items(collection, "<b class=p>call us</b>")
    assert item.problems == (ItemProblem("price", ".p", "call us", "not a number"),)
    assert (item.valid, item.missing) == (True, ())


def test_a_required_field_with_a_bad_value_makes_the_item_invalid() -> None:
    rule = '{ css = ".p", type = "number", required = true }'
    [item] = items(shop(f"[collection.fields]\nprice = {rule}"), "<b class=p>call us</b>")
    assert not item.valid
    inner = shop(f'[collection.fields]\noffer = {{ css = "i", fields = {{ price = {rule} }} }}')
    assert not items(inner, "<i><b class=p>call us</b></i>")[0].valid
    assert items(inner, "<i><b class=p>5</b></i>")[0].valid


def test_a_schema_applies_by_url_and_media_type() -> None:
    collection = shop(
        CSS.replace('css = "article"', 'css = "article"\nurl_pattern = "/p/\\\\d"', 1)
    )
    assert items(collection, SHOP) == []
    assert len(items(collection, SHOP, url="http://shop.test/p/1")) == 2
    plain = "An <article> is an element."
    assert items(collection, plain, url="http://shop.test/p/1", content_type="text/plain") == []


def test_a_page_without_items_is_recorded() -> None:
    [item] = items(shop(CSS), "<p>nothing")
    assert (item.schema, item.position, item.valid) == ("book", None, False)


def test_several_schemas_and_encodings() -> None:
    collection = shop(f'{CSS}\n[collection.fields]\ntitle = "title"')
    assert [item.schema for item in items(collection, SHOP)] == ["shop", "book", "book"]
    latin = "<meta charset=iso-8859-1><title>Käse</title>".encode("latin-1")
    collection = shop('[collection.fields]\ntitle = "title"')
    assert values(collection, latin) == {"title": "Käse"}
    undeclared = "<title>Käse</title><p>Ein schöner Käse über alles</p>".encode("latin-1")
    assert json.loads(items(collection, undeclared, content_type="text/html")[0].values) == {
        "title": "Käse"
    }


def test_sizes_are_bounded() -> None:
    many = shop(CSS.replace('"article"', '"i"', 1))
    assert len(items(many, "<i></i>" * (MAX_ITEMS + 5))) == MAX_ITEMS
    assert len(field_value('"b"', f"<b>{'x' * 50_000}</b>")) == MAX_TEXT
    html = '[[collection.items]]\ncss = "i"\n[collection.items.fields]\nx = { type = "html" }'
    assert 1 < len(items(shop(html), f"<i>{'x' * 90_000}</i>" * 50)) < 50


_TREES = st.recursive(
    st.text(alphabet="xyz ", max_size=6),
    lambda inner: st.builds(
        lambda name, attribute, parts: f"<{name}{attribute}>{''.join(parts)}</{name}>",
        st.sampled_from(["b", "div", "span", "section"]),
        st.sampled_from(["", ' class="k"', ' id="i"', ' title="t u"']),
        st.lists(inner, max_size=4),
    ),
    max_leaves=25,
)
_SELECTORS = [
    ("div", "//div"),
    (".k", "//*[@class='k']"),
    ("div b", "//div//b"),
    ("div > span", "//div/span"),
    ("b[title]", "//b[@title]"),
    ("section, span", "//section|//span"),
]


@given(st.lists(_TREES, max_size=5), st.sampled_from(_SELECTORS))
@settings(max_examples=150)
def test_css_and_xpath_agree(parts: list[str], selectors: tuple[str, str]) -> None:
    """Both select the same elements, with the same texts."""
    css, xpath = (
        f'[[collection.items]]\n{kind} = "{selector}"\n[collection.items.fields]\n'
        'text = {}\ntitle = { attribute = "title" }\nk = { attribute = "class" }\n'
        for kind, selector in zip(("css", "xpath"), selectors, strict=True)
    )
    document = f"<!doctype html><html><body>{''.join(parts)}</body></html>"
    assert items(shop(css), document) == items(shop(xpath), document)


@given(st.binary(max_size=300))
def test_any_bytes_give_items_or_none(payload: bytes) -> None:
    for schema in (CSS, XPATH):
        for item in items(shop(schema), payload, content_type="text/html"):
            assert set(json.loads(item.values)) <= set(shop(schema).schemas[0].fields)


@pytest.mark.parametrize("name", ["div", "b", "table"])
def test_deeply_nested_pages(name: str) -> None:
    document = f"<article data-id=5><h3><a title=x></a></h3></article>{f'<{name}>' * 30_000}"
    for schema in (CSS, XPATH):
        assert [json.loads(item.values)["id"] for item in items(shop(schema), document)] == [5]
