"""Compaction planning, reads in key order, and vacuum."""

from __future__ import annotations

import os
import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.records import UrlId, UrlRow
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import (
    CompactionSettings,
    base_path,
    base_place,
    delta_path,
    effective_levels,
    plan,
)
from lycosa.store.compaction.vacuum import DAY_MS, vacuum
from lycosa.store.coordination.owner import maintenance
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.storage.files import DataFile
from lycosa.store.tables import files as table_files
from lycosa.store.tables import ordered
from lycosa.store.tables.buffers import Buffers, TableBuffer
from lycosa.store.tables.files import group_rows, write_table
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.ordered import SortedFiles, in_key_order
from lycosa.store.tables.rows import found_row, url_row
from lycosa.store.tables.schema import SORT, TABLES
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages, commit_urls, identify
from tests.store.facts import facts, same
from tests.waiting import ManualClock

NOW = 4_000_000_000_000
"""Later than the modification times of all files that a test writes."""


def tables(workspace: Workspace) -> list[str]:
    return [
        path
        for top in ("data", "base", "delta")
        for path in workspace.storage.files_below(top)
        if path.endswith(".parquet")
    ]


def archives(workspace: Workspace) -> list[str]:
    return [path for path in workspace.storage.files_below("data") if path.endswith(".gz")]


@pytest.fixture
def compacted(workspace: Workspace) -> Workspace:
    """Two commits, compacted at NOW."""
    claim = workspace.claim("w", clock=ManualClock(NOW - 30 * DAY_MS))
    commit_pages(workspace, claim, range(3))
    commit_pages(workspace, claim, range(2, 5), at=1_800_000_000_000)
    compact(workspace, whole=True, clock=ManualClock(NOW))
    return workspace


@pytest.mark.proves("consistency-vacuum")
def test_vacuum_deletes_replaced_files_after_a_day_and_no_archives(compacted: Workspace) -> None:
    before, retained = facts(compacted), archives(compacted)
    assert (len(tables(compacted)), vacuum(compacted, now_ms=NOW + DAY_MS - 1).files) == (18, 0)
    report = vacuum(compacted, now_ms=NOW + DAY_MS + 1)
    assert (report.files, len(tables(compacted))) == (12, 6)
    assert report.bytes > 0
    assert same(before, facts(compacted))
    assert archives(compacted) == retained
    assert verify(compacted, deep=True).ok
    assert vacuum(compacted, now_ms=NOW + 9 * DAY_MS).files == 0


@pytest.mark.proves("consistency-vacuum")
def test_vacuum_ignores_files_that_a_worker_is_writing(workspace: Workspace, claim: Claim) -> None:
    commit_pages(workspace, claim, range(2))
    folder = claim.next_folder()
    for name in ("urls.parquet", "archive.warc.gz"):
        Path(folder.absolute, name).write_bytes(b"half")
    empty = claim.next_folder()
    assert vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=NOW).files == 0
    assert os.listdir(folder.absolute) != []
    assert os.path.isdir(empty.absolute)


def test_files_of_a_killed_compaction_are_deleted_after_a_day(compacted: Workspace) -> None:
    partial = Path(compacted.storage.make_folder("delta/00000009-abc")) / "urls.parquet"
    partial.write_bytes(b"half")
    os.utime(partial, (NOW / 1000, NOW / 1000))
    vacuum(compacted, now_ms=NOW + DAY_MS - 1)
    assert partial.exists()
    vacuum(compacted, now_ms=NOW + DAY_MS + 1)
    assert not partial.parent.exists()


def write_orphan(claim: Claim) -> Path:
    """Write an uncommitted archive and a partial table. Return their folder."""
    folder = claim.next_folder()
    Path(folder.absolute, "archive.warc.gz").write_bytes(b"exchanges")
    Path(folder.absolute, "pages.parquet").write_bytes(b"half")
    return Path(folder.absolute)


def test_replayed_orphan_is_deleted_a_week_after_its_partitions_were_claimed(
    workspace: Workspace,
) -> None:
    folder = write_orphan(workspace.claim("dead", [0, 1], clock=ManualClock(NOW)))
    successor = workspace.claim("successor", [0], clock=ManualClock(NOW))
    contents = CommitContents(orphans_used=[f"data/{folder.name}/archive.warc.gz"])
    successor.commit(successor.next_folder(), {}, contents)
    vacuum(workspace, now_ms=NOW + 9 * DAY_MS)
    assert (folder / "archive.warc.gz").exists()  # partition 1 has no later claim
    other = workspace.claim("other", [1], clock=ManualClock(NOW + DAY_MS))
    vacuum(workspace, now_ms=NOW + 9 * DAY_MS)
    # The partial table can no longer be committed; the archive is not yet replayed completely.
    assert os.listdir(folder) == ["archive.warc.gz"]
    other.commit(other.next_folder(), {}, contents)
    vacuum(workspace, now_ms=NOW + 8 * DAY_MS - 1)
    assert folder.exists()
    vacuum(workspace, now_ms=NOW + 8 * DAY_MS + 1)
    assert not folder.exists()
    assert verify(workspace).ok


@pytest.mark.proves("consistency-vacuum")
def test_found_rows_are_kept_until_their_partition_has_applied_them(workspace: Workspace) -> None:
    claim = workspace.claim("w", clock=ManualClock(NOW))
    urls = [identify(workspace, f"http://{name}.example/") for name in ("a", "b", "c", "d")]
    partitions = sorted({url.partition for url in urls})
    assert len(partitions) > 1
    buffers = Buffers()
    for url in urls:
        buffers.found.add(found_row(UrlRow(url, "c", 1), source="http://s/", anchor="", kind="a"))
    number = claim.commit(claim.next_folder(), buffers.mapping())
    compact(workspace, whole=True, clock=ManualClock(NOW))
    vacuum(workspace, now_ms=NOW + 9 * DAY_MS)
    assert len([path for path in tables(workspace) if "found" in path]) == 2
    head = workspace.state().head
    claim.commit(claim.next_folder(), {}, CommitContents(applied={partitions[0]: head}))
    assert LiveTables(workspace).scan("found").collect().height < len(urls)
    vacuum(workspace, now_ms=NOW + 9 * DAY_MS)
    assert len([path for path in tables(workspace) if "found" in path]) == 2
    claim.commit(claim.next_folder(), {}, CommitContents(applied=dict.fromkeys(partitions, head)))
    vacuum(workspace, now_ms=NOW + 9 * DAY_MS)
    assert [path.split("/")[0] for path in tables(workspace) if "found" in path] == ["base"]
    commit_urls(workspace, claim, ["http://a.example/"])
    assert number < head
    buffers = Buffers()
    buffers.found.add(found_row(UrlRow(urls[0], "c", 1), source="http://s/", anchor="", kind="a"))
    claim.commit(claim.next_folder(), buffers.mapping())
    compact(workspace, whole=True, clock=ManualClock(NOW))
    assert LiveTables(workspace).scan("found").collect().height == 1
    assert workspace.state().rows("found") == 1  # compaction drops applied rows


def test_vacuum_does_not_run_during_other_maintenance(compacted: Workspace) -> None:
    with maintenance(compacted.storage):
        assert "another process" in vacuum(compacted, now_ms=NOW + 9 * DAY_MS).gave_up
    assert len(tables(compacted)) == 18


KIB = 2**10


def data_file(number: int, size: int, path: str = "") -> DataFile:
    return DataFile(path or f"data/00000001-{number}/urls.parquet", 1, size, "", number)


def simulate(
    sizes: list[int], *, keeps: float, settings: CompactionSettings, table: str = "urls"
) -> tuple[float, int]:
    """Simulate the compaction of commits of these sizes in bytes.

    A share `keeps` of the compacted bytes is still live. Return the bytes rewritten per committed
    byte, and the largest number of files.
    """
    files: list[DataFile] = []
    written = max_files = 0
    for number, size in enumerate(sizes, 1):
        files.append(data_file(number, size))
        while (due := plan(files, settings, table)) is not None:
            live = max(1, int(sum(file.bytes for file in due.files) * keeps))
            written += live
            path = (
                base_path("c", 0, due.as_of, "a" * 32, "urls")
                if due.into_base
                else delta_path(due.as_of, "a" * 32, "urls")
            )
            rest = [file for file in files if file not in due.files]
            files = sorted(
                [*rest, DataFile(path, 1, live, "", due.as_of)], key=lambda file: file.entry
            )
        max_files = max(max_files, len(files))
    return written / sum(sizes), max_files


@pytest.mark.parametrize("size", [4 * KIB, 500 * KIB, 5_000 * KIB])
@pytest.mark.parametrize("keeps", [1.0, 0.5])
@pytest.mark.parametrize(("table", "bound"), [("urls", 9), ("pages", 8)])
def test_write_amplification_and_number_of_files_are_bounded(
    size: int, keeps: float, table: str, bound: int
) -> None:
    """20,000 commits are half a year; of this size they are 10 to 100 GB of pages."""
    chooser = random.Random(1)
    sizes = [int(size * chooser.uniform(0.1, 3)) for _ in range(20_000)]
    rewritten, max_files = simulate(sizes, keeps=keeps, settings=CompactionSettings(), table=table)
    assert rewritten < bound
    assert max_files <= 3 * 32


def test_write_amplification_without_levels_exceeds_the_bound() -> None:
    """Compacting every second file into the base shows that the bound is not trivial."""
    rewritten, _ = simulate(
        [500 * KIB] * 2_000, keeps=1.0, settings=CompactionSettings(gather=2, base_share=10**6)
    )
    assert rewritten > 100


@given(st.lists(st.integers(0, 2**36), max_size=60), st.integers(2, 40))
def test_levels_do_not_increase_towards_newer_files(sizes: list[int], ratio: int) -> None:
    levels = effective_levels(sizes, ratio)
    assert levels == sorted(levels, reverse=True)
    assert all(
        size < 64 * KIB * ratio ** (level + 1) for size, level in zip(sizes, levels, strict=True)
    )


@given(st.lists(st.integers(1, 2**30), max_size=80), st.integers(0, 5), st.booleans())
def test_compacted_files_are_consecutive_and_include_the_newest(
    sizes: list[int], based: int, whole: bool
) -> None:
    files = [
        data_file(
            number, size, base_path("c", number, 1, "a" * 32, "urls") if number < based else ""
        )
        for number, size in enumerate(sizes)
    ]
    due = plan(files, CompactionSettings(gather=4), "urls", whole=whole)
    if due is None:
        assert not whole or len(sizes) <= based
        return
    assert list(due.files) == files[len(files) - len(due.files) :]
    assert due.into_base == (len(due.files) == len(files)) or based == 0
    assert due.as_of == files[-1].entry


def test_collection_and_partition_of_base_files_are_part_of_their_path() -> None:
    assert base_place(base_path("news", 3, 812, "0123456789abcdef", "urls")) == ("news", 3)
    assert (
        base_path("news", 3, 812, "0123456789abcdef", "urls")
        == "base/news/p03/00000812-0123456789ab/urls.parquet"
    )
    assert base_place(base_path("_", 4_095, 1, "a" * 32, "links")) == ("_", 4_095)
    assert base_place(delta_path(812, "0123456789abcdef", "urls")) is None
    assert base_place("data/00000001-1/urls.parquet") is None


ROWS = 400
GROUP_BYTES = 20_000


class UrlRows:
    """A table buffer with a row of the table `urls` for each key."""

    def __init__(self, url_keys: range) -> None:
        buffer = TableBuffer("urls")
        for key in url_keys:
            keys = UrlId(f"http://h/{key}", "h", key // 10, key, key // 1_000)
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
def test_each_row_group_is_read_once_within_bounded_memory(
    workspace: Workspace,
    claim: Claim,
    monkeypatch: pytest.MonkeyPatch,
    files: int,
    overlapping: int,
    held: int,
) -> None:
    """Some files have consecutive key ranges, others overlap all of them."""
    for module in (table_files, ordered):
        monkeypatch.setattr(module, "PASSING_GROUP_BYTES", GROUP_BYTES)
    total_rows = max(files, 1) * ROWS
    batches = [UrlRows(range(number * ROWS, (number + 1) * ROWS)) for number in range(files)]
    batches += [
        UrlRows(range(number, total_rows, max(1, total_rows // ROWS)))
        for number in range(overlapping)
    ]
    for batch in batches:
        claim.commit(claim.next_folder(), {"urls": batch})
    sources = [SortedFiles((file,)) for file in workspace.state().files["urls"]]
    reads, max_bytes = 0, 0.0
    read = ordered._Cursor.read
    opened: list[ordered._Cursor] = []

    def counted(cursor: ordered._Cursor, allowed: int) -> None:
        nonlocal reads, max_bytes
        read(cursor, allowed)
        reads += 1
        opened.append(cursor)
        max_bytes = max(max_bytes, sum(each.bytes for each in set(opened)))

    monkeypatch.setattr(ordered._Cursor, "read", counted)
    frames = list(in_key_order(workspace.storage, TABLES["urls"], sources, held * GROUP_BYTES))
    rows = pl.concat(frames)
    assert rows.select(SORT).equals(
        pl.concat([batch.frame for batch in batches]).select(SORT).sort(SORT)
    )
    of_group = [group_rows(batch.frame, TABLES["urls"], GROUP_BYTES) for batch in batches]
    assert min(of_group) < ROWS / 3, "a file must have several row groups"
    assert reads == sum(
        -(-batch.rows // size) for batch, size in zip(batches, of_group, strict=True)
    )
    assert max_bytes <= (held + 1) * GROUP_BYTES


def test_many_overlapping_files_are_read_within_bounded_memory(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (table_files, ordered):
        monkeypatch.setattr(module, "PASSING_GROUP_BYTES", GROUP_BYTES)
    for number in range(12):
        claim.commit(claim.next_folder(), {"urls": UrlRows(range(number, ROWS * 12, 12))})
    sources = [SortedFiles((file,)) for file in workspace.state().files["urls"]]
    max_bytes = 0
    below = ordered._below

    def measured(cursors: list[ordered._Cursor], cut: tuple[int, int, int] | None) -> object:
        nonlocal max_bytes
        max_bytes = max(max_bytes, sum(cursor.bytes for cursor in cursors))
        return below(cursors, cut)

    monkeypatch.setattr(ordered, "_below", measured)
    memory = 3 * GROUP_BYTES
    frames = list(in_key_order(workspace.storage, TABLES["urls"], sources, memory))
    assert pl.concat(frames)["url_key"].to_list() == list(range(ROWS * 12))
    assert max_bytes <= 2 * memory
