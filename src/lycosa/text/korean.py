"""Korean by its morphemes, as kiwipiepy parts them: the extra `lycosa[ko]`, chosen by `index.korean
= "kiwi"`.

A word is analysed by itself, between spaces, never in its sentence: so a word of a query always
gives the terms that it gives in a page, and one that comes again costs nothing. Particles, endings
and what makes verbs of nouns are left out. Verbs give their stem, nouns their pairs of syllables:
so a noun is found in a compound that kiwi takes for one, too (SIB-200, one fold of the part learned
from, English to Korean and back: pairs alone .824 and .911, morphemes alone .834 and .925, this
.869 and .932).

kiwipiepy is loaded when the first Hangul comes (1.5 s of CPU, 300 MB), never for texts in other
scripts. Hot path: bench/analysis.py.
"""

from __future__ import annotations

import functools
import re
import threading
import warnings
from collections.abc import Iterable
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from lycosa.core.errors import UsageError
from lycosa.text import fold
from lycosa.text.segmented import SegmentedAnalyzer, Unit, clean, same, syllable_pairs

NAME = "kiwi"
HINT = (
    "Korean by morphemes needs kiwipiepy, which is not installed: pip install 'lycosa[ko]', or "
    'set index.korean = "bigrams"'
)

# Syllables between spaces that are analysed at once. Kiwi takes 50 us a syllable, and time and
# memory that grow no faster than the word; a longer one is no word (the longest of 44,000 in two
# manuals has 17), and is read by pairs of syllables.
MAX_WORD = 64
_RUNS = re.compile("[\uac00-\ud7a3]+|[^\uac00-\ud7a3]+")
_HANGUL = re.compile("[\uac00-\ud7a3]")
# Tags of the Sejong corpus. Nouns, with numerals, roots, adverbs and interjections, which have no
# endings either; verbs and adjectives. Left out: auxiliary verbs (VX), the copula (VC), particles
# (J), endings (E), affixes (X).
_NOUNS = ("NN", "NR", "NP", "XR", "XPN", "MA", "MM", "IC", "UN")
_VERBS = ("VV", "VA")

_using = threading.Lock()


def installed() -> bool:
    """Whether kiwipiepy and its model are there; neither is loaded."""
    return find_spec("kiwipiepy") is not None and find_spec("kiwipiepy_model") is not None


def version() -> str:
    """The versions that the terms depend on.

    Raises:
        UsageError: kiwipiepy is not installed.
    """
    if not installed():
        raise UsageError(HINT)
    return f"kiwipiepy {metadata.version('kiwipiepy')}/model {metadata.version('kiwipiepy_model')}"


def holds_hangul(text: str) -> bool:
    return _HANGUL.search(text) is not None


def load() -> None:
    """Load kiwipiepy now, for who must answer in time later. Raises UsageError: it is not
    installed.
    """
    with _using:
        _kiwi()


class MorphemeAnalyzer(SegmentedAnalyzer):
    """Korean: what carries the meaning of each word, in order. The memo is of what stands between
    spaces.
    """

    # a new one takes 60 us, and most words of a text are written in one form or another that few
    # texts have: 10 MB
    most_chunks = 50_000

    def __init__(self, version: str) -> None:
        super().__init__("ko", same, name=NAME, version=version)

    def _words(self, text: str) -> Iterable[str]:
        return (term for chunk in clean(text).split() for term in _terms_of(chunk))

    def _learn(self, chunks: Iterable[str], memo: dict[str, str]) -> None:
        for chunk in chunks:
            memo[chunk] = " ".join(_terms_of(clean(chunk)))

    def units(self, text: str) -> list[Unit]:
        chunks = ((chunk, self.joined(chunk).split()) for chunk in text.split())
        return [Unit(tuple(terms), "", chunk) for chunk, terms in chunks if terms]


def _terms_of(chunk: str) -> list[str]:
    return [
        term
        for piece in fold.pieces(fold.plain(chunk))
        for term in (_parted(piece) if holds_hangul(piece) else [fold.without_accents(piece)])
        if term and len(term.encode()) <= fold.MAX_TERM_BYTES
    ]


def _parted(piece: str) -> list[str]:
    """The terms of letters and digits that hold Hangul: pairs of syllables of its nouns, stems of
    its verbs, the rest as it stands.
    """
    if len(piece) > MAX_WORD:
        return [term for run in _RUNS.findall(piece) for term in _plainly(run)]
    with _using:
        tokens = _kiwi().tokenize(piece)
    parts: list[str] = []
    for run in _RUNS.finditer(piece):
        if not holds_hangul(run[0]):
            parts.append(fold.without_accents(run[0]))
            continue
        # of nouns that stand side by side: how kiwi parts a compound is no matter
        start = end = run.start()
        for token in tokens:
            if not run.start() <= token.start < run.end():
                continue
            if token.tag.startswith(_NOUNS) and token.start == end:
                end = min(token.start + token.len, run.end())
                continue
            parts += syllable_pairs(piece[start:end]) if end > start else []
            start = end = token.start
            if token.tag.startswith(_NOUNS):
                end = min(token.start + token.len, run.end())
                continue
            if token.tag.startswith(_VERBS):
                parts.append(token.form)
            start = end = token.start + token.len
        parts += syllable_pairs(piece[start:end]) if end > start else []
    return parts or _plainly(piece)  # particles and endings alone: somebody asks for them


def _plainly(run: str) -> list[str]:
    return syllable_pairs(run) if holds_hangul(run) else [fold.without_accents(run)]


@functools.cache
def _kiwi() -> Any:
    """The one Kiwi of this process, in the caller's thread, without its dictionary of phrases and
    its rules of misspelling: 180 MB less.

    Raises:
        UsageError: kiwipiepy is not installed.
    """
    try:
        kiwipiepy = import_module("kiwipiepy")
    except ImportError:
        raise UsageError(HINT) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return kiwipiepy.Kiwi(num_workers=-1, load_multi_dict=False, load_typo_dict=False)
