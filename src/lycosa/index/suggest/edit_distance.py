"""Edit distance of words: Damerau-Levenshtein in the form of optimal string alignment.

Insertions, deletions, substitutions and transpositions of neighbouring letters count 1 each
(Damerau, "A technique for computer detection and correction of spelling errors", CACM 1964).
"""

from __future__ import annotations

import functools
import re
import unicodedata

SYLLABLE = 3
"""Maximum number of letters in a Hangul syllable."""
_SYLLABLES = re.compile("(?:[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?)+")


@functools.lru_cache(maxsize=256)
def by_syllables(word: str, max_distance: int) -> bool:
    """Return whether a wrong syllable of a folded word counts as one edit.

    It does in Hangul, whose syllables are decomposed, if the word has more than `max_distance`
    syllables: otherwise every other word would be similar.
    """
    return (
        bool(_SYLLABLES.fullmatch(word)) and len(unicodedata.normalize("NFC", word)) > max_distance
    )


def word_distance(typed: str, other: str, max_distance: int) -> int:
    """Return the distance of two folded words, `max_distance` + 1 if it is larger."""
    distance = edit_distance(typed, other, max_distance)
    if distance <= max_distance or not by_syllables(typed, max_distance):
        return distance
    typed, other = unicodedata.normalize("NFC", typed), unicodedata.normalize("NFC", other)
    if set(typed).isdisjoint(other):
        return max_distance + 1
    return edit_distance(typed, other, max_distance)


def edit_distance(one: str, other: str, max_distance: int) -> int:
    """Return the distance of two strings, `max_distance` + 1 if it is larger.

    Tries each edit at the first letter that differs, so `max_distance` must be small. Hot path:
    bench/suggest.py.
    """
    if one == other:
        return 0
    if not max_distance or abs(len(one) - len(other)) > max_distance:
        return max_distance + 1
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
    if max_distance == 1:  # the common prefix and suffix are removed
        return 1 if len(one) == len(other) == (2 if swapped else 1) else 2
    rests = [(one[1:], other[1:]), (one[1:], other), (one, other[1:])]
    if swapped:
        rests.append((one[2:], other[2:]))
    return 1 + min(edit_distance(*rest, max_distance - 1) for rest in rests)
