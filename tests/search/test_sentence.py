"""Queries that are sentences: detection, term weights and feedback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.search.engine.search_query import readings_of
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.federation.wire import QueryMessage
from lycosa.search.presentation.answer import answer
from lycosa.search.query.query import parse_query
from lycosa.search.query.reading import read
from lycosa.search.ranking.feedback import TERMS, expansion, strength
from lycosa.search.ranking.sentence import MAX_TERMS, is_sentence, sentence_terms
from lycosa.text.function_words import plain_word
from tests.index.corpus import Corpus, page

WINGS = (
    "The wing of an aircraft bends under load. Flutter of a wing is caused by the flow of air "
    "over an elastic aircraft structure."
)
PAGES = {
    "http://a.test/wing": page(WINGS, language="en", title="Wings"),
    "http://a.test/flutter": page(
        "Flutter damages the elastic structure of aircraft; damping prevents flutter.",
        language="en",
        title="Flutter",
    ),
    "http://a.test/air": page(
        "Air flow over a structure in a tunnel, with damping of the flow.",
        language="en",
        title="Tunnel",
    ),
    "http://a.test/heat": page(
        "Heat conduction in a slab of metal. What are metals made of?", language="en", title="Heat"
    ),
    "http://a.test/bread": page(
        "Bread is baked from flour. It is what people eat.", language="en", title="Bread"
    ),
    "http://a.test/brot": page(
        "Brot wird aus Mehl gebacken. Was essen die Leute?", language="de", title="Brot"
    ),
    **{
        f"http://a.test/{n}": page(
            f"Something about number{n} and trees.", language="en", title=f"Garden {n}"
        )
        for n in range(20)
    },
}


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    return Corpus(str(tmp_path_factory.mktemp("sentence") / "workspace")).indexed(PAGES.items())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("wolf spider silk", False),
        ("how spiders hunt", True),
        ("wer hat das getan", True),
        ("एलन के पास सैक", False),
        ("spiders hunt?", True),
        ("clothes?", False),
        ("蜘蛛 捕猎？", True),
        ("one two three four five six", True),
        ("one two three four five", False),
        ('"what is this"', False),
        ("intitle:what is it", False),
    ],
)
def test_is_sentence(query: str, expected: bool) -> None:
    parsed = parse_query(query)
    parts = max(len(reading.parts) for reading in read(parsed, ("en",)))
    assert is_sentence(parsed, parts) is expected


@pytest.mark.parametrize(
    ("language", "query", "expected"),
    [
        ("zh", "怎么安装 Debian", True),
        ("zh", "軟件包如何安裝", True),
        ("zh", "安装 Debian 软件包", False),
        ("zh", "几何学 入门", False),
        ("ja", "日本の首都はどこ", True),
        ("ja", "なぜ空は青い", True),
        ("ja", "いつかの夏", False),
        ("th", "ติดตั้ง Debian อย่างไร", True),
        ("th", "ติดตั้ง Debian", False),
        ("lo", "ຕິດຕັ້ງ Debian ແນວໃດ", True),
        ("lo", "ຕິດຕັ້ງ Debian Linux", False),
        ("my", "ဘာကြောင့်အပြာရောင်", True),
        ("my", "မြန်မာ မြို့တော် ကောင်းကင်", False),
        ("km", "តើរាជធានីនៅឯណា", True),
        ("km", "របៀបដំឡើង Debian", False),
        ("bo", "ཇི་ལྟར་བྱེད་དགོས", True),
        ("bo", "བོད་ཀྱི་རྒྱལ་ས", False),
    ],
)
def test_question_words_of_languages_without_spaces(
    language: str, query: str, expected: bool
) -> None:
    parsed = parse_query(query)
    readings = read(parsed, ("en", language))
    parts = max(len(reading.parts) for reading in readings)
    assert is_sentence(parsed, parts, readings) is expected


def test_vowel_signs_are_part_of_a_word() -> None:
    assert [plain_word(word) for word in ("है।", "(कैसे)", "ကြောင့်", "What?")] == [
        "है",
        "कैसे",
        "ကြောင့်",
        "what",
    ]


def terms(query: str, language: str = "en") -> list[str]:
    (reading,) = read(parse_query(query), (language,))
    return [word.unit.surface for word in sentence_terms(reading, lambda _: 1).counts]


def test_function_words_are_dropped_unless_there_are_no_others() -> None:
    assert terms("what are the metals that people eat with bread?") == [
        "metals",
        "people",
        "eat",
        "bread?",
    ]
    assert terms("wie ist das Brot in der Stadt gebacken", "de") == ["Brot", "Stadt", "gebacken"]
    assert terms("who is it that they are") == ["who", "is", "it", "that", "they", "are"]


def test_terms_are_weighted_by_their_count_in_the_sentence() -> None:
    (reading,) = read(parse_query("wings bend and a wing that bends breaks other wings"), ("en",))
    counts = {
        word.unit.surface: count
        for word, count in sentence_terms(reading, lambda _: 1).counts.items()
    }
    assert counts["wings"] == 3  # by its stem
    assert counts["bend"] == 2


def test_long_sentence_is_reduced_to_its_rarest_words_with_a_note(searcher: Searcher) -> None:
    query = " ".join(["flutter", *(f"gardenword{number}" for number in range(MAX_TERMS + 20))])
    results = searcher.search(SearchRequest(query, language="en"))
    assert [note.code for note in results.notes] == ["rarest_words"]  # type: ignore[attr-defined]
    assert {hit.url for hit in results.hits} == {"http://a.test/wing", "http://a.test/flutter"}
    (reading,) = read(parse_query(query), ("en",))
    common = sentence_terms(reading, lambda word: 9 if word.unit.surface == "flutter" else 1)
    assert common.left_out == 21
    assert "flutter" not in {word.unit.surface for word in common.counts}


def test_any_word_matches_and_pages_with_all_words_rank_first(searcher: Searcher) -> None:
    matches = searcher.search(
        SearchRequest(
            "what is the bread that people bake from flour?", language="en", feedback="off"
        )
    ).hits
    assert matches[0].url == "http://a.test/bread"
    assert all("garden" not in hit.title.lower() for hit in matches)
    results = searcher.search(
        SearchRequest(
            "flutter damages the elastic structure of aircraft", language="en", feedback="off"
        )
    )
    assert results.hits[0].url == "http://a.test/flutter"
    assert len(results.hits) > 1


def test_language_of_a_question_is_detected(searcher: Searcher) -> None:
    assert (
        searcher.search(SearchRequest("was wird aus Mehl gebacken?")).hits[0].url
        == "http://a.test/brot"
    )
    assert (
        searcher.search(SearchRequest("what is baked from flour?")).hits[0].url
        == "http://a.test/bread"
    )


TOPIC = "the elastic behaviour of wings and their vibration in a stream"


def test_feedback_adds_terms_of_the_first_results(searcher: Searcher) -> None:
    off, on = (
        searcher.search(SearchRequest(TOPIC, language="en", feedback=mode))
        for mode in ("off", "on")
    )
    assert off.expansion == ()
    assert {"aircraft", "flutter"} <= set(on.expansion)
    assert len(on.expansion) <= TERMS
    assert not {"the", "of", "is"} & set(on.expansion)
    assert "http://a.test/air" in {hit.url for hit in on.hits}
    assert "http://a.test/air" not in {hit.url for hit in off.hits}


@pytest.mark.parametrize(
    "query",
    [
        "how do wings bend under load?",
        "flutter damages the elastic structure of aircraft",
        "wing flutter",
        "",
    ],
)
def test_auto_adds_no_terms_when_the_first_result_leads(searcher: Searcher, query: str) -> None:
    assert searcher.search(SearchRequest(query, language="en")).expansion == ()


def test_explanation_with_feedback_adds_up_to_the_score(searcher: Searcher) -> None:
    for hit in searcher.search(
        SearchRequest(TOPIC, language="en", feedback="on", explain=True)
    ).hits:
        assert hit.explanation is not None
        details = hit.explanation
        assert details.words * details.prior * details.freshness == pytest.approx(
            hit.score, rel=1e-3
        )


def test_feedback_strength_decreases_with_the_lead_of_the_first_result() -> None:
    assert (strength([1.0] * 10), strength([3.0] + [1.0] * 9)) == (1.0, 0.0)
    assert 0 < strength([1.6] + [1.0] * 9) < 1
    assert strength([1.0, 0.9]) == 0.0


def test_expansion_terms_have_a_fixed_share_of_the_weight() -> None:
    result = expansion(
        [(2.0, (("en", "wing", 1.0), ("en", "air", 0.5))), (1.0, (("en", "wing", 1.0),))]
    )
    assert result is not None
    assert [term for _, term, _ in result.terms] == ["wing", "air"]
    assert sum(weight for *_, weight in result.terms) == pytest.approx(0.6 / 0.4)
    assert expansion([]) is None
    assert expansion([(1.0, ())]) is None


def test_expansion_is_sent_to_other_shards(searcher: Searcher) -> None:
    from lycosa.search.presentation import answer as answers

    index = searcher.index
    assert index is not None
    request = SearchRequest(TOPIC, language="en", feedback="on")
    question = answers._with_feedback(
        index, answers._search_query(index, parse_query(TOPIC), request), request
    )
    assert question.expansion is not None
    sent = json.loads(QueryMessage.of(TOPIC, question).model_dump_json())
    assert QueryMessage.model_validate(sent).question() == question
    assert readings_of(question)
    assert answer(index, request).expansion == tuple(
        term for _, term, _ in question.expansion.terms
    )


def test_unknown_feedback_mode_is_an_error(tmp_path: Path) -> None:
    from tests.cli.conftest import run_here

    done = run_here("-w", str(tmp_path), "search", "x", "--feedback", "maybe")
    done.expect(2, err=("--feedback maybe: choose auto, on, off",))
