"""The translation tables of a workspace.

    translations/<name>/table.sqlite               added or learned by `lycosa translate`
    graph/<generation>/translations-xx-yy.sqlite   learned from the crawl by `lycosa rank`

Does not import polars: searches open the tables.
"""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.store.storage.storage import Storage
from lycosa.text.analyze import Analysis
from lycosa.translation.rekeyed import fitted
from lycosa.translation.source import Sources
from lycosa.translation.table import TableInfo, TranslationTable

FOLDER = "translations"
TABLE = "table.sqlite"
GRAPH = "graph"
OF_CRAWL = re.compile(r"^translations-([a-z]{2,3})-([a-z]{2,3})\.sqlite\Z")
_GENERATION = re.compile(r"^\d{8}\Z")


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


Seen = tuple[tuple[str, ...], str]
"""The names of the added tables, and the newest generation of the graph."""


def seen(storage: Storage) -> Seen:
    """Return what changes when `open_tables` would open others; cheap."""
    names = tuple(name for name in storage.names(FOLDER) if not name.startswith("."))
    generations = [name for name in storage.names(GRAPH) if _GENERATION.match(name)]
    return names, max(generations, default="")


def open_tables(storage: Storage) -> OpenTables:
    """Open all tables of a workspace."""
    names, generation = seen(storage)
    opened = OpenTables()
    for name in names:
        folder = storage.folders.local_path(f"{FOLDER}/{name}")
        if folder is not None:
            opened.open(Path(folder) / TABLE)
    folder = storage.folders.local_path(f"{GRAPH}/{generation}") if generation else None
    if folder is not None:
        for path in sorted(Path(folder).iterdir()):
            if OF_CRAWL.match(path.name):
                opened.open(path)
    return opened
