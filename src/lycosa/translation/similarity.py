"""Words that look or sound alike: inflections of one word, and one name in two scripts."""

from __future__ import annotations

import functools

from anyascii import anyascii

SHORTEST = 4  # letters: shorter words resemble too many
# of trigrams shared (Dice); .4 and .6 give the same on SIB-200's held-out fifth within .002
LEAST = 0.5
BEGINNING = 3  # letters that words must share to be compared at all


def grams(word: str) -> set[str]:
    """The runs of three letters of a word, its beginning and end among them."""
    framed = f"^{word}$"
    return {framed[place : place + 3] for place in range(len(framed) - 2)}


def likeness(one: set[str], other: set[str]) -> float:
    """Dice's coefficient of two words' trigrams: 0 to 1."""
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0


@functools.lru_cache(maxsize=65_536)
def sound(word: str) -> str:
    """A word in plain Latin letters, about as it sounds: путин -> putin. "" where that tells
    nothing.
    """
    written = anyascii(word).lower().replace("'", "").replace("`", "")
    return written if len(written) >= SHORTEST and written.isascii() and written.isalpha() else ""
