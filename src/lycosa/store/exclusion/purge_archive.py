"""Taking records out of WARC files: what stays is copied byte for byte, and what points into the
file learns where it is now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from lycosa.archive.cdxj import write_lines
from lycosa.archive.warc.members import Record, read_records
from lycosa.core.errors import UrlError
from lycosa.store.storage.local import sync_file, sync_folder
from lycosa.url.scope import hostname

_CHUNK = 1 << 20

Excluded = Callable[[str, str], bool]
"""(URL, hostname) -> whether it is excluded: `LogState.excluded`."""


@dataclass(slots=True)
class Cut:
    """What to take out of a WARC: `removed` are (offset, length) in order; `kept` counts records
    that stay, warcinfo left out.
    """

    removed: list[tuple[int, int]] = field(default_factory=list)
    kept: int = 0
    end: int = 0  # of the last whole record

    def shift(self, offset: int) -> int:
        """Where a record that stood at `offset` stands now."""
        return offset - sum(length for start, length in self.removed if start < offset)


def plan_cut(path: str, excluded: Excluded) -> Cut:
    """Look through a WARC for records of excluded URLs: response, revisit, request and metadata
    name their URL alike.

    Raises:
        ArchiveError: it is damaged; nobody can say what the damaged part holds.
    """
    cut = Cut()
    for record in read_records(path):
        cut.end = record.offset + record.length
        if _is_excluded(record, excluded):
            cut.removed.append((record.offset, record.length))
        elif record.type != "warcinfo":
            cut.kept += 1
    return cut


def copy_without(path: str, target: str, cut: Cut) -> None:
    """Copy what a cut leaves of a WARC into a new file. Not synced."""
    with open(path, "rb", buffering=0) as source, open(target, "xb", buffering=0) as output:
        for start, end in _kept_ranges(cut):
            source.seek(start)
            while start < end:
                chunk = source.read(min(_CHUNK, end - start))
                if not chunk:
                    raise OSError(f"{path} was truncated while it was copied")
                view = memoryview(chunk)
                while view:
                    view = view[output.write(view) :]
                start += len(chunk)


def copy_index(path: str, target: str, warc_name: str, cut: Cut, excluded: Excluded) -> None:
    """Copy a CDXJ for the WARC that `copy_without` made.

    Raises:
        WorkError: the target exists or cannot be written.
    """
    lines = []
    with open(path, encoding="ascii", newline="\n") as file:
        for line in file:
            key, timestamp, rest = line.rstrip("\n").split(" ", 2)
            fields = json.loads(rest)
            if not _url_excluded(fields["url"], excluded):
                fields |= {"offset": str(cut.shift(int(fields["offset"]))), "filename": warc_name}
                lines.append(f"{key} {timestamp} {json.dumps(fields)}")
    write_lines(target, sorted(lines))


def replace_in_place(path: str, cut: Cut) -> None:
    """Put what a cut leaves in the place of a WARC that no entry names; whoever reads the old one
    reads on in it.
    """
    aside = f"{path}.aside"
    Path(aside).unlink(missing_ok=True)
    copy_without(path, aside, cut)
    sync_file(aside)
    os.replace(aside, path)
    sync_folder(os.path.dirname(path))


def moves(cuts: dict[str, tuple[str, Cut]]) -> pl.DataFrame:
    """WARC path -> (its new path, cut), as rows to join: from which offset on a record has moved by
    how much.
    """
    rows = []
    for path, (target, cut) in cuts.items():
        gone = 0
        rows.append((path, target, 0, 0))
        for start, length in cut.removed:
            gone += length
            rows.append((path, target, start, gone))
    schema = {
        "warc_file": pl.String(),
        "_target": pl.String(),
        "warc_offset": pl.Int64(),
        "_gone": pl.Int64(),
    }
    return pl.DataFrame(rows, schema=schema, orient="row").sort("warc_offset")


def moved(visits: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    """Rows of `visits` with the places that their records have now, in the same order."""
    place = visits.select("warc_file", "warc_offset").with_row_index("_row").sort("warc_offset")
    found = place.join_asof(moves, on="warc_offset", by="warc_file", check_sortedness=False).sort(
        "_row"
    )
    return visits.with_columns(
        warc_file=pl.coalesce(found["_target"], visits["warc_file"]),
        warc_offset=visits["warc_offset"] - found["_gone"].fill_null(0),
    )


def _kept_ranges(cut: Cut) -> Iterator[tuple[int, int]]:
    position = 0
    for start, length in cut.removed:
        if start > position:
            yield position, start
        position = start + length
    if cut.end > position:
        yield position, cut.end


def _is_excluded(record: Record, excluded: Excluded) -> bool:
    return _url_excluded(record.headers.get("warc-target-uri", ""), excluded)


def _url_excluded(url: str, excluded: Excluded) -> bool:
    try:
        return bool(url) and excluded(url, hostname(url))
    except UrlError:
        return False
