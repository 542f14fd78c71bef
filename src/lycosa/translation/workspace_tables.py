"""The translation tables of a workspace.

    translations/<name>/table.sqlite               added or learned by `lycosa translate`
    graph/<generation>/translations-xx-yy.sqlite   learned from the crawl by `lycosa rank`

The setting `index.korean` may change after a table was made, and dictionaries always use pairs of
syllables. Korean keys are then converted at query time, from their spelling.

Does not import polars: searches open the tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.store.storage.staging import generation_numbers, generation_path
from lycosa.store.storage.storage import Storage
from lycosa.text.analyze import Analysis, analysis_by
from lycosa.translation.source import Sources, Translation, TranslationSource, best
from lycosa.translation.table import TableInfo, TranslationTable
from lycosa.translation.terms import written_key

FOLDER = "translations"
TABLE = "table.sqlite"
GRAPH = "graph"
OF_CRAWL = re.compile(r"^translations-([a-z]{2,3})-([a-z]{2,3})\.sqlite\Z")

Seen = tuple[tuple[str, ...], int]
"""The names of the added tables, and the newest generation of the graph."""
_KOREAN = "ko"


@dataclass(slots=True)
class OpenTables:
    """All open tables, and messages about those that cannot be used."""

    tables: list[TranslationTable] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def sources(self) -> Sources:
        return self.sources_for(Analysis())

    def sources_for(self, analysis: Analysis) -> Sources:
        """Return all tables as one, with keys by an analysis of one kind of Korean."""
        return Sources(fitted(table, analysis) for table in self.tables)

    @property
    def infos(self) -> list[TableInfo]:
        return [table.info for table in self.tables]

    def open(self, path: Path) -> None:
        """Open a table; if it cannot be used, add a message instead."""
        try:
            table = TranslationTable(path)
        except WorkspaceError as error:
            self.problems.append(str(error))
            return
        try:
            if table.info.current:
                self.tables.append(table)
                return
            remedy = (
                "run `lycosa rank`" if table.info.kind == "crawl" else "remove and add it again"
            )
            problem = f"was made by another version of the analyzers: {remedy}"
        except UsageError as error:
            problem = f"is left out: {error}"
        table.close()
        self.problems.append(f"the table {table.info.name} {problem}")


def seen(storage: Storage) -> Seen:
    """Return a value that changes when the tables do that `open_tables` opens; cheap."""
    names = tuple(name for name in storage.names(FOLDER) if not name.startswith("."))
    return names, max(generation_numbers(storage, GRAPH), default=0)


def open_tables(storage: Storage) -> OpenTables:
    """Open all tables of a workspace."""
    names, generation = seen(storage)
    opened = OpenTables()
    for name in names:
        folder = storage.folders.local_path(f"{FOLDER}/{name}")
        if folder is not None:
            opened.open(Path(folder) / TABLE)
    folder = storage.folders.local_path(generation_path(GRAPH, generation)) if generation else None
    if folder is not None:
        for path in sorted(Path(folder).iterdir()):
            if OF_CRAWL.match(path.name):
                opened.open(path)
    return opened


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
