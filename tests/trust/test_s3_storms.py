"""S3 responses that are late, truncated, wrong or paginated."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lycosa.core.errors import ClaimLost, StorageError
from lycosa.store.log.transaction import CommitContents
from lycosa.store.storage import object_store
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.servers.s3 import S3Server, location, server
from tests.store.racing import FakeBuffer

__all__ = ["location", "server"]

ERROR_IN_A_SUCCESS = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InternalError</Code><Message>Please '
    b"try again.</Message></Error>"
)
EMPTY_LIST = (
    b'<?xml version="1.0"?><ListBucketResult '
    b'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated>'
    b"<KeyCount>0</KeyCount></ListBucketResult>"
)


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reduce the read timeout of the client from 30 s to 1 s."""
    client = {**object_store.CLIENT, "read_timeout": timedelta(seconds=1)}
    monkeypatch.setattr(object_store, "CLIENT", client)
    object_store._connect.cache_clear()
    yield
    object_store._connect.cache_clear()


def first(number: int) -> Iterator[bool]:
    """Yield True `number` times, then False without end."""
    for _ in range(number):
        yield True
    while True:
        yield False


def commit(workspace: Workspace, rounds: int = 1) -> None:
    claim = workspace.claim("w", [0])
    for number in range(rounds):
        claim.commit(
            claim.next_folder(),
            {"urls": FakeBuffer(b"x" * 1_000 * (number + 1))},
            CommitContents(counters={"rounds": 1}),
        )


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.prove)])
def test_truncated_body_is_fetched_again(location: str, server: S3Server, times: int) -> None:
    """A log entry, snapshot or data file is reset after half of its bytes."""
    commit(Workspace.create(location, partitions=4), 2)
    cuts = first(times)
    server.faults.cut = lambda method, key: method == "GET" and bool(key) and next(cuts)
    state = Workspace.open(location).state()
    assert server.faults.cuts >= 1
    assert state.counters == {"rounds": 2}
    storage = open_storage(location)
    for file in state.files["urls"]:
        cuts = first(times)
        assert storage.files.digest(file.path) == file.digest
    assert server.faults.cuts >= 1 + times


@pytest.mark.prove
def test_error_for_bodies_that_are_always_truncated_has_the_location(
    location: str, server: S3Server
) -> None:
    commit(Workspace.create(location, partitions=4))
    server.faults.cut = lambda method, key: method == "GET" and bool(key)
    with pytest.raises(StorageError, match=location):
        Workspace.open(location).state()
    server.faults.clear()
    assert Workspace.open(location).state().counters == {"rounds": 1}


@pytest.mark.proves("durability-remote-storage")
@pytest.mark.prove
def test_late_response_to_an_entry_is_resolved_by_reading_the_entry(
    location: str, server: S3Server, short_timeout: None
) -> None:
    """The conditional PUT of an entry succeeds but its response arrives after the timeout.

    The retry is refused. Reading the entry shows that the first PUT succeeded.
    """
    claim = Workspace.create(location, partitions=4).claim("w")
    late = first(1)
    server.faults.late = lambda method, key: (
        2.5 if method == "PUT" and "/log/" in key and next(late) else 0.0
    )
    number = claim.commit(
        claim.next_folder(), {"urls": FakeBuffer(b"x")}, CommitContents(counters={"rounds": 1})
    )
    state = Workspace.open(location).state()
    assert (state.head, state.counters) == (number, {"rounds": 1})
    assert not next(late)


@pytest.mark.prove
def test_commit_of_a_lost_claim_is_refused_after_a_late_response(
    location: str, server: S3Server, short_timeout: None
) -> None:
    """Another claim has acquired the partitions; its entry is not taken for that of the commit."""
    workspace = Workspace.create(location, partitions=4)
    ours = workspace.claim("ours")
    workspace.claim("theirs")
    late = first(1)
    server.faults.late = lambda method, key: (
        2.5 if method == "PUT" and "/log/" in key and next(late) else 0.0
    )
    with pytest.raises(ClaimLost):
        ours.commit(
            ours.next_folder(), {"urls": FakeBuffer(b"x")}, CommitContents(counters={"rounds": 1})
        )
    assert Workspace.open(location).state().counters == {}


@pytest.mark.prove
def test_store_without_responses_is_an_error_after_six_requests(
    location: str, server: S3Server, short_timeout: None
) -> None:
    workspace = Workspace.create(location, partitions=4)
    server.faults.late = lambda method, key: 1.5
    before = len(server.faults.requests)
    with pytest.raises(StorageError, match=location):
        workspace.storage.read("workspace.json")
    assert len(server.faults.requests) - before == 6


@pytest.mark.prove
@pytest.mark.parametrize("step", ["start", "end"])
def test_error_in_a_successful_response_is_detected(
    location: str, server: S3Server, step: str
) -> None:
    """S3 may return status 200 with an error in the body at the end of a multipart upload.

    The client repeats that request. An error at the start fails the upload, which may be repeated.
    """
    path = "data/00000001/urls.parquet"
    storage = open_storage(location)
    storage.create("workspace.json", b"{}")
    content = random.Random(7).randbytes(11 * 2**20)
    Path(storage.files.draft_path(path)).write_bytes(content)
    posts = iter([step == "start", step == "end"])
    server.faults.replace_body = lambda method, key: (
        ERROR_IN_A_SUCCESS if method == "POST" and next(posts, False) else None
    )
    if step == "start":
        with pytest.raises(StorageError, match=location):
            storage.files.publish({path: 0})
    [published] = storage.files.publish({path: 0})
    assert server.faults.replaced
    assert (published.bytes, storage.size(path)) == (len(content), len(content))
    assert storage.files.digest(path) == published.digest


@pytest.mark.prove
def test_listing_with_several_pages(
    location: str, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(location)
    names = [f"log/{number:08d}.json" for number in range(20)]
    for name in names:
        storage.create(name, b"{}")
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    assert storage.files_below("log") == names
    assert storage.names("log") == [name.removeprefix("log/") for name in names]
    cuts = first(1)
    server.faults.cut = lambda method, key: method == "GET" and not key and next(cuts)
    assert storage.files_below("log") == names


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<ListBucketResult><Contents><Key>x</Ke", id="half", marks=pytest.mark.prove),
    ],
)
def test_invalid_listing_is_an_error_and_deletes_nothing(
    location: str, server: S3Server, output: bytes
) -> None:
    """Vacuum, verification and claims must not treat files as missing because of it."""
    workspace = Workspace.create(location, partitions=4)
    commit(workspace, 3)
    server.faults.replace_body = lambda method, key: output if method == "GET" and not key else None
    with pytest.raises(StorageError, match=location):
        workspace.storage.files_below("data")
    server.faults.clear()
    assert Workspace.open(location).state().counters == {"rounds": 3}


@pytest.mark.parametrize("listing", [EMPTY_LIST, ERROR_IN_A_SUCCESS], ids=["empty", "an error"])
def test_empty_listing_loses_nothing(location: str, server: S3Server, listing: bytes) -> None:
    """obstore reads an error in a successful response as an empty listing.

    For a recent workspace, an empty listing may also be an outdated one.
    """
    workspace = Workspace.create(location, partitions=4)
    commit(workspace, 3)
    server.faults.replace_body = lambda method, key: (
        listing if method == "GET" and not key else None
    )
    assert workspace.storage.files_below("data") == []
    assert Workspace.open(location).state().counters == {"rounds": 3}
    commit(Workspace.open(location))
    server.faults.clear()
    assert Workspace.open(location).state().counters == {"rounds": 4}


@pytest.mark.proves("durability-remote-storage")
@pytest.mark.prove
def test_commits_lose_nothing_under_simultaneous_faults(
    location: str, server: S3Server, short_timeout: None
) -> None:
    """All faults occur together at random; failed commits are repeated."""
    workspace = Workspace.create(location, partitions=4)
    chance, lock = random.Random(20261122), threading.Lock()

    def one_in(share: float) -> bool:
        with lock:
            return chance.random() < share

    server.faults.drop = lambda method, key: method in ("PUT", "POST") and one_in(0.05)
    server.faults.refuse = lambda method, key: chance.choice((500, 503)) if one_in(0.08) else 0
    server.faults.cut = lambda method, key: method == "GET" and one_in(0.1)
    server.faults.late = lambda method, key: 1.3 if one_in(0.02) else 0.0
    server.faults.replace_body = lambda method, key: (
        ERROR_IN_A_SUCCESS if method == "POST" and one_in(0.2) else None
    )
    done = failed = 0
    while done < 20:
        try:
            claim = Workspace.open(location).claim("w", [0])
            folder = claim.next_folder()
            claim.commit(
                folder, {"urls": FakeBuffer(b"x" * 500)}, CommitContents(counters={"rounds": 1})
            )
            done += 1
        except StorageError:
            failed += 1
            assert failed < 200
    server.faults.clear()
    state = workspace.state()
    print(
        f"{server.faults.dropped} lost, {server.faults.refused} refused, {server.faults.cuts} "
        f"cut, {failed} commits failed"
    )
    assert done <= state.counters["rounds"] <= done + failed
    for file in state.files["urls"]:
        assert workspace.storage.files.digest(file.path) == file.digest
