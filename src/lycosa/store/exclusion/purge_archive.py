"""Remove records from WARC files, and adjust the references to the remaining records.

Remaining records are copied byte for byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lycosa.archive.cdxj import write_lines
from lycosa.archive.warc.members import Record, read_records
from lycosa.core.errors import UrlError
from lycosa.processes.disk import sync_file, sync_folder
from lycosa.url.scope import hostname

_CHUNK = 1 << 20

Excluded = Callable[[str, str], bool]
"""(URL, hostname) -> whether it is excluded, such as `LogState.excluded`."""


@dataclass(slots=True, frozen=True)
class WarcCut:
    """The records to remove from a WARC file.

    `removed` are (offset, length) in order, `remaining` counts the others without warcinfo.
    """

    removed: list[tuple[int, int]]
    remaining: int
    end: int  # of the last complete record

    def shift(self, offset: int) -> int:
        """Return the new offset of a remaining record."""
        return offset - sum(length for start, length in self.removed if start < offset)


def plan_cut(path: str, is_removed: Callable[[Record], bool]) -> WarcCut:
    """Find the records to remove from a WARC file. `is_removed` is called in their order.

    Raises:
        ArchiveError: the file is damaged, so its damaged part may contain such records.
    """
    removed: list[tuple[int, int]] = []
    remaining = end = 0
    for record in read_records(path):
        end = record.offset + record.length
        if is_removed(record):
            removed.append((record.offset, record.length))
        elif record.type != "warcinfo":
            remaining += 1
    return WarcCut(removed, remaining, end)


def of_excluded_url(excluded: Excluded) -> Callable[[Record], bool]:
    """Return a test for `plan_cut`: whether the URL of a record is excluded."""

    def is_removed(record: Record) -> bool:
        url = record.headers.get("warc-target-uri", "")
        try:
            return bool(url) and excluded(url, hostname(url))
        except UrlError:
            return False

    return is_removed


def copy_without(path: str, target: str, cut: WarcCut) -> None:
    """Copy the remaining records of a WARC file into a new file. Not synced."""
    with open(path, "rb", buffering=0) as source, open(target, "xb", buffering=0) as output:
        for start, end in _remaining_ranges(cut):
            source.seek(start)
            while start < end:
                chunk = source.read(min(_CHUNK, end - start))
                if not chunk:
                    raise OSError(f"{path} was truncated while it was copied")
                view = memoryview(chunk)
                while view:
                    view = view[output.write(view) :]
                start += len(chunk)


def copy_index(path: str, target: str, warc_name: str, cut: WarcCut) -> None:
    """Copy a CDXJ file for the WARC file that `copy_without` wrote.

    Raises:
        WorkError: the target exists or cannot be written.
    """
    removed = {offset for offset, _ in cut.removed}
    lines = []
    with open(path, encoding="ascii", newline="\n") as file:
        for line in file:
            key, timestamp, rest = line.rstrip("\n").split(" ", 2)
            fields = json.loads(rest)
            offset = int(fields["offset"])
            if offset not in removed:
                fields |= {"offset": str(cut.shift(offset)), "filename": warc_name}
                lines.append(f"{key} {timestamp} {json.dumps(fields)}")
    write_lines(target, sorted(lines))


def replace_in_place(path: str, cut: WarcCut) -> None:
    """Replace a WARC file that no entry names by its remaining records. Readers that have the old
    file open are not affected.
    """
    temporary = f"{path}.temporary"
    Path(temporary).unlink(missing_ok=True)
    copy_without(path, temporary, cut)
    sync_file(temporary)
    os.replace(temporary, path)
    sync_folder(os.path.dirname(path))


def moves(cuts: dict[str, tuple[str, WarcCut]]) -> pl.DataFrame:
    """Return the shifts of records as rows for `moved`. `cuts`: WARC path -> (new path, cut)."""
    rows = []
    for path, (target, cut) in cuts.items():
        shift = 0
        rows.append((path, target, 0, 0))
        for start, length in cut.removed:
            shift += length
            rows.append((path, target, start, shift))
    schema = {
        "warc_file": pl.String(),
        "_target": pl.String(),
        "warc_offset": pl.Int64(),
        "_shift": pl.Int64(),
    }
    return pl.DataFrame(rows, schema=schema, orient="row").sort("warc_offset")


def moved(visits: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `visits` with the new positions of their records, in the same order."""
    place = visits.select("warc_file", "warc_offset").with_row_index("_row").sort("warc_offset")
    new = place.join_asof(moves, on="warc_offset", by="warc_file", check_sortedness=False).sort(
        "_row"
    )
    return visits.with_columns(
        warc_file=pl.coalesce(new["_target"], visits["warc_file"]),
        warc_offset=visits["warc_offset"] - new["_shift"].fill_null(0),
    )


def _remaining_ranges(cut: WarcCut) -> Iterator[tuple[int, int]]:
    position = 0
    for start, length in cut.removed:
        if start > position:
            yield position, start
        position = start + length
    if cut.end > position:
        yield position, cut.end
