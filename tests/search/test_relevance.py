"""Floors of quality on collections that nobody here made; bench/relevance.py prints the figures. They only rise."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.relevance import (
    cranfield,
    declarations,
    found_first,
    halves,
    index_cranfield,
    index_declarations,
    mean_average_precision,
    rankings,
)

from tests.text.data import DATA

MAP = 0.38  # on the held-out half of Cranfield's questions; .398 measured (over 1,000 results), bar .33
FIRST = 0.95  # of the articles of a declaration


def test_cranfield(tmp_path: Path) -> None:
    if not (DATA / "cranfield").is_dir():
        pytest.skip("Cranfield is not there (set LYCOSA_TEST_DATA)")
    collection = cranfield(DATA / "cranfield")
    _, held_out = halves(collection)
    searcher = index_cranfield(str(tmp_path / "workspace"), collection)
    found = rankings(searcher, {number: collection.questions[number] for number in held_out}, depth=100)
    assert mean_average_precision(found, collection.relevant, held_out) >= MAP


@pytest.mark.prove
def test_every_article_is_found_by_its_first_sentence(tmp_path: Path) -> None:
    if not (DATA / "udhr27").is_dir():
        pytest.skip("the declarations are not there (set LYCOSA_TEST_DATA)")
    texts = declarations(DATA / "udhr27")
    searcher = index_declarations(str(tmp_path / "workspace"), texts)
    shares = {stem: found_first(searcher, stem, articles) for stem, articles in texts.items()}
    assert len(shares) == 28
    assert {stem: share for stem, share in shares.items() if share < FIRST} == {}
