"""How many slips of the finger lie between two words: letters too many, too few, wrong, or two in the wrong order.

Damerau and Levenshtein's distance with neighbouring letters exchanged at most once (Damerau, "A technique for computer detection and
correction of spelling errors", CACM 1964; optimal string alignment).
"""

from __future__ import annotations

import re
import unicodedata

_HANGUL = re.compile("[\u1100-\u11ff]")


def letters_of_slip(word: str) -> int:
    """How many letters of a folded word one slip may change: of Hangul, whose syllables are taken apart, those of a syllable."""
    return 3 if _HANGUL.match(word) else 1


def slips_between(one: str, other: str, most: int) -> int:
    """The distance of two folded words; in Hangul a wrong syllable is one slip, as a wrong letter is."""
    found = slips(one, other, most)
    if found > most and _HANGUL.match(one):
        return slips(unicodedata.normalize("NFC", one), unicodedata.normalize("NFC", other), most)
    return found


def slips(one: str, other: str, most: int) -> int:
    """The distance of two words; `most` + 1 if it is more than `most`."""
    if one == other:
        return 0
    if abs(len(one) - len(other)) > most:
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
        return min(most + 1, len(one) + len(other))
    if max(len(one), len(other)) > 4 * most + 4 and most < 2:
        return most + 1  # one slip leaves nothing so long between what is equal on both sides
    return _table(one, other, most)


def _table(one: str, other: str, most: int) -> int:
    before_last: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(last[column] + 1, line[column - 1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before_last[column - 2] + 1)
            line.append(cost)
        if min(line) > most and min(last) > most:
            return most + 1
        before_last, last = last, line
    return min(most + 1, last[-1])
