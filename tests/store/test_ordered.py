"""Files in key order: each row group is unpacked once, and no more of them are held than
overlap.
"""

from __future__ import annotations

import polars as pl
import pytest

from lycosa.core.records import UrlId, UrlRow
from lycosa.store.tables import buffers as tables
from lycosa.store.tables import ordered
from lycosa.store.tables.buffers import TableBuffer, group_rows, write_table
from lycosa.store.tables.ordered import SortedFiles, in_key_order
from lycosa.store.tables.rows import url_row
from lycosa.store.tables.schema import SORT, TABLES
from lycosa.store.workspace import Workspace

ROWS = 400
GROUP_BYTES = 20_000


class Frame:
    """A frame in the place of a table's buffer."""

    def __init__(self, places: range) -> None:
        buffer = TableBuffer("urls")
        for place in places:
            keys = UrlId(f"http://h/{place}", "h", place // 10, place, place // 1_000)
            buffer.add(url_row(UrlRow(keys, "c", 1, state_at=1)))
        self.frame = buffer.frame()

    @property
    def rows(self) -> int:
        return self.frame.height

    def write(self, path: str) -> None:
        write_table(self.frame, path, TABLES["urls"])


@pytest.mark.parametrize(
    ("files", "overlapping", "held"), [(20, 0, 3), (20, 3, 6), (3, 2, 5), (0, 6, 6)]
)
def test_each_row_group_is_read_once_and_few_are_held(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, files: int, overlapping: int, held: int
) -> None:
    """Files whose keys follow each other, and some that reach over all of them."""
    for module in (tables, ordered):
        monkeypatch.setattr(module, "PASSING_GROUP_BYTES", GROUP_BYTES)
    everything = max(files, 1) * ROWS
    batches = [Frame(range(number * ROWS, (number + 1) * ROWS)) for number in range(files)]
    batches += [
        Frame(range(number, everything, max(1, everything // ROWS)))
        for number in range(overlapping)
    ]
    claim = workspace.claim("w")
    for batch in batches:
        claim.commit(claim.next_folder(), {"urls": batch})
    sources = [SortedFiles((file,)) for file in workspace.state().files["urls"]]
    reads, most = 0, 0.0
    read = ordered._Cursor.read
    opened: list[ordered._Cursor] = []

    def counted(cursor: ordered._Cursor, allowed: int) -> None:
        nonlocal reads, most
        read(cursor, allowed)
        reads += 1
        opened.append(cursor)
        most = max(most, sum(each.bytes for each in set(opened)))

    monkeypatch.setattr(ordered._Cursor, "read", counted)
    frames = list(in_key_order(workspace.storage, TABLES["urls"], sources, held * GROUP_BYTES))
    rows = pl.concat(frames)
    assert rows.select(SORT).equals(
        pl.concat([batch.frame for batch in batches]).select(SORT).sort(SORT)
    )
    of_group = [group_rows(batch.frame, TABLES["urls"], GROUP_BYTES) for batch in batches]
    assert min(of_group) < ROWS / 3, "several groups a file"
    assert reads == sum(
        -(-batch.rows // size) for batch, size in zip(batches, of_group, strict=True)
    )
    assert most <= (held + 1) * GROUP_BYTES


def test_where_more_files_overlap_than_memory_takes_they_are_read_in_pieces(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (tables, ordered):
        monkeypatch.setattr(module, "PASSING_GROUP_BYTES", GROUP_BYTES)
    claim = workspace.claim("w")
    for number in range(12):
        claim.commit(claim.next_folder(), {"urls": Frame(range(number, ROWS * 12, 12))})
    sources = [SortedFiles((file,)) for file in workspace.state().files["urls"]]
    most = 0
    below = ordered._below

    def weighed(cursors: list[ordered._Cursor], cut: tuple[int, int, int] | None) -> object:
        nonlocal most
        most = max(most, sum(cursor.bytes for cursor in cursors))
        return below(cursors, cut)

    monkeypatch.setattr(ordered, "_below", weighed)
    memory = 3 * GROUP_BYTES
    frames = list(in_key_order(workspace.storage, TABLES["urls"], sources, memory))
    assert pl.concat(frames)["url_key"].to_list() == list(range(ROWS * 12))
    assert most <= 2 * memory
