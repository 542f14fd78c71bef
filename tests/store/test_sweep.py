"""Sweep: what goes, when, and what never does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lycosa.core.clock import ManualClock
from lycosa.core.records import UrlRow
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.vacuum import DAY_MS, vacuum
from lycosa.store.coordination.maintenance import maintenance
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import found_row
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


def test_replaced_files_go_after_a_day_and_archives_stay(merged: Workspace) -> None:
    before, retained = facts(merged), archives(merged)
    assert len(tables(merged)) == 18
    assert vacuum(merged, now_ms=NOW + DAY_MS - 1).files == 0
    report = vacuum(merged, now_ms=NOW + DAY_MS + 1)
    assert (report.files, len(tables(merged))) == (12, 6)
    assert report.bytes > 0
    assert same(before, facts(merged))
    assert archives(merged) == retained
    assert verify(merged, deep=True).ok
    assert vacuum(merged, now_ms=NOW + 9 * DAY_MS).files == 0


def test_what_a_worker_is_writing_is_left_alone(workspace: Workspace) -> None:
    claim = workspace.claim("w")
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
    dead = workspace.claim("dead", [0, 1], clock=ManualClock(NOW))
    folder = orphan(workspace, dead)
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
