"""The search page: the advanced form, edited translations, and the size of its files."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import pytest

from lycosa.serve.search.pages import built_query, edited_translations
from tests.serve.client import Client
from tests.serve.pages import Document


@pytest.mark.parametrize(
    ("fields", "query"),
    [
        ({}, ""),
        ({"all": " wolf   spider "}, "wolf spider"),
        ({"phrase": 'egg "sac'}, '"egg  sac"'),
        ({"any": "a b", "none": "x -y -"}, "a OR b -x -y"),
        (
            {"title": "two words", "type": "pdf", "after": "2026"},
            'intitle:"two words" filetype:pdf after:2026',
        ),
        ({"all": "x", "site": "a.org b.org/x", "lang": "de"}, "x site:a.org site:b.org/x lang:de"),
    ],
)
def test_advanced_form_builds_the_query(fields: dict[str, str], query: str) -> None:
    assert built_query(fields) == query


def test_advanced_form_shows_the_query_or_redirects_to_the_search(client: Client) -> None:
    shown = Document(client.get("/advanced", {"all": "spider", "lang": "en", "show": "1"}).text)
    assert shown.text("output") == ["spider lang:en"]
    redirect = client.get(
        "/advanced", {"all": "spider", "site": "127.0.2.1", "sort": "date", "go": "1"}
    )
    assert redirect.headers["location"] == "/?q=spider+site%3A127.0.2.1&sort=date"
    results = client.get(redirect.headers["location"])
    assert {
        link["data-host"] for link in Document(results.text).all("li") if "data-host" in link
    } == {"127.0.2.1"}


def test_advanced_form_keeps_the_filters_of_the_search(client: Client) -> None:
    search = {"q": "museum", "lang": "en", "collection": "default", "sort": "date"}
    page = Document(client.get("/", search).text)
    (link,) = {each["href"] for each in page.all("a") if each["href"].startswith("/advanced")}
    assert parse_qs(urlsplit(link).query) == {
        "all": ["museum"],
        "lang": ["en"],
        "sort": ["date"],
        "in": ["default"],
    }


def test_edited_translations_are_used_for_the_search(client: Client) -> None:
    assert "/?q=museum&amp;across=all" in client.get("/", {"q": "museum"}).text
    page = client.get("/", {"q": "museum", "across": "all"})
    assert page.status_code == 200
    fields = {
        field["name"]: field["value"]
        for field in Document(page.text).all("input")
        if field.get("name", "").startswith(("w.", "o."))
    }
    assert "w.ru.museum" in fields
    parameters = {"q": "museum", "across": "all", "from": "en", **fields, "w.ru.museum": "музей"}
    redirect = client.get("/", parameters)
    assert redirect.status_code == 303
    query = parse_qs(urlsplit(redirect.headers["location"]).query)
    assert query["translate"] == ["ru:museum=музей"]
    answer = client.get(redirect.headers["location"])
    assert "ru" in {item.get("lang") for item in Document(answer.text).all("h2")}
    assert (
        client.get("/", {"q": "museum", "across": "all", "translate": "nonsense"}).status_code,
        client.get("/", {"q": "museum", "across": "tlh,,//"}).status_code,
    ) == (422, 422)


def test_edited_translations_replace_earlier_ones() -> None:
    before = ("ru:museum=музей", "de:house=Haus")
    assert edited_translations({}, before) is None
    assert edited_translations({"w.ru.museum": "a", "o.ru.museum": "a"}, before) == before
    assert edited_translations({"w.ru.museum": "b", "o.ru.museum": "a", "w.x": "y"}, before) == (
        "ru:museum=b",
        "de:house=Haus",
    )
    assert edited_translations({"w.RU.Museum": "", "o.RU.Museum": "a"}, ()) == ("RU:Museum=",)


def test_search_page_with_its_files_is_smaller_than_60_kb(client: Client) -> None:
    page = client.get("/", {"q": "spider"})
    scripts = [link["src"] for link in Document(page.text).all("script")]
    files = ["/static/style.css", "/static/preferences.js", "/static/icon.svg", *scripts]
    assert (
        len(page.content) + sum(len(client.get(path).content) for path in dict.fromkeys(files))
        < 60_000
    )
    assert quote("spider") in page.text
