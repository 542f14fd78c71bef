"""Distinguish languages that share a script, by character n-grams.

A naive Bayes classifier over n-grams of one to four characters and whole words, for the 21 of the
27 languages that share the Latin, Cyrillic, Arabic or Devanagari script. For short texts, where a
detector of a hundred languages is unreliable. `scripts/train_language.py` makes `ngrams.txt` from
the first half of SIB-200 and the Universal Declaration of Human Rights.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Set
from importlib import resources
from typing import NamedTuple

MAX_LENGTH = 4  # characters of an n-gram
MAX_TEXT = 1_000  # characters of a text that are used; more do not change the result
STEP = 0.5  # log-odds between two neighbouring code points of a weight
ZERO = ord("M")  # the code point of weight 0
WORD = re.compile(
    r"(?:[^\W\d_]"
    "|[\u0300-\u036f\u064b-\u0655\u0670\u0900-\u0903\u093a-\u094f\u0962\u0963\u200c\u200d])+"
)
"""A word with its combining marks, which `\\w` leaves out."""


class _Table(NamedTuple):
    """`weights`: n-gram -> one character (ASCII) for each of the `languages`."""

    languages: tuple[str, ...]
    weights: dict[str, str]


def ngrams(text: str) -> Iterator[str]:
    """Yield the n-grams of a text in lower case; `_` marks the beginning and end of a word."""
    for word in WORD.findall(text.lower()):
        padded = f"_{word}_"
        length = len(padded)
        yield from padded
        for size in range(2, MAX_LENGTH + 1):
            yield from [padded[start : start + size] for start in range(length - size + 1)]
        if length > MAX_LENGTH:
            yield padded


class Guess(NamedTuple):
    """`lead`: over the second language, in natural logarithms of the odds; infinite for a single
    candidate. `fit`: log-odds per n-gram against the mean of all languages; low for another
    language.
    """

    language: str
    lead: float
    fit: float


def classify(text: str, languages: Set[str]) -> Guess:
    """Return the most likely of some languages; "" if the tables have no n-gram of the text.

    Args:
        languages: candidates; those without a table are ignored.
    """
    units = list(ngrams(text[:MAX_TEXT]))
    matches: list[str] = []
    table = _tables()[0]
    for other in _tables():
        of_other = list(filter(None, map(other.weights.get, units)))
        if len(of_other) > len(matches):
            matches, table = of_other, other
        if 2 * len(matches) > len(units):  # no n-gram is in two scripts
            break
    weights = "".join(matches).encode()
    width = len(table.languages)
    ranking = sorted(
        (
            (STEP * (sum(weights[place::width]) - ZERO * len(matches)), language)
            for place, language in enumerate(table.languages)
            if matches and language in languages
        ),
        reverse=True,
    )
    if not ranking:
        return Guess("", 0.0, 0.0)
    (score, language), *others = ranking
    return Guess(language, score - others[0][0] if others else math.inf, score / len(units))


@functools.cache
def _tables() -> tuple[_Table, ...]:
    """Read the tables of the four scripts, on demand (10 ms)."""
    text = resources.files("lycosa.text").joinpath("ngrams.txt").read_text(encoding="utf-8")
    tables = []
    for section in text.split("\n\n"):
        languages, _, lines = section.partition("\n")
        fields = lines.split()
        weights = dict(zip(fields[::2], fields[1::2], strict=True))
        tables.append(_Table(tuple(languages.split()), weights))
    return tuple(tables)
