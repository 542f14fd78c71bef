"""Snapshots and deleted log entries.

A workspace of any age opens quickly, and no entry is written where entries were deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.core.errors import ClaimLost, UsageError, WorkspaceError
from lycosa.core.units import format_time
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.vacuum import DAY_MS, vacuum
from lycosa.store.exclusion.purge import exclude
from lycosa.store.log.entry import CLAIM, COMMIT, Entry, entry_path, new_attempt
from lycosa.store.log.log import EntriesGone, Log
from lycosa.store.log.snapshot import read_snapshot, snapshot_path
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import CommitContents, append
from lycosa.store.storage.local import LocalStorage
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages, commit_urls
from tests.waiting import ManualClock

NOW = 1_700_000_000_000
LATER = NOW + 400 * 365 * DAY_MS  # later than the modification times of all files


def claim_until(
    workspace: Workspace, head: int, *, each: Callable[[Entry], object] = lambda _: None
) -> None:
    """Append claims of one partition up to the entry `head`; `each` is called per entry."""
    workspace.storage.make_folder("log")
    state = workspace.state()
    while state.head < head:
        at = format_time(NOW)
        each(
            append(
                state, Entry(kind=CLAIM, attempt=new_attempt(), at=at, worker="w2", partitions=(3,))
            )
        )


@pytest.fixture
def aged(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Entries of every kind, then claims up to entry 350."""
    claim = workspace.claim("w1", settings={"a": {"seeds": ["http://a/"]}}, clock=ManualClock(NOW))
    commit_pages(workspace, claim, range(3))
    claim.commit(
        claim.next_folder(),
        {},
        CommitContents(
            applied={1: 2},
            counters={"n": 5},
            inbox=["x.json"],
            orphans_used=["data/00000000-1/archive.warc.gz"],
        ),
    )
    exclude(
        workspace,
        ["host:gone.example.org", "prefix:http://www.example.org/private/"],
        clock=ManualClock(NOW),
    )
    compact(workspace, whole=True, clock=ManualClock(NOW))
    claim.release()
    claim_until(workspace, 350)
    return workspace


@pytest.mark.proves("consistency-snapshots")
def test_every_hundredth_entry_has_a_snapshot_equal_to_the_replayed_entries(
    aged: Workspace,
) -> None:
    replayed = LogState(aged.log)
    for entry in aged.log.entries():
        replayed.apply(entry)
        if entry.number % 100 == 0:
            snapshot = read_snapshot(aged.storage, entry.number)
            assert snapshot is not None
            assert snapshot.document == replayed.document()
            assert LogState.from_snapshot(aged.log, snapshot).document() == replayed.document()
    opened = aged.state()
    assert opened.document() == replayed.document()
    assert opened.head == 350
    assert opened.excluded("http://www.example.org/private/x", "www.example.org")
    assert opened.failed_claims([3]) == replayed.failed_claims([3]) > 300
    assert sorted(name for name in os.listdir(aged.path("log")) if "snapshot" in name) == [
        "00000100.snapshot",
        "00000200.snapshot",
        "00000300.snapshot",
    ]
    assert verify(aged).ok


class CountingStorage(LocalStorage):
    """Local storage that records reads and listings."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.reads: list[str] = []
        self.listed: list[str] = []

    def read(self, relative: str) -> bytes | None:
        self.reads.append(relative)
        return super().read(relative)

    def names(self, relative: str) -> list[str]:
        self.listed.append(relative)
        return super().names(relative)


def test_opening_reads_one_snapshot_and_the_entries_after_it(aged: Workspace) -> None:
    storage = CountingStorage(aged.root)
    state = LogState(Log(storage))
    state.refresh()
    assert storage.reads == [snapshot_path(300), *map(entry_path, range(301, 352))]
    assert storage.listed == ["log"]
    storage.reads.clear()
    storage.listed.clear()
    assert state.refresh() == []
    assert (storage.reads, storage.listed) == ([entry_path(351)], [])


@pytest.mark.proves("consistency-snapshots")
def test_damaged_snapshot_is_skipped_and_reported_by_check(aged: Workspace) -> None:
    path = Path(aged.path(snapshot_path(300)))
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    storage = CountingStorage(aged.root)
    state = LogState(Log(storage))
    state.refresh()
    assert storage.reads[:3] == [snapshot_path(300), snapshot_path(200), entry_path(201)]
    assert state.head == 350
    [finding] = [finding for finding in verify(aged).findings if finding.severity == "error"]
    assert finding.where == snapshot_path(300)


def test_snapshot_that_differs_from_the_entries_is_reported_by_check(aged: Workspace) -> None:
    first, second = (Path(aged.path(snapshot_path(number))) for number in (100, 200))
    header, _, body = second.read_bytes().partition(b"\n")
    assert body
    other_header, _, other_body = first.read_bytes().partition(b"\n")
    digest, other_digest = (line.split(b'"digest":"')[1][:32] for line in (header, other_header))
    header = header.replace(digest, other_digest) + b"\n"
    second.write_bytes(header)
    assert verify(aged).ok  # only the header, as after entries were deleted
    second.write_bytes(header + other_body)
    [finding] = [finding for finding in verify(aged).findings if finding.severity == "error"]
    assert (finding.where, finding.what) == (snapshot_path(200), "it differs from the log entries")


def test_old_entries_before_a_snapshot_are_deleted(aged: Workspace) -> None:
    before = aged.state().document()
    assert (vacuum(aged, now_ms=NOW).entries, vacuum(aged, now_ms=LATER).entries) == (0, 199)
    assert (aged.log.numbers(), aged.state().document()) == (list(range(200, 351)), before)
    assert read_snapshot(aged.storage, 100) is None
    assert aged.storage.size(snapshot_path(100))
    checked = verify(aged)
    assert checked.ok
    assert checked.counts["older log entries in a snapshot"] == 200
    assert vacuum(aged, now_ms=LATER).entries == 0
    commit_urls(aged, aged.claim("w3"), ["http://a.example.org/"])
    assert aged.state().head == 352


def test_few_old_snapshots_stay_complete(aged: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete snapshot lists all archive files, and every hundredth entry adds one."""
    claim_until(aged, 601)
    monkeypatch.setattr("lycosa.store.compaction.vacuum._COMPLETE_NEWEST", 2)
    monkeypatch.setattr("lycosa.store.compaction.vacuum._COMPLETE_EVERY", 300)
    before = aged.state().document()
    headers = {number: snapshot_header(aged, number) for number in range(100, 700, 100)}
    assert vacuum(aged, now_ms=NOW).entries == 0
    assert [number for number in headers if read_snapshot(aged.storage, number) is not None] == [
        300,
        500,
        600,
    ]
    assert {number: snapshot_header(aged, number) for number in headers} == headers
    assert aged.state().document() == before
    checked = verify(aged)
    assert checked.ok
    assert checked.counts["log entries"] == 601
    reads: list[str] = []
    read = aged.storage.read

    def record_read(relative: str) -> bytes | None:
        reads.append(relative)
        return read(relative)

    monkeypatch.setattr(aged.storage, "read", record_read)
    vacuum(aged, now_ms=NOW)
    assert snapshot_path(100) not in reads
    assert vacuum(aged, now_ms=LATER).entries == 499
    assert verify(aged).ok


def snapshot_header(workspace: Workspace, number: int) -> bytes:
    """Return the first line of a snapshot."""
    return (workspace.storage.read(snapshot_path(number)) or b"").partition(b"\n")[0]


def test_follower_behind_the_oldest_entry_catches_up_from_the_snapshot(
    aged: Workspace,
) -> None:
    follower = LogState(aged.log)
    for entry in aged.log.entries()[:50]:
        follower.apply(entry)
    vacuum(aged, now_ms=LATER)
    with pytest.raises(EntriesGone, match=r"log/00000051\.json was deleted"):
        follower.refresh()
    assert follower.head == 50
    with pytest.raises(EntriesGone):
        aged.log.entries(99)
    assert [entry.number for entry in aged.log.entries(199)] == list(range(200, 351))
    fresh = LogState(aged.log)
    fresh.refresh()
    assert fresh.head == 350
    follower.catch_up()
    assert follower == fresh


def test_writer_behind_the_oldest_entry_loses_its_claim(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = workspace.claim("sleeper", [0], clock=ManualClock(NOW))
    folder = stale.next_folder()
    claim_until(workspace, 205)
    vacuum(workspace, now_ms=LATER)
    assert workspace.log.numbers() == list(range(100, 206))
    with pytest.raises(ClaimLost, match="not renewed"):
        stale.check()
    with pytest.raises(ClaimLost, match="claim again"):
        stale.commit(folder, {}, CommitContents(counters={"n": 1}))
    stale.release()
    assert workspace.log.numbers() == list(range(100, 206))


@pytest.mark.parametrize("number", [2, 99, 100])
def test_no_entry_is_written_where_entries_were_deleted_after_a_pause(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    stale = LogState(workspace.log)
    claim_until(
        workspace, 205, each=lambda entry: stale.refresh() if entry.number < number else None
    )
    create = workspace.storage.create
    draft = Entry(kind=CLAIM, attempt=new_attempt(), at="", worker="sleeper", partitions=(0,))

    def delete_first(relative: str, content: bytes, **more: int) -> bool:
        monkeypatch.setattr(workspace.storage, "create", create)
        for deleted in range(1, 200):
            os.unlink(workspace.path(entry_path(deleted)))
        return create(relative, content, **more)

    monkeypatch.setattr(workspace.storage, "create", delete_first)
    with pytest.raises(EntriesGone):
        append(stale, draft)
    assert (workspace.log.numbers(), stale.head) == (list(range(200, 206)), number - 1)


def test_reader_sees_entries_written_while_it_looks_for_a_snapshot(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries 98 to 100 are written after entry 98 was missing, before the snapshot is read."""
    claim_until(workspace, 97)
    state = workspace.state()
    size = workspace.storage.size

    def write_first(relative: str) -> int | None:
        monkeypatch.setattr(workspace.storage, "size", size)
        for _ in range(3):
            workspace.claim("w", [2])
        return size(relative)

    monkeypatch.setattr(workspace.storage, "size", write_first)
    assert [entry.number for entry in state.refresh()] == [98, 99, 100]


def test_failed_snapshot_does_not_undo_the_entry(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_until(workspace, 99)
    create = workspace.storage.create

    def fail(relative: str, content: bytes, **more: int) -> bool:
        if "snapshot" in relative:
            raise OSError(28, "no space left")
        return create(relative, content, **more)

    monkeypatch.setattr(workspace.storage, "create", fail)
    assert workspace.claim("w", [1], clock=ManualClock(NOW)).entry == 100
    monkeypatch.undo()
    assert workspace.storage.size(snapshot_path(100)) is None
    claim_until(workspace, 301)
    vacuum(workspace, now_ms=LATER)
    assert workspace.log.numbers() == list(range(200, 302))
    with pytest.raises(EntriesGone):  # vacuum has written the header of the missing snapshot
        workspace.log.entries(40)


def test_log_without_first_entries_and_snapshot_is_damaged(aged: Workspace) -> None:
    vacuum(aged, now_ms=LATER)
    for number in (200, 300):
        os.truncate(aged.path(snapshot_path(number)), 40)
    with pytest.raises(WorkspaceError, match="no snapshot can be read"):
        aged.state()
    assert not verify(aged).ok


def test_invalid_exclusion_rule_is_refused(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="the port is missing"):
        exclude(workspace, ["example.org:"])
    assert workspace.log.numbers() == []


def test_state_drops_ended_claims_and_applied_inbox_files(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.store.log.state.KEPT_ENTRIES", 200)
    workspace.storage.make_folder("log")
    state = workspace.state()
    sizes = []
    for number in range(1, 1_001):
        if number % 2:  # a worker that dies after one commit
            entry = Entry(
                kind=CLAIM,
                attempt=new_attempt(),
                at=format_time(NOW),
                worker="w",
                partitions=(number % 3,),
            )
        else:
            orphan = f"data/{state.head - 2:08d}-1/archive.warc.gz"
            inbox = (f"{number}.json",)
            entry = Entry(
                kind=COMMIT,
                attempt=new_attempt(),
                at=format_time(NOW),
                claim=state.head,
                inbox=inbox,
                orphans=(orphan,),
            )
        append(state, entry)
        sizes.append(len(state.claims) + len(state.inbox) + len(state.orphans_used))
    assert max(sizes[600:]) <= max(sizes[:400])
    assert set(state.holders) == {0, 1, 2}
    assert set(state.holders.values()) <= set(state.claims)
    assert set(state.inbox) >= {f"{number}.json" for number in range(802, 1_001, 2)}
    assert workspace.state().document() == state.document()
    assert verify(workspace).ok
    assert state.is_forgotten(1)
