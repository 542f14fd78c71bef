"""Compaction and vacuum: the choice of files over years, reading in key order, and what is deleted."""

from __future__ import annotations

import os
import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.clock import ManualClock
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

NOW = 4_000_000_000_000
"""Later than the times of all files that a test writes."""


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
def merged(workspace: Workspace) -> Workspace:
    """Two commits, folded at NOW."""
    claim = workspace.claim("w", clock=ManualClock(NOW - 30 * DAY_MS))
    commit_pages(workspace, claim, range(3))
    commit_pages(workspace, claim, range(2, 5), at=1_800_000_000_000)
    compact(workspace, whole=True, clock=ManualClock(NOW))
    return workspace


@pytest.mark.proves("consistency-vacuum")
def test_replaced_files_go_after_a_day_and_archives_stay(merged: Workspace) -> None:
    before, retained = facts(merged), archives(merged)
    assert (len(tables(merged)), vacuum(merged, now_ms=NOW + DAY_MS - 1).files) == (18, 0)
    report = vacuum(merged, now_ms=NOW + DAY_MS + 1)
    assert (report.files, len(tables(merged))) == (12, 6)
    assert report.bytes > 0
    assert same(before, facts(merged))
    assert archives(merged) == retained
    assert verify(merged, deep=True).ok
    assert vacuum(merged, now_ms=NOW + 9 * DAY_MS).files == 0


@pytest.mark.proves("consistency-vacuum")
def test_what_a_worker_is_writing_is_left_alone(workspace: Workspace, claim: Claim) -> None:
    commit_pages(workspace, claim, range(2))
    folder = claim.next_folder()
    for name in ("urls.parquet", "archive.warc.gz"):
        Path(folder.absolute, name).write_bytes(b"half")
    empty = claim.next_folder()
    assert vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=NOW).files == 0
    assert os.listdir(folder.absolute) != []
    assert os.path.isdir(empty.absolute)


def test_what_a_killed_merge_left_goes_after_a_day(merged: Workspace) -> None:
    left = Path(merged.storage.make_folder("delta/00000009-abc")) / "urls.parquet"
    left.write_bytes(b"half")
    os.utime(left, (NOW / 1000, NOW / 1000))
    vacuum(merged, now_ms=NOW + DAY_MS - 1)
    assert left.exists()
    vacuum(merged, now_ms=NOW + DAY_MS + 1)
    assert not left.parent.exists()


def orphan(workspace: Workspace, claim: Claim) -> Path:
    folder = claim.next_folder()
    Path(folder.absolute, "archive.warc.gz").write_bytes(b"exchanges")
    Path(folder.absolute, "pages.parquet").write_bytes(b"half")
    return Path(folder.absolute)


def test_an_orphan_goes_when_it_is_replayed_and_all_its_partitions_were_claimed_a_week_ago(
    workspace: Workspace,
) -> None:
    folder = orphan(workspace, workspace.claim("dead", [0, 1], clock=ManualClock(NOW)))
    (heir,) = (workspace.claim("heir", [0], clock=ManualClock(NOW)),)
    heir.commit(
        heir.next_folder(), {}, CommitContents(orphans_used=[f"data/{folder.name}/archive.warc.gz"])
    )
    vacuum(workspace, now_ms=NOW + 9 * DAY_MS)
    assert (folder / "archive.warc.gz").exists()  # partition 1 has no later claim
    other = workspace.claim("other", [1], clock=ManualClock(NOW + DAY_MS))
    vacuum(workspace, now_ms=NOW + 9 * DAY_MS)
    # its half-written table nobody can name any more; its exchanges wait
    assert os.listdir(folder) == ["archive.warc.gz"]
    other.commit(
        other.next_folder(),
        {},
        CommitContents(orphans_used=[f"data/{folder.name}/archive.warc.gz"]),
    )
    vacuum(workspace, now_ms=NOW + 8 * DAY_MS - 1)
    assert folder.exists()
    vacuum(workspace, now_ms=NOW + 8 * DAY_MS + 1)
    assert not folder.exists()
    assert verify(workspace).ok


@pytest.mark.proves("consistency-vacuum")
def test_found_rows_stay_until_their_partition_has_applied_them(workspace: Workspace) -> None:
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
    assert workspace.state().rows("found") == 1  # applied rows are dropped by the merge


def test_only_one_process_rewrites_or_deletes(merged: Workspace) -> None:
    with maintenance(merged.storage):
        assert "another process" in vacuum(merged, now_ms=NOW + 9 * DAY_MS).gave_up
    assert len(tables(merged)) == 18


KIB = 2**10


def loose(number: int, size: int, path: str = "") -> DataFile:
    return DataFile(path or f"data/00000001-{number}/urls.parquet", 1, size, "", number)


def simulate(
    sizes: list[int], *, keeps: float, settings: CompactionSettings, table: str = "urls"
) -> tuple[float, int]:
    """Commits of these sizes; `keeps` of what is folded outlives it. Returns bytes rewritten for
    one that came, most files.
    """
    files: list[DataFile] = []
    written = most = 0
    for number, size in enumerate(sizes, 1):
        files.append(loose(number, size))
        while (due := plan(files, settings, table)) is not None:
            folded = max(1, int(sum(file.bytes for file in due.files) * keeps))
            written += folded
            path = (
                base_path("c", 0, due.as_of, "a" * 32, "urls")
                if due.into_base
                else delta_path(due.as_of, "a" * 32, "urls")
            )
            rest = [file for file in files if file not in due.files]
            files = sorted(
                [*rest, DataFile(path, 1, folded, "", due.as_of)], key=lambda file: file.entry
            )
        most = max(most, len(files))
    return written / sum(sizes), most


@pytest.mark.parametrize("size", [4 * KIB, 500 * KIB, 5_000 * KIB])
@pytest.mark.parametrize("keeps", [1.0, 0.5])
@pytest.mark.parametrize(("table", "bound"), [("urls", 9), ("pages", 8)])
def test_what_came_is_written_again_a_bounded_number_of_times(
    size: int, keeps: float, table: str, bound: int
) -> None:
    """Half a year of commits: 20,000 at this size are 10 to 100 GB of pages."""
    chooser = random.Random(1)
    sizes = [int(size * chooser.uniform(0.1, 3)) for _ in range(20_000)]
    rewritten, most = simulate(sizes, keeps=keeps, settings=CompactionSettings(), table=table)
    assert rewritten < bound
    assert most <= 3 * 32


def test_without_levels_files_would_be_written_again_far_more_often() -> None:
    """The bound above means something: folding two by two into the base breaks it."""
    rewritten, _ = simulate(
        [500 * KIB] * 2_000, keeps=1.0, settings=CompactionSettings(gather=2, base_share=10**6)
    )
    assert rewritten > 100


@given(st.lists(st.integers(0, 2**36), max_size=60), st.integers(2, 40))
def test_levels_never_rise_towards_newer_files(sizes: list[int], ratio: int) -> None:
    levels = effective_levels(sizes, ratio)
    assert levels == sorted(levels, reverse=True)
    assert all(
        size < 64 * KIB * ratio ** (level + 1) for size, level in zip(sizes, levels, strict=True)
    )


@given(st.lists(st.integers(1, 2**30), max_size=80), st.integers(0, 5), st.booleans())
def test_what_is_folded_are_neighbours_up_to_the_newest(
    sizes: list[int], based: int, whole: bool
) -> None:
    files = [
        loose(number, size, base_path("c", number, 1, "a" * 32, "urls") if number < based else "")
        for number, size in enumerate(sizes)
    ]
    due = plan(files, CompactionSettings(gather=4), "urls", whole=whole)
    if due is None:
        assert not whole or len(sizes) <= based
        return
    assert list(due.files) == files[len(files) - len(due.files) :]
    assert due.into_base == (len(due.files) == len(files)) or based == 0
    assert due.as_of == files[-1].entry


def test_places_in_the_base_are_read_from_paths() -> None:
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
    workspace: Workspace,
    claim: Claim,
    monkeypatch: pytest.MonkeyPatch,
    files: int,
    overlapping: int,
    held: int,
) -> None:
    """Files whose keys follow each other, and some that reach over all of them."""
    for module in (table_files, ordered):
        monkeypatch.setattr(module, "PASSING_GROUP_BYTES", GROUP_BYTES)
    everything = max(files, 1) * ROWS
    batches = [Frame(range(number * ROWS, (number + 1) * ROWS)) for number in range(files)]
    batches += [
        Frame(range(number, everything, max(1, everything // ROWS)))
        for number in range(overlapping)
    ]
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
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (table_files, ordered):
        monkeypatch.setattr(module, "PASSING_GROUP_BYTES", GROUP_BYTES)
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
