"""The written chunks of an export, in an SQLite file in its folder.

chunks-000001.jsonl   the first export: all chunks
chunks-000002.jsonl   the changes since then
state.sqlite          about: options, number of the last file; pages; chunks
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from lycosa.core.errors import UsageError, WorkspaceError

STATE_FILE = "state.sqlite"
FORMAT = 1
_FILE = re.compile(r"chunks-\d{6,}\.(?:jsonl|parquet)")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pages (
    url TEXT PRIMARY KEY, version TEXT NOT NULL, run INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunks (
    url TEXT NOT NULL, id TEXT NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (url, id)
) WITHOUT ROWID;
"""


class ExportState:
    """The state of one run. Changes are stored by `finish`."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.run = int(self._about("run") or 0) + 1
        """Number of this run, and of its file."""

    def begin(self, options: Mapping[str, object]) -> None:
        """Check the options of this run, and store them.

        Raises:
            UsageError: the folder was exported with other options.
        """
        written = json.dumps(options, sort_keys=True)
        stored = self._about("options")
        if stored and stored != written:
            raise UsageError(
                "the folder has an export with other options "
                f"({stored}): choose another folder, or the same options"
            )
        self._set_about("options", written)

    def is_current(self, url: str, version: str) -> bool:
        """Return whether a page is written in this version, and mark it as seen."""
        marked = self._database.execute(
            "UPDATE pages SET run = ? WHERE url = ? AND version = ?", (self.run, url, version)
        )
        return marked.rowcount > 0

    def chunks(self, url: str) -> dict[str, int]:
        """Return the chunks of a page that are written: id -> digest."""
        rows = self._database.execute("SELECT id, digest FROM chunks WHERE url = ?", (url,))
        return dict(rows.fetchall())

    def replace(self, url: str, version: str, chunks: Mapping[str, int]) -> None:
        """Store the chunks of a page."""
        self._database.execute("DELETE FROM chunks WHERE url = ?", (url,))
        self._database.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?)",
            ((url, name, digest) for name, digest in chunks.items()),
        )
        self._database.execute("REPLACE INTO pages VALUES (?, ?, ?)", (url, version, self.run))

    def take_unseen(self) -> Iterator[tuple[str, str]]:
        """Remove the chunks of pages that this run has not seen; yield URL and ID."""
        unseen = "(SELECT url FROM pages WHERE run < ?)"
        rows = self._database.execute(
            f"SELECT url, id FROM chunks WHERE url IN {unseen} ORDER BY url, id", (self.run,)
        )
        yield from rows
        self._database.execute(f"DELETE FROM chunks WHERE url IN {unseen}", (self.run,))
        self._database.execute("DELETE FROM pages WHERE run < ?", (self.run,))

    @property
    def total(self) -> int:
        """The number of written chunks that are not removed."""
        return int(self._database.execute("SELECT count(*) FROM chunks").fetchone()[0])

    def _about(self, name: str) -> str:
        row = self._database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def _set_about(self, name: str, value: str) -> None:
        self._database.execute("REPLACE INTO about VALUES (?, ?)", (name, value))

    def finish(self) -> None:
        """Store the changes of this run. Call it after its file was written."""
        self._set_about("run", str(self.run))
        self._database.execute("COMMIT")


def remove_export(folder: Path) -> None:
    """Remove only the state of a folder and the files of its exports."""
    (folder / STATE_FILE).unlink(missing_ok=True)
    for path in folder.iterdir():
        if _FILE.fullmatch(path.name):
            path.unlink()


@contextmanager
def open_state(folder: Path) -> Iterator[ExportState]:
    """Open the state of a folder, for one process at a time. Without `finish`, nothing changes.

    Raises:
        WorkspaceError: it is damaged, of another format, or in use.
    """
    path = folder / STATE_FILE
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=1.0)) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, FORMAT):
                raise WorkspaceError(f"{path} has format {version}: export with --again")
            database.execute("BEGIN IMMEDIATE")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {FORMAT}")
            yield ExportState(database)
    except sqlite3.Error as error:
        raise WorkspaceError(
            f"{path} cannot be used: {error}; if no other export runs, export with --again"
        ) from error
