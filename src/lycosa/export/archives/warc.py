"""Export to WARC: copy the compressed records of selected captures into new files.

The content of each file follows from the tables alone, so it is known before anything is copied.
The ID of its warcinfo record is derived from it, and an interrupted export continues with the first
missing file. The same captures and options give the same bytes.
"""

from __future__ import annotations

import heapq
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha1
from pathlib import Path
from typing import BinaryIO, NamedTuple

import polars as pl

from lycosa.archive.cdxj import cdxj_line
from lycosa.archive.warc.members import Record, RecordFile
from lycosa.archive.warc.reader import read_group
from lycosa.archive.warc.writer import warcinfo_record
from lycosa.core.errors import ArchiveError, WorkError
from lycosa.core.records import VisitKind
from lycosa.core.version import VERSION
from lycosa.processes.disk import sync_folder
from lycosa.store.storage.files import whole_file, write_errors
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteName

DEFAULT_FILE_BYTES = 10**9
"""The size of a file that the WARC guidelines recommend."""

_NAMESPACE = uuid.UUID("9f2f4f37-8d1b-5c55-9a55-5a1f0b4f6f0e")
_ROWS_AT_ONCE = 500_000  # about 200 MB
_MAX_CAPTURES = 200_000  # per file
# a request and a metadata record together have 0.8 to 1.5 KB
_COMPANION_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class WarcSelection:
    """The captures to export; empty: all. `language`: of the URL's page. `since`: ms since 1970."""

    language: str = ""
    collection: str = ""
    site: SiteName | None = None
    since: int = 0

    def of(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the selected rows of a table, `fetched_at` in ms since 1970; of any language."""
        rows = rows.with_columns(pl.col("fetched_at").dt.epoch("ms"))
        if self.collection:
            rows = rows.filter(pl.col("collection") == self.collection)
        if self.site is not None:
            rows = rows.filter(self.site.rows())
        if self.since:
            rows = rows.filter(pl.col("fetched_at") >= self.since)
        return rows


@dataclass(slots=True, frozen=True)
class UnreadableRecord:
    """A damaged or missing record of the archive, which an export omits.

    `record_id`: of the lost capture; empty if only accompanying records are lost. `reason` names
    the file and the offset.
    """

    url: str
    record_id: str
    reason: str


@dataclass(slots=True, frozen=True)
class WarcReport:
    """Result of an export. `existing` files were complete before; `without_record` captures have no
    HTTP record; `unreadable` records of the archive are omitted.
    """

    files: list[Path] = field(default_factory=list)
    index: Path | None = None
    existing: int = 0
    captures: int = 0
    without_record: int = 0
    bytes: int = 0
    unreadable: list[UnreadableRecord] = field(default_factory=list)


class ArchivedCapture(NamedTuple):
    """A row of `visits` with its place in the archive."""

    record_id: str
    warc_file: str
    warc_offset: int
    warc_length: int
    url: str
    fetched_at: int
    http_status: int
    content_type: str
    digest: str


def export_warc(
    workspace: Workspace,
    target: str | Path,
    selection: WarcSelection | None = None,
    *,
    max_file_bytes: int = DEFAULT_FILE_BYTES,
    responses_only: bool = False,
) -> WarcReport:
    """Copy the committed captures of a workspace into `lycosa-YYYYMMDDhhmmss-00000.warc.gz` and
    following files of about `max_file_bytes`, with an index.

    The time in the names is that of the newest capture. Request and metadata records are included
    unless `responses_only`. Every WARC file has a CDXJ file, and `lycosa-YYYYMMDDhhmmss.cdxj`
    indexes all of them. Exchanges without a response are omitted. A revisit may refer to a capture
    outside the selection. Each file appears completely or not at all; existing ones are reused.
    Damaged and missing records are omitted and reported. They are listed in a file
    `….unreadable.json`, and the next call writes their WARC file again.

    Raises:
        WorkError: the target cannot be written, or contains another export with the same names.
    """
    chosen = selection or WarcSelection()
    folder = Path(target)
    rows = _captures(LiveTables(workspace), chosen)
    newest = rows.select(pl.col("fetched_at").max()).collect().item()
    if newest is None:
        return WarcReport()
    files: list[Path] = []
    unreadable: list[UnreadableRecord] = []
    existing = selected = 0
    name = f"lycosa-{datetime.fromtimestamp(newest // 1000, UTC):%Y%m%d%H%M%S}"
    with write_errors(folder, "complete files are kept, run the same command again"):
        folder.mkdir(parents=True, exist_ok=True)
        for number, captures in enumerate(_file_contents(_in_file_order(rows), max_file_bytes)):
            path = folder / f"{name}-{number:05d}.warc.gz"
            record_id = _record_id(path.name, captures, responses_only)
            files.append(path)
            selected += len(captures)
            if _exists(path, record_id) and not _unreadable_of(path).exists():
                existing += 1
            else:
                info = {"isPartOf": chosen.collection or "all", "description": _describe(chosen)}
                start = warcinfo_record(record_id, newest, path.name, info)
                unreadable += _write_file(workspace, path, captures, start, responses_only)
        index = folder / f"{name}.cdxj"
        lines = _merge_indexes(index, [_index_of(path) for path in files])
        size = sum(path.stat().st_size for path in files)
    lost = sum(bool(record.record_id) for record in unreadable)
    return WarcReport(files, index, existing, lines, selected - lines - lost, size, unreadable)


def _captures(tables: LiveTables, chosen: WarcSelection) -> pl.LazyFrame:
    rows = chosen.of(tables.scan("visits")).filter(
        (pl.col("http_status") > 0)
        & (pl.col("kind") != VisitKind.CHECK.value)
        & (pl.col("warc_file") != "")
    )
    if chosen.language:
        keys = ["collection", "host_key", "url_key"]
        pages = tables.scan("pages").filter(pl.col("language") == chosen.language).select(keys)
        rows = rows.join(pages, on=keys, how="semi")
    return rows.select(ArchivedCapture._fields)


def _in_file_order(rows: pl.LazyFrame) -> Iterator[ArchivedCapture]:
    """Yield each record once, in the order of the archive, reading some files at a time."""
    sizes = rows.group_by("warc_file").len().sort("warc_file").collect()
    batch: list[str] = []
    batch_rows = 0
    for warc_file, count in sizes.iter_rows():
        if batch and batch_rows + count > _ROWS_AT_ONCE:
            yield from _sorted(rows, batch)
            batch, batch_rows = [], 0
        batch.append(warc_file)
        batch_rows += count
    if batch:
        yield from _sorted(rows, batch)


def _sorted(rows: pl.LazyFrame, files: list[str]) -> Iterator[ArchivedCapture]:
    captures = (
        rows.filter(pl.col("warc_file").is_in(files))
        .unique("record_id")
        .sort("warc_file", "warc_offset")
        .collect()
    )
    yield from map(ArchivedCapture._make, captures.iter_rows())


def _file_contents(
    captures: Iterable[ArchivedCapture], max_file_bytes: int
) -> Iterator[list[ArchivedCapture]]:
    """Divide the captures into files, by the sizes in the table and an estimate of the request and
    metadata records.
    """
    content: list[ArchivedCapture] = []
    size = 0
    for capture in captures:
        needed = capture.warc_length + _COMPANION_BYTES
        if content and (size + needed > max_file_bytes or len(content) >= _MAX_CAPTURES):
            yield content
            content, size = [], 0
        content.append(capture)
        size += needed
    if content:
        yield content


def _record_id(name: str, captures: Sequence[ArchivedCapture], responses_only: bool) -> str:
    """Return the ID of the warcinfo record, derived from all that determines the file's bytes."""
    content = sha1(f"{VERSION}\n{name}\n{responses_only}\n".encode(), usedforsecurity=False)
    for capture in captures:
        content.update(capture.record_id.encode() + b"\n")
    return uuid.uuid5(_NAMESPACE, content.hexdigest()).urn


def _exists(path: Path, record_id: str) -> bool:
    if not path.exists():
        return False
    with RecordFile(path) as file:
        existing_id = file.read(0).id()
    if existing_id != record_id:
        raise WorkError(
            f"{path} already exists and belongs to another export: choose an empty "
            "folder, or delete that file"
        )
    return True


def _describe(chosen: WarcSelection) -> str:
    limits = ", ".join(f"{name}={value}" for name, value in asdict(chosen).items() if value)
    return f"exported by Lycosa, records unchanged; {limits or 'all captures'}"


def _write_file(
    workspace: Workspace,
    path: Path,
    captures: Sequence[ArchivedCapture],
    start: bytes,
    responses_only: bool,
) -> list[UnreadableRecord]:
    """Write a file and its index, which appear when both are complete, the index first.

    Return the omitted records.
    """
    unreadable: list[UnreadableRecord] = []
    listing = _unreadable_of(path)
    with whole_file(path) as draft, whole_file(_index_of(path)) as index_draft:
        with open(draft, "wb") as output:
            output.write(start)
            lines = _copy(workspace, captures, output, path.name, responses_only, unreadable)
        _write_lines(index_draft, sorted(lines))
        if unreadable:
            with whole_file(listing) as list_draft:
                list_draft.write_text(json.dumps([*map(asdict, unreadable)], indent=2))
    if not unreadable:
        listing.unlink(missing_ok=True)
    sync_folder(path.parent)
    return unreadable


def _copy(
    workspace: Workspace,
    captures: Sequence[ArchivedCapture],
    output: BinaryIO,
    name: str,
    responses_only: bool,
    unreadable: list[UnreadableRecord],
) -> list[str]:
    """Copy the captures' records and return their index lines."""
    lines: list[str] = []
    source = None
    for capture, file, records in readable_groups(workspace, captures, unreadable):
        if file is not source:
            source = file
            copy_warcinfo(file, output, unreadable)
        first, last = records[0], records[0] if responses_only else records[-1]
        if first.type != "metadata":
            lines.append(index_line(capture, first, name, output.tell()))
            output.write(file.peek(first.offset, last.offset + last.length - first.offset))
    return lines


def copy_warcinfo(file: RecordFile, output: BinaryIO, unreadable: list[UnreadableRecord]) -> None:
    """Copy the first records, which describe the crawl of the others.

    The others refer to them, and readers need them to find the records after damage.
    """
    offset = 0
    try:
        while (record := file.read(offset)).type == "warcinfo":
            output.write(file.peek(offset, record.length))
            offset += record.length
    except ArchiveError as error:
        if not offset:  # else it is a capture, which is reported as such
            unreadable.append(UnreadableRecord("", "", str(error)))


def readable_groups(
    workspace: Workspace,
    captures: Iterable[ArchivedCapture],
    unreadable: list[UnreadableRecord],
) -> Iterator[tuple[ArchivedCapture, RecordFile, list[Record]]]:
    """Yield the captures in the order of the archive, each with its open file and its records.

    Damaged and missing records are added to `unreadable`, and so are captures without any record.
    """
    with ExitStack() as opened:
        current, file = "", None
        for capture in captures:
            records: list[Record] = []
            try:
                if file is None or capture.warc_file != current:
                    opened.close()
                    file = opened.enter_context(RecordFile(workspace.path(capture.warc_file)))
                    current = capture.warc_file
                for record in read_group(file, capture.warc_offset):
                    if not records and (record.id(), record.length) != (
                        capture.record_id,
                        capture.warc_length,
                    ):
                        raise ArchiveError(
                            f"{file.path}: the record at offset {capture.warc_offset} is not "
                            f"{capture.record_id}; run `lycosa check`"
                        )
                    records.append(record)
            except (ArchiveError, FileNotFoundError) as error:
                lost = "" if records else capture.record_id
                unreadable.append(UnreadableRecord(capture.url, lost, str(error)))
            if file is not None and records:
                yield capture, file, records


def index_line(capture: ArchivedCapture, record: Record, name: str, offset: int) -> str:
    """Return the CDXJ line of a capture that was copied to an offset of the file `name`."""
    revisit = record.type == "revisit"
    return cdxj_line(capture, name, offset, record.length, revisit=revisit)


def _index_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".warc.gz") + ".cdxj")


def _unreadable_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".warc.gz") + ".unreadable.json")


def _merge_indexes(path: Path, parts: Sequence[Path]) -> int:
    """Merge sorted CDXJ files; return the number of lines."""
    with whole_file(path) as draft:
        count = _write_lines(draft, heapq.merge(*map(_lines, parts)))
    sync_folder(path.parent)
    return count


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding="ascii", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")


def _write_lines(path: Path, lines: Iterable[str]) -> int:
    count = 0
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count
