"""The language that a page declares, and that of its title, against the language of its text."""

from __future__ import annotations

import pytest

from lycosa.page.parse import parse_page
from lycosa.text.identify import language_share
from lycosa.url.languages import language_code, language_of_url

ENGLISH = (
    "The file contains the list of the sources from which packages are installed, and it is read "
    "whenever an update is made. " * 3
)


@pytest.mark.parametrize(
    ("tag", "code"),
    [("pt-BR", "pt"), (" EN ", "en"), ("zh_Hant", "zh"), ("nb", "no"), ("iw", "he"), ("de, en", ""), ("", ""), ("english", "")],
)  # fmt: skip
def test_codes_of_language_tags(tag: str, code: str) -> None:
    assert language_code(tag) == code


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://a.test/zh-TW/apt.html", "zh"),
        ("http://de.example.org/x", "de"),
        ("http://a.test/x?lang=fr", "fr"),
        ("http://a.test/docs/x.html", ""),
    ],
)
def test_languages_in_urls(url: str, code: str) -> None:
    assert language_of_url(url) == code


@pytest.mark.parametrize(
    ("language", "declared", "title", "share"),
    [
        ("en", "en", "6.1. 填寫 sources.list", 1.0),
        ("en", "", "6.1. 填寫 sources.list", 1.0),
        ("en", "zh", "6.1. 填寫 sources.list", 0.5),
        ("en", "cs", "6.1. Vyplnění souboru sources.list", 0.5),
        ("en", "pl", "6.2. aptitude, apt-get, and apt Commands", 0.75),
        ("de", "en", "Willkommen bei der Stadt Köln", 0.75),
        ("id", "ms", "", 1.0),
        ("", "en", "", 1.0),
    ],
)
def test_the_share_that_agrees(language: str, declared: str, title: str, share: float) -> None:
    assert language_share(language, declared, title) == share


def html(title: str, text: str, attributes: str = "", head: str = "") -> bytes:
    return f"<!DOCTYPE html><html {attributes}><head><title>{title}</title>{head}</head><body><p>{text}</p></body></html>".encode()


def test_where_a_page_declares_its_language() -> None:
    meta = '<meta http-equiv="content-language" content="fr">'
    for attributes, head, header, expected in (
        ('lang="pt-BR"', meta, "de", "pt"),
        ('xml:lang="ru"', meta, "de", "ru"),
        ("", meta, "de", "fr"),
        ("", "", "de", "de"),
        ("", "", "de, en", ""),
    ):
        page = parse_page(
            html("x", ENGLISH, attributes, head),
            url="http://a.test/",
            content_type="text/html",
            content_language=header,
        )
        assert (page.declared_language, page.language) == (expected, "en")


def test_a_page_whose_text_was_not_translated() -> None:
    shares = {
        locale: parse_page(
            html(title, ENGLISH),
            url=f"http://a.test/{locale}/x.html",
            content_type="text/html; charset=utf-8",
        ).language_share
        for locale, title in (
            ("en-US", "The list of sources"),
            ("ja-JP", "ソースの一覧"),
            ("pl-PL", "The list of sources"),
        )
    }
    assert shares == {"en-US": 1.0, "ja-JP": 0.5, "pl-PL": 0.75}


def test_the_language_of_a_page_without_text_is_that_of_its_title_and_description() -> None:
    head = (
        '<meta name="description" content="Ein Verzeichnis der Bilder, die wir in diesem '
        'Sommer an der Küste gemacht haben.">'
    )
    page = parse_page(
        html("Unsere Bilder", "", "", head),
        url="http://a.test/",
        content_type="text/html; charset=utf-8",
    )
    assert (page.text, page.language, page.simhash) == ("", "de", 0)
    assert parse_page(html("", ""), url="http://a.test/", content_type="text/html").language == ""


@pytest.mark.parametrize(
    ("declared", "url", "title", "share"),
    [
        ("en", "http://a.test/ru/expr.html", "Expressions", 0.75),
        ("en", "http://a.test/ru/expr.html", "Выражения сервера", 0.5),
        ("en", "http://a.test/en/expr.html", "Expressions", 1.0),
        ("en", "http://a.test/expr.html", "Expressions", 1.0),
        ("", "http://a.test/ru/expr.html", "Expressions", 0.75),
        ("de", "http://a.test/en/expr.html", "Expressions", 0.75),
    ],
)
def test_the_url_is_a_declaration_too(declared: str, url: str, title: str, share: float) -> None:
    text = html(title, ENGLISH, f'lang="{declared}"' if declared else "")
    page = parse_page(text, url=url, content_type="text/html; charset=utf-8")
    assert (page.language, page.language_share) == ("en", share)
