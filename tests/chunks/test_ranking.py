"""Test the ranking of chunks, near-duplicates and budgets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lycosa.chunks.ranking import (
    IndexTerms,
    PassageRanker,
    RankedChunk,
    RankedPage,
    within_budget,
)
from lycosa.chunks.split import split_page
from lycosa.chunks.tokens import ChunkBudget
from lycosa.search.query.query import parse_query
from lycosa.text.analyze import analyzer_for

MOTHS = """# Moths

Moths fly at night and look for a light.

## Eyes

The eye of a moth reflects almost no light. Engineers copy its surface.

## Food

Most moths drink nectar. Some do not eat at all.
"""
FILLER = "Nothing here is about the question, and it answers nothing."


def page(markdown: str, name: str = "a", score: float = 1.0, language: str = "en") -> RankedPage:
    url = f"https://example.org/{name}"
    return RankedPage("", language, score, split_page(url, markdown, ChunkBudget(60), language))


def texts(ranked: Sequence[RankedChunk]) -> list[str]:
    return [each.chunk.text for each in ranked]


def rank(query: str, *pages: RankedPage, index: IndexTerms | None = None) -> list[RankedChunk]:
    return PassageRanker(parse_query(query), analyzer_for, index).rank(pages)


def test_the_section_with_the_answer_is_first() -> None:
    ranked = rank("what do moths eat?", page(MOTHS), page(FILLER, "b"))
    assert ranked[0].chunk.headings == ("Moths", "Food")
    assert all(FILLER not in text for text in texts(ranked))


def test_words_in_headings_count() -> None:
    sections = "# Tea\n\n## Milk\n\nPour it in first.\n\n## Sugar\n\nPour it in last."
    assert rank("sugar pour", page(sections))[0].chunk.headings == ("Tea", "Sugar")


def test_rare_terms_of_the_index_have_more_weight() -> None:
    pages = page("# One\n\nA common word.\n\n# Two\n\nA rare word.")
    rare = IndexTerms(1_000, {"rare": 1}.get)  # type: ignore[arg-type]

    def document_frequency(field: str, term: str) -> int:
        assert field == "body_en"
        return {"common": 900, "rare": 2}.get(term, 500)

    ranked = rank("common rare", pages, index=IndexTerms(1_000, document_frequency))
    assert rare.documents == 1_000
    assert ranked[0].chunk.headings == ("Two",)
    assert ranked[0].score > ranked[1].score


@pytest.mark.parametrize(
    ("language", "query", "text"),
    [
        ("zh", "月亮", "昨天晚上我们看见了月亮。"),
        ("ja", "富士山", "富士山は日本で一番高い山です。"),
        ("th", "แมว", "แมวนอนบนเก้าอี้"),
        ("hi", "पुस्तक", "मेज पर पुस्तक रखी है।"),
        ("vi", "con mèo", "Con mèo ngủ trên ghế."),
        ("bo", "བོད་སྐད", "ངས་བོད་སྐད་ཤེས།"),
    ],
)
def test_passages_in_many_scripts(language: str, query: str, text: str) -> None:
    pages = page(f"# 1\n\n{text}\n\n# 2\n\nx y z", language=language)
    assert [each.chunk.headings for each in rank(query, pages)] == [("1",)]


def test_near_duplicates_are_counted_once() -> None:
    body = "The event loop runs callbacks in the order in which they were scheduled, one at a time."
    copies = [page(f"{body} Page {number}.", str(number)) for number in range(3)]
    other = page("There was an event in the garden.", "other")
    selected = within_budget(rank("event loop", *copies, other), 5, 0)
    assert [(each.chunk.url[-5:], each.copies) for each in selected] == [("org/0", 2), ("other", 0)]


def test_chunks_above_the_token_budget_are_skipped() -> None:
    large = page("The wolf " + "hunts and hunts and hunts again " * 8, "large", 2.0)
    ranked = rank("wolf", large, page("A wolf.", "small"))
    assert [each.chunk.url[-5:] for each in within_budget(ranked, 5, 20)] == ["small"]
    assert sum(each.chunk.size for each in within_budget(ranked, 5, 60)) <= 60
    assert len(within_budget(ranked, 1, 0)) == 1


@pytest.mark.parametrize("query", ["", "?!", "-moths", '"', "site:example.org", "the of and"])
def test_queries_without_content_words_raise_nothing(query: str) -> None:
    rank(query, page(MOTHS), page(""))
