"""The tables of translations that a workspace has: those that people added or had learned, and
those that its crawl taught.

    translations/<name>/table.sqlite            added or learned by `lycosa translate`
    graph/<generation>/translations-xx-yy.sqlite   learned from the crawl by `lycosa rank`

No polars here: a search opens them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

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
    """All tables, open, and what is wrong with those that are not."""

    tables: list[TranslationTable] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def sources(self) -> Sources:
        return self.sources_for(Analysis())

    def sources_for(self, analysis: Analysis) -> Sources:
        """All tables as one, to be asked by an analysis of one kind of Korean."""
        return Sources(fitted(table, analysis) for table in self.tables)

    @property
    def infos(self) -> list[TableInfo]:
        return [table.info for table in self.tables]


Seen = tuple[tuple[str, ...], str]
"""What there is: the names of the added tables, and the newest generation of the graph."""


def seen(storage: Storage) -> Seen:
    """To tell whether `open_tables` would give others now; costs two listings of small folders."""
    generations = [name for name in storage.names(GRAPH) if _GENERATION.match(name)]
    return tuple(name for name in storage.names(FOLDER) if not name.startswith(".")), max(
        generations, default=""
    )


def open_tables(storage: Storage) -> OpenTables:
    """Open what is there. A table that is damaged, or of another version's analyzers, is told and
    left out.
    """
    names, generation = seen(storage)
    paths = [
        Path(found) / TABLE
        for name in names
        if (found := storage.folders.local_path(f"{FOLDER}/{name}")) is not None
    ]
    if generation and (found := storage.folders.local_path(f"{GRAPH}/{generation}")) is not None:
        paths += sorted(path for path in Path(found).iterdir() if OF_CRAWL.match(path.name))
    opened = OpenTables()
    for path in paths:
        try:
            table = TranslationTable(path)
        except WorkspaceError as error:
            opened.problems.append(str(error))
            continue
        try:
            current = table.info.current
        except UsageError as error:
            table.close()
            opened.problems.append(f"the table {table.info.name} is left out: {error}")
            continue
        if current:
            opened.tables.append(table)
        else:
            table.close()
            how = (
                "run `lycosa rank`" if table.info.kind == "crawl" else "remove it and add it again"
            )
            opened.problems.append(
                f"the table {table.info.name} was made by another version of the analyzers: {how}"
            )
    return opened
