"""Normalise variant letters by language: of words in NFKC and lower case; Han in any text.

Arabic, Persian, Urdu and Pashto share a script but not its letters: variants in one language are
distinct letters in another, so each has its own table. Sources: Lucene's
ArabicNormalizer and PersianNormalizer; the Unicode Standard, section 9.2 (Arabic) for Urdu's heh
and yeh; "Computer Locale Requirements for Afghanistan" (UNDP 2003) for Pashto's letters; Lucene's
IndicNormalizer and HindiNormalizer for Devanagari; BDRC's lucene-bo for Tibetan's affixed
particles.

Chinese is converted from Traditional to Simplified characters, so that a query in either finds
pages in both. `han.txt` contains the pairs of Unicode CLDR (`scripts/make_han.py`).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable
from importlib import resources

from lycosa.core.patterns import lazy_pattern

_ALEFS = {ord(alef): "ا" for alef in "أإآٱ"}
_YEH_TO_ARABIC = {ord("ی"): "ي", ord("ک"): "ك"}  # characters of Persian keyboards
_ARABIC_BEFORE = {**_ALEFS, **_YEH_TO_ARABIC, ord("ى"): "ي"}
_ARABIC_AFTER = {ord("ى"): "ي", ord("ة"): "ه"}
_ARTICLES = ("وال", "بال", "كال", "فال")  # "and the", "by the", "as the", "so the"
_TO_PERSIAN = {ord("ي"): "ی", ord("ى"): "ی", ord("ك"): "ک"}
_PERSIAN = {
    **_TO_PERSIAN,
    ord("ۀ"): "ه",
    ord("ە"): "ه",
    ord("ہ"): "ه",
    ord("ة"): "ه",
    ord("ۃ"): "ه",
    ord("أ"): "ا",
    ord("إ"): "ا",
    ord("ٱ"): "ا",
}
# Urdu: heh goal is the letter; the two-eyed heh makes aspirates and stays; yeh barree stays, it
# distinguishes singular from plural.
_URDU = {
    **_TO_PERSIAN,
    ord("ه"): "ہ",
    ord("ۀ"): "ہ",
    ord("ۂ"): "ہ",
    ord("ۃ"): "ہ",
    ord("ة"): "ہ",
    ord("ە"): "ہ",
    ord("ۓ"): "ے",
    ord("أ"): "ا",
}
# Pashto: its own letters where Urdu's or Persian's replace them; of the five yehs e (ې) and
# the feminine one (ۍ) remain.
_PASHTO = {
    **_TO_PERSIAN, ord("گ"): "ګ", ord("ٹ"): "ټ", ord("ڈ"): "ډ", ord("ڑ"): "ړ", ord("ہ"): "ه",
    ord("ۀ"): "ه", ord("ة"): "ه", ord("ے"): "ې", ord("أ"): "ا", ord("إ"): "ا", ord("ئ"): "ۍ",
}  # fmt: skip

_NUKTA_AND_SIGNS = {
    0x093C: None,
    0x0901: 0x0902,
    0x0945: 0x0947,
    0x0949: 0x094B,
    0x0946: 0x0947,
    0x094A: 0x094B,
}
_DEVANAGARI = {
    **_NUKTA_AND_SIGNS,
    ord("ऍ"): ord("ए"),
    ord("ऑ"): ord("ओ"),
    ord("ऎ"): ord("ए"),
    ord("ऒ"): ord("ओ"),
}
# A nasal without its vowel before a consonant is written as anusvara just as well: हिन्दी, हिंदी.
_NASAL = lazy_pattern("[ङञणनम]\u094d(?=[क-ह])(?![नमयरवह])")

_TONES = "\u0300\u0301\u0303\u0309\u0323"
_AFFIXED = lazy_pattern(
    "(?<=[\u0f40-\u0fbc])(?:\u0f60\u0f72\u0f66?|\u0f60\u0f7c|\u0f60\u0f58|\u0f60\u0f44)$"
)


def arabic_before_stem(word: str) -> str:
    """Normalise alef, yeh and kaf, and strip the prefix before the article, as light10 does.

    (Larkey, Ballesteros, Connell, "Light stemming for Arabic information retrieval", 2007; Lucene's
    ArabicStemmer.)
    """
    word = word.translate(_ARABIC_BEFORE)
    if len(word) > 4:
        if word.startswith(_ARTICLES):
            word = word[1:]
        elif word.startswith("لل"):
            word = f"ا{word[1:]}"
    # a final heh after the article is a teh marbuta without its dots, which the stemmer expects
    if len(word) > 5 and word.startswith("ال") and word.endswith("ه"):
        return f"{word[:-1]}ة"
    return word


def arabic_after_stem(word: str) -> str:
    """Replace alef maksura by yeh and teh marbuta by heh, which only the stemmer distinguishes."""
    return word.translate(_ARABIC_AFTER)


def devanagari(word: str) -> str:
    """Drop nukta, and normalise nasals to anusvara and the vowels of English words."""
    return _NASAL.sub("\u0902", word.translate(_DEVANAGARI))


def tibetan(syllable: str) -> str:
    """Strip an affixed particle (genitive, agentive, final, question, "and")."""
    bare = _AFFIXED.sub("", syllable)
    return bare or syllable


def vietnamese(word: str) -> str:
    """Move the tone to the end of a word, where old and new spelling agree: hòa, hoà."""
    parts = unicodedata.normalize("NFD", word)
    tones = "".join(mark for mark in parts if mark in _TONES)
    if not tones:
        return word
    bare = "".join(mark for mark in parts if mark not in _TONES)
    return unicodedata.normalize("NFC", bare) + tones


def _by_table(table: dict[int, str]) -> Callable[[str], str]:
    return lambda word: word.translate(table)


TABLES = {"fa": _by_table(_PERSIAN), "ur": _by_table(_URDU), "ps": _by_table(_PASHTO)}
_ARABIC_VARIANTS = {
    **_ARABIC_BEFORE,
    **dict.fromkeys(map(ord, "ةۀہەۃ"), "ه"),
    ord("ۓ"): "ے",
}
_IS_ARABIC, _IS_DEVANAGARI = lazy_pattern("[\u0620-\u06ff]"), lazy_pattern("[\u0900-\u097f]")


def without_variants(word: str) -> str:
    """Unify letters of Arabic script and Devanagari that are typed for each other in any language:
    الإنسان, الانسان.
    """
    if _IS_ARABIC.search(word):
        return word.translate(_ARABIC_VARIANTS)
    return devanagari(word) if _IS_DEVANAGARI.search(word) else word


BEFORE_STEM = {
    "ar": arabic_before_stem,
    "fa": TABLES["fa"],
    "hi": devanagari,
    "ne": devanagari,
}
AFTER_STEM = {"ar": arabic_after_stem}


@functools.cache
def _traditional() -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Return the pattern of Traditional characters, and the replacement function."""
    traditional, simplified = (
        resources.files("lycosa.text").joinpath("han.txt").read_text(encoding="utf-8").splitlines()
    )
    pairs = dict(zip(traditional, simplified, strict=True))
    return re.compile(f"[{re.escape(traditional)}]"), lambda match: pairs[match[0]]


def simplified(text: str) -> str:
    """Replace Traditional by Simplified characters, by the usual form if there are several.

    Lengths and positions remain. Hot path: faster than `str.translate`.
    """
    if text.isascii():
        return text
    pattern, replace = _traditional()
    return pattern.sub(replace, text)
