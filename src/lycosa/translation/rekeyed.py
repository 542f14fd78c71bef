"""A table of translations whose Korean keys were made by another analysis than the one that asks.

The setting `index.korean` may change after a table was made, and dictionaries are kept by pairs of
syllables whatever it says. Its keys are made anew when it is asked, from how they are written.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.text.analyze import Analysis, analysis_by
from lycosa.translation.source import Translation, TranslationSource, best
from lycosa.translation.table import TranslationTable
from lycosa.translation.terms import written_key

_KOREAN = "ko"


class RekeyedTable:
    """A `TranslationSource` that asks a table by its own keys and answers in those of `asked`, one
    kind of Korean each.
    """

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
        return written_key(self._table_analysis, _written(term.split(" "))) or term

    def _answer(self, translations: Sequence[Translation], target: str) -> list[Translation]:
        if target != _KOREAN:
            return list(translations)
        return best(
            [
                [
                    each._replace(key=key)
                    for each in translations
                    if (key := written_key(self._query_analysis, each.surface))
                ]
            ]
        )


def fitted(table: TranslationTable, query_analysis: Analysis) -> TranslationSource:
    """A table to be asked by one analysis: itself, if it has no Korean or Korean of this kind."""
    table_analysis = analysis_by(name.partition(" ")[0] for name in table.info.analyzers)
    if _KOREAN not in (table.info.source, table.info.target) or table_analysis == query_analysis:
        return table
    return RekeyedTable(table, query_analysis, table_analysis)


def _written(terms: Sequence[str]) -> str:
    """What a key's terms are terms of: `운영 영체 체제` is 운영체제 by pairs of syllables."""
    written = ""
    for term in terms:
        written += term[1:] if written and term[0] == written[-1] else term
    return written
