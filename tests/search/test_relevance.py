"""Floors of quality on collections that nobody here made; bench/relevance.py prints the figures.
They only rise.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from bench.relevance import (
    bm25_rankings,
    declarations,
    found_first,
    halves,
    index_collection,
    index_declarations,
    judged,
    mean,
    rankings,
)

import bench
from tests.text.data import DATA

FLOORS = tomllib.loads((Path(bench.__file__).parent / "floors.toml").read_text())["relevance"]
DEPTH = 100
LOSS = 0.98
"""Share of the figure without feedback that `auto` must keep."""
FIRST = 0.95  # of the articles of a declaration


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_questions_are_answered_better_than_by_plain_bm25(name: str, tmp_path: Path) -> None:
    matches = {collection.name: collection for collection in judged(DATA)}
    if name not in matches:
        pytest.skip(f"{name} is not there (set LYCOSA_TEST_DATA)")
    collection = matches[name]
    _, held_out = halves(collection)
    searcher = index_collection(str(tmp_path / "workspace"), collection)
    off, auto = (
        mean(
            collection,
            rankings(
                searcher, collection, held_out, DEPTH, language=collection.language, feedback=mode
            ),
            held_out,
        )
        for mode in ("off", "auto")
    )
    plain = {number: ranking[:DEPTH] for number, ranking in bm25_rankings(collection).items()}
    assert off >= mean(collection, plain, held_out)
    assert auto >= max(FLOORS[name], LOSS * off)


@pytest.mark.prove
def test_every_article_is_found_by_its_first_sentence(tmp_path: Path) -> None:
    if not (DATA / "udhr27").is_dir():
        pytest.skip("the declarations are not there (set LYCOSA_TEST_DATA)")
    texts = declarations(DATA / "udhr27")
    searcher = index_declarations(str(tmp_path / "workspace"), texts)
    shares = {stem: found_first(searcher, stem, articles) for stem, articles in texts.items()}
    assert len(shares) == 28
    assert {stem: share for stem, share in shares.items() if share < FIRST} == {}
