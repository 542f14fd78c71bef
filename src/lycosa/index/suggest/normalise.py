"""The form in which phrases and words are compared with what a person types: case, accents and
widths folded, Hangul taken apart.

The same for the file of suggestions, for what is being typed, and for words that may be misspelled.
Hangul syllables become their letters (Unicode 3.12, canonical decomposition), so that a syllable
half typed begins the whole one, and one wrong letter is one slip.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from icu4py.breakers import WordBreaker

from lycosa.text.fold import plain, without_accents

MAX_STARTS = 8
"""Words of a phrase by which it is found."""

_REMEMBERED = 10_000  # folded words, while many texts are folded: some 2 MB
_HANGUL = re.compile("[\uac00-\ud7a3]")
_SPACES = re.compile(r"\s+")
_LEADING = re.compile(r"^[^\w]+")
_START = re.compile(r"(?<![^\W_])[^\W_]")
EAST_ASIAN = re.compile("[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
RUN_TOGETHER = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_WORD = re.compile(r"[^\W\d_]")


def folded(text: str) -> str:
    """A phrase or word as it is compared. White space is one space; a space at the end stays
    one.
    """
    text = _SPACES.sub(" ", text)
    if text.isascii():
        return _LEADING.sub("", text.lower())
    words = (without_accents(plain(word)) for word in text.split(" "))
    text = _LEADING.sub("", " ".join(words))
    return unicodedata.normalize("NFD", text) if _HANGUL.search(text) else text


def folded_all(texts: Iterable[str]) -> list[str]:
    """`folded` of many texts, without spaces at their ends. Words that recur are folded once."""
    words, found = _Words(), []
    for text in texts:
        if len(words) > _REMEMBERED:
            words.clear()
        made = " ".join(map(words.__getitem__, text.split())).strip()
        if not made[:1].isalnum():
            made = _LEADING.sub("", made).strip()
        found.append(unicodedata.normalize("NFD", made) if _HANGUL.search(made) else made)
    return found


class _Words(dict[str, str]):
    """A word -> its folded form."""

    def __missing__(self, word: str) -> str:
        made = self[word] = without_accents(plain(word))
        return made


def starts(phrase: str) -> list[int]:
    """Where the words of a folded phrase begin, in characters: in Chinese and Japanese every
    character, where no spaces part the words of an alphabet what ICU's dictionaries say.
    """
    if phrase.isascii():
        return [match.start() for match in _START.finditer(phrase)][:MAX_STARTS]
    found = {
        match.start() for match in _START.finditer(phrase) if not _after_sign(phrase, match.start())
    }
    found |= {0} | {match.start() for match in EAST_ASIAN.finditer(phrase)}
    if RUN_TOGETHER.search(phrase):
        place = 0
        for part in WordBreaker(phrase.encode("utf-8", "replace").decode(), "th"):
            if _WORD.match(part):
                found.add(place)
            place += len(part)
    return sorted(found)[:MAX_STARTS]


def _after_sign(phrase: str, place: int) -> bool:
    """Whether a vowel sign or the like stands before a letter: it is within a word then."""
    return place > 0 and unicodedata.category(phrase[place - 1])[0] == "M"
