"""The library: pages by language and day, in files for further processing.

Two passes over the tables. The first computes a fingerprint of each day of each language; days that
are already exported with it are skipped. The second writes the others in key order, many days at
a time. Memory: some tens of MB of rows, 128 KB per open day, and 200 bytes per day of the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from lycosa.core.errors import WorkError
from lycosa.crawl.processing.page_reader import ParseFunction
from lycosa.export.bulk.join import side_by_side
from lycosa.export.declared import DECLARED, METADATA_COLUMNS, with_metadata
from lycosa.export.library.day_writer import DayFile, DayWriter, exported_files
from lycosa.export.library.day_writer import Place as DocumentPlace
from lycosa.export.library.documents import LINK_COLUMNS, LibraryDocuments, documents
from lycosa.export.library.editions import (
    IDENTITY,
    PAGE_COLUMNS,
    PLACE,
    RECORD_COLUMNS,
    URL_COLUMNS,
    VISIT_COLUMNS,
    LibrarySelection,
    editions,
)
from lycosa.export.library.formats import DEFAULT_FILE_BYTES, Format
from lycosa.graph.generation import current_duplicates
from lycosa.store.storage.files import file_lock
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables, sources
from lycosa.store.tables.ordered import in_key_order
from lycosa.store.tables.precedence import SOURCE, without_superseded
from lycosa.store.tables.schema import TABLES
from lycosa.store.workspace import Workspace

_PAGES_BYTES, _LINKS_BYTES, _PLAN_BYTES = 16 << 20, 12 << 20, 8 << 20  # of rows in memory
_VISITS_BYTES = _URLS_BYTES = _METADATA_BYTES = 6 << 20
_OPEN_DAYS = 256
_RENDERED_AT_ONCE = 1_000  # documents
_LOCK = ".lock"
_FINGERPRINT = (
    *("text_digest", "title", "headline", "charset", "published_at", "language"),
    "redirect_from",
)
"""Columns that determine whether a live document has changed."""


class LibraryDay(NamedTuple):
    """A day of a language."""

    language: str
    day: date


class DaySize(NamedTuple):
    """The number of documents of a day, and of their hosts."""

    documents: int
    hosts: int


@dataclass(slots=True)
class LibraryReport:
    """Result of an export.

    `unchanged`: days of the selection that were already exported; `resumed_files`: already exported
    files of other days; `unreadable`: older versions that cannot be read from the archive.
    """

    target: str = ""
    languages: int = 0
    days: int = 0
    unchanged: int = 0
    documents: int = 0
    files: int = 0
    resumed_files: int = 0
    bytes: int = 0
    unreadable: int = 0
    written: list[str] = field(default_factory=list)

    def add_unchanged(self, files: Sequence[DayFile]) -> None:
        """Count a day that was already exported."""
        self.unchanged += 1
        self._add_files(files)

    def add_unreadable(self, versions: int) -> None:
        self.unreadable += versions

    def add_written(self, folder: Path, files: Sequence[DayFile], resumed: int) -> None:
        """Count a written day; its first `resumed` files existed before."""
        self.resumed_files += resumed
        self._add_files(files)
        self.written.extend(str(folder / file.name) for file in files[resumed:])

    def _add_files(self, files: Sequence[DayFile]) -> None:
        self.files += len(files)
        self.documents += sum(file.documents for file in files)
        self.bytes += sum(file.bytes for file in files)


def export_library(
    workspace: Workspace,
    target: str | Path,
    kind: Format,
    chosen: LibrarySelection,
    parse: ParseFunction,
    *,
    file_bytes: int = DEFAULT_FILE_BYTES,
    again: bool = False,
) -> LibraryReport:
    """Update the library in `target` (`xml/LANG/DATE/`) to the current content of the workspace.

    `again` also rewrites unchanged days. Days that the workspace does not have are not changed.

    Raises:
        WorkError: the target cannot be written, or another export writes there; complete files
            remain.
        FileNotFoundError: a replaced table file was deleted meanwhile; call again.
    """
    folder = Path(target) / kind.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkError(f"{folder} cannot be created: {error.strerror}") from None
    try:
        with file_lock(str(folder / _LOCK)) as locked:
            if not locked:
                raise WorkError(
                    f"another export is writing to {folder}: wait for it, or choose another folder"
                )
            return _Export(workspace, folder, kind, chosen, parse, file_bytes).run(again=again)
    except OSError as error:
        in_target = str(error.filename or "").startswith(str(folder))
        if isinstance(error, FileNotFoundError) and not in_target:
            raise
        raise WorkError(
            f"{folder} cannot be written: {error.strerror or error}; complete files are kept, run "
            "the same command again"
        ) from error


def library_days(workspace: Workspace, chosen: LibrarySelection) -> dict[LibraryDay, DaySize]:
    """Return the size of an export by language and day.

    Memory: 8 bytes per document.

    Raises:
        FileNotFoundError: a replaced table file was deleted meanwhile; call again.
    """
    columns = ("library", "day", "host_key")
    parts = [rows.select(columns) for rows in _current_editions(workspace, chosen)]
    if not parts:
        return {}
    sizes = (
        pl.concat(parts)
        .group_by("library", "day")
        .agg(pl.len(), pl.col("host_key").n_unique().alias("hosts"))
    )
    return {
        LibraryDay(language, day): DaySize(documents, hosts)
        for language, day, documents, hosts in sizes.iter_rows()
    }


def library_documents(workspace: Workspace, chosen: LibrarySelection) -> pl.DataFrame:
    """Return the documents of a selection in the order of an export.

    Columns: `library`, `day`, `collection`, `url`, `title`, `headline`, `charset`, `at`, `live`.
    Raises the errors of `library_days`.
    """
    columns = ("library", "day", "collection", "url", "title", "headline", "charset", "at", "live")
    parts = [rows.select(columns) for rows in _current_editions(workspace, chosen)]
    return pl.concat(parts) if parts else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))


def _current_editions(workspace: Workspace, chosen: LibrarySelection) -> Iterator[pl.DataFrame]:
    source = EditionSource(workspace, chosen)
    return (rows for rows, _ in source.editions(VISIT_COLUMNS, PAGE_COLUMNS, linked=False))


class EditionSource:
    """Reads the editions of a selection from the tables."""

    def __init__(self, workspace: Workspace, chosen: LibrarySelection) -> None:
        self._tables = LiveTables(workspace)
        self._duplicates = current_duplicates(workspace).select(IDENTITY)
        self._chosen = chosen

    def editions(
        self, visits: Sequence[str], pages: Sequence[str], *, linked: bool, described: bool = False
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Yield the editions and the links of their pages, by ranges of keys.

        `visits` and `pages` are the columns to read. `described`: with the column `DECLARED`.
        """
        tables = self._tables
        pages_bytes = _PAGES_BYTES if len(pages) > len(PAGE_COLUMNS) else _PLAN_BYTES
        streams = [
            tables.ordered("pages", (*pages, ENTRY), memory_bytes=pages_bytes),
            tables.ordered("visits", visits, memory_bytes=_VISITS_BYTES),
            tables.ordered("urls", URL_COLUMNS, memory_bytes=_URLS_BYTES),
        ]
        if described:
            streams.append(
                tables.ordered("metadata", METADATA_COLUMNS, memory_bytes=_METADATA_BYTES)
            )
        if linked:
            # `ordered` would need memory for the newest parse of every source
            files = sources(tables.state.files.get("links", []))
            columns = ("partition", *LINK_COLUMNS, "found_at")
            streams.append(
                in_key_order(tables.storage, TABLES["links"], files, _LINKS_BYTES, columns)
            )
        for page_rows, visit_rows, url_rows, *others in side_by_side(streams):
            if described and page_rows.height:
                page_rows = with_metadata(page_rows, others[0])
            links = others[described:]
            rows = editions(page_rows, visit_rows, url_rows, self._duplicates, self._chosen)
            if rows.height:
                yield rows, _newest_links(links[0], page_rows) if links else pl.DataFrame()


class _Export:
    def __init__(
        self,
        workspace: Workspace,
        folder: Path,
        kind: Format,
        chosen: LibrarySelection,
        parse: ParseFunction,
        file_bytes: int,
    ) -> None:
        self._workspace = workspace
        self._folder = folder
        self._kind = kind
        self._chosen = chosen
        self._parse = parse
        self._file_bytes = file_bytes
        self._source = EditionSource(workspace, chosen)

    def run(self, *, again: bool) -> LibraryReport:
        plan = self._plan()
        languages = {key.language for key in plan}
        report = LibraryReport(str(self._folder), len(languages), len(plan))
        pending: list[LibraryDay] = []
        for key in sorted(plan):
            files = None if again else exported_files(self._path(key), plan[key])
            if files is None:
                pending.append(key)
            else:
                report.add_unchanged(files)
        for start in range(0, len(pending), _OPEN_DAYS):
            days = pending[start : start + _OPEN_DAYS]
            self._write({key: plan[key] for key in days}, report)
        return report

    def _path(self, key: LibraryDay) -> Path:
        return self._folder / key.language / key.day.isoformat()

    def _plan(self) -> dict[LibraryDay, str]:
        """Return the fingerprint of each day: a hash of its documents and of the options."""
        chosen = self._chosen
        options = f"{self._kind.name}\n{self._file_bytes}\n{chosen.collection}\n{chosen.full}\n"
        initial = sha1(options.encode(), usedforsecurity=False)
        hashes = defaultdict[LibraryDay, Any](initial.copy)
        live_content = pl.struct(_FINGERPRINT).struct.json_encode()
        line = pl.concat_str(
            *(pl.col(name).cast(pl.String).fill_null("") for name in (*PLACE, "url")),
            pl.col("at").dt.epoch("ms").cast(pl.String),
            pl.when("live").then(pl.lit("")).otherwise(pl.col("seen_in").fill_null("")),
            pl.when("live").then(live_content).otherwise(pl.lit("")),
            separator="\t",
        )
        for rows, _ in self._source.editions(VISIT_COLUMNS, PAGE_COLUMNS, linked=False):
            for key, part in _by_day(rows.select("library", "day", line.alias("line"))):
                for text in part["line"]:
                    hashes[key].update(text.encode() + b"\n")
        return {key: value.hexdigest() for key, value in hashes.items()}

    def _write(self, fingerprints: Mapping[LibraryDay, str], report: LibraryReport) -> None:
        """Write the days of these fingerprints."""
        writers: dict[LibraryDay, DayWriter] = {}
        resumed: dict[LibraryDay, DocumentPlace] = {}
        for key, fingerprint in fingerprints.items():
            day = key.day.isoformat()
            writers[key] = DayWriter(
                self._path(key), self._kind, key.language, day, fingerprint, self._file_bytes
            )
            last = writers[key].resume()
            if last is not None:
                resumed[key] = last
        schema = {"library": pl.String(), "day": pl.Date()}
        days = pl.DataFrame(list(fingerprints), schema=schema, orient="row")
        fields = self._kind.fields
        columns = (
            *PAGE_COLUMNS,
            *(name for name in fields if name not in (*PAGE_COLUMNS, DECLARED)),
        )
        visits = (*VISIT_COLUMNS, *RECORD_COLUMNS)
        described = DECLARED in fields
        for edition, links in self._source.editions(
            visits, columns, linked=self._kind.linked, described=described
        ):
            rows = edition.join(days, on=["library", "day"], how="semi", maintain_order="left")
            for part in _after(rows, resumed).iter_slices(_RENDERED_AT_ONCE):
                batch = documents(
                    part,
                    links,
                    self._parse,
                    self._workspace.path,
                    fields,
                    linked=self._kind.linked,
                )
                report.add_unreadable(batch.unreadable)
                if batch.rows.height:
                    self._add(batch, writers)
        for key, writer in writers.items():
            report.add_written(self._path(key), writer.finish(), writer.resumed)

    def _add(self, batch: LibraryDocuments, writers: Mapping[LibraryDay, DayWriter]) -> None:
        rendered = self._kind.render(batch).alias("document")
        rows = batch.rows.select("library", "day", *PLACE).with_columns(rendered)
        for key, part in _by_day(rows):
            texts = [text.encode() for text in part["document"]]
            writers[key].add(texts, list(part.select(PLACE).iter_rows()))


def _by_day(rows: pl.DataFrame) -> Iterator[tuple[LibraryDay, pl.DataFrame]]:
    parts = rows.partition_by(["library", "day"], as_dict=True, maintain_order=True)
    for (language, day), part in parts.items():
        yield LibraryDay(str(language), cast(date, day)), part


def _after(rows: pl.DataFrame, resumed: Mapping[LibraryDay, DocumentPlace]) -> pl.DataFrame:
    """Return the documents after the last complete file of each day."""
    if not resumed or not rows.height:
        return rows
    pending = []
    for language, day, *place in rows.select("library", "day", *PLACE).iter_rows():
        last = resumed.get(LibraryDay(language, day))
        pending.append(last is None or tuple(place) > last)
    return rows.filter(pl.Series(pending, dtype=pl.Boolean))


def _newest_links(links: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Return the links of the newest parse of each source; it may have none."""
    if not links.height:
        return links
    latest = pl.col(ENTRY) == pl.col(ENTRY).max().over(SOURCE)
    parsed = (
        pages.filter(latest)
        .group_by(SOURCE)
        .agg(
            pl.col(ENTRY).first().alias("parsed_in"), pl.col("fetched_at").max().alias("parsed_at")
        )
    )
    newest = without_superseded(TABLES["links"], links, {}).join(
        parsed, on=SOURCE, how="left", maintain_order="left"
    )
    at = (pl.col("found_at") >= pl.col("parsed_at")).fill_null(True)
    return newest.filter(
        (pl.col(ENTRY) > pl.col("parsed_in")).fill_null(True)
        | ((pl.col(ENTRY) == pl.col("parsed_in")) & at)
    )
