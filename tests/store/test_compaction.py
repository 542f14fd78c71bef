"""Compaction does not change live rows, with concurrent commits and failures."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.errors import WorkspaceError
from lycosa.core.records import UrlRow
from lycosa.store.compaction import compact as compaction_module
from lycosa.store.compaction.compact import compact, compaction_is_due
from lycosa.store.compaction.plan import CompactionSettings, base_place
from lycosa.store.coordination.owner import maintenance
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import Transaction
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.files import by_partition, write_rows
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.ordered import SortedFiles, in_key_order
from lycosa.store.tables.schema import SORT, TABLES
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages, commit_urls, make_page, make_visit
from tests.store.facts import facts, readers_agree, same
from tests.store.test_live import apply_commits, commit_lists, url_id

EAGER = CompactionSettings(gather=2, memory_bytes=1, split_bytes=1)
_steps = st.lists(
    st.tuples(commit_lists, st.sampled_from(["", "due", "full"])), min_size=1, max_size=3
)


@pytest.mark.proves("consistency-compaction")
@settings(max_examples=15)
@given(
    _steps,
    st.sampled_from(
        [EAGER, CompactionSettings(gather=3), CompactionSettings(gather=2, base_share=1)]
    ),
)
def test_live_rows_are_the_same_before_and_after_any_compactions(
    steps: list[tuple[list[Any], str]],
    compaction_settings: CompactionSettings,
) -> None:
    with (
        tempfile.TemporaryDirectory() as compacted_root,
        tempfile.TemporaryDirectory() as plain_root,
    ):
        compacted = Workspace.create(compacted_root, partitions=8)
        plain = Workspace.create(plain_root, partitions=8)
        for commits, compaction in steps:
            apply_commits(compacted, commits)
            apply_commits(plain, commits)
            before = facts(compacted)
            if compaction:
                assert not compact(
                    compacted, compaction_settings, whole=compaction == "full"
                ).gave_up
                assert same(before, facts(compacted))
        left, right = facts(compacted, entry=False), facts(plain, entry=False)
        left["found"] = right["found"]  # compactions shift the entries that cursors refer to
        assert same(left, right)
        assert readers_agree(compacted)


def test_compaction_leaves_few_files_and_a_valid_workspace(
    workspace: Workspace, claim: Claim
) -> None:
    for number in range(6):
        commit_pages(
            workspace,
            claim,
            range(number * 2, number * 2 + 4),
            at=1_700_000_000_000 + 1_000 * number,
        )
    assert not compaction_is_due(workspace.state())
    assert compaction_is_due(workspace.state(), CompactionSettings(gather=6))
    before = facts(workspace)
    report = compact(workspace, CompactionSettings(gather=6))
    assert (report.files_before, report.files_after, len(report.entries)) == (36, 6, 6)
    # Dropped: replaced rows of pages, metadata, urls and two links per page; all but one host row.
    assert report.rows_dropped == (6 * 4 - 14) * 5 + 5
    assert same(before, facts(workspace))
    assert all(
        base_place(file.path) for files in workspace.state().files.values() for file in files
    )
    [pages] = workspace.state().files["pages"]
    main_texts = pl.read_parquet(workspace.path(pages.path))["main_text"]
    assert main_texts.null_count() == pages.rows  # stored as line numbers of the text
    assert verify(workspace, deep=True).ok
    commit_pages(workspace, claim, [2, 3, 99], at=1_800_000_000_000)
    assert verify(workspace, deep=True).ok


def test_small_files_become_deltas_and_large_deltas_are_compacted_into_the_base(
    workspace: Workspace, claim: Claim
) -> None:
    """Small commits become a delta next to a large base. Large ones are compacted into the base."""
    commit_urls(
        workspace, claim, [f"http://h{number}.example.org/{number}" for number in range(3_000)]
    )
    compact(workspace, whole=True)
    compaction_settings = CompactionSettings(gather=3, base_share=1)
    for number in range(3):
        commit_urls(workspace, claim, [f"http://h{number}.example.org/x"])
    assert not compact(workspace, compaction_settings).gave_up
    paths = [file.path for file in workspace.state().files["urls"]]
    assert [path.split("/")[0] for path in paths] == ["base", "delta"]
    for number in range(2):
        commit_urls(
            workspace,
            claim,
            [f"http://h{number}.example.org/{number}{page}" for page in range(6_000)],
        )
    compact(workspace, compaction_settings)
    assert [file.path.split("/")[0] for file in workspace.state().files["urls"]] == ["base"]
    assert LiveTables(workspace).scan("urls").select("url").collect().height == 15_003


def test_collections_have_separate_base_files_and_unchanged_ones_are_kept(
    workspace: Workspace, claim: Claim
) -> None:

    def commit(collection: str, keys: range) -> None:
        buffers = Buffers()
        for key in keys:
            buffers.add_url(UrlRow(url_id(key), collection, key))
        claim.commit(claim.next_folder(), buffers.mapping())

    commit("a", range(14))
    commit("b", range(14))
    compact(workspace, whole=True)
    first = {base_place(file.path): file for file in workspace.state().files["urls"]}
    assert set(first) == {("a", 0), ("b", 0)}
    commit("a", range(3))
    compact(workspace, CompactionSettings(split_bytes=1), whole=True)
    files = workspace.state().files["urls"]
    assert [file for file in files if base_place(file.path) == ("b", 0)] == [first["b", 0]]
    # With a limit of 1 byte there is one file per partition: partitions are never split.
    places = [
        base_place(file.path) for file in files if (base_place(file.path) or ("", 0))[0] == "a"
    ]
    assert places == [("a", partition) for partition in range(7)]
    assert LiveTables(workspace).scan("urls").collect().height == 28


@pytest.mark.proves("consistency-compaction")
def test_commits_during_a_compaction_keep_their_order(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        commit_pages(workspace, claim, [1, 2, number + 3], at=1_700_000_000_000 + 1_000 * number)
    write = write_rows
    landed: list[int] = []

    def commit_first(*arguments: object, **more: object) -> int:
        landed.append(
            commit_pages(
                workspace, claim, [2, 50 + len(landed)], at=1_800_000_000_000 + 1_000 * len(landed)
            )
        )
        return write(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction_module, "write_rows", commit_first)
    report = compact(workspace, CompactionSettings(gather=4))
    monkeypatch.undo()
    assert len(landed) == 6
    assert not report.gave_up
    pages = LiveTables(workspace).scan("pages", entry=True).collect()
    assert pages.filter(pl.col("title") == "Page 2")["entry"].to_list() == [landed[-1]]
    assert pages.height == 6 + 6
    before = facts(workspace)
    compact(workspace, whole=True)
    assert same(before, facts(workspace))
    assert verify(workspace, deep=True).ok


@pytest.mark.proves("consistency-compaction")
def test_compaction_of_replaced_files_is_aborted_without_output_files(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        commit_urls(workspace, claim, [f"http://a.example.org/{number}"])
    write = write_rows

    def merge_elsewhere(*arguments: object, **more: object) -> int:
        """Compact on another machine, where the lock of this one is not visible."""
        monkeypatch.setattr(compaction_module, "write_rows", write)
        monkeypatch.setattr("lycosa.store.coordination.owner.MAINTENANCE_LOCK", "run/other.lock")
        assert compact(workspace, CompactionSettings(gather=4)).entries == (6,)
        return write(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction_module, "write_rows", merge_elsewhere)
    report = compact(workspace, CompactionSettings(gather=4))
    assert "not live" in report.gave_up
    assert report.entries == ()
    live = [file.path for file in workspace.state().files["urls"]]
    assert workspace.storage.files_below("base") == live
    assert LiveTables(workspace).scan("urls").collect().height == 4


def test_only_one_compaction_runs_on_a_machine(workspace: Workspace) -> None:
    commit_urls(workspace, workspace.claim("w"), ["http://a.example.org/"])
    with maintenance(workspace.storage) as alone:
        assert alone
        assert "another process" in compact(workspace, whole=True).gave_up
    assert compact(workspace, whole=True).gave_up == ""


def test_full_disk_leaves_no_partial_file(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_urls(workspace, workspace.claim("w"), ["http://a.example.org/"])

    def fail(*_: object, **__: object) -> int:
        raise OSError(28, "no space left")

    monkeypatch.setattr(Transaction, "publish", fail)
    with pytest.raises(OSError, match="no space left"):
        compact(workspace, whole=True)
    monkeypatch.undo()
    assert verify(workspace).ok
    compact(workspace, whole=True)
    assert workspace.state().rows("urls") == 1


def test_unreadable_file_is_an_error(workspace: Workspace) -> None:
    commit_urls(workspace, workspace.claim("w"), ["http://a.example.org/"])
    os.unlink(workspace.path(workspace.state().files["urls"][0].path))
    with pytest.raises(WorkspaceError, match="lycosa check"):
        compact(workspace, whole=True)


def test_changes_are_the_same_after_compaction(workspace: Workspace, claim: Claim) -> None:
    numbers = [
        commit_urls(workspace, claim, [f"http://a.example.org/{number}"]) for number in range(4)
    ]

    def changed(after: int) -> list[str]:
        return sorted(
            url
            for part in LiveTables(workspace).changes("urls", after, ["url"])
            for url in part["url"]
        )

    expected = {after: changed(after) for after in (0, *numbers)}
    assert [len(urls) for urls in expected.values()] == [4, 3, 2, 1, 0]
    compact(workspace, whole=True)
    assert {after: changed(after) for after in (0, *numbers)} == expected


_keys = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))


@settings(max_examples=30)
@given(st.lists(st.lists(_keys, max_size=30), min_size=1, max_size=4), st.integers(1, 4_000))
def test_files_are_merged_in_key_order_without_splitting_keys(
    contents: list[list[tuple[int, int, int]]], memory: int
) -> None:
    """The reference is a sort. Rows of one key span several blocks."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create(folder, partitions=8)
        claim = workspace.claim("w")
        expected: list[tuple[int, int, int, int]] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lycosa.store.tables.ordered._MIN_ROWS", 1)
            for file_number, keys in enumerate(contents):
                buffers = Buffers()
                for number, (partition, host, url) in enumerate(keys):
                    identified = url_id(0)._replace(partition=partition, host_key=host, url_key=url)
                    buffers.add_url(UrlRow(identified, "c", file_number * 100 + number))
                claim.commit(claim.next_folder(), buffers.mapping())
                expected.extend(
                    (*key, file_number * 100 + number) for number, key in enumerate(keys)
                )
            files = workspace.state().files.get("urls", [])
            frames = list(
                in_key_order(
                    workspace.storage,
                    TABLES["urls"],
                    [SortedFiles((file,)) for file in files],
                    memory,
                )
            )
        rows = [row for frame in frames for row in frame.select(*SORT, "depth").iter_rows()]
        assert rows == sorted(expected, key=lambda row: row[:3])
        ends = [[row[:3] for row in frame.select(SORT).iter_rows()] for frame in frames]
        assert all(left[-1] < right[0] for left, right in pairwise(ends))


@pytest.mark.parametrize(
    ("limit", "cut"),
    [(1, [[0, 0, 0], [1], [2, 2]]), (4, [[0, 0, 0, 1], [2, 2]]), (5, [[0, 0, 0, 1, 2, 2]])],
)
def test_rows_are_split_at_ends_of_partitions(limit: int, cut: list[list[int]]) -> None:
    frames = [
        pl.DataFrame({"partition": part}, schema={"partition": pl.UInt16})
        for part in ([0, 0], [0, 1, 2], [2])
    ]
    parts = [
        [number for frame in part for number in frame["partition"]]
        for part in by_partition(frames, lambda: limit)
    ]
    assert parts == cut


def test_write_rows_raises_the_error_of_its_input(workspace: Workspace) -> None:
    class Broken(Exception):
        pass

    def frames() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"partition": [1]})
        raise Broken

    with pytest.raises(Broken):
        write_rows(workspace.path("x.parquet"), frames(), TABLES["urls"])


def test_links_of_the_latest_visit_are_live_after_a_clock_step_back(
    workspace: Workspace,
) -> None:
    """The page with the later row is live, but the links of the visit with the later time."""
    claim, buffers, url = workspace.claim("w"), Buffers(), url_id(1)
    for at, targets in ((1_000, []), (500, ["http://t/"])):
        visit = make_visit(url, at=at)
        page = make_page(at, targets)
        buffers.add_visit(visit)
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
    claim.commit(claim.next_folder(), buffers.mapping())
    before = facts(workspace)
    assert (before["links"].height, before["pages"]["title"].to_list()) == (0, ["Page 500"])
    compact(workspace, whole=True)
    assert same(before, facts(workspace))
    assert readers_agree(workspace)
