"""The analyzers of all languages, which turn text into terms of the index.

Pages and queries use the same. *Native* analyzers are those of tantivy (simple tokenizer, lower
case, Snowball stemmer, accents folded), for seven languages. *Segmented* analyzers
(`text.segmented`) fold and stem words in Python. Both cache the terms of words, and join the terms
of a text by spaces for tantivy's whitespace tokenizer. docs/explanation/languages.md lists the
languages.

Accents are folded after stemming, since Snowball needs them (`mangèrent`, `città`).

Modules of single languages are imported on use: compiling their patterns slows every start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import icu4py
import Stemmer
import tantivy
from tantivy.tantivy import __version__ as TANTIVY_VERSION

from lycosa.core.dataclass import dataclass
from lycosa.text import fold, letters
from lycosa.text.segmented import (
    SEPARATED,
    AccentAnalyzer,
    Analyzer,
    DictionaryAnalyzer,
    NonJoinerAnalyzer,
    SegmentedAnalyzer,
    SyllableAnalyzer,
    SyllablePairAnalyzer,
    Terms,
    Unit,
    encoded,
    same,
)
from lycosa.text.suffixes import light_stem

if TYPE_CHECKING:
    from lycosa.text.korean import MorphemeAnalyzer

__all__ = [
    "BIGRAMS",
    "KIWI",
    "Analysis",
    "Analyzer",
    "NativeAnalyzer",
    "Unit",
    "analysis_by",
    "analyzer_for",
]

ANALYSIS_VERSION = 7
"""Raise it when an analyzer gives other terms, so that indexes are rebuilt."""

MEMO_WORDS = 40_000
"""Words of a native analyzer whose terms are cached, 6 MB. A manual in English has 30,000."""

BIGRAMS, KIWI = "bigrams", "kiwi"
"""Analyses of Korean (`index.korean`): pairs of syllables, or morphemes (`lycosa[ko]`)."""
PAIRS = "syllable-pairs"


class NativeAnalyzer(Analyzer):
    """Tantivy's tokenizer and Snowball stemmer; Python normalises non-ASCII text.

    Stemming takes most of the time, so the terms of words are cached. Hot path: bench/analysis.py.
    """

    native = True

    def __init__(self, language: str, stemmer: str) -> None:
        super().__init__(language, f"native-{stemmer}", f"{ANALYSIS_VERSION}/{TANTIVY_VERSION}")
        self.tokenizer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
            .filter(tantivy.Filter.remove_long(fold.MAX_TERM_BYTES + 1))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.stemmer(stemmer))
            .filter(tantivy.Filter.ascii_fold())
            .build()
        )
        self._terms = self._new_terms()

    def _new_terms(self) -> Terms[bytes]:
        analyze = self.tokenizer.analyze
        return Terms(lambda word: analyze(fold.undivided(word.decode())), self._mark)

    def marked(self, text: str) -> str:
        text = fold.with_names(text)
        if len(self._terms) > MEMO_WORDS:
            self._terms = self._new_terms()  # another thread may be reading the old
        words = encoded(fold.compatible(text)).translate(SEPARATED).split()
        return "".join(map(self._terms.__getitem__, words))[:-1]


_NATIVE = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "pt": "portuguese",
    "it": "italian",
    "ru": "russian",
}  # fmt: skip
_SNOWBALL = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "el": "greek",
    "eo": "esperanto", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "lt": "lithuanian", "ms": "indonesian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pl": "polish", "ro": "romanian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_PERSIAN_LETTERS = frozenset({"ku", "sd", "ug"})
_NON_JOINERS = frozenset({"fa", "ur"})  # elsewhere they only shape letters, as in hi, bn and ckb
_SPACELESS = frozenset({"zh", "ja", "my", "lo"})
_DICTIONARY = frozenset({"th", "km"})
_LIGHT = frozenset({"kk", "ky", "mn", "tg"})

GENERIC = "und"
"""The analyzer of texts in an unknown language: words by ICU, not stemmed (BCP 47)."""


@functools.cache
def analyzer_for(language: str) -> Analyzer:
    """Return the analyzer of a language (ISO 639 code), or the generic one."""
    if language in _NATIVE:
        return NativeAnalyzer(language, _NATIVE[language])
    language = (
        language if language.isascii() and language.isalpha() and len(language) <= 3 else GENERIC
    )
    version = f"{ANALYSIS_VERSION}/ICU {icu4py.icu_version}/Snowball {Stemmer.version()}"
    if language in _SPACELESS:
        return _spaceless(language, version)
    if language in ("bo", "dz"):
        return SyllableAnalyzer(language, letters.tibetan, name="tsheg-syllables", version=version)
    if language == "ko":
        return SyllablePairAnalyzer(language, same, name=PAIRS, version=version)
    if language == "vi":
        return AccentAnalyzer(language, letters.vietnamese, name="accents", version=version)
    if language in _DICTIONARY:
        return DictionaryAnalyzer(language, same, name="dictionary", version=version)
    stem, name = _stemmer(language)
    kind = NonJoinerAnalyzer if language in _NON_JOINERS else SegmentedAnalyzer
    return kind(language, stem, name=name, version=version)


def _spaceless(language: str, version: str) -> Analyzer:
    from lycosa.text.spaceless import CharacterAnalyzer, PartsAnalyzer

    if language == "zh":
        return CharacterAnalyzer(
            language, name="characters", version=version, prepare=letters.simplified
        )
    if language == "my":
        from lycosa.text.burmese import prepared, syllables

        return PartsAnalyzer(
            language, syllables, name="syllables", version=version, prepare=prepared
        )
    if language == "lo":
        from lycosa.text.burmese import lao_syllables

        return PartsAnalyzer(language, lao_syllables, name="syllables", version=version)
    return CharacterAnalyzer(language, name="characters", version=version)


def _stemmer(language: str) -> tuple[Callable[[str], str], str]:
    """Return the function from folded words to terms, and the name of the analyzer."""
    if language in _LIGHT:
        return light_stem(language), "segmented-light"
    if language in ("ur", "ps"):
        return letters.TABLES[language], f"segmented-letters-{language}"
    if language in _PERSIAN_LETTERS:
        return letters.TABLES["fa"], "segmented-persian-letters"
    if language not in _SNOWBALL:
        return same, "segmented"
    name = f"segmented-{_SNOWBALL[language]}"
    # without its own cache: the analyzer has one
    snowball: Callable[[str], str] = Stemmer.Stemmer(_SNOWBALL[language], 0).stemWord
    before = letters.BEFORE_STEM.get(language)
    if before is None:
        return snowball, name
    after = letters.AFTER_STEM.get(language, same)
    return (lambda word: after(snowball(before(word)))), name


@dataclass(slots=True, frozen=True)
class Analysis:
    """The analyzers of languages with a choice.

    `korean`: `BIGRAMS`, `KIWI`, or both for an index whose shards differ.
    """

    korean: tuple[str, ...] = (BIGRAMS,)

    def of(self, language: str) -> Analyzer:
        """Return the first analyzer of a language.

        Raises:
            UsageError: it needs a package that is not installed.
        """
        return self.all_of(language)[0]

    def all_of(self, language: str) -> tuple[Analyzer, ...]:
        """Return all analyzers of a language in the index. Raises the same errors as `of`."""
        if language != "ko":
            return (analyzer_for(language),)
        return tuple(
            _by_morphemes() if kind == KIWI else analyzer_for(language) for kind in self.korean
        )

    def each(self) -> tuple[Analysis, ...]:
        """Return an analysis for each kind; together they find every page."""
        return tuple(Analysis((kind,)) for kind in self.korean)

    def here(self) -> tuple[Analysis, str]:
        """Return the part usable with the installed packages, and a hint about the rest or ""."""
        if KIWI not in self.korean:
            return self, ""
        from lycosa.text import korean

        if korean.installed():
            return self, ""
        return Analysis(
            tuple(kind for kind in self.korean if kind != KIWI) or (BIGRAMS,)
        ), korean.HINT


def analysis_by(names: Iterable[str]) -> Analysis:
    """Return the analysis of an index or a table, by the names of its analyzers."""
    kinds = {PAIRS: BIGRAMS, KIWI: KIWI}
    return Analysis(
        tuple(kinds[name] for name in sorted(names, reverse=True) if name in kinds) or (BIGRAMS,)
    )


@functools.cache
def _by_morphemes() -> MorphemeAnalyzer:
    from lycosa.text import korean

    return korean.MorphemeAnalyzer(f"{ANALYSIS_VERSION}/{korean.version()}")
