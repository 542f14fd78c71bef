"""Use a translation table whose Korean keys are by another analysis than the query.

The setting `index.korean` may change after a table was made, and dictionaries always use pairs of
syllables. The keys are converted at query time, from their spelling.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.text.analyze import Analysis, analysis_by
from lycosa.translation.source import Translation, TranslationSource, best
from lycosa.translation.table import TranslationTable
from lycosa.translation.terms import written_key

_KOREAN = "ko"


class RekeyedTable:
    """A `TranslationSource` that converts keys between two analyses of Korean."""

    def __init__(
        self, table: TranslationTable, query_analysis: Analysis, table_analysis: Analysis
    ) -> None:
        self._table = table
        self._query_analysis = query_analysis.of(_KOREAN)
        self._table_analysis = table_analysis.of(_KOREAN)

    def covers(self, source: str, target: str) -> bool:
        return self._table.covers(source, target)

    def lookup(self, term: str, source: str, target: str) -> list[Translation]:
        """See `TranslationSource`. Raises WorkspaceError if the file is damaged."""
        return self._answer(self._table.lookup(self._key(term, source), source, target), target)

    def resembling(self, term: str, source: str, target: str) -> list[Translation]:
        """See `TranslationSource`. Raises WorkspaceError if the file is damaged."""
        return self._answer(self._table.resembling(self._key(term, source), source, target), target)

    def _key(self, term: str, source: str) -> str:
        if source != _KOREAN:
            return term
        return written_key(self._table_analysis, _word(term.split(" "))) or term

    def _answer(self, translations: Sequence[Translation], target: str) -> list[Translation]:
        if target != _KOREAN:
            return list(translations)
        keys = (written_key(self._query_analysis, each.surface) for each in translations)
        pairs = zip(translations, keys, strict=True)
        return best([[each._replace(key=key) for each, key in pairs if key]])


def fitted(table: TranslationTable, query_analysis: Analysis) -> TranslationSource:
    """Return a source with keys by an analysis: the table itself if its keys fit."""
    table_analysis = analysis_by(name.partition(" ")[0] for name in table.info.analyzers)
    if _KOREAN not in (table.info.source, table.info.target) or table_analysis == query_analysis:
        return table
    return RekeyedTable(table, query_analysis, table_analysis)


def _word(terms: Sequence[str]) -> str:
    """Return the word of a key: `운영 영체 체제` is 운영체제 by pairs of syllables."""
    word = ""
    for term in terms:
        word += term[1:] if word and term[0] == word[-1] else term
    return word
