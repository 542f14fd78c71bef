"""The log, claims and commits on S3 with lost responses, error responses and stale listings."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lycosa.core.errors import ClaimLost, StorageError, UsageError
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.exclusion.purge import exclude
from lycosa.store.log.entry import COMMIT, EXCLUDE, Entry, new_attempt
from lycosa.store.log.transaction import CommitContents, append
from lycosa.store.storage import object_store
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.servers.s3 import KEY_ID, SECRET, Rule, S3Server, location, server
from tests.store.racing import FakeBuffer, commit_rounds, race

__all__ = ["location", "server"]


@pytest.fixture
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use a client that repeats a request after 1 ms."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2)}
    monkeypatch.setattr(object_store, "RETRIES", {**object_store.RETRIES, "backoff": backoff})
    object_store._connect.cache_clear()
    yield
    object_store._connect.cache_clear()


def is_entry(method: str, key: str) -> bool:
    return method == "PUT" and "/log/" in key


def exclusion(number: int) -> Entry:
    return Entry(
        kind=EXCLUDE,
        attempt=new_attempt(),
        at="2026-11-21T10:00:00Z",
        exclusions=(f"host:{number}.example",),
    )


@pytest.mark.proves("durability-remote-storage")
def test_lost_response_to_an_entry_is_resolved_by_reading_the_entry(
    location: str, server: S3Server
) -> None:
    workspace = Workspace.create(location, partitions=4)
    server.faults.drop = once_each(is_entry)
    commit_rounds(workspace, 6)
    assert server.faults.dropped == 7
    state = Workspace.open(location).state()
    assert (state.head, state.counters) == (7, {"rounds": 6})


def test_commit_retried_after_lost_responses_leaves_one_entry(
    location: str, server: S3Server
) -> None:
    """The server executes every write of the log but does not respond.

    The client gives up, and the caller repeats the commit.
    """
    claim = Workspace.create(location, partitions=4).claim("w")
    folder = claim.next_folder()
    server.faults.drop = is_entry
    number = claim.commit(
        folder, {"urls": FakeBuffer(b"x")}, CommitContents(counters={"rounds": 1})
    )
    server.faults.clear()
    assert (
        claim.commit(folder, {"urls": FakeBuffer(b"x")}, CommitContents(counters={"rounds": 1}))
        == number
    )
    assert Workspace.open(location).state().counters == {"rounds": 1}


@pytest.mark.proves("durability-remote-storage")
@pytest.mark.parametrize("status", [500, 503, 409])
def test_temporary_errors_are_retried(location: str, server: S3Server, status: int) -> None:
    workspace = Workspace.create(location, partitions=4)
    chance = random.Random(status)
    server.faults.refuse = lambda method, key: (
        status if chance.random() < 0.3 and (status != 409 or is_entry(method, key)) else 0
    )
    before = server.faults.refused
    commit_rounds(workspace, 5)
    assert server.faults.refused > before
    server.faults.clear()
    assert Workspace.open(location).state().counters == {"rounds": 5}


def test_permanent_errors_fail_the_commit_which_can_be_retried(
    location: str, server: S3Server, short_backoff: None
) -> None:
    claim = Workspace.create(location, partitions=4).claim("w")
    folder = claim.next_folder()
    server.faults.refuse = lambda method, key: 500 if method == "PUT" else 0
    with pytest.raises(StorageError, match=location):
        claim.commit(folder, {"urls": FakeBuffer(b"x")})
    server.faults.clear()
    claim.commit(folder, {"urls": FakeBuffer(b"x")})
    assert Workspace.open(location).state().head == 2


@pytest.mark.proves("durability-remote-storage")
def test_stale_listing_loses_nothing(location: str, server: S3Server) -> None:
    workspace = Workspace.create(location, partitions=4)
    claim = workspace.claim("w")
    for number in range(12):
        append(claim.state, exclusion(number))
    claim.commit(claim.next_folder(), {"urls": FakeBuffer(b"x")})
    server.faults.stale_s = 3_600.0
    assert workspace.storage.names("log") == []
    state = Workspace.open(location).state()
    assert (state.head, len(state.exclusions.rules)) == (14, 12)
    report = vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0)
    assert (report.files, report.entries) == (0, 0)
    assert claim.commit(claim.next_folder(), {"urls": FakeBuffer(b"x")}) == 15
    assert workspace.claim("next").orphans() == []
    with pytest.raises(ClaimLost):
        claim.commit(claim.next_folder(), {"urls": FakeBuffer(b"x")})
    assert server.faults.hidden


ERROR_DOCUMENT = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"""


@pytest.mark.parametrize("folder", [".", "log", "data", "absent"])
@pytest.mark.parametrize("errors", [0, 1, 2, 1_000])
def test_an_error_document_is_not_an_empty_listing(
    location: str, server: S3Server, monkeypatch: pytest.MonkeyPatch, folder: str, errors: int
) -> None:
    monkeypatch.setattr(object_store, "MAX_STALE_S", 0)
    workspace = Workspace.create(location, partitions=4)
    commit_rounds(workspace, 2)
    storage = workspace.storage
    expected = storage.names(folder), storage.files_below(folder)
    assert bool(expected[0]) == bool(expected[1]) == (folder != "absent")
    remaining = 0

    def error_document(method: str, key: str) -> bytes | None:
        nonlocal remaining
        if method != "GET" or key or not remaining:
            return None
        remaining -= 1
        return ERROR_DOCUMENT

    server.faults.replace_body = error_document
    for listing, paths in zip((storage.names, storage.files_below), expected, strict=True):
        remaining = errors
        if errors < 1_000:
            assert listing(folder) == paths
        else:
            with pytest.raises(StorageError, match="no valid listing"):
                listing(folder)


def test_snapshot_is_found_despite_a_stale_listing_after_vacuum(
    location: str, server: S3Server, tmp_path: Path
) -> None:
    """The first entries are deleted and listings show no snapshot, so it is read by its name."""
    local = Workspace.create(str(tmp_path / "local"), partitions=4)
    local.storage.make_folder("log")
    state = local.state()
    for number in range(220):
        append(state, exclusion(number))
    assert vacuum(local, keep_replaced_ms=0, keep_entries_ms=0, now_ms=2 * 10**12).entries == 99
    storage = open_storage(location)
    for path in local.storage.files_below("."):
        if not path.startswith("./run"):
            storage.replace(path, local.storage.read(path) or b"")
    server.faults.stale_s = 3_600.0
    assert len(Workspace.open(location).state().exclusions.rules) == 220


@pytest.mark.proves("durability-remote-storage")
def test_concurrent_commits_of_processes_lose_nothing_under_all_faults(
    location: str, server: S3Server
) -> None:
    workspace = Workspace.create(location, partitions=4)
    chance = random.Random(7)
    lock = threading.Lock()

    def one_in(share: float) -> bool:
        with lock:
            return chance.random() < share

    server.faults.drop = lambda method, key: method in ("PUT", "POST") and one_in(0.1)
    server.faults.refuse = lambda method, key: chance.choice((500, 503)) if one_in(0.05) else 0
    server.faults.stale_s = 60.0
    rounds = 12
    race(location, 3, rounds)
    assert server.faults.dropped
    server.faults.clear()
    state = workspace.state()
    assert state.counters == {"rounds": 3 * rounds}
    assert Counter(
        entry.worker for entry in workspace.log.entries() if entry.kind == COMMIT
    ) == dict.fromkeys(("w0", "w1", "w2"), rounds)
    assert state.head == 3 * (rounds + 1)
    for file in state.files["urls"]:
        assert workspace.storage.size(file.path) == file.bytes


def test_no_message_contains_a_credential(
    location: str,
    server: S3Server,
    short_backoff: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workspace = Workspace.create(location, partitions=4)
    messages: list[str] = []

    def fail() -> None:
        with pytest.raises(StorageError) as caught:
            Workspace.open(location)
        error: BaseException | None = caught.value
        while error is not None:
            messages.append(f"{error!r} {error}")
            error = error.__cause__ or error.__context__

    server.faults.refuse = lambda method, key: 500
    fail()
    server.faults.clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fail()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-of-mine")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:password-in-a-url@127.0.0.1:9")
    fail()
    text = "\n".join(messages) + "".join(capsys.readouterr())
    assert "cannot be reached" in text
    for secret in (KEY_ID, SECRET, "another-secret-of-mine", "password-in-a-url"):
        assert secret not in text
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    exclude(workspace, ["host:example.org"])
    compact(workspace)
    for path in workspace.storage.files_below("."):
        content = workspace.storage.read(path) or b""
        assert KEY_ID.encode() not in content
        assert SECRET.encode() not in content


def once_each(rule: Rule) -> Rule:
    """Return a rule that applies only to the first matching request of each key."""
    seen: set[str] = set()

    def first(method: str, key: str) -> bool:
        if not rule(method, key) or key in seen:
            return False
        seen.add(key)
        return True

    return first


@pytest.mark.parametrize(
    ("location", "endpoint"),
    [
        ("az://container/x", ""),  # without AZURE_STORAGE_ACCOUNT_NAME
        ("s3://bucket/x", "not a URL"),
    ],
)
def test_an_unusable_environment_is_refused(
    location: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(UsageError, match="the environment is incomplete or invalid"):
        open_storage(location)


@pytest.mark.parametrize("name", ["s3://b//x", "s3://b/./x", "s3://b/x/../y", "s3:/b/x"])
def test_an_ambiguous_location_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="URL"):
        open_storage(name)


def test_an_unreachable_namenode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lycosa.store.storage.hdfs._ATTEMPTS", 1)
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:9 cannot be reached: check host, port"):
        open_storage("webhdfs://127.0.0.1:9/x").read("log")


def test_google_cloud_storage_is_another_scheme() -> None:
    storage = open_storage("gs://bucket/a/b")
    assert (storage.root, storage.on_disk) == ("gs://bucket/a/b", False)
