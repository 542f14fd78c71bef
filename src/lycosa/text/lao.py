"""Split Lao words into syllables.

A syllable begins with a vowel that is written before its consonant, or with a consonant that bears
a vowel or tone; a consonant that bears none ends the syllable before it (Phissamay, Dalaloy,
Chanhsililath et al., "Syllabification of Lao Script for Line Breaking", PAN Localization working
papers, 2004, cut down to what needs no list of exceptions).
"""

from __future__ import annotations

import re

_CONSONANT = "\u0e81-\u0eae\u0edc\u0edd"
_VOWEL_OR_TONE = "\u0eb0-\u0ebd\u0ec8-\u0ecd"
_START = re.compile(
    f"(?=[\u0ec0-\u0ec4][{_CONSONANT}])"
    f"|(?<![\u0ec0-\u0ec4])(?<![\u0ec0-\u0ec4]\u0eab)(?<!\u0eab)(?=[{_CONSONANT}][{_VOWEL_OR_TONE}"
    f"])"
    f"|(?=\u0eab[{_CONSONANT}][{_VOWEL_OR_TONE}])"
)


def syllables(word: str) -> list[str]:
    """Split a word before each syllable."""
    return [syllable for syllable in _START.split(word) if syllable]
