"""Light stemming of nouns for four Cyrillic languages that Snowball lacks.

Kazakh, Kyrgyz and Mongolian add endings in a fixed order (plural, possessive, case, and in
Mongolian a reflexive), in forms by vowel harmony. At most one of each kind is stripped, the longest
one, if the rest is long enough. In Kazakh and Kyrgyz, the letter before an ending must allow it
(`_allows`), so that `Астана` and `Қазақстан` are whole. Tajik: the plural and particles. Verbs are
unchanged.

Sources of the endings: the lexc files of Apertium (kaz, kir, khk, tgk). Method: Savoy, "Light
stemming approaches for the French, Portuguese, German and Hungarian languages", SAC 2006.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MIN_STEM = 3  # letters of a stem
MIN_BEFORE_VOWEL = 4  # before an ending of one letter: these are part of many short words


def _forms(patterns: str) -> tuple[str, ...]:
    """Return endings, the longest first. Capitals are vowels by harmony: A а е, Y ы і, …"""
    vowels = {"A": "ае", "Y": "ыі", "B": "ыиуү", "O": "аеоө", "Q": "аэоө"}
    forms: set[str] = set()
    for pattern in patterns.split():
        chosen = [letter for letter in vowels if letter in pattern]
        if not chosen:
            forms.add(pattern)
        for letter in chosen[:1]:
            forms.update(pattern.replace(letter, vowel) for vowel in vowels[letter])
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


_ENDINGS = {
    "kk": (
        _forms("нYң дYң тYң нY дY тY ғA гA қA кA нA дA тA ндA дAн тAн нAн мен бен пен"),
        _forms("ымыз іміз ыңыз іңіз мыз міз ңыз ңіз ым ім ың ің сы сі ы і"),
        _forms("лAр дAр тAр"),
    ),
    "ky": (
        _forms("нBн дBн тBн нB дB тB гO кO нO дO тO ндO дOн тOн нOн"),
        _forms("ыбыз ибиз убуз үбүз ыңыз иңиз уңуз үңүз быз биз ңыз ңиз ым им ум үм ың иң уң үң "
               "сы си су сү ы и у ү"),
        _forms("лOр дOр тOр"),
    ),
    "mn": (
        ("аа", "ээ", "оо", "өө"),
        _forms("нууд нүүд ууд үүд иуд иүд чууд чүүд "
            "гийн ийн ын ий ны ийг ыг аас ээс оос өөс аар ээр оор өөр тай тэй той нд д т руу рүү "
            "луу лүү"),
        ("нууд", "нүүд", "ууд", "үүд", "иуд", "иүд", "чууд", "чүүд"),
    ),
    "tg": (
        ("ро", "амон", "атон", "ашон", "ам", "ат", "аш", "ву"),
        ("и", "ӣ"),
        ("ҳо", "ҳои", "гон", "ён"),
    ),
}  # fmt: skip


_VOICELESS = frozenset("пфкқтсшщчцхһбвгд")  # the last four are voiceless at the end of loans
_POSSESSIVE_VOWELS = frozenset("ыіиуү")
_AFTER_POSSESSIVE = frozenset(("на", "не", "но", "нө", "нда", "нде", "ндо", "ндө"))
_COUNTRIES = re.compile(
    "(?:қазақ|қырғыз|өзбек|тәжік|түрікмен|ауған|пәкі|үнді|моңғол|дағы|татар|башқұрт"
    "|казак|кыргыз|тажик|түркмөн|ооган|паки|инди|монгол|дагы|башкорт)стан"
)


def _allows(before: str, ending: str) -> bool:
    """Return whether a Kazakh or Kyrgyz word with these letters can have an ending."""
    if ending in _AFTER_POSSESSIVE:
        return before[-1] in _POSSESSIVE_VOWELS
    if ending[0] in "ткқп":
        return before[-1] in _VOICELESS and not _COUNTRIES.fullmatch(before + ending)
    return True


def light_stem(language: str) -> Callable[[str], str]:
    """Return the stemmer of `kk`, `ky`, `mn` or `tg`."""
    layers = _ENDINGS[language]
    is_checked = language in ("kk", "ky")

    def stem(word: str) -> str:
        for endings in layers:
            if not word.endswith(endings):  # one call for all of them
                continue
            for ending in endings:
                if word.endswith(ending):
                    stem_length = len(word) - len(ending)
                    if stem_length >= (MIN_STEM if len(ending) > 1 else MIN_BEFORE_VOWEL) and not (
                        is_checked and not _allows(word[:stem_length], ending)
                    ):
                        word = word[:stem_length]
                        break
        return word

    return stem
