"""Floors of the quality of passages (bench/passages.py); they only rise."""

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
        pytest.skip("XQuAD is not there (set LYCOSA_TEST_DATA)")
    of = questions(DATA, language)
    _, held_out = halves(of.collection)
    pages = [page.main_text for _, page in articles(of.collection)]
    plain = baseline((each for page in pages for each in windows(page)), of.collection)
    finder = index_articles(str(tmp_path / "workspace"), of.collection)
    figure = share(of, found_by(finder, of.collection, []), held_out)
    assert figure >= FLOORS[language]
    assert figure >= share(of, plain, held_out)
