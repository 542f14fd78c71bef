"""Language, plurals, numbers and dates of the interface; colour contrast (WCAG 2.2, 1.4.3)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import polib
import pytest
from markupsafe import Markup

import lycosa.serve
from lycosa.serve.web.i18n import COOKIE, LANGUAGES, chosen_language, interface
from lycosa.serve.web.rendering import _shared
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.serve.client import Client
from tests.serve.pages import Document

ROOT = Path(__file__).parents[2]
PAGES = "{n, plural, one {# page} other {# pages}}"


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        ("", "en"),
        ("ru", "ru"),
        ("zh-Hant-TW, en;q=0.5", "zh"),
        ("de-DE, de;q=0.9, es;q=0.8, en;q=0.7", "es"),
        ("en;q=0.5, ar;q=0.9", "ar"),
        ("ru;q=0, es;q=.1", "es"),
        ("ru;q=nonsense", "en"),
        ("es, ru", "es"),
        ("*", "en"),
        (";;;,=,q=", "en"),
    ],
)
def test_language_by_the_accept_language_header(accept: str, language: str) -> None:
    assert chosen_language({}, accept) == language


def test_language_cookie_overrides_the_header() -> None:
    assert chosen_language({COOKIE: "ru"}, "es") == "ru"
    assert chosen_language({COOKIE: "tlh"}, "es") == "es"


def test_plurals_numbers_and_dates_follow_the_language() -> None:
    english, russian = interface("en"), interface("ru")
    assert [english.t(PAGES, n=n) for n in (0, 1, 1234)] == ["0 pages", "1 page", "1,234 pages"]
    assert [russian.t(PAGES, n=n).rpartition("\u00a0")[2].split()[-1] for n in (1, 2, 5, 21)] == [
        "страница",
        "страницы",
        "страниц",
        "страница",
    ]
    assert interface("es").number(12345.5) == "12.345,5"
    assert " ".join(russian.day(1_772_539_200_000).split()) == "3 марта 2026 г."
    assert english.time(1_772_539_200_000) == "3 Mar 2026, 12:00"
    assert english.day(None) == english.time(10**18) == ""
    assert interface("tlh") is not None
    assert interface("tlh").code == "en"


def test_dates_are_utc_in_every_time_zone() -> None:
    # 23:30 UTC
    code = "from lycosa.serve.web.i18n import interface; print(interface('en').time(1772580600000))"
    for zone in ("Asia/Tokyo", "Pacific/Kiritimati", "America/Los_Angeles"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == "3 Mar 2026, 23:30"


def test_values_are_escaped_except_markup() -> None:
    html = interface("en").html("Results for {query}", query="<script>")
    assert html == "Results for &lt;script&gt;"
    assert interface("en").html("only {site}", site=Markup("<bdi>a</bdi>")) == "only <bdi>a</bdi>"
    assert interface("en").html("{a}{b}", a="{b}", b="{a}") == "{b}{a}"


def test_every_message_is_translated() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/make_translations.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("code", list(LANGUAGES))
def test_start_page_in_each_language(client: Client, code: str) -> None:
    answer = client.get("/", {"q": "spider"}, {"accept-language": code})
    assert f'<html lang="{code}" dir="{"rtl" if code == "ar" else "ltr"}">' in answer.text
    assert answer.headers["content-language"] == code
    assert ("Search crawled pages" in answer.text) == (code == "en")


def test_notes_are_translated_on_the_page_and_english_in_the_api(
    client: Client,
) -> None:
    query = "spider xyzzyplugh site:!! <b>"
    russian, english = (
        client.get("/", {"q": query}, {"accept-language": code}).text for code in ("ru", "en")
    )
    assert "ни одна страница не содержит всех слов" in russian
    assert "требует хост и, при желании, путь" in russian
    assert "<bdi>!!</bdi>" in russian
    assert "no page contains all the words" in english
    results = client.get("/api/v1/search", {"q": query}, {"accept-language": "ru"}).json()
    assert [remark["text"] for remark in results["remarks"]] == results["notes"]
    assert [remark["code"] for remark in results["remarks"]] == ["operator_value", "some_words"]
    assert results["remarks"][0]["values"] == {
        "operator": "site",
        "wants": "a host and optionally a path, as in site:example.org/docs",
        "value": "!!",
    }


def test_explain_page_is_translated_and_the_api_is_english(client: Client, workspace: str) -> None:
    url = LiveTables(Workspace.open(workspace)).scan("pages").collect()["url"][0]
    for explained, text_start in (
        (url, "загружена и обработана"),
        ("http://outside.example/<b>", "не принималась: отклонено (scope): "),
    ):
        page = Document(
            client.get("/crawl/explain", {"url": explained}, {"accept-language": "ru"}).text
        )
        assert any(text.startswith(text_start) for text in page.text("dd"))
        # Names of settings are not translated.
        names = set(page.text("dt")) - set(page.text("code"))
        assert not [
            name for name in names - {"Last-Modified", "ETag"} if re.search("[a-z]{4}", name)
        ]
        assert page.all("b") == []
    english = client.get("/api/v1/explain", {"url": url}, {"accept-language": "ru"}).json()
    assert english["collections"][0]["why"] == "fetched and processed"


def test_chosen_language_is_stored_in_a_cookie(client: Client) -> None:
    chosen = client.get("/language", {"to": "ru", "next": "/?q=spider"})
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/?q=spider")
    assert (
        'lang="ru"'
        in client.get("/", headers={"cookie": chosen.headers["set-cookie"].partition(";")[0]}).text
    )
    assert (
        client.get("/language", {"to": "ru", "next": "//evil.example"}).headers["location"] == "/"
    )
    assert "set-cookie" not in client.get("/language", {"to": "tlh"}).headers


@pytest.mark.parametrize(
    "path", ["/?q=" + quote("咖啡" * 900), "/cached?url=http://h/" + "a" * 2000]
)
def test_pages_with_long_addresses_offer_languages_and_sign_in(client: Client, path: str) -> None:
    chosen = client.get("/language", {"to": "ru", "next": path})
    assert (chosen.status_code, chosen.headers["location"]) == (303, path)
    page = client.get("/login", {"next": path})
    assert (page.status_code, f'name="next" value="{path}"' in page.text) == (200, True)


def test_unknown_language_has_a_translated_name() -> None:
    name_of = _shared(interface("ru"))["language_name"]
    assert callable(name_of)
    assert [name_of(code) for code in ("und", "", "de")] == ["неизвестно", "неизвестно", "Deutsch"]


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "en"])
def test_every_translation_can_be_formatted(code: str) -> None:
    messages = interface(code)
    for entry in polib.pofile(str(ROOT / "src/lycosa/serve/web/translations" / f"{code}.po")):
        numbers = re.findall(r"\{(\w+), (?:number|plural)", entry.msgid)
        values: dict[str, str | float] = dict.fromkeys(re.findall(r"\{(\w+)\}", entry.msgid), "x")
        for number in (0, 1, 2, 5, 21, 1000.5):
            values |= dict.fromkeys(numbers, number)
            shown = messages.t(entry.msgid, **values)
            assert "x" in shown or not set(values) - set(numbers), (
                f"{entry.msgid}: a value is not shown"
            )


STYLE = (Path(lycosa.serve.__path__[0]) / "web" / "static" / "style.css").read_text(
    encoding="utf-8"
)
PAIRS = [
    (text, background) for text in ("ink", "soft", "link", "seen", "accent") for background in ("paper", "panel")
] + [("on-accent", "accent"), ("on-mark", "mark")]  # fmt: skip


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb as WCAG defines it."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_of_known_colours() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "background"), PAIRS)
def test_text_has_enough_contrast(scheme: int, text: str, background: str) -> None:
    colours = dict(
        re.findall(
            r"--([\w-]+): (#[0-9a-f]{6});", STYLE.split("prefers-color-scheme: dark")[scheme]
        )
    )
    assert contrast(colours[text], colours[background]) >= 4.5
