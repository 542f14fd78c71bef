"""Export the chunks of pages, and later only their changes.

chunks-000001.jsonl   the first export: all chunks
chunks-000002.jsonl   the changes since then
state.sqlite          about: options, number of the last file; pages; chunks
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import xxhash

from lycosa.chunks.split import split_page
from lycosa.chunks.tokens import ChunkBudget, budget_of
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.core.version import VERSION
from lycosa.export.markdown.pages import MarkdownPage, selected_pages
from lycosa.export.parquet import lines_to_parquet
from lycosa.store.storage.files import write_errors
from lycosa.store.workspace import Workspace

DEFAULT_TOKENS = 400
FORMATS = ("jsonl", "parquet")
ADDED, CHANGED, REMOVED = "added", "changed", "removed"
_TIMES = ("published_at", "fetched_at")
_SCHEMA = pl.Schema(
    {
        "operation": pl.String(),
        "id": pl.String(),
        "url": pl.String(),
        "position": pl.Int64(),
        "headings": pl.List(pl.String()),
        "text": pl.String(),
        "size": pl.Int64(),
        "previous": pl.String(),
        "next": pl.String(),
        "title": pl.String(),
        "language": pl.String(),
        "collection": pl.String(),
        **dict.fromkeys(_TIMES, pl.String()),
        "record_id": pl.String(),
    }
)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

STATE_FILE = "state.sqlite"
FORMAT = 1
_FILE = re.compile(r"chunks-\d{6,}\.(?:jsonl|parquet)")
_TABLES = """
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
            for statement in filter(str.strip, _TABLES.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {FORMAT}")
            yield ExportState(database)
    except sqlite3.Error as error:
        raise WorkspaceError(
            f"{path} cannot be used: {error}; if no other export runs, export with --again"
        ) from error


@dataclass(slots=True, frozen=True)
class ChunkOptions:
    """Options of an export of chunks.

    `max_tokens`, `max_characters`: maximum size of a chunk; at most one of the two.

    Raises:
        UsageError: the format is unknown, or the maximum is too small.
    """

    form: str = "jsonl"
    max_tokens: int = 0
    max_characters: int = 0
    site: str = ""
    collection: str = ""

    def __post_init__(self) -> None:
        if self.form not in FORMATS:
            raise UsageError(f"unknown format {self.form!r}: choose {' or '.join(FORMATS)}")
        _ = self.budget

    @property
    def budget(self) -> ChunkBudget:
        """The budget of a chunk. Raises UsageError: see `budget_of`."""
        return budget_of(self.max_tokens, self.max_characters, default_tokens=DEFAULT_TOKENS)


@dataclass(slots=True)
class ChunkReport:
    """Result of an export.

    `file`: None if nothing changed. `chunks`: number of all chunks that are not removed.
    `unreadable`: URLs with damaged or missing responses in the archive; they have no chunks.
    """

    folder: Path
    file: Path | None = None
    pages: int = 0
    chunks: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unreadable: list[str] = field(default_factory=list)


def export_chunks(
    workspace: Workspace,
    target: str | Path,
    options: ChunkOptions = ChunkOptions(),
    *,
    again: bool = False,
) -> ChunkReport:
    """Write a file with the changes since the last export into the folder.

    Pages that have not changed since are skipped; the report's `pages` counts the others. `again`:
    remove the files of earlier exports first, and write all chunks.

    Raises:
        UsageError: an option is wrong, or the folder was exported with other options.
        WorkError: the folder cannot be written.
        WorkspaceError: the state in the folder is damaged, or in use.
    """
    folder = Path(target)
    with write_errors(folder, "run the same command again"):
        folder.mkdir(parents=True, exist_ok=True)
        if again:
            remove_export(folder)
        with open_state(folder) as state:
            export = ChunkExport(folder, options, state)
            pages = selected_pages(
                workspace,
                site=options.site,
                collection=options.collection,
                unreadable=export.report.unreadable,
                condition=export.wants,
            )
            return export.write(pages)


class ChunkExport:
    """One export into a folder, with its open state.

    Raises:
        UsageError: the folder was exported with other options.
    """

    def __init__(self, folder: Path, options: ChunkOptions, state: ExportState) -> None:
        self._budget = options.budget
        self._state = state
        self._file = folder / f"chunks-{state.run:06d}.{options.form}"
        self._is_parquet = options.form == "parquet"
        self.report = ChunkReport(folder)
        state.begin(asdict(options))

    def wants(self, page: Mapping[str, Any]) -> bool:
        """Return whether a page differs from the last export. `page`: its columns."""
        return not self._state.is_current(page["url"], _version(page))

    def write(self, pages: Iterable[MarkdownPage]) -> ChunkReport:
        """Write the changed chunks of pages, and remove the chunks of other pages.

        Unchanged pages must have been passed to `wants`, so that they are not removed.
        """
        draft = self._file.with_name(f"{self._file.name}.part")
        report = self.report
        try:
            with open(draft, "wb") as output:
                for page in pages:
                    self._write_page(page, output)
                    report.pages += 1
                for url, name in self._state.take_unseen():
                    self._write_row(REMOVED, {"id": name, "url": url}, output)
                output.flush()
                os.fsync(output.fileno())
            report.chunks = self._state.total
            if report.added or report.changed or report.removed:
                if self._is_parquet:
                    lines_to_parquet(draft, _SCHEMA, _TIMES)
                os.replace(draft, self._file)
                report.file = self._file
                self._state.finish()
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        return report

    def _write_page(self, page: MarkdownPage, output: BinaryIO) -> None:
        former = self._state.chunks(page.url)
        written: dict[str, int] = {}
        for row in _rows(page, self._budget):
            digest = xxhash.xxh3_64_intdigest(_encode(row).encode("utf-8", "replace")) >> 1
            name = row["id"]
            written[name] = digest
            if name not in former:
                self._write_row(ADDED, row, output)
            elif former[name] != digest:
                self._write_row(CHANGED, row, output)
        for name in former.keys() - written.keys():
            self._write_row(REMOVED, {"id": name, "url": page.url}, output)
        self._state.replace(page.url, _version(page._asdict()), written)

    def _write_row(self, operation: str, row: Mapping[str, Any], output: BinaryIO) -> None:
        line = _encode({"operation": operation, **row})
        output.write(f"{line}\n".encode("utf-8", "replace"))
        setattr(self.report, operation, getattr(self.report, operation) + 1)


def _rows(page: MarkdownPage, budget: ChunkBudget) -> Iterator[dict[str, Any]]:
    """Yield the rows of a page's chunks, without the operation."""
    of_page = {
        "title": page.title,
        "language": page.language,
        "collection": page.collection,
        "published_at": _written(page.published_at),
        "fetched_at": _written(page.fetched_at),
        "record_id": page.record_id,
    }
    for chunk in split_page(page.url, page.markdown, budget, page.language):
        yield {**asdict(chunk), **of_page}


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _version(page: Mapping[str, Any]) -> str:
    """Return the values that determine the chunks of a page, as text.

    The version of the program is one of them.
    """
    digest = page["digest"] if "digest" in page else f"xxh3:{page['text_digest']:016x}"
    return _encode(
        [
            VERSION,
            digest,
            *(page[name] for name in ("record_id", "title", "language", "collection")),
            *(_written(page[name]) for name in _TIMES),
        ]
    )
