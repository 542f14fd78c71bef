"""Tests of the texts of the synthetic web: languages, topics, copies and changes."""

from collections import Counter
from itertools import combinations, pairwise

import pytest

from lycosa.page.parse import parse_page
from lycosa.text.digest import distance, simhash
from lycosa.text.identify import identify
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.draw import DAY_MS, draw
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.lexicon import LANGUAGES, LEXICONS
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.prose import Writer, missing_text, slug
from tests.servers.synthetic.walk import targets, walk
from tests.servers.synthetic.web import Web

AT = WebPlan().epoch_ms


@pytest.mark.parametrize("language", LANGUAGES)
def test_language_of_a_text_is_identified(language: str) -> None:
    texts = [
        "\n".join(Writer(language, draw(key)).paragraph(each, 0) for each in range(2))
        for key in range(50)
    ]
    assert [identify(text).language for text in texts] == [language] * 50
    assert identify(missing_text(language)).language == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_of_pages_are_not_near_duplicates(language: str) -> None:
    hashes = [
        simhash("\n".join(Writer(language, draw(key)).paragraph(each, 0) for each in range(4)))
        for key in range(50)
    ]
    assert min(distance(first, second) for first, second in combinations(hashes, 2)) > 8


@pytest.mark.parametrize(
    "language", [language for language in LANGUAGES if LEXICONS[language].legacy]
)
def test_legacy_encodings_contain_every_word(language: str) -> None:
    lexicon = LEXICONS[language]
    text = " ".join((*lexicon.content, *lexicon.function, *lexicon.syllables, lexicon.missing))
    assert text.encode(lexicon.legacy).decode(lexicon.legacy) == text


def test_paragraphs_depend_on_number_and_revision_only() -> None:
    writer = Writer("en", 5)
    assert writer.paragraph(1, 0) == Writer("en", 5).paragraph(1, 0)
    assert (
        len({writer.paragraph(number, revision) for number in range(3) for revision in range(3)})
        == 9
    )


def test_slugs_are_ascii() -> None:
    assert slug("ru", 77).isascii()


def test_language_and_charset_of_parsed_pages_are_those_of_the_host() -> None:
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


def test_duplicates_have_the_same_text_and_near_duplicates_a_similar_one() -> None:
    web = Web(WebPlan.calm(hosts=10, pages=300, duplicates=0.3, near_duplicates=0.3))
    with_canonical = exact = near = 0
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
                    with_canonical += page.canonical is not None
                    exact += copy.body == original.body
                else:
                    assert page.text != text
                    near += distance(simhash(page.text), simhash(text)) <= 6
    assert min(with_canonical, exact) > 20
    assert near > 60


PLAN = WebPlan.calm(
    seed=3, hosts=20, pages=800, languages=("en",), topics=10, topic_links=0.4, topic_named=0.5
)


@pytest.fixture(scope="module")
def web() -> Web:
    return Web(PLAN)


def test_share_of_links_within_a_topic_is_that_of_the_plan(web: Web) -> None:
    result = walk(web, PLAN.epoch_ms)
    same = total = 0
    for url, answer in result.answers.items():
        for target in targets(url, answer):
            if web.topic(target) is not None and not target.endswith("/"):
                total += 1
                same += web.topic(target) == web.topic(url)
    expected = PLAN.topic_links + (1 - PLAN.topic_links) / PLAN.topics
    assert total > 2_000
    assert same / total == pytest.approx(expected, abs=0.08)


def test_a_page_contains_the_words_of_its_topic(web: Web) -> None:
    for url in sorted(walk(web, PLAN.epoch_ms).pages)[:100]:
        topic = web.topic(url)
        assert topic is not None
        text = web.answer(url, {}, PLAN.epoch_ms).body.decode("utf-8", "replace")
        assert all(word in text for word in web.topics.words(topic)), url


def test_topics_have_similar_numbers_of_pages(web: Web) -> None:
    pages = walk(web, PLAN.epoch_ms).pages
    shares = [
        sum(web.topic(url) == topic for url in pages) / len(pages) for topic in range(PLAN.topics)
    ]
    assert max(shares) < 4 / PLAN.topics


def text_of(url: str, answer: Answer) -> str:
    return parse_page(answer.body, url=url, content_type=answer.header("Content-Type")).text


def test_text_changes_exactly_when_the_version_does() -> None:
    web = Web(WebPlan.calm(hosts=10, pages=200, noisy=0.5, changes_per_day=1.0))
    urls = list(web.real_pages())[::7]
    changed = 0
    for url in urls:
        states = [
            (
                web.version(url, AT + day * DAY_MS),
                text_of(url, web.answer(url, {}, AT + day * DAY_MS)),
            )
            for day in range(6)
        ]
        for (version, text), (later_version, later_text) in pairwise(states):
            assert later_version >= version
            assert (text != later_text) == (version != later_version)
            changed += version != later_version
    assert changed > len(urls)


def conditional(answer: Answer) -> dict[str, str]:
    return {
        "if-none-match": answer.header("ETag"),
        "if-modified-since": answer.header("Last-Modified"),
    }


def test_responses_to_conditional_requests_depend_on_the_validators_of_the_host() -> None:
    web = Web(
        WebPlan.calm(
            hosts=40,
            pages=600,
            validators_absent=0.2,
            validators_restless=0.2,
            validators_frozen=0.2,
            changes_per_day=1.0,
        )
    )
    outcomes: Counter[tuple[str, bool, int]] = Counter()
    at, later = AT + 3 * DAY_MS, AT + 5 * DAY_MS
    for host in web.open_hosts():
        for number in range(min(host.size, 20)):
            url = f"http://{host.name}{web.layout.path(host, number)}"
            first = web.answer(url, {}, at)
            assert bool(first.header("ETag")) == (host.validators != "absent")
            second = web.answer(url, conditional(first) if first.header("ETag") else {}, later)
            outcomes[
                host.validators, web.version(url, at) != web.version(url, later), second.status
            ] += 1
            if second.status == 304:
                assert not second.body
                assert second.header("ETag") == first.header("ETag")
    assert {key for key, number in outcomes.items() if number} == {
        ("right", False, 304),
        ("right", True, 200),
        ("absent", False, 200),
        ("absent", True, 200),
        ("restless", False, 200),
        ("restless", True, 200),
        ("frozen", False, 304),
        ("frozen", True, 304),
    }
