"""Fold characters for search: compatibility forms, case, vowel signs, accents.

Applied to pages and queries, before stemming (`plain`) and after (`without_accents`).
"""

from __future__ import annotations

import re
import unicodedata

MAX_TERM_BYTES = 200
"""Longer tokens are not indexed; words have at most 150 bytes (Devanagari compounds)."""

# The most frequent characters not in NFKC, and the soft hyphen; replacing them is cheaper than
# normalising.
_USUAL = (("\xa0", " "), ("…", "..."), ("\u2009", " "), ("\u202f", " "), ("\xad", ""))

# Names with signs, which tokenizers drop. Each pattern starts with one literal character: fast.
# Letters of scripts from Thai on may follow and precede, which write no spaces: C++教程.
_LETTER = r"[^\W\u0e00-\U0010ffff]"
_PLUSPLUS = re.compile(rf"\+(?=\+)(?<=(?<!{_LETTER})(?<!\.)[A-Za-z]\+)\+(?!{_LETTER}|\+)")
_SHARP = re.compile(rf"#(?<=(?<!{_LETTER})(?<!\.)[CcFf]#)(?!{_LETTER}|#)")
_DOTNET = re.compile(
    rf"\.(?:NET(?<=(?<![^\s\u0e00-\U0010ffff])....)|net(?<=(?<!\S)....))(?!{_LETTER})"
)

# ICU ends a word at these digits, NFKC does not: CO₂ is one word like CO2.
_SMALL_DIGITS = tuple(zip("²³₀₁₂₃₄₅₆₇₈₉", "230123456789", strict=True))

_NAME_WORD = re.compile(r"\w+")
_VOWEL_SIGNS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"  # Arabic
)
# Digits of all scripts (Unicode property Nd).
_DIGITS = {
    zero + value: ord("0") + value
    for zero in (0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x17E0, 0x1810)
    for value in range(10)
}
_FIRST_DIGITS = "\u0600"
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u180b-\u180e\ufe00-\ufe0f]"
)
# Russian and others write stress in encyclopedias only: Росси́я. No composed letter has it.
_STRESS = re.compile("(?<=[\u0400-\u052f])[\u0300\u0301]")
# Characters that `plain` removes or replaces besides NFKC.
_ODD = re.compile(f"[{_INVISIBLE.pattern[1:-1]}{_VOWEL_SIGNS.pattern[1:-1]}\u0130\u0300\u0301]")
# At these characters tantivy's tokenizer would divide a word.
_DIVIDING = re.compile(f"[{_INVISIBLE.pattern[1:-1]}\u0300-\u036f]")
_LATIN_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ł": "l",
        "ı": "i",
        "ð": "d",
        "þ": "th",
        "ё": "е",
    }
)


def compatible(text: str) -> str:
    """Normalise to NFKC: full-width forms, ligatures, superscripts. Fast for usual texts."""
    if text.isascii():
        return text
    for odd, usual in _USUAL:
        if odd in text:
            text = text.replace(odd, usual)
    if "İ" in text:  # its lower case is two characters, the second a combining dot
        text = text.replace("İ", "I")
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def with_names(text: str) -> str:
    """Spell out names with signs: C++ -> Cplusplus, C# -> Csharp, .NET -> dotnet, CO₂ -> CO2."""
    if "+" in text:
        text = _PLUSPLUS.sub("plusplus", text)
    if "#" in text:
        text = _SHARP.sub("sharp", text)
    if "." in text:
        text = _DOTNET.sub("dotnet", text)
    if not text.isascii():
        for small, digit in _SMALL_DIGITS:
            if small in text:
                text = text.replace(small, digit)
    return text


def plain(word: str) -> str:
    """Fold a word: NFKC, case (Unicode 3.13 D145), digits; drop invisible and vowel signs."""
    if word.isascii():
        return word.lower()
    if not word.isalpha() and max(word) >= _FIRST_DIGITS:  # scripts from Arabic on: may be a number
        word = word.translate(_DIGITS)
    if not _ODD.search(word) and unicodedata.is_normalized("NFKC", word):  # nearly all words
        word = word.casefold()
        return (
            word if unicodedata.is_normalized("NFKC", word) else unicodedata.normalize("NFKC", word)
        )
    word = _INVISIBLE.sub("", compatible(word)).casefold()
    if not unicodedata.is_normalized("NFKC", word):
        word = unicodedata.normalize("NFKC", word)
    return _STRESS.sub("", _VOWEL_SIGNS.sub("", word))


def undivided(word: str) -> str:
    """Drop invisible characters and accents that are characters of their own after NFKC."""
    return word if word.isascii() else _DIVIDING.sub("", word)


def without_accents(word: str) -> str:
    """Strip marks of Latin and Greek letters only: café -> cafe, Ελλάδα -> Ελλαδα."""
    if word.isascii():
        return word
    word = word.translate(_LATIN_LETTERS)
    if word.isascii() or not (
        "\u00c0" <= word[0] <= "\u03ff" or "\u1e00" <= word[0] <= "\u1fff" or word[0].isascii()
    ):
        return word
    base = "".join(
        character
        for character in unicodedata.normalize("NFKD", word)
        if not unicodedata.combining(character)
    )
    return base.translate(_LATIN_LETTERS)  # of letters with an accent: ǿ


def name_words(text: str) -> list[str]:
    """Return the words of a person's name for comparison: without case, accents, punctuation."""
    words = _NAME_WORD.findall(compatible(text[:1_000]).casefold())
    return [without_accents(word) for word in words]


def pieces(word: str) -> list[str]:
    """Return the runs of letters, digits and marks in a word: `asyncio.run` has two."""
    if word.isalnum():
        return [word]
    tokens: list[str] = []
    start = -1
    for place, character in enumerate(word):
        if character.isalnum() or (start >= 0 and unicodedata.category(character)[0] == "M"):
            if start < 0:
                start = place
        elif start >= 0:
            tokens.append(word[start:place])
            start = -1
    if start >= 0:
        tokens.append(word[start:])
    return tokens
