"""Similarity of words: inflections, and names in two scripts."""

from __future__ import annotations

import functools

from anyascii import anyascii

MIN_LETTERS = 4  # shorter words resemble too many
MIN_LIKENESS = 0.5  # share of common trigrams (Dice)
BEGINNING = 3  # letters that compared words have in common


def grams(word: str) -> set[str]:
    """Return the trigrams of a word with its boundaries."""
    framed = f"^{word}$"
    return {framed[place : place + 3] for place in range(len(framed) - 2)}


def likeness(one: set[str], other: set[str]) -> float:
    """Return Dice's coefficient of two sets of trigrams."""
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0


@functools.lru_cache(maxsize=65_536)
def sound(word: str) -> str:
    """Return a word in Latin letters, about as it sounds (путин -> putin), or ""."""
    written = anyascii(word).lower().replace("'", "").replace("`", "")
    return (
        written if len(written) >= MIN_LETTERS and written.isascii() and written.isalpha() else ""
    )
