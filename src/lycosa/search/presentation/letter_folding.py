"""Fold the letters of a text, each in its place: lower case, without accents.

So that words can be searched for in a text without analysing it. Hot path (bench/search.py).
"""

from __future__ import annotations

import codecs
import functools
import re

from lycosa.text.fold import plain, without_accents

LIGATURES = {"fi": "ﬁ", "fl": "ﬂ", "ff": "ﬀﬃﬄ", "ae": "æ", "oe": "œ", "th": "þ"}
_LIGATURE_LETTERS = frozenset("".join(LIGATURES.values()))
# language -> an encoding with one byte per letter; languages without one use cp1252
_ENCODINGS = {
    **dict.fromkeys(("cs", "hr", "hu", "pl", "ro", "sk", "sl"), "cp1250"),
    **dict.fromkeys(("be", "bg", "kk", "mk", "mn", "ru", "sr", "tg", "uk"), "cp1251"),
    **dict.fromkeys(("et", "lt", "lv"), "cp1257"),
    "el": "cp1253",
    "he": "cp1255",
    "tr": "cp1254",
    "yi": "cp1255",
}
_SYMBOLS_AS_SPACE = "lycosa-symbols-as-space"
_FOLDED = 0x10000  # code points below this are folded
_FOLDABLE = re.compile("[\u00aa-\u024f\u0370-\u052f\u1e00-\u1fff\uff21-\uff5a]")


def folded_in_place(text: str, language: str) -> str:
    """Return the text with each letter folded in its place.

    Encoding to one byte per letter is five times as fast as folding each letter.
    """
    if text.isascii() or not _FOLDABLE.search(text):
        return text.lower()
    encoding = _ENCODINGS.get(language, "cp1252")
    try:
        encoded = text.encode(encoding, _SYMBOLS_AS_SPACE)
    except UnicodeEncodeError:
        return text.translate(_folding())
    return encoded.translate(_folding_bytes(encoding)).decode(encoding, "replace")


@functools.cache
def _folding() -> str:
    """Return the folded form of each code point: lower case, no accent, but ligatures."""
    folded = list(map(chr, range(_FOLDED)))
    for code in (
        *range(0x41, 0x250),
        *range(0x370, 0x530),
        *range(0x1E00, 0x2000),
        *range(0xFF21, 0xFF5B),
    ):
        letter = chr(code)
        if letter.isalpha():
            folded[code] = (
                letter.lower()
                if letter.lower() in _LIGATURE_LETTERS
                else without_accents(plain(letter))[:1]
            )
    return "".join(folded)


@functools.cache
def _folding_bytes(encoding: str) -> bytes:
    """Return `_folding` for the bytes of an encoding, where its result has one byte."""
    table = bytearray(range(256))
    for code in range(256):
        letter = bytes([code]).decode(encoding, "ignore")
        folded = letter.translate(_folding()).encode(encoding, "ignore")
        if len(folded) == 1:
            table[code] = folded[0]
    return bytes(table)


def _symbols_as_space(error: UnicodeError) -> tuple[str, int]:
    """Encode signs that an encoding lacks as spaces; raise the error for letters and digits."""
    assert isinstance(error, UnicodeEncodeError)
    if any(map(str.isalnum, error.object[error.start : error.end])):
        raise error
    return " " * (error.end - error.start), error.end


codecs.register_error(_SYMBOLS_AS_SPACE, _symbols_as_space)
