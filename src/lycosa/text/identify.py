"""Which language a text is written in.

Four judges, cheapest first: pycld2 (compact language detector 2, quadgrams) on a thousand
characters; for what is short or leaves it unsure the script, where one script means one language,
and stop words and letters (`text.stop_words`); for what is still open py3langid (naive Bayes over
byte n-grams), limited to the configured languages. Indonesian and Malay, which pycld2 and py3langid
confuse, are settled by the words that each of them prefers (`text.malay`).

Codes are ISO 639-1 where there is one, else 639-3; `tl` is Filipino, `zh` Chinese in either script.
"""

from __future__ import annotations

import copy
import functools
import re
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import pycld2

from lycosa.core.errors import UsageError
from lycosa.core.records import DECLARATION_DIFFERS, TITLE_DIFFERS_TOO
from lycosa.text.malay import CLOSE, indonesian_or_malay
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

# characters from which a text is judged by stretches spread over it: it may begin in another
# language than it goes on
LONG_LENGTH = 3_000
STRETCHES = 4
SAMPLE_LENGTH = 1_000  # characters; pycld2 gains nothing beyond it on SIB-200 and costs .08 ms
# characters below which pycld2's "reliable" is wrong for 1 sentence in 60 (SIB-200) and may need a
# second opinion
SHORT_LENGTH = 200
# Share of a short text's words that must be English function words for pycld2's "English" to stand.
# Foreign sentences full of English names, which are what it errs on, reach .12 (SIB-200); 641 of
# its 663 short English sentences reach .15.
ENGLISH_SHARE = 0.15
# percent of a long text that pycld2 must give to a language if it does not call its answer reliable
LIKELY_SHARE = 60
# Percent from which another language beside English is the page's: pages in any language quote
# English names, commands and whole untranslated sections, English ones quote little. The 21 such
# pages of the six documentation sites are meant for readers of the other language.
BESIDE_ENGLISH = 30
# characters that are read to tell Indonesian from Malay: telling words are rare
CLOSE_LENGTH = 5_000
OTHER_SHARE = 15  # percent from which a further language is reported
# py3langid's probability below which we say nothing; words of one language reach .5 (UDHR, five
# words)
LOWEST_SCORE = 0.3
# of a language that stop words give against pycld2, or without it: 9 of 10 such sentences are
# right and more
WORDS_SCORE = 0.9
SCRIPT_SHARE = 0.6  # share of the letters that must be in a script for the script to decide
HAN_LETTERS = 3  # letters of an alphabet that a Han or kana character stands for

_ALIASES = {"zh-Hant": "zh", "iw": "he", "jw": "jv", "sr-ME": "sr", "nb": "no"}
_RIVALLED = frozenset({"hi", "ja", "zh"})  # sure of them, pycld2 may have met Nepali or each other

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
    """`language` is "" when unknown; `score` runs from 0 to 1; `others` are further languages in
    the text, largest share first.
    """

    language: str
    score: float
    others: tuple[str, ...] = ()


NOTHING = Identified("", 0.0)


def require_language(text: str) -> str:
    """The code of a language as a user gives it (`de`, `pt-BR`); "" for "".

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
    """Name the language of a text; never raises.

    Hot path: .08 ms for a page; its accuracy has floors in tests/text/test_identify.py.

    Args:
        text: plain text; its first thousand characters are judged, of a long one four stretches
            that make as many.
        configured: the languages to expect. Another one is named only if pycld2 is sure of it on
            more than a sentence.
        with_model: whether the n-gram model may decide what the cheaper methods leave open; without
            it such a text has no language.
    """
    expected = LANGUAGES if configured is None else configured
    sample = text[:SAMPLE_LENGTH] if len(text) <= LONG_LENGTH else _spread(text)
    sure, ranking = _by_quadgrams(sample)
    others = tuple(code for code, share in ranking[1:] if share >= OTHER_SHARE)
    if (
        len(ranking) > 1
        and ranking[0][0] == "en"
        and ranking[1][1] >= BESIDE_ENGLISH
        and ranking[1][0] in expected
    ):
        ranking[:2] = ranking[1], ranking[0]
        others = ("en", *others[1:])
        sure = True
    language, share = ranking[0] if ranking else ("", 0)
    if language not in CLOSE and _is_trusted(language, sure, share, sample, expected):
        return Identified(language, share / 100, others)
    guessed = language
    if not sure:
        language = ""
    letters = len(_LETTERS.findall(sample))
    if not letters:
        return NOTHING
    script = _by_script(sample, letters)
    if script:
        return Identified(script, 1.0, tuple(code for code, _ in ranking if code != script))
    guess, score = "", 0.0
    if language in CLOSE:
        guess, score = language, share / 100
    elif (alphabet := by_alphabet(sample)) in expected:
        guess, score = alphabet, 1.0
    elif 2 * len(_LATIN.findall(sample)) > letters:
        if not sure and not has_words(sample):
            return NOTHING
        guess = by_words(sample, guessed, sure, expected)
        score = share / 100 if guess == guessed else WORDS_SCORE
    if not guess and with_model:
        guess, score = _by_bytes(sample, expected)
        if guess not in CLOSE:
            # a language that is not expected needs two methods or a long text
            if language and (
                score < LOWEST_SCORE
                or (
                    language not in expected
                    and (letters >= SHORT_LENGTH or _by_bytes(sample, None)[0] == language)
                )
            ):
                guess, score = language, share / 100
            elif score < LOWEST_SCORE:
                guess = ""
    if guess in CLOSE:
        guess = indonesian_or_malay(text[:CLOSE_LENGTH], guessed if guessed in CLOSE else "")
    if not guess:
        return NOTHING
    others = tuple(code for code in (*others, language) if code and code != guess)
    return Identified(guess, min(score, 1.0), others)


def _is_trusted(
    language: str, sure: bool, share: int, sample: str, expected: frozenset[str]
) -> bool:
    """Whether what the quadgrams say needs no other method."""
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
    """pycld2's word: is it reliable, and the languages with their percentage of the text, largest
    first.
    """
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
    """Has a text enough English function words to be more than foreign words around English
    names?
    """
    words = _LETTER_RUN.findall(sample.lower())
    return sum(word in _ENGLISH for word in words) >= ENGLISH_SHARE * max(1, len(words))


def _by_script(sample: str, letters: int) -> str:
    """The language of a script that only one expected language is written in; "" if the script
    leaves it open.
    """
    kana, han = len(_KANA.findall(sample)), len(_HAN.findall(sample))
    if HAN_LETTERS * (kana + han) >= SCRIPT_SHARE * (letters + (HAN_LETTERS - 1) * (kana + han)):
        # Japanese prose is half kana; a Chinese text may cite some
        return "ja" if kana * 10 >= kana + han else "zh"
    if sample.isascii():
        return ""
    for language, pattern in _SCRIPTS:
        if len(pattern.findall(sample)) >= SCRIPT_SHARE * letters:
            return language
    return ""


@functools.cache
def _model() -> LanguageIdentifier:
    """The n-gram model: .7 s of CPU and 100 MB, so it is read when the first text comes that
    nothing else can tell.
    """
    # with it comes numpy, .4 s: a search that is not across languages starts without
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


_CLOSE = ({"id", "ms"}, {"no", "da"}, {"hr", "sr", "bs"}, {"fa", "tg"})
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
        and not any({language, declared} <= close for close in _CLOSE)
    )


def _title_differs(title: str, language: str, declared: str) -> bool:
    """Without the n-gram model, which takes 100 MB: on the 1,730 English pages of a handbook in 24
    languages it found 38 more of the 620 translated titles, and took 75 English ones for
    translated; this takes 1.
    """
    titled = identify(title, LANGUAGES | {language, declared}, with_model=False).language
    if not titled and language == "en" and _FOREIGN_TO_ENGLISH.search(title):
        return True
    return titled not in ("", language) or best_guess(title) == declared
