"""The search page in a real browser: hostile text, requests, layout and colours."""

from __future__ import annotations

import struct
from urllib.parse import urlsplit

import pytest

from tests.serve.browser import Browser
from tests.serve.conftest import HOSTILE_TITLE

pytestmark = pytest.mark.slow

# Not innerWidth, which on a phone grows with overflowing content.
WIDTH = "document.documentElement.scrollWidth"
TITLES = "[...document.querySelectorAll('.results h2')].map(title => title.innerText)"


@pytest.fixture
def page(chromium: Browser, address: str) -> Browser:
    """Start page at desktop width, just opened."""
    chromium.set_window(1280, 900)
    chromium.requests.clear()
    chromium.errors.clear()
    chromium.open(address)
    return chromium


@pytest.mark.proves("access-escaping")
def test_scripts_of_a_hostile_page_do_not_run(page: Browser, address: str) -> None:
    page.requests.clear()
    page.open(f"{address}?q=venomous+paragraph")
    assert HOSTILE_TITLE in page.evaluate(TITLES)
    assert page.evaluate("document.title") == "venomous paragraph · Lycosa"
    assert (
        page.evaluate(
            'document.querySelectorAll(\'script:not([src^="/static/"]), img, '
            "iframe, object, embed').length"
        )
        == 0
    )
    assert {urlsplit(url).netloc for url in page.requests} == {urlsplit(address).netloc}


@pytest.mark.proves("access-policy")
def test_security_policy_blocks_injected_scripts(page: Browser) -> None:
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/beacon\">');"
        "document.body.append(Object.assign(document.createElement('script'), {textContent: "
        "'document.title = \"owned\"'}))"
    )
    assert page.evaluate("document.title") == "Lycosa"
    refused = [text for text in page.errors if "Content Security Policy" in text]
    assert any("script" in text for text in refused)
    assert any("/beacon" in text for text in refused)


def test_overflow_is_measured(page: Browser) -> None:
    page.set_window(390, 800)
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<pre style=width:900px>wide</pre>')"
    )
    # The Content Security Policy removes the style attribute.
    page.evaluate("document.querySelector('pre').style.width = '900px'")
    assert page.evaluate(WIDTH) > 390


@pytest.mark.parametrize(
    "query", ["", "龙井茶", "القمر", "lang:en", "nothinglikethis", "venomous", "x" * 300]
)
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_search_page_fits_the_window(page: Browser, address: str, query: str, width: int) -> None:
    page.set_window(width, 800)
    page.open(f"{address}?q={query}")
    assert page.evaluate(WIDTH) <= width


def test_arabic_query_and_results_are_right_to_left(page: Browser, address: str) -> None:
    page.open(f"{address}?q=القمر")
    assert page.evaluate("getComputedStyle(document.querySelector('h2')).direction") == "rtl"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('input[name=q]')).direction")
        == "rtl"
    )
    assert page.evaluate("getComputedStyle(document.querySelector('.address')).direction") == "ltr"


@pytest.mark.parametrize(
    ("width", "height", "dark"), [(1280, 900, False), (390, 844, False), (390, 844, True)]
)
def test_colours_follow_the_preferred_scheme(
    page: Browser, address: str, width: int, height: int, dark: bool
) -> None:
    page.set_window(width, height, dark=dark)
    page.open(f"{address}?q=龙井茶")
    assert struct.unpack(">II", page.screenshot()[16:24]) == (width, height)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 21, 26)" if dark else "rgb(251, 249, 245)")


def test_printed_page_is_light_and_its_tables_are_complete(page: Browser, address: str) -> None:
    page.open(f"{address}library")
    page.show_print()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 249, 245)"
    assert page.evaluate("getComputedStyle(document.querySelector('.wide')).overflowX") == "visible"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_long_address_starts_with_its_host_in_a_right_to_left_interface(
    page: Browser, address: str
) -> None:
    page.open(f"{address}language?to=ar&next=/?q=lang:en")
    direction = "getComputedStyle(document.querySelector('.results .address')).direction"
    assert page.evaluate(direction) == "ltr"
    page.clear_site_data(address)
