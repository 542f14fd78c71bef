"""The commit protocol: a claim fences earlier ones, commits are atomic, no data is lost."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lycosa.core.errors import ClaimLost, UsageError, WorkspaceError
from lycosa.store.log.claim import Claim, OrphanArchive
from lycosa.store.log.entry import (
    CLAIM,
    COMMIT,
    MERGE,
    RELEASE,
    Entry,
    entry_path,
    new_attempt,
)
from lycosa.store.log.transaction import CommitContents, append
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages, commit_urls, url_buffers
from tests.store.racing import FakeBuffer
from tests.waiting import ManualClock


def leave_orphan(workspace: Workspace, worker: str, partitions: list[int] | None = None) -> str:
    """Write an uncommitted archive, as a worker leaves it that dies before its commit."""
    folder = workspace.claim(worker, partitions).next_folder()
    Path(workspace.path(folder.warc)).write_bytes(b"exchanges")
    return folder.warc


def test_claim_is_logged_before_it_is_returned(workspace: Workspace) -> None:
    claim = workspace.claim(
        "w1", settings={"news": {"depth": 3}}, clock=ManualClock(1_700_000_000_000)
    )
    [entry] = workspace.log.entries()
    assert (entry.kind, entry.number, entry.claim, entry.worker) == (CLAIM, 1, 1, "w1")
    assert (entry.at, entry.partitions) == ("2023-11-14T22:13:20Z", tuple(range(8)))
    assert claim.entry == 1
    state = workspace.state()
    assert state.settings == {"news": {"depth": 3}}
    assert state.holders == dict.fromkeys(range(8), 1)


@pytest.mark.parametrize("partitions", [[], [-1], [8], [0, 99]])
def test_unknown_partitions_are_refused(workspace: Workspace, partitions: list[int]) -> None:
    with pytest.raises(UsageError, match="partitions are 0 to 7"):
        workspace.claim("w1", partitions)
    assert workspace.log.entries() == []


def test_commit_entry_lists_files_with_rows_size_and_digest(workspace: Workspace) -> None:
    entry = workspace.log.read(commit_pages(workspace, workspace.claim("w1"), range(3)))
    assert entry is not None
    assert (entry.kind, entry.claim) == (COMMIT, 1)
    assert {table: files[0].rows for table, files in entry.files.items()} == {
        "visits": 3,
        "pages": 3,
        "metadata": 3,
        "links": 6,
        "urls": 3,
        "hosts": 1,
    }
    for file in (*(file for files in entry.files.values() for file in files), *entry.warcs):
        assert workspace.storage.size(file.path) == file.bytes
        assert workspace.storage.files.digest(file.path) == file.digest
    assert workspace.state().counters == {"visits": 3, "pages": 3}


def test_commit_without_changes_writes_nothing(workspace: Workspace, claim: Claim) -> None:
    folder = claim.next_folder()
    assert (
        claim.commit(folder, Buffers().mapping(), CommitContents(counters={"pages": 0}, applied={}))
        == 1
    )
    assert claim.commit(folder, {}, CommitContents(applied={3: 0})) == 1
    assert (workspace.log.numbers(), os.listdir(folder.absolute)) == ([1], [])
    assert claim.commit(folder, {}, CommitContents(applied={3: 1})) == 2
    assert claim.commit(folder, {}, CommitContents(applied={3: 1})) == 2


@pytest.mark.proves("cluster-fencing")
def test_a_stale_claim_cannot_commit_and_leaves_the_state_unchanged(workspace: Workspace) -> None:
    stale = workspace.claim("w1")
    commit_urls(workspace, stale, ["http://a.example.org/"])
    folder, buffers = stale.next_folder(), url_buffers(workspace, ["http://b.example.org/"])
    newer = workspace.claim("w2")
    with pytest.raises(ClaimLost, match="claim 1 was replaced by claim 3 of worker 'w2'"):
        stale.commit(folder, buffers.mapping())
    with pytest.raises(ClaimLost):
        stale.check()
    assert workspace.log.numbers() == [1, 2, 3]
    assert LiveTables(workspace).scan("urls").collect()["url"].to_list() == [
        "http://a.example.org/"
    ]
    assert commit_urls(workspace, newer, ["http://c.example.org/"]) == 4


@pytest.mark.proves("cluster-fencing")
def test_claim_replaced_between_check_and_entry_cannot_commit(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer claim is made after the files are written and before the entry is."""
    stale = workspace.claim("w1")
    link = os.link

    def claim_first(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        workspace.claim("w2")
        link(source, target)

    folder = stale.next_folder()
    monkeypatch.setattr(os, "link", claim_first)
    with pytest.raises(ClaimLost):
        stale.commit(folder, url_buffers(workspace, ["http://a.example.org/"]).mapping())
    assert [entry.kind for entry in workspace.log.entries()] == [CLAIM, CLAIM]


def test_one_lost_partition_loses_the_claim(workspace: Workspace) -> None:
    wide = workspace.claim("w1", range(8))
    workspace.claim("w2", [5])
    with pytest.raises(ClaimLost):
        commit_urls(workspace, wide, ["http://a.example.org/"])


def test_claims_of_other_partitions_do_not_interfere(workspace: Workspace) -> None:
    first, second = workspace.claim("w1", [0, 1]), workspace.claim("w2", [2, 3])
    assert commit_urls(workspace, first, ["http://a.example.org/"]) == 3
    assert commit_urls(workspace, second, ["http://b.example.org/"]) == 4
    assert commit_urls(workspace, first, ["http://c.example.org/"]) == 5


def test_released_claim_frees_its_partitions_and_cannot_commit(
    workspace: Workspace, claim: Claim
) -> None:
    claim.release()
    claim.release()
    state = workspace.state()
    assert (state.head, state.holders) == (2, {})
    with pytest.raises(ClaimLost, match="was released"):
        commit_urls(workspace, claim, ["http://a.example.org/"])


def test_releasing_a_lost_claim_does_not_affect_the_new_owner(workspace: Workspace) -> None:
    stale, newer = workspace.claim("w1"), workspace.claim("w2")
    stale.release()
    assert workspace.log.numbers() == [1, 2]
    assert commit_urls(workspace, newer, ["http://a.example.org/"]) == 3


def test_commit_retried_after_an_unclear_result_counts_once(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, buffers = claim.next_folder(), url_buffers(workspace, ["http://a.example.org/"])
    sync = os.fsync
    links: list[str] = []
    link = os.link

    def record_link(source: str, target: str) -> None:
        link(source, target)
        links.append(target)

    def fail_after_link(descriptor: int) -> None:
        if links:
            raise OSError(errno.EIO, "the disk went away")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", record_link)
        patch.setattr(os, "fsync", fail_after_link)
        with pytest.raises(OSError, match="went away"):
            claim.commit(folder, buffers.mapping())
    assert (claim.commit(folder, buffers.mapping()), workspace.log.numbers()) == (2, [1, 2])
    assert workspace.state().rows("urls") == 1


def test_commit_retried_after_a_full_disk_counts_once(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, buffers = claim.next_folder(), url_buffers(workspace, ["http://a.example.org/"])

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space left"):
            claim.commit(folder, buffers.mapping())
    assert (workspace.log.numbers(), claim.commit(folder, buffers.mapping())) == ([1], 2)
    assert workspace.state().rows("urls") == 1


@pytest.mark.proves("durability-synced-before-entry")
def test_data_files_are_on_disk_before_the_entry_that_names_them(
    workspace: Workspace, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = claim.next_folder()
    calls: list[str] = []
    sync, link = os.fsync, os.link

    def record_sync(descriptor: int) -> None:
        calls.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    def record_link(source: str, target: str) -> None:
        calls.append(target)
        link(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "link", record_link)
    Path(workspace.path(folder.warc)).write_bytes(b"exchanges")
    claim.commit(
        folder,
        url_buffers(workspace, ["http://a.example.org/"]).mapping(),
        CommitContents(warc=folder.warc),
    )
    entry = workspace.path(entry_path(2))
    before, after = calls[: calls.index(entry)], calls[calls.index(entry) + 1 :]
    for path in (f"{folder.absolute}/urls.parquet", workspace.path(folder.warc), folder.absolute):
        assert path in before
    assert any(path.endswith(".temporary") for path in before)
    assert after == [workspace.path("log")]


def test_orphans_are_the_uncommitted_archives_of_earlier_claims_oldest_first(
    workspace: Workspace,
) -> None:
    first = leave_orphan(workspace, "w1")
    second = leave_orphan(workspace, "w2")
    claim = workspace.claim("w3")
    own = claim.next_folder()
    Path(workspace.path(own.warc)).write_bytes(b"the open WARC file of this claim")
    empty = workspace.path("data/00000001-2")
    os.mkdir(empty)
    (Path(empty) / "archive.warc.gz").touch()
    for name in ("00000077-1", "garbage", "00000001-x", "-1"):
        os.mkdir(workspace.path(f"data/{name}"))
        Path(workspace.path(f"data/{name}/archive.warc.gz")).write_bytes(b"unexpected")
    assert claim.orphans() == [OrphanArchive(first, 1, 1, 9), OrphanArchive(second, 2, 1, 9)]
    claim.commit(own, {}, CommitContents(warc=own.warc, orphans_used=[first]))
    assert [orphan.path for orphan in claim.orphans()] == [second]
    assert [orphan.path for orphan in workspace.claim("w4").orphans()] == [second]


def test_committed_archive_is_not_an_orphan(workspace: Workspace) -> None:
    commit_pages(workspace, workspace.claim("w1"), range(2))
    assert workspace.claim("w2").orphans() == []


def test_two_new_owners_each_replay_their_share_of_an_orphan(workspace: Workspace) -> None:
    path = leave_orphan(workspace, "w1", [0, 1, 2, 3])
    low, high, other = (
        workspace.claim("w2", [0, 1]),
        workspace.claim("w3", [2, 3, 4]),
        workspace.claim("w4", [6, 7]),
    )
    assert [orphan.path for orphan in low.orphans()] == [path]
    low.commit(low.next_folder(), {}, CommitContents(orphans_used=[path]))
    assert (low.orphans(), other.orphans()) == ([], [])
    assert [orphan.path for orphan in high.orphans()] == [path]
    high.commit(high.next_folder(), {}, CommitContents(orphans_used=[path]))
    assert workspace.claim("w5").orphans() == []


def test_preceding_claims_without_commit_are_counted(workspace: Workspace) -> None:
    assert (workspace.claim("w1").failed_before, workspace.claim("w2").failed_before) == (0, 1)
    third = workspace.claim("w3")
    assert third.failed_before == 2
    commit_urls(workspace, third, ["http://a.example.org/"])
    fourth = workspace.claim("w4")
    assert fourth.failed_before == 0
    fourth.release()
    assert workspace.claim("w5").failed_before == 0


def test_an_inbox_file_is_applied_once_even_if_its_deletion_was_lost(workspace: Workspace) -> None:
    inbox = Path(workspace.storage.make_folder("inbox"))
    for name in ("a.json", "b.json", "note.txt"):
        (inbox / name).write_text(json.dumps(["http://a.example.org/"]))
    claim = workspace.claim("w1")
    assert claim.inbox() == ["a.json", "b.json"]
    commit_urls(workspace, claim, ["http://a.example.org/"], inbox=["a.json"])
    assert sorted(os.listdir(inbox)) == ["b.json", "note.txt"]
    (inbox / "a.json").write_text("left by a crash before the deletion")
    assert workspace.claim("w2").inbox() == ["b.json"]
    assert not (inbox / "a.json").exists()


def test_cursors_settings_and_counters_accumulate_over_commits(workspace: Workspace) -> None:
    claim = workspace.claim("w1", settings={"a": {"depth": 1}, "b": {"depth": 1}})
    claim.commit(
        claim.next_folder(),
        {},
        CommitContents(applied={1: 1, 2: 1}, counters={"pages": 2, "refused.scope": 1}),
    )
    claim.commit(claim.next_folder(), {}, CommitContents(applied={2: 2}, counters={"pages": 3}))
    workspace.claim("w2", settings={"b": {"depth": 9}})
    state = workspace.state()
    assert (state.applied, state.counters) == ({1: 1, 2: 2}, {"pages": 5, "refused.scope": 1})
    assert state.settings == {"a": {"depth": 1}, "b": {"depth": 9}}


def test_compacted_file_takes_the_position_of_its_inputs(
    workspace: Workspace, claim: Claim
) -> None:
    for url in ("http://a.example.org/", "http://b.example.org/", "http://c.example.org/"):
        commit_urls(workspace, claim, [url])
    state = workspace.state()
    old = state.files["urls"][:2]
    merged = DataFile("base/x/urls.parquet", 2, 10, "", old[-1].entry, merged=True)
    draft = Entry(
        kind=MERGE,
        attempt=new_attempt(),
        at="",
        files={"urls": (merged,)},
        replaces=tuple(file.path for file in old),
    )
    append(state, draft)
    assert [(file.path, file.entry) for file in workspace.state().files["urls"]] == [
        ("base/x/urls.parquet", 3),
        ("data/00000001-3/urls.parquet", 4),
    ]
    with pytest.raises(WorkspaceError, match="not live"):
        append(workspace.state(), replace(draft, attempt=new_attempt()))
    assert workspace.state().head == 5


def test_log_with_an_entry_under_a_fenced_claim_is_refused(workspace: Workspace) -> None:
    workspace.claim("w1")
    workspace.claim("w2")
    for kind in (COMMIT, RELEASE):
        forged = Entry(kind=kind, attempt=new_attempt(), at="", claim=1)
        workspace.log.append(forged, seen=2, on_newer=lambda _: None)
        with pytest.raises(
            WorkspaceError,
            match=r"log/00000003\.json: a .* under claim 1, which does not hold",
        ):
            workspace.state()
        os.unlink(workspace.path(entry_path(3)))


def test_commit_folders_are_unique(workspace: Workspace, claim: Claim) -> None:
    folders = [claim.next_folder() for _ in range(3)]
    assert [folder.relative for folder in folders] == [
        "data/00000001-1",
        "data/00000001-2",
        "data/00000001-3",
    ]
    assert all(os.path.isdir(folder.absolute) for folder in folders)
    claim.commit(folders[1], {"urls": FakeBuffer(b"x")})
    assert [file.path for file in workspace.state().files["urls"]] == [
        "data/00000001-2/urls.parquet"
    ]
