"""How many slips of the finger lie between two words: letters too many, too few, wrong, or two in
the wrong order.

Damerau and Levenshtein's distance with neighbouring letters exchanged at most once (Damerau, "A
technique for computer detection and correction of spelling errors", CACM 1964; optimal string
alignment).
"""

from __future__ import annotations

import functools
import re
import unicodedata

SYLLABLE = 3
"""Letters of Hangul in a syllable, at most."""
_SYLLABLES = re.compile("(?:[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?)+")


@functools.lru_cache(maxsize=256)
def by_syllables(word: str, most: int) -> bool:
    """Whether a wrong syllable of a folded word counts as one slip, as a wrong letter does: where
    it is Hangul, whose syllables are taken apart, and has more of them than may be wrong (else any
    other word would do).
    """
    return bool(_SYLLABLES.fullmatch(word)) and len(unicodedata.normalize("NFC", word)) > most


def slips_between(one: str, other: str, most: int) -> int:
    """The distance of two folded words, of which `one` is what was typed."""
    found = slips(one, other, most)
    if found <= most or not by_syllables(one, most):
        return found
    one, other = unicodedata.normalize("NFC", one), unicodedata.normalize("NFC", other)
    return most + 1 if set(one).isdisjoint(other) else slips(one, other, most)


def slips(one: str, other: str, most: int) -> int:
    """The distance of two words; `most` + 1 if it is more than `most`, which is small: each slip is
    tried at the first letter that differs. Hot path: bench/suggest.py.
    """
    if one == other:
        return 0
    if not most or abs(len(one) - len(other)) > most:
        return most + 1
    start = 0
    shorter = min(len(one), len(other))
    while start < shorter and one[start] == other[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    if not one or not other:
        return len(one) + len(other)
    swapped = one[0] == other[1:2] and one[1:2] == other[0]
    if most == 1:  # it leaves no more than this between what is equal on both sides
        return 1 if len(one) == len(other) == (2 if swapped else 1) else 2
    rests = [(one[1:], other[1:]), (one[1:], other), (one, other[1:])]
    if swapped:
        rests.append((one[2:], other[2:]))
    return 1 + min(slips(*rest, most - 1) for rest in rests)
