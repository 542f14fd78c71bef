"""Test fields of real pages (data set wcxb)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from lycosa.page.metadata.bounds import clean
from tests.fields.pages import items, shop, values

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "wcxb"
PRODUCTS = """
[collection.fields]
title = { css = "h1", required = true }
price = { css = "[itemprop=price], [class*=price i]", type = "number" }
image = { css = "meta[property='og:image']", type = "url" }
"""

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the data set wcxb is missing")


@cache
def _records() -> list[dict[str, Any]]:
    with gzip.open(DATA / "truth.jsonl.gz", "rt", encoding="utf-8") as lines:
        return list(map(json.loads, lines))


def _page(name: str) -> tuple[str, bytes]:
    url = next(each for each in _records() if each["file"] == name)["url"] or "http://unknown.test/"
    return url, gzip.decompress((DATA / "html" / f"{name}.html.gz").read_bytes())


@pytest.mark.parametrize(
    ("file", "title", "price"),
    [
        ("0582", "Men's Quarter Socks", 17.0),
        ("0594", "Minimalist Sandals Nörd Zero", 99.9),  # 99,90€
        ("0621", "Pro Tech Toolkit", 74.95),
        ("2893", "Focusrite Scarlett 4i4 4th Gen USB Audio Interface", 299.99),
        ("2947", "Fender Player II Strat RW BCG", 675.0),  # £675
        ("2981", "Essential Electronics Toolkit", 29.95),
        ("3039", "Portman Lights P1 Retro Or EVO - 4 Units Kit LRC", 1772.0),
        ("4029", "the DJ - Pour Over Electric Kettle", 139.99),
        ("4780", "Rambler® 20 oz Tumbler", 35.0),
    ],
)
def test_products(file: str, title: str, price: float) -> None:
    url, payload = _page(file)
    extracted = values(shop(PRODUCTS), payload, url)
    assert extracted["title"].startswith(title[:40])
    assert extracted["price"] == price


def test_prices_of_a_list() -> None:
    prices = "{ css = '.price', type = 'number', list = true }"
    url, payload = _page("3078")
    [item] = items(shop(f"[collection.fields]\nprices = {prices}"), payload, url)
    assert 1297.67 in json.loads(item.values)["prices"]  # 1 297,67€
    assert "Free To Play" in [problem.value for problem in item.problems]


EQUIVALENT = {
    "title": ("h1", "", "//h1"),
    "heading": ("h2", "", "//h2"),
    "canonical": ("link[rel=canonical]", "href", "//link[@rel='canonical']/@href"),
    "description": ("meta[name=description]", "content", "//meta[@name='description']/@content"),
    "language": ("html", "lang", "//html/@lang"),
}
"""Field -> CSS selector, attribute, and equivalent XPath expression."""


def _rule(css: str, attribute: str) -> str:
    return f'{{ css = "{css}", list = true, attribute = "{attribute}" }}'


def _texts(payload: bytes, xpath: str) -> Iterator[str]:
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True)
    for each in etree.fromstring(payload, parser).xpath(xpath):
        if text := clean(each if isinstance(each, str) else each.xpath("string()"), 10_000):
            yield text


def test_values_equal_those_of_lxml_on_350_pages() -> None:
    """Small differences remain where HTML5 and libxml2 build different trees."""
    rules = "\n".join(f"{name} = {_rule(*how[:2])}" for name, how in EQUIVALENT.items())
    collection = shop(f"[collection.fields]\n{rules}")
    equal = total = 0
    for record in _records():
        url, payload = _page(record["file"])
        extracted = values(collection, payload, url)
        for name, (_, _, xpath) in EQUIVALENT.items():
            total += 1
            # only Lycosa adds spaces between blocks
            lxml_texts = [text.replace(" ", "") for text in _texts(payload, xpath)]
            equal += [text.replace(" ", "") for text in extracted[name]] == lxml_texts
    assert total == 1_750
    assert equal >= 1_740
