"""Texts that users read follow the terms and layout rules of CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import wording

DOCUMENTS = wording.documents()


def test_terms_are_read_from_contributing_and_found_in_texts() -> None:
    assert len(wording.terms()) > 100
    assert len(list(wording.problems(wording.Text("x", 1, "Nobody crawls here for good: .5")))) == 3


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_have_short_lines_and_sentences(path: Path) -> None:
    rows = list(wording.layout_problems(path))
    assert not rows, "\n".join(rows[:20])


def test_no_text_uses_a_term_to_avoid() -> None:
    texts = list(wording.all_texts())
    assert len(texts) > 700
    rows = [problem for text in texts for problem in wording.problems(text)]
    assert not rows, f"{len(rows)} texts (python -m tests.wording): " + "\n".join(rows[:20])


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((wording.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
