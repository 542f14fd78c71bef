"""Test the quality of passages (bench/passages.py) against floors.

The floors only rise.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from bench.passages import (
    LANGUAGES,
    articles,
    baseline,
    found_by,
    index_articles,
    questions,
    share,
    windows,
)
from bench.relevance import halves

import bench
from tests.text.data import DATA

FLOORS = tomllib.loads((Path(bench.__file__).parent / "floors.toml").read_text())["passages"]


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_are_in_the_first_passages(language: str, tmp_path: Path) -> None:
    if not (DATA / "xquad").is_dir():
        pytest.skip("XQuAD is missing (set LYCOSA_TEST_DATA)")
    data = questions(DATA, language)
    _, held_out = halves(data.collection)
    finder = index_articles(str(tmp_path / "workspace"), data.collection)
    figure = share(data, found_by(finder, data.collection, []), held_out)
    assert figure >= FLOORS[language]
    if data.answers:  # without answers, a window counts for each paragraph it overlaps
        pages = [page.main_text for _, page in articles(data.collection)]
        texts = (each for page in pages for each in windows(page))
        plain = baseline(texts, data.collection, held_out)
        assert figure >= share(data, plain, held_out)
