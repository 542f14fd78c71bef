"""Export to WARC: the records of chosen captures copied, as they are compressed, into files for
handing on.

What a file holds follows from the tables alone, so it is known before a byte is copied: its
warcinfo record is named after its contents, and an export that was interrupted goes on with the
first file that is not there yet. The same captures and options give the same bytes.
"""

from __future__ import annotations

import heapq
import os
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
from lycosa.archive.warc.members import RecordFile
from lycosa.archive.warc.reader import read_group
from lycosa.archive.warc.writer import sync_folder, warcinfo_record
from lycosa.core.errors import ArchiveError, WorkError
from lycosa.core.records import VisitKind
from lycosa.core.version import VERSION
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteName

DEFAULT_FILE_BYTES = 10**9
"""What the WARC guidelines suggest for one file."""

_NAMESPACE = uuid.UUID("9f2f4f37-8d1b-5c55-9a55-5a1f0b4f6f0e")
_ROWS_AT_ONCE = 500_000  # rows of the table that are looked at together: about 200 MB
_FILE_CAPTURES = 200_000  # most captures of one file, however small they are
# a request and a metadata record together take 0.8 to 1.5 KB (bench/archive.py)
_COMPANION_BYTES = 2_048
_COLUMNS = (
    "record_id",
    "warc_file",
    "warc_offset",
    "warc_length",
    "url",
    "fetched_at",
    "http_status",
    "content_type",
    "digest",
)


@dataclass(frozen=True, slots=True)
class WarcSelection:
    """Which captures are exported; empty: all. `language` is that of the URL's page, `since` is in
    milliseconds since 1970.
    """

    language: str = ""
    collection: str = ""
    site: SiteName | None = None
    since: int = 0


@dataclass(slots=True)
class ExportReport:
    """What an export did. `kept` of the files were there already; `without_record` captures have no
    HTTP record.
    """

    files: list[Path] = field(default_factory=list)
    index: Path | None = None
    kept: int = 0
    captures: int = 0
    without_record: int = 0
    bytes: int = 0


class _Capture(NamedTuple):
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
) -> ExportReport:
    """Copy the committed captures of a workspace into `lycosa-YYYYMMDDhhmmss-00000.warc.gz` and
    following, with an index.

    The time in the names is the newest capture's. Files are cut at about `max_file_bytes`. Each
    capture brings its request and metadata records unless `responses_only`. Beside every WARC
    stands its CDXJ, and `lycosa-YYYYMMDDhhmmss.cdxj` indexes them all. Exchanges without an answer
    are left out. A revisit may refer to a capture outside the selection.

    Each file appears whole or not at all, and files of the same export that are there already are
    kept.

    Raises:
        WorkError: the target cannot be written, or holds another export under the same names.
        ArchiveError: a record is damaged or missing; no file with it is left behind.
    """
    chosen = selection or WarcSelection()
    folder = Path(target)
    rows = _captures(LiveTables(workspace), chosen)
    newest = rows.select(pl.col("fetched_at").max()).collect().item()
    report = ExportReport()
    if newest is None:
        return report
    name = f"lycosa-{datetime.fromtimestamp(newest // 1000, UTC):%Y%m%d%H%M%S}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, captures in enumerate(_file_contents(_in_file_order(rows), max_file_bytes)):
            path = folder / f"{name}-{number:05d}.warc.gz"
            record_id = _record_id(path.name, captures, responses_only)
            report.files.append(path)
            if _is_there(path, record_id):
                report.kept += 1
            else:
                info = {"isPartOf": chosen.collection or "all", "description": _describe(chosen)}
                start = warcinfo_record(record_id, newest, path.name, info)
                _write_file(workspace, path, captures, start, responses_only)
            lines = sum(1 for _ in _lines(_index_of(path)))
            report.captures += lines
            report.without_record += len(captures) - lines
            report.bytes += path.stat().st_size
        report.index = folder / f"{name}.cdxj"
        _merge_indexes(report.index, [_index_of(path) for path in report.files])
    except OSError as error:
        raise WorkError(
            f"{folder} cannot be written: {error.strerror}; complete files are kept, "
            "run the same command again"
        ) from error
    return report


def _captures(tables: LiveTables, chosen: WarcSelection) -> pl.LazyFrame:
    rows = tables.scan("visits").filter(
        (pl.col("http_status") > 0) & (pl.col("kind") != VisitKind.CHECK.value)
    )
    if chosen.collection:
        rows = rows.filter(pl.col("collection") == chosen.collection)
    if chosen.site is not None:
        rows = rows.filter(chosen.site.rows())
    rows = rows.with_columns(pl.col("fetched_at").dt.epoch("ms"))
    if chosen.since:
        rows = rows.filter(pl.col("fetched_at") >= chosen.since)
    if chosen.language:
        keys = ["collection", "host_key", "url_key"]
        pages = tables.scan("pages").filter(pl.col("language") == chosen.language).select(keys)
        rows = rows.join(pages, on=keys, how="semi")
    return rows.select(_COLUMNS)


def _in_file_order(rows: pl.LazyFrame) -> Iterator[_Capture]:
    """Each record once, in the order of the source files and of the records in them; some files at
    a time.
    """
    sizes = rows.group_by("warc_file").len().sort("warc_file").collect()
    batch: list[str] = []
    waiting = 0
    for warc_file, count in sizes.iter_rows():
        if batch and waiting + count > _ROWS_AT_ONCE:
            yield from _sorted(rows, batch)
            batch, waiting = [], 0
        batch.append(warc_file)
        waiting += count
    if batch:
        yield from _sorted(rows, batch)


def _sorted(rows: pl.LazyFrame, files: list[str]) -> Iterator[_Capture]:
    found = (
        rows.filter(pl.col("warc_file").is_in(files))
        .unique("record_id")
        .sort("warc_file", "warc_offset")
        .collect()
    )
    yield from map(_Capture._make, found.iter_rows())


def _file_contents(captures: Iterable[_Capture], max_file_bytes: int) -> Iterator[list[_Capture]]:
    """Cut the captures into files, by the sizes that the table knows and an estimate of the records
    beside them.
    """
    content: list[_Capture] = []
    size = 0
    for capture in captures:
        needed = capture.warc_length + _COMPANION_BYTES
        if content and (size + needed > max_file_bytes or len(content) >= _FILE_CAPTURES):
            yield content
            content, size = [], 0
        content.append(capture)
        size += needed
    if content:
        yield content


def _record_id(name: str, captures: Sequence[_Capture], responses_only: bool) -> str:
    """The warcinfo's id, a name for everything that decides the file's bytes (UUID version 5)."""
    content = sha1(f"{VERSION}\n{name}\n{responses_only}\n".encode(), usedforsecurity=False)
    for capture in captures:
        content.update(capture.record_id.encode() + b"\n")
    return uuid.uuid5(_NAMESPACE, content.hexdigest()).urn


def _is_there(path: Path, record_id: str) -> bool:
    if not path.exists():
        return False
    with RecordFile(path) as file:
        found = file.read(0).id()
    if found != record_id:
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
    captures: Sequence[_Capture],
    start: bytes,
    responses_only: bool,
) -> None:
    """Write a file and its index aside, then rename both: whoever finds the file finds its
    index.
    """
    aside, index_aside = (
        path.with_name(f".{path.name}.part"),
        path.with_name(f".{path.name}.cdxj.part"),
    )
    try:
        with open(aside, "wb") as output:
            output.write(start)
            lines = _copy(workspace, captures, output, path.name, responses_only)
            output.flush()
            os.fsync(output.fileno())
        _write_lines(index_aside, sorted(lines))
        os.replace(index_aside, _index_of(path))
        os.replace(aside, path)
        sync_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)
        index_aside.unlink(missing_ok=True)


def _copy(
    workspace: Workspace,
    captures: Sequence[_Capture],
    output: BinaryIO,
    name: str,
    responses_only: bool,
) -> list[str]:
    """Copy the captures' records and return their index lines."""
    lines: list[str] = []
    with ExitStack() as opened:
        current, file = "", None
        for capture in captures:
            if file is None or capture.warc_file != current:
                opened.close()
                file = opened.enter_context(RecordFile(workspace.path(capture.warc_file)))
                current = capture.warc_file
                # The records name this warcinfo; it comes along so that they still can be traced to
                # their crawl.
                output.write(file.peek(0, file.read(0).length))
            records = read_group(file, capture.warc_offset)
            first, last = records[0], records[0] if responses_only else records[-1]
            if first.id() != capture.record_id or first.length != capture.warc_length:
                raise ArchiveError(
                    f"{file.path}: the record at offset {capture.warc_offset} is not "
                    f"{capture.record_id}; run `lycosa check`"
                )
            if first.type == "metadata":
                continue
            line = cdxj_line(
                capture.url,
                capture.fetched_at,
                content_type=capture.content_type,
                status=capture.http_status,
                digest=capture.digest,
                filename=name,
                offset=output.tell(),
                length=first.length,
                revisit=first.type == "revisit",
            )
            lines.append(line)
            output.write(file.peek(first.offset, last.offset + last.length - first.offset))
    return lines


def _index_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".warc.gz") + ".cdxj")


def _merge_indexes(path: Path, parts: Sequence[Path]) -> None:
    aside = path.with_name(f".{path.name}.part")
    _write_lines(aside, heapq.merge(*map(_lines, parts)))
    os.replace(aside, path)
    sync_folder(path.parent)


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding="ascii", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
