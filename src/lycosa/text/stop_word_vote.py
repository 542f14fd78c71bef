"""Identify the language of a text in Latin letters by its stop words.

They are a quarter to a half of the words of running text. Where one language leads clearly in every
part of a text, no model is needed, and a page costs a tenth of the time. Related languages share
stop words, so that they rarely lead (Portuguese and Galician) and the caller asks a model.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from lycosa.text.stop_words import LANGUAGES, stop_words

MIN_WORDS = 2  # stop words of the language in each part
MIN_RATIO = 1.5  # of its stop words to those of the second language, in the whole text
BITS = 8  # of a count in a part
_BYTES = len(LANGUAGES)

_OTHER_SCRIPT = re.compile("[\u0370-\u1dff\u2c00-\ua71f\ua800-\ufaff\U00010000-\U0003ffff]")


class Vote(NamedTuple):
    """`share`: of the stop words of the first two languages, 0 to 1."""

    language: str
    share: float


@functools.cache
def _counters() -> dict[str, int]:
    """Return stop word -> a 1 in the byte of each language that has it."""
    counters: dict[str, int] = {}
    for place, language in enumerate(LANGUAGES):
        for word in stop_words(language):
            counters[word] = counters.get(word, 0) + (1 << BITS * place)
    return counters


def vote(parts: Sequence[str]) -> Vote | None:
    """Return the language that leads in every part, or None.

    Args:
        parts: of a text, each at most 500 characters long.
    """
    find, totals = _counters().get, [0] * _BYTES
    leaders = set()
    for part in parts:
        if not part.isascii() and _OTHER_SCRIPT.search(part):
            return None
        counts = sum(map(find, part.lower().split(), repeat(0))).to_bytes(_BYTES, "little")
        most = max(counts)
        leaders.add(counts.index(most))
        if most < MIN_WORDS or counts.count(most) > 1 or len(leaders) > 1:
            return None
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    second, first = sorted(totals)[-2:]
    if first < MIN_RATIO * second:
        return None
    return Vote(LANGUAGES[leaders.pop()], first / (first + second))
