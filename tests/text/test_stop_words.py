"""Language identification by stop words."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.text.identify import CLOSE
from lycosa.text.stop_words import vote
from tests.text.data import sib200

SENTENCES_PER_TEXT = 4  # sentences per text
# Minimum share of texts decided by stop words; the lists were not derived from these sentences.
DECIDED = {"en": 0.95, "de": 0.9, "fr": 0.95, "it": 0.9, "es": 0.5, "vi": 0.85, "tl": 0.95}


def test_votes_are_correct_in_27_languages() -> None:
    votes = {
        stem: Counter(
            result.language if result else ""
            for start in range(0, len(sentences) - SENTENCES_PER_TEXT, SENTENCES_PER_TEXT)
            for result in [vote(sentences[start : start + SENTENCES_PER_TEXT])]
        )
        for stem, sentences in sib200().items()
    }
    assert len(votes) == 28
    for stem, counts in votes.items():
        language = stem.split("-")[0]
        wrong = counts.keys() - {language, ""} - (CLOSE if language in CLOSE else set())
        assert not wrong, (stem, counts)
        assert counts[language] >= DECIDED.get(language, 0.0) * counts.total(), (stem, counts)


@pytest.mark.parametrize(
    "parts",
    [
        ["The list of the pages", "Die Liste der Seiten und der Bilder"],
        ["The list of the pages", "A list: 1, 2, 3"],
        ["The list of the pages and их описания"],
        ["o livro de um homem que não é", "o libro de un home que non é"],
        ["de la, de la, de la"],
        ["", ""],
    ],
)
def test_no_vote_for_mixed_or_ambiguous_texts(parts: list[str]) -> None:
    assert vote(parts) is None


@given(st.lists(st.text(max_size=500), min_size=1, max_size=4))
def test_never_raises(parts: list[str]) -> None:
    result = vote(parts)
    assert result is None or 0.5 < result.share <= 1.0
