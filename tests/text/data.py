"""Multilingual texts outside the repository; tests skip without them."""

from __future__ import annotations

import csv
import functools
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

DATA = Path(
    os.environ.get("LYCOSA_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
)
_NAMESPACE = "{http://www.unhchr.ch/udhr}"


@functools.cache
def sib200() -> dict[str, list[str]]:
    """Return 701 sentences per language; keys are names of files."""
    folder = _folder("sib200")
    return {
        path.stem: [text.strip() for _, _, text in _rows(path)]
        for path in sorted(folder.glob("*.tsv"))
    }


def sib200_numbered(language: str) -> list[tuple[int, str]]:
    """Return (index_id, sentence), sorted; articles are contiguous."""
    rows = _rows(_folder("sib200") / f"{language}.tsv")
    return sorted((int(number), text.strip()) for number, _, text in rows)


@functools.cache
def declaration(language: str) -> dict[int, str]:
    """Return the articles of the Declaration of Human Rights by number.

    Paragraphs are joined by newline.
    """
    root = ElementTree.parse(_folder("udhr27") / f"{language}.xml").getroot()
    articles = {}
    for article in root.iter(f"{_NAMESPACE}article"):
        paragraphs = [
            " ".join("".join(para.itertext()).split()) for para in article.iter(f"{_NAMESPACE}para")
        ]
        articles[int(article.attrib["number"])] = "\n".join(
            paragraph for paragraph in paragraphs if paragraph
        )
    return articles


def declaration_languages() -> list[str]:
    folder = DATA / "udhr27"
    return sorted(path.stem for path in folder.glob("*.xml")) if folder.is_dir() else []


def _folder(name: str) -> Path:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing (set LYCOSA_TEST_DATA)")
    return folder


def _rows(path: Path) -> list[list[str]]:
    """Return the rows without the header. Texts with quotation marks are quoted, as in CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t"))[1:]
