"""Fold phrases, words and typed text for comparison: case, accents, widths, variant letters.

Hangul syllables are decomposed into letters (Unicode 3.12), so that an incomplete syllable is a
prefix of the complete one, and a wrong letter is one edit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from icu4py.breakers import WordBreaker

from lycosa.core.patterns import lazy_pattern
from lycosa.text.fold import plain, without_accents
from lycosa.text.letters import without_variants

MAX_STARTS = 8
"""Words of a phrase whose prefixes match it."""

CYRILLIC = "\u0410-\u044f"
HAN_AND_KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff"
"""Frequent letters. Words of them are only put into lower case."""

_CACHED_WORDS = 10_000  # about 2 MB
_HANGUL = lazy_pattern("[\uac00-\ud7a3]")
_SPACES = lazy_pattern(r"\s+")
_LEADING = lazy_pattern(r"^[^\w]+")
_START = lazy_pattern(r"(?<![^\W_])[^\W_]")
_EAST_ASIAN = lazy_pattern("[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_UNSPACED = lazy_pattern("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_WORD = lazy_pattern(r"[^\W\d_]")


def folded(text: str) -> str:
    """Return the folded form of a phrase or word. White space, also at the end, is one space."""
    text = _SPACES.sub(" ", text)
    if text.isascii():
        return _LEADING.sub("", text.lower())
    words = map(_word, text.split(" "))
    text = _LEADING.sub("", " ".join(words))
    return unicodedata.normalize("NFD", text) if _HANGUL.search(text) else text


def folded_all(texts: Iterable[str]) -> list[str]:
    """Return `folded` of texts, stripped. Repeated words are folded once."""
    words, results = _Words(), []
    for text in texts:
        if len(words) > _CACHED_WORDS:
            words.clear()
        made = " ".join(map(words.__getitem__, text.split())).strip()
        if not made[:1].isalnum():
            made = _LEADING.sub("", made).strip()
        results.append(unicodedata.normalize("NFD", made) if _HANGUL.search(made) else made)
    return results


class _Words(dict[str, str]):
    """Word -> folded form."""

    def __missing__(self, word: str) -> str:
        made = self[word] = _word(word)
        return made


def _word(word: str) -> str:
    return word.lower() if word.isascii() else without_variants(without_accents(plain(word)))


def starts(phrase: str) -> list[int]:
    """Return the places, in characters, at which the words of a folded phrase start.

    In Chinese and Japanese every character is a word; in other scripts without spaces ICU's
    dictionaries decide.
    """
    if phrase.isascii():
        return [match.start() for match in _START.finditer(phrase)][:MAX_STARTS]
    places = {
        match.start() for match in _START.finditer(phrase) if not _after_sign(phrase, match.start())
    }
    places |= {0} | {match.start() for match in _EAST_ASIAN.finditer(phrase)}
    if _UNSPACED.search(phrase):
        place = 0
        for part in WordBreaker(phrase.encode("utf-8", "replace").decode(), "th"):
            if _WORD.match(part):
                places.add(place)
            place += len(part)
    return sorted(places)[:MAX_STARTS]


def _after_sign(phrase: str, place: int) -> bool:
    """Return whether a mark, such as a vowel sign, precedes: the place is within a word."""
    return place > 0 and unicodedata.category(phrase[place - 1])[0] == "M"
