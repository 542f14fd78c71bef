"""The search page whole: other languages and their edited translations, the advanced form."""

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
def test_the_advanced_form_writes_the_query(fields: dict[str, str], query: str) -> None:
    assert built_query(fields) == query


def test_the_advanced_form_shows_it_and_goes(client: Client) -> None:
    shown = Document(client.get("/advanced", {"all": "spider", "lang": "en", "show": "1"}).text)
    assert shown.text("output") == ["spider lang:en"]
    gone = client.get(
        "/advanced", {"all": "spider", "site": "127.0.2.1", "sort": "date", "go": "1"}
    )
    assert gone.headers["location"] == "/?q=spider+site%3A127.0.2.1&sort=date"
    found = client.get(gone.headers["location"])
    assert {
        link["data-host"] for link in Document(found.text).all("li") if "data-host" in link
    } == {"127.0.2.1"}


def test_other_languages_are_asked_and_their_words_mended(client: Client) -> None:
    assert "/?q=museum&amp;across=all" in client.get("/", {"q": "museum"}).text
    page = client.get("/", {"q": "museum", "across": "all"})
    assert page.status_code == 200
    fields = {
        field["name"]: field["value"]
        for field in Document(page.text).all("input")
        if field.get("name", "").startswith(("w.", "o."))
    }
    assert "w.ru.museum" in fields
    asked = {"q": "museum", "across": "all", "from": "en", **fields, "w.ru.museum": "музей"}
    mended_page = client.get("/", asked)
    assert mended_page.status_code == 303
    where = parse_qs(urlsplit(mended_page.headers["location"]).query)
    assert where["translate"] == ["ru:museum=музей"]
    answer = client.get(mended_page.headers["location"])
    assert "ru" in {item.get("lang") for item in Document(answer.text).all("h2")}
    assert (
        client.get("/", {"q": "museum", "across": "all", "translate": "nonsense"}).status_code,
        client.get("/", {"q": "museum", "across": "tlh,,//"}).status_code,
    ) == (200, 200)


def test_mending_twice() -> None:
    before = ("ru:museum=музей", "de:house=Haus")
    assert edited_translations({}, before) is None
    assert edited_translations({"w.ru.museum": "a", "o.ru.museum": "a"}, before) == before
    assert edited_translations({"w.ru.museum": "b", "o.ru.museum": "a", "w.x": "y"}, before) == (
        "ru:museum=b",
        "de:house=Haus",
    )
    assert edited_translations({"w.RU.Museum": "", "o.RU.Museum": "a"}, ()) == ("RU:Museum=",)


def test_what_is_sent_is_small(client: Client) -> None:
    page = client.get("/", {"q": "spider"})
    scripts = [link["src"] for link in Document(page.text).all("script")]
    others = ["/static/style.css", "/static/preferences.js", "/static/icon.svg", *scripts]
    assert (
        len(page.content) + sum(len(client.get(path).content) for path in dict.fromkeys(others))
        < 60_000
    )
    assert quote("spider") in page.text
