"""Analyse Korean by morphemes with kiwipiepy (`lycosa[ko]`, `index.korean = "kiwi"`).

Words are analysed without their sentence, so that queries and pages give the same terms, and
results are cached. Particles, endings and verbal suffixes are left out. Verbs give their stem,
nouns pairs of syllables, so that a noun matches within compounds.

kiwipiepy is loaded at the first Hangul (1.5 s of CPU time, 300 MB). Hot path: bench/analysis.py.
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
from lycosa.text.segmented import (
    SegmentedAnalyzer,
    clean,
    marked_terms,
    same,
    syllable_pairs,
)

NAME = "kiwi"
HINT = (
    "Korean by morphemes needs kiwipiepy, which is not installed: pip install 'lycosa[ko]', or "
    'set index.korean = "bigrams"'
)

# Maximum syllables of a word for kiwi; longer ones become pairs of syllables.
MAX_WORD = 64
_RUNS = re.compile("[\uac00-\ud7a3]+|[^\uac00-\ud7a3]+")
_HANGUL = re.compile("[\uac00-\ud7a3]")
# Tags of the Sejong corpus: words without endings, and verbs with adjectives. Left out: auxiliary
# verbs (VX), the copula (VC), particles (J), endings (E), affixes (X).
_NOUNS = ("NN", "NR", "NP", "XR", "XPN", "MA", "MM", "IC", "UN")
_VERBS = ("VV", "VA")

_using = threading.Lock()


def installed() -> bool:
    """Return whether kiwipiepy and its model are installed, without loading them."""
    return find_spec("kiwipiepy") is not None and find_spec("kiwipiepy_model") is not None


def version() -> str:
    """Return the versions of kiwipiepy and its model.

    Raises:
        UsageError: kiwipiepy is not installed.
    """
    if not installed():
        raise UsageError(HINT)
    return f"kiwipiepy {metadata.version('kiwipiepy')}/model {metadata.version('kiwipiepy_model')}"


def holds_hangul(text: str) -> bool:
    return _HANGUL.search(text) is not None


def load() -> None:
    """Load kiwipiepy in advance. Raises UsageError if it is not installed."""
    with _using:
        _kiwi()


class MorphemeAnalyzer(SegmentedAnalyzer):
    """Korean: the meaningful morphemes of each word. Chunks between spaces are cached."""

    # 10 MB; a new chunk takes 60 us
    most_chunks = 50_000

    def __init__(self, version: str) -> None:
        super().__init__("ko", same, name=NAME, version=version)

    def _learn(self, chunks: Iterable[str], memo: dict[str, str]) -> None:
        for chunk in chunks:
            memo[chunk] = marked_terms(_terms_of(clean(chunk)), self._mark)


def _terms_of(chunk: str) -> list[str]:
    return [
        term
        for piece in fold.pieces(fold.plain(chunk))
        for term in (_parted(piece) if holds_hangul(piece) else [fold.without_accents(piece)])
        if term and len(term.encode()) <= fold.MAX_TERM_BYTES
    ]


def _parted(piece: str) -> list[str]:
    """Return the terms of a word: syllable pairs of nouns, stems of verbs, the rest as is."""
    if len(piece) > MAX_WORD:
        return [term for run in _RUNS.findall(piece) for term in _plainly(run)]
    with _using:
        tokens = _kiwi().tokenize(piece)
    parts: list[str] = []
    for run in _RUNS.finditer(piece):
        if not holds_hangul(run[0]):
            parts.append(fold.without_accents(run[0]))
            continue
        # of adjacent nouns: a compound is one run
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
    return parts or _plainly(piece)  # only particles and endings


def _plainly(run: str) -> list[str]:
    return syllable_pairs(run) if holds_hangul(run) else [fold.without_accents(run)]


@functools.cache
def _kiwi() -> Any:
    """Return the Kiwi of this process, without phrases and typo rules, which saves 180 MB.

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
