"""The search page whole: other languages and their edited_translations translations, the advanced form, keys,
sites that a reader blocks or prefers.
"""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import pytest

from lycosa.serve.search.pages import built_query, edited_translations
from tests.serve.browser import Browser
from tests.serve.client import Client
from tests.serve.pages import Document

HOSTS = (
    "[...document.querySelectorAll('.results > li:not([hidden])')].map(each => each.dataset.host)"
)


def key(chromium: Browser, name: str) -> None:
    chromium.evaluate(
        f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{name}', "
        f"bubbles: true, cancelable: true}}))"
    )


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


@pytest.mark.slow
def test_keys(chromium: Browser, address: str) -> None:
    chromium.look(1280, 900)
    chromium.open(f"{address}?q=spider")
    titles = chromium.evaluate(
        "[...document.querySelectorAll('.results h2 a')].map(each => each.innerText)"
    )
    shown = []
    for name in "jjk":
        key(chromium, name)
        shown.append(chromium.evaluate("document.activeElement.innerText"))
    assert shown == [titles[0], titles[1], titles[0]]
    key(chromium, "/")
    assert chromium.evaluate("document.activeElement.name") == "q"
    key(chromium, "j")
    assert chromium.evaluate("document.activeElement.name") == "q", (
        "a letter that is typed is a letter"
    )


@pytest.mark.slow
def test_sites_are_blocked_and_preferred_in_this_browser(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}?q=museum&lang=")
    chromium.evaluate("localStorage.clear()")
    chromium.open(f"{address}?q=lang%3Aen+OR+lang%3Ade")
    hosts = chromium.evaluate(HOSTS)
    last = next(host for host in reversed(hosts) if host != hosts[0])

    def press(host: str, text: str) -> None:
        buttons = f"[...document.querySelectorAll('li[data-host=\"{host}\"] button')]"
        chromium.evaluate(
            f"{buttons}.find(each => each.textContent == '{text}' && !each.hidden).click()"
        )

    press(last, "prefer this site")
    assert chromium.evaluate(HOSTS)[0] == last
    press(hosts[0], "block this site")
    assert hosts[0] not in chromium.evaluate(HOSTS)
    assert chromium.evaluate("document.querySelector('.left-out').innerText").startswith(
        "Results from blocked sites are hidden:"
    )
    chromium.open(f"{address}?q=lang%3Aen+OR+lang%3Ade")
    assert hosts[0] not in chromium.evaluate(HOSTS), "it is kept"
    chromium.evaluate("document.querySelector('.left-out button').click()")
    assert hosts[0] in chromium.evaluate(HOSTS)
    chromium.open(f"{address}advanced")
    assert chromium.evaluate("document.querySelectorAll('#sites li').length") == 2
    chromium.evaluate("document.querySelectorAll('#sites button').forEach(each => each.click())")
    chromium.evaluate("document.querySelectorAll('#sites button').forEach(each => each.click())")
    assert chromium.evaluate("document.getElementById('sites').hidden") is True
    assert chromium.errors == []


@pytest.mark.slow
def test_the_advanced_form_writes_while_one_types(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}advanced")
    chromium.evaluate("document.getElementById('phrase').focus()")
    chromium.type_text("wolf spider")
    written = "document.querySelector('#built code').innerText"
    wait = (
        f"new Promise(done => {{ const at = setInterval(() => {{ if ({written}) {{ "
        f"clearInterval(at); done(1) }} }}, 50) }})"
    )
    chromium.evaluate(wait)
    assert chromium.evaluate("document.querySelector('#built code').innerText") == '"wolf spider"'


def test_what_is_sent_is_small(client: Client) -> None:
    page = client.get("/", {"q": "spider"})
    scripts = [link["src"] for link in Document(page.text).all("script")]
    others = ["/static/style.css", "/static/preferences.js", "/static/icon.svg", *scripts]
    assert (
        len(page.content) + sum(len(client.get(path).content) for path in dict.fromkeys(others))
        < 60_000
    )
    assert quote("spider") in page.text
