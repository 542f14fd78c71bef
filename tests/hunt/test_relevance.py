"""Test relevance of pages, links and URLs, and crawls of synthetic webs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bench.hunt import (
    ASKED_TOPICS,
    BARS,
    FETCHES,
    HELD_OUT,
    SHARES,
    found_by_crawling,
    found_by_hunting,
    plan_of,
)

from lycosa.config.reading import parse_config
from lycosa.core.errors import UsageError
from lycosa.core.records import Page
from lycosa.hunt.hunt import StrategyName
from lycosa.hunt.relevance import RELEVANT, HuntQuery, url_words
from lycosa.hunt.session import HuntEnvironment, HuntOrder, HuntRequest, hunt
from lycosa.page.parse import parse_page
from lycosa.text.stop_words import query_function_words
from tests.crawl.synthetic_crawls import (
    BACKOFF_MS,
    COURTESY,
    DELAY_MS,
    DOMAIN_CONNECTIONS,
    politeness_rules,
    without_visit,
)
from tests.hunt.hunts import page
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.politeness import violations
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

FILLER = (
    "The weather was mild and the ferry left the harbour in the morning with bread and letters on "
    "board for the island. " * 12
)
URL = "http://a.example/page.html"


def relevance(question: str, page: Page, url: str = URL, anchors: tuple[str, ...] = ()) -> float:
    query = HuntQuery(question)
    return query.relevance(query.evidence(url, page, anchors))


def test_relevance_grows_with_the_matches_on_a_page() -> None:
    question = "wolf spider silk"
    about = relevance(
        question,
        page("Wolf spiders and their silk", "The wolf spider spins silk for its egg sac.", FILLER),
    )
    in_text = relevance(
        question,
        page(
            "An afternoon",
            FILLER,
            "A wolf spider needs little silk. The silk of a wolf spider is strong.",
        ),
    )
    in_passing = relevance(question, page("An afternoon", FILLER, "A spider sat there.", FILLER))
    assert about > in_text > in_passing > relevance(question, page("An afternoon", FILLER)) == 0.0
    assert about >= RELEVANT > in_passing


def test_inflected_forms_in_the_language_of_the_page_match() -> None:
    assert (
        relevance(
            "Haus bauen",
            _of("de", "Häuser bauen", "Wer Häuser baut, der bleibt. Das Haus ist gebaut."),
        )
        >= RELEVANT
    )
    assert (
        relevance(
            "龙井茶",
            _of(
                "zh",
                "龙井茶的历史",
                "龙井茶是杭州的绿茶，产于西湖龙井村周围的群山。龙井茶炒制而成。",
            ),
        )
        >= RELEVANT
    )
    assert (
        relevance(
            "龙井茶",
            _of("zh", "火车站", "火车站在城市的北边，每天有很多旅客来往，人们在那里等车。"),
        )
        < RELEVANT
    )


def _of(language: str, title: str, text: str) -> Page:
    html = f"<html lang={language}><title>{title}</title><body><main><h1>{title}</h1><p>{text}</p></main></html>".encode()
    parsed = parse_page(html, url=URL, content_type="text/html; charset=utf-8")
    assert parsed.language == language
    return parsed


def test_function_words_of_a_question_have_little_weight() -> None:
    answer = page("CSV files", "Reading a CSV file, and writing one.", FILLER)
    chatter = page("How do I do it?", "How do I do that? In the way that I do it.", FILLER)
    assert relevance("How do I read CSV files?", answer) > 0.8
    assert relevance("How do I read CSV files?", chatter) < 0.1


def test_function_words_are_of_one_language_and_never_all_words() -> None:
    assert query_function_words(["how", "do", "i", "read", "csv", "files"]) == {"how", "do", "i"}
    assert query_function_words(["wie", "kann", "man", "das", "haus", "bauen"]) == {
        "wie",
        "kann",
        "man",
        "das",
    }
    assert query_function_words(["die", "hard"]) == frozenset()
    assert query_function_words(["to", "be", "or", "not", "to", "be"]) == frozenset()
    assert query_function_words([]) == frozenset()


SPIDER = page("The wolf spider", "The wolf spider hunts at night.", FILLER)


@pytest.mark.parametrize(
    ("question", "least", "most"),
    [
        ("wolf spider", RELEVANT, 1.0),
        ("wolf spider -night", 0.0, 0.0),
        ("wolf spider site:a.example", RELEVANT, 1.0),
        ("wolf spider site:b.example", 0.0, 0.0),
        ("wolf spider -site:a.example", 0.0, 0.0),
        ("wolf spider site:a.example/docs", 0.0, 0.0),
        ("wolf spider lang:en", RELEVANT, 1.0),
        ("wolf spider lang:de", 0.0, 0.0),
        ("intitle:night", 0.0, 0.0),
        ("intitle:spider", 1.0, 1.0),
        ("inurl:page", 1.0, 1.0),
        ("spid*", RELEVANT, 1.0),
        ('"wolf spider hunts"', 1e-9, 1.0),
        ('"spider wolf"', 0.0, 0.0),
        ("beetle OR spider", relevance("spider", SPIDER), relevance("spider", SPIDER)),
    ],
)
def test_operators_restrict_relevant_pages(question: str, least: float, most: float) -> None:
    assert least <= relevance(question, SPIDER) <= most


def test_date_operators_exclude_only_pages_with_a_date() -> None:
    dated = page("The wolf spider", "The wolf spider hunts.", FILLER)
    dated.published_at = 1_700_000_000_000  # November 2023
    assert relevance("wolf spider after:2024", dated) == 0.0
    assert relevance("wolf spider before:2024", dated) >= RELEVANT
    dated.published_at = None
    assert relevance("wolf spider after:2024", dated) >= RELEVANT


def test_anchor_texts_of_incoming_links_count() -> None:
    chapter = page("Chapter 7", "Of eight legs and as many eyes.", FILLER)
    assert (
        relevance("wolf spider", chapter, anchors=("all about the wolf spider",))
        > relevance("wolf spider", chapter)
        == 0.0
    )


def test_a_term_of_every_page_loses_weight() -> None:
    question = HuntQuery("python csv")
    first = question.evidence(URL, page("Python csv", "Python reads csv.", FILLER))
    only_python = question.evidence(
        URL, page("Python", "Python is a language. Python runs.", FILLER)
    )
    before = question.relevance(only_python)
    for _ in range(50):
        question.add_statistics(only_python)
    question.add_statistics(first)
    assert question.relevance(only_python) < before / 2
    assert question.relevance(first) == 1.0


def test_similarity_of_short_texts() -> None:
    question = HuntQuery("reading csv files")
    assert question.similarity("CSV File Reading", "en") == 1.0
    assert 0 < question.similarity("other files", "en") < 0.5
    assert question.similarity("", "en") == question.similarity("weather", "en") == 0.0
    assert (
        question.similarity(url_words("https://csv.example/library/csv-files.html?read=1"), "en")
        == 1.0
    )
    assert url_words("https://csv.example/library/csv.html") == "library csv"


@pytest.mark.parametrize("text", ["", "   ", "site:a.example", "-only -without", "?!"])
def test_a_question_needs_words(text: str) -> None:
    with pytest.raises(UsageError, match="words to search for"):
        HuntQuery(text)


QUICK_FETCHES = 80


def test_focused_crawl_finds_more_than_breadth_first() -> None:
    web, topic = Web(plan_of(8, 0.5)), 5
    base = found_by_crawling(web, topic, QUICK_FETCHES)
    assert base > 0
    assert found_by_hunting(web, topic, "best", QUICK_FETCHES) >= BARS["best"] * base
    assert found_by_hunting(web, topic, "fish", QUICK_FETCHES) >= BARS["fish"] * base


def test_a_focused_crawl_keeps_the_politeness_rules(tmp_path: Path) -> None:
    """The web has all failures, shared domains and all kinds of robots.txt.

    The request log of its servers is checked.
    """
    features = {
        "window_ms": 15_000,
        "fault_window_ms": 5_000,
        "size_exponent": 0.5,
        "subdomains": 0.4,
        "failing": 0.1,
        "limiting": 0.1,
    }
    web = Web(
        WebPlan(
            seed=11,
            hosts=60,
            pages=600,
            languages=("en",),
            traps=0.0,
            topics=6,
            topic_links=0.5,
            topic_named=0.5,
            **features,  # type: ignore[arg-type]
        )
    )
    clock = SimulatedClock(web.plan.epoch_ms)
    pace = (
        f'delay = "{DELAY_MS}ms"\ncourtesy_factor = {COURTESY}\nbackoff = '
        f'"{BACKOFF_MS}ms"\ndomain_connections = {DOMAIN_CONNECTIONS}\n'
    )
    config = parse_config(
        f'[[collection]]\nname = "default"\n{pace}address_connections = 256\n',
        overrides=("fetch.first_byte_timeout=5s",),
    )
    log: list[LogEntry] = []
    request = HuntRequest(
        " ".join(web.topics.words(3)), tuple(web.seeds()), False, time_ms=40_000, agents=50
    )
    fetcher = SimulatedFetcher(web, clock, config.fetch, record=log.append)
    report = hunt(
        HuntOrder(str(tmp_path / "w"), config, request, index=False),
        HuntEnvironment(clock=clock, fetcher=fetcher),
    )
    assert report["pages"] > 100
    assert len({each.host for each in log}) > 20
    unseen, repeated = without_visit(tmp_path / "w", log)
    assert repeated == {}
    broken_rules = violations(log, politeness_rules(web, unseen))
    assert Counter(violation.rule.value for violation in broken_rules) == {}, broken_rules[:5]


@pytest.mark.prove
@pytest.mark.parametrize("strategy", ["best", "fish", "shark"])
def test_focused_crawl_finds_more_on_five_webs(strategy: StrategyName) -> None:
    webs = [Web(plan_of(seed, share)) for share in SHARES for seed in HELD_OUT]
    base = sum(found_by_crawling(web, topic, FETCHES) for web in webs for topic in ASKED_TOPICS)
    relevant = sum(
        found_by_hunting(web, topic, strategy, FETCHES) for web in webs for topic in ASKED_TOPICS
    )
    assert relevant >= BARS.get(strategy, BARS["fish"]) * base
