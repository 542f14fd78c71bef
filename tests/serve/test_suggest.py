"""Suggestions, similar pages and spelling over HTTP and in a real browser."""

from __future__ import annotations

import json
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from tests.serve.browser import Browser
from tests.serve.client import Client

FIELD = "document.querySelector('input[name=q]')"
SHOWN = (
    "[...document.querySelectorAll('.suggestions:not([hidden]) li')].map(item => item.innerText)"
)


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Browser:
    chromium.set_window(1280, 900)
    return chromium


def type_query(page: Browser, text: str) -> list[str]:
    """Type into the search field; wait for suggestions and return them."""
    page.evaluate(f"{FIELD}.focus()")
    page.type_text(text)
    page.wait_until(f"{SHOWN}.length")
    return [str(each) for each in page.evaluate(SHOWN)]


def test_suggest_api(client: Client) -> None:
    answer = client.get("/api/v1/suggest", {"q": "WOLF sp"}).json()
    assert answer["query"] == "WOLF sp"
    assert any(each["text"].lower().startswith("wolf sp") for each in answer["suggestions"])
    assert {"text", "language", "kind", "pages", "weight"} == set(answer["suggestions"][0])
    assert (
        len(client.get("/api/v1/suggest", {"q": "w", "n": 2}).json()["suggestions"]),
        client.get("/api/v1/suggest", {"q": ""}).json()["suggestions"],
        client.get("/api/v1/suggest", {"q": "w", "n": 0}).status_code,
    ) == (2, [], 422)
    suggested = client.get("/api/v1/suggest", {"q": "w", "lang": "en-US"}).json()["suggestions"]
    assert (
        suggested == client.get("/api/v1/suggest", {"q": "w", "lang": "en"}).json()["suggestions"]
    )


def test_opensearch_description_has_suggestions(client: Client) -> None:
    description = ElementTree.fromstring(client.get("/opensearch.xml").content)
    (url,) = [each for each in description if each.get("rel") == "suggestions"]
    assert url.get("type") == "application/x-suggestions+json"
    template = url.get("template", "").replace("{searchTerms}", "wolf")
    answer = client.get(template.removeprefix("http://127.0.0.1"))
    assert answer.headers["content-type"] == "application/x-suggestions+json"
    query, texts = json.loads(answer.content)
    assert query == "wolf"
    assert any("wolf" in text.lower() for text in texts)


def test_similar_pages_and_spelling_correction(client: Client) -> None:
    wolf = client.get("/api/v1/search", {"q": "wolf spider mother"}).json()["hits"][0]["url"]
    similar = client.get("/api/v1/similar", {"url": wolf}).json()
    assert similar["total"]
    assert wolf not in [hit["url"] for hit in similar["hits"]]
    assert (
        "not indexed"
        in client.get("/api/v1/similar", {"url": "http://nowhere.test/"}).json()["notes"][0]
    )
    assert client.get("/api/v1/search", {"q": "spidre"}).json()["did_you_mean"]["query"] == "spider"
    assert (
        client.get("/api/v1/search", {"q": "spidre", "spelling": "false"}).json()["did_you_mean"]
        is None
    )
    html = client.get("/", {"q": "spidre"}).text
    assert 'href="/?q=spider"' in html
    assert "Did you mean" in html
    assert "similar%3A%22http" in client.get("/", {"q": "spider"}).text


@pytest.mark.slow
def test_suggestion_is_selected_with_the_keyboard_and_searched(page: Browser, address: str) -> None:
    page.open(address)
    shown = type_query(page, "wolf")
    assert all("wolf" in text.lower() for text in shown)
    assert page.evaluate(f"{FIELD}.getAttribute('aria-expanded')") == "true"
    page.key("ArrowDown")
    assert page.evaluate(f"{FIELD}.value") == shown[0]
    assert page.evaluate("document.querySelector('[aria-selected=true]').id") == page.evaluate(
        f"{FIELD}.getAttribute('aria-activedescendant')"
    )
    page.press_enter()
    assert page.evaluate(f"{FIELD}.value") == shown[0]
    assert page.evaluate("document.querySelectorAll('ol.results li').length") > 0
    assert {urlsplit(url).netloc for url in page.requests} == {urlsplit(address).netloc}
    assert page.errors == []


@pytest.mark.slow
def test_markup_in_a_suggestion_is_shown_as_text(page: Browser, address: str) -> None:
    page.open(address)
    page.requests.clear()
    evil = (
        "</li><img src=http://127.0.2.9/pixel "
        'onerror=document.title="owned"><script>document.title="owned"</script>'
    )
    answer = json.dumps({"suggestions": [{"text": evil, "language": '"><b>'}]})
    page.evaluate(f"void (window.fetch = async () => new Response({json.dumps(answer)}))")
    assert type_query(page, "venom") == [evil]
    assert page.evaluate("document.querySelectorAll('.suggestions *:not(li)').length") == 0
    assert page.evaluate("document.title") != "owned"
    assert page.requests == []
