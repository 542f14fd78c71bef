"""Identify the language of a text.

Four methods, cheapest first: pycld2 (compact language detector 2, quadgrams) on a thousand
characters; if the text is short or pycld2 unsure, the script, then stop words and letters
(`text.stop_words`); at last py3langid (naive Bayes over byte n-grams), limited to the configured
languages. pycld2 and py3langid confuse Indonesian and Malay, distinguished by their words.

Codes are ISO 639-1 where there is one, else 639-3; `tl` is Filipino, `zh` Chinese in either script.
"""

from __future__ import annotations

import copy
import functools
import re
from importlib import import_module, resources
from typing import TYPE_CHECKING, NamedTuple

import pycld2

from lycosa.core.errors import UsageError
from lycosa.core.records import DECLARATION_DIFFERS, TITLE_DIFFERS_TOO
from lycosa.text.stop_words import by_alphabet, by_words, has_words
from lycosa.url.languages import language_code

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LANGUAGES = _words(
    "zh en ja ko de ur fr ru es pt ar hi it id ms my fa vi mn kk ky ne tl ps lo tg bo"
)
"""The languages that are expected when nothing else is configured."""

# characters from which a text is sampled in several places
LONG_LENGTH = 3_000
STRETCHES = 4
SAMPLE_LENGTH = 1_000  # characters; more do not improve pycld2
# characters below which "reliable" of pycld2 needs a second opinion
SHORT_LENGTH = 200
# Minimum share of English function words in a short English text.
ENGLISH_SHARE = 0.15
# percent of a long text from which an unreliable answer of pycld2 is accepted
LIKELY_SHARE = 60
# Percent from which another language wins over English: pages in any language quote English.
BESIDE_ENGLISH = 30
# characters for telling Indonesian from Malay: distinctive words are rare
CLOSE_LENGTH = 5_000
OTHER_SHARE = 15  # percent from which a further language is reported
# minimum probability of py3langid
LOWEST_SCORE = 0.3
# score of a language by stop words alone
WORDS_SCORE = 0.9
SCRIPT_SHARE = 0.6  # share of the letters that must be in a script for the script to decide
HAN_LETTERS = 3  # letters of an alphabet that a Han or kana character is worth

CLOSE = frozenset({"id", "ms"})
GUESS_WEIGHT = 1.0  # log-odds of the guess of pycld2
_WORD = re.compile("[a-z]+")

_ALIASES = {"zh-Hant": "zh", "iw": "he", "jw": "jv", "sr-ME": "sr", "nb": "no"}
_RIVALLED = frozenset({"hi", "ja", "zh"})  # pycld2 confuses them with Nepali or each other

_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_LETTERS = re.compile(r"[^\W\d_]")
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_KANA = re.compile(r"[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9d]")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_SCRIPTS = tuple(
    (language, re.compile(f"[{ranges}]"))
    for language, ranges in (
        ("ko", "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"),
        ("lo", "\u0e80-\u0eff"),
        ("my", "\u1000-\u109f\uaa60-\uaa7f"),
        ("th", "\u0e00-\u0e7f"),
        ("el", "\u0370-\u03ff\u1f00-\u1fff"),
        ("he", "\u0590-\u05ff"),
        ("hy", "\u0530-\u058f"),
        ("ka", "\u10a0-\u10ff\u1c90-\u1cbf"),
        ("km", "\u1780-\u17ff"),
        ("ta", "\u0b80-\u0bff"),
        ("te", "\u0c00-\u0c7f"),
        ("kn", "\u0c80-\u0cff"),
        ("ml", "\u0d00-\u0d7f"),
        ("gu", "\u0a80-\u0aff"),
        ("pa", "\u0a00-\u0a7f"),
        ("si", "\u0d80-\u0dff"),
        ("bo", "\u0f00-\u0fff"),
    )
)

_LETTER_RUN = re.compile(r"[^\W\d_]+")
_ENGLISH = _words(
    "the of and to is are was were be been this that these those with your you it its for from by "
    "on as or not an have has had which can "
    "will would they their he his she her we our if when where how what there more than other all "
    "also into only"
)


class Identified(NamedTuple):
    """`language`: "" if unknown. `score`: 0 to 1. `others`: by share in the text."""

    language: str
    score: float
    others: tuple[str, ...] = ()


NOTHING = Identified("", 0.0)


def require_language(text: str) -> str:
    """Return the code of a language given by the user (`de`, `pt-BR`); "" for "".

    Raises:
        UsageError: it is not the code of a language that a page can have.
    """
    code = language_code(text)
    if text and code not in LANGUAGES and code not in {each for _, each in pycld2.LANGUAGES}:
        raise UsageError(
            f"{text!r} is not a language code: write two letters (ISO 639-1), for example de"
        )
    return code


def identify(
    text: str, configured: frozenset[str] | None = None, *, with_model: bool = True
) -> Identified:
    """Identify the language of a text; never raises.

    Hot path: 0.08 ms a page. tests/text/test_identify.py guards the accuracy.

    Args:
        text: plain text, of which a thousand characters are sampled.
        configured: the expected languages; another one needs a longer text.
        with_model: whether the n-gram model decides where the cheaper methods do not.
    """
    expected = LANGUAGES if configured is None else configured
    sample = text[:SAMPLE_LENGTH] if len(text) <= LONG_LENGTH else _spread(text)
    sure, ranking = _by_quadgrams(sample)
    others = tuple(code for code, share in ranking[1:] if share >= OTHER_SHARE)
    if _is_translated(ranking, expected):
        ranking[:2] = ranking[1], ranking[0]
        others = ("en", *others[1:])
        sure = True
    first = _Guess(*ranking[0], sure=sure) if ranking else _Guess("", 0, sure=sure)
    if first.language not in CLOSE and _is_trusted(first, sample, expected):
        return Identified(first.language, first.share / 100, others)
    letters = len(_LETTERS.findall(sample))
    if not letters:
        return NOTHING
    script = _by_script(sample, letters)
    if script:
        return Identified(script, 1.0, tuple(code for code, _ in ranking if code != script))
    language, score = _second_opinion(first, sample, letters, expected, with_model=with_model)
    if language in CLOSE:
        guess = first.language if first.language in CLOSE else ""
        language = indonesian_or_malay(text[:CLOSE_LENGTH], guess)
    if not language:
        return NOTHING
    candidates = (*others, first.language) if sure else others
    others = tuple(code for code in candidates if code and code != language)
    return Identified(language, min(score, 1.0), others)


class _Guess(NamedTuple):
    """The first language of pycld2, its percentage, and whether pycld2 is sure."""

    language: str
    share: int
    sure: bool


def _second_opinion(
    first: _Guess, sample: str, letters: int, expected: frozenset[str], *, with_model: bool
) -> tuple[str, float]:
    """Return language and score by stop words, alphabet or n-gram model; "" if unknown."""
    language = first.language if first.sure else ""
    if language in CLOSE:
        return language, first.share / 100
    alphabet = by_alphabet(sample)
    if alphabet in expected:
        return alphabet, 1.0
    if 2 * len(_LATIN.findall(sample)) > letters:
        if not first.sure and not has_words(sample):
            return "", 0.0
        guess = by_words(sample, first.language, first.sure, expected)
        if guess:
            return guess, first.share / 100 if guess == first.language else WORDS_SCORE
    if not with_model:
        return "", 0.0
    guess, score = _by_bytes(sample, expected)
    if guess in CLOSE:
        return guess, score
    if language:
        # a language that is not expected needs two methods or a long text
        unexpected = language not in expected and (
            letters >= SHORT_LENGTH or _by_bytes(sample, None)[0] == language
        )
        if unexpected or score < LOWEST_SCORE:
            return language, first.share / 100
    return (guess, score) if score >= LOWEST_SCORE else ("", 0.0)


def _is_translated(ranking: list[tuple[str, int]], expected: frozenset[str]) -> bool:
    """Whether a text in another language quotes so much English that it comes first."""
    if len(ranking) < 2 or ranking[0][0] != "en":
        return False
    language, share = ranking[1]
    return share >= BESIDE_ENGLISH and language in expected


def _is_trusted(first: _Guess, sample: str, expected: frozenset[str]) -> bool:
    """Whether the guess of pycld2 needs no second opinion."""
    language, share, sure = first
    if len(sample) >= SHORT_LENGTH:
        return sure or (share >= LIKELY_SHARE and language in expected)
    return (
        sure
        and language in expected
        and language not in _RIVALLED
        and (language != "en" or _is_english(sample))
    )


def best_guess(text: str) -> str:
    """Return pycld2's most likely language of a short text, however unsure it is; "" if it has
    none. Never raises.
    """
    return (_by_quadgrams(text, best_effort=True)[1] or [("", 0)])[0][0]


def _spread(text: str) -> str:
    length = SAMPLE_LENGTH // STRETCHES
    step = (len(text) - length) // (STRETCHES - 1)
    return "\n".join(text[place * step : place * step + length] for place in range(STRETCHES))


def _by_quadgrams(sample: str, *, best_effort: bool = False) -> tuple[bool, list[tuple[str, int]]]:
    """Return whether pycld2 is sure, and the languages with their percentages, largest first."""
    try:
        reliable, _, details = pycld2.detect(
            sample.encode("utf-8", "ignore"), isPlainText=True, bestEffort=best_effort
        )
    except pycld2.error:  # it refuses control characters and noncharacters
        try:
            reliable, _, details = pycld2.detect(
                _UNPRINTABLE.sub(" ", sample).encode("utf-8", "ignore"),
                isPlainText=True,
                bestEffort=best_effort,
            )
        except pycld2.error:
            return False, []
    ranking = [
        (_ALIASES.get(code, code), share)
        for _, code, share, _ in details
        if share and code not in ("un", "xxx", "tlh") and not code.startswith(("xx-", "zz"))
    ]
    agrees = bool(ranking) and _ALIASES.get(details[0][1], details[0][1]) == ranking[0][0]
    return reliable and agrees, ranking


def _is_english(sample: str) -> bool:
    """Whether a text has enough English function words."""
    words = _LETTER_RUN.findall(sample.lower())
    return sum(word in _ENGLISH for word in words) >= ENGLISH_SHARE * max(1, len(words))


def _by_script(sample: str, letters: int) -> str:
    """Return the language of a script that only one language uses, or ""."""
    kana, han = len(_KANA.findall(sample)), len(_HAN.findall(sample))
    if HAN_LETTERS * (kana + han) >= SCRIPT_SHARE * (letters + (HAN_LETTERS - 1) * (kana + han)):
        # Japanese prose is half kana; a Chinese text may quote some
        return "ja" if kana * 10 >= kana + han else "zh"
    if sample.isascii():
        return ""
    for language, pattern in _SCRIPTS:
        if len(pattern.findall(sample)) >= SCRIPT_SHARE * letters:
            return language
    return ""


@functools.cache
def _model() -> LanguageIdentifier:
    """Load the n-gram model on demand: it takes 0.7 s of CPU time and 100 MB."""
    # imported here because it imports numpy
    langid = import_module("py3langid.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


@functools.lru_cache(maxsize=16)
def _limited_model(languages: frozenset[str] | None) -> LanguageIdentifier | None:
    model = copy.copy(_model())  # the arrays are shared
    if languages is not None:
        supported = languages.intersection(model.labels)
        if not supported:
            return None
        model.set_languages(sorted(supported))
    return model


def _by_bytes(sample: str, expected: frozenset[str] | None) -> tuple[str, float]:
    model = _limited_model(expected)
    if model is None:
        return "", 0.0
    language, probability = model.classify(sample)
    return (language, probability) if language != "zxx" else ("", 0.0)


@functools.cache
def _malay_weights() -> dict[str, float]:
    """Return the log-odds of words, positive for Indonesian (`scripts/make_malay.py`)."""
    lines = (
        resources.files("lycosa.text")
        .joinpath("malay.txt")
        .read_text(encoding="ascii")
        .splitlines()
    )
    return {
        word: weight
        for line in lines
        for first, *words in (line.split(),)
        for weight in (float(first),)
        for word in words
    }


def indonesian_or_malay(text: str, guess: str = "") -> str:
    """Return `id` or `ms` for a text in one of them, by the words that each of them prefers.

    `guess`: the language according to pycld2, or ""; it decides a tie.
    """
    weights = _malay_weights()
    balance = sum([weights.get(word, 0.0) for word in _WORD.findall(text.lower())])
    balance += GUESS_WEIGHT * ((guess == "id") - (guess == "ms"))
    if balance == 0:
        return guess or "id"
    return "id" if balance > 0 else "ms"


_CONFUSED = ({"id", "ms"}, {"no", "da"}, {"hr", "sr", "bs"}, {"fa", "tg"})
"""Languages that identification confuses in short texts."""
_FOREIGN_TO_ENGLISH = re.compile(r"[^\W\d_a-zA-Z]")


def language_share(language: str, declared: str, title: str, in_url: str = "") -> float:
    """Return the share of text, declaration and title that agree on the identified language of the
    text: 1, 0.75 or 0.5.

    Only a declaration that differs counts, since many pages declare nothing. The code in a URL is
    one too: a copy of a page below `/ru/` declares the language of the original. The title decides
    whether the page is a translation whose text was not translated, or a page with a wrong
    declaration.
    """
    others = [code for code in (declared, in_url) if _contradicts(language, code)]
    if not others:
        return 1.0
    if title and any(_title_differs(title, language, other) for other in others):
        return TITLE_DIFFERS_TOO
    return DECLARATION_DIFFERS


def _contradicts(language: str, declared: str) -> bool:
    return (
        bool(language and declared)
        and declared != language
        and not any({language, declared} <= close for close in _CONFUSED)
    )


def _title_differs(title: str, language: str, declared: str) -> bool:
    """Whether a title is in another language, without the n-gram model: fewer false positives."""
    titled = identify(title, LANGUAGES | {language, declared}, with_model=False).language
    if not titled and language == "en" and _FOREIGN_TO_ENGLISH.search(title):
        return True
    return titled not in ("", language) or best_guess(title) == declared
