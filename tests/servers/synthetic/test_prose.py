from __future__ import annotations

from itertools import combinations

import pytest

from lycosa.page.parse import parse_page
from lycosa.text.digest import distance, simhash
from lycosa.text.identify import identify
from tests.servers.synthetic.draw import draw
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.lexicon import LANGUAGES, LEXICONS
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.prose import Writer, missing_text, slug
from tests.servers.synthetic.web import Web

AT = WebPlan().epoch_ms


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_in_its_language(language: str) -> None:
    texts = [
        "\n".join(Writer(language, draw(key)).paragraph(each, 0) for each in range(2))
        for key in range(50)
    ]
    assert [identify(text).language for text in texts] == [language] * 50
    assert identify(missing_text(language)).language == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_are_unlike_one_another(language: str) -> None:
    prints = [
        simhash("\n".join(Writer(language, draw(key)).paragraph(each, 0) for each in range(4)))
        for key in range(50)
    ]
    assert min(distance(first, second) for first, second in combinations(prints, 2)) > 8


@pytest.mark.parametrize(
    "language", [language for language in LANGUAGES if LEXICONS[language].legacy]
)
def test_old_encodings_can_write_every_word(language: str) -> None:
    lexicon = LEXICONS[language]
    text = " ".join((*lexicon.content, *lexicon.function, *lexicon.syllables, lexicon.missing))
    assert text.encode(lexicon.legacy).decode(lexicon.legacy) == text


def test_a_revision_changes_its_paragraph_only() -> None:
    writer = Writer("en", 5)
    assert writer.paragraph(1, 0) == Writer("en", 5).paragraph(1, 0)
    assert (
        len({writer.paragraph(number, revision) for number in range(3) for revision in range(3)})
        == 9
    )
    assert slug("ru", 77).isascii()


def test_pages_as_the_product_reads_them_have_the_language_of_their_place() -> None:
    web = Web(
        WebPlan.calm(hosts=60, pages=600, legacy=0.5, native_slugs=0.5, sitemaps=1.0, noisy=0.3)
    )
    read = {}
    for url in web.real_pages():
        answer = web.answer(url, {}, AT)
        read[url] = parse_page(answer.body, url=url, content_type=answer.header("Content-Type"))
    wrong = 0
    for host in web.open_hosts():
        for language in host.languages:
            urls = [
                f"http://{host.name}{web.layout.path(host, number, language)}"
                for number in range(host.size)
            ]
            wrong += sum(read[url].language != language for url in urls)
            assert all(read[url].charset.lower() == host.charset for url in urls)
    assert wrong <= 0.01 * len(read)
    assert {page.language for page in read.values()} >= set(LANGUAGES)
    assert any(page.alternates for page in read.values())


def test_copies_are_copies() -> None:
    web = Web(WebPlan.calm(hosts=10, pages=300, duplicates=0.3, near_duplicates=0.3))
    named = exact = near = 0
    for host in web.open_hosts():
        for number in range(host.size):
            url = f"http://{host.name}{web.layout.path(host, number)}"
            original = web.answer(url, {}, AT)
            text = parse_page(original.body, url=url).text
            for path in web.layout.extras(host, number):
                copy = web.answer(f"http://{host.name}{path}", {}, AT)
                page = parse_page(copy.body, url=f"http://{host.name}{path}")
                assert page.canonical in (url, None)
                if web.kind(f"http://{host.name}{path}") is Kind.DUPLICATE:
                    assert page.text == text
                    named += page.canonical is not None
                    exact += copy.body == original.body
                else:
                    assert page.text != text
                    near += distance(simhash(page.text), simhash(text)) <= 6
    assert min(named, exact) > 20
    assert near > 60
