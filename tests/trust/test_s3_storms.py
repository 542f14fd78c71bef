"""S3 that answers late, by half, with other bytes than it should, or with a list in pieces; behind
it moto, before it the real client.
"""

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
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client that waits a second for an answer instead of thirty."""
    client = {**object_store.CLIENT, "read_timeout": timedelta(seconds=1)}
    monkeypatch.setattr(object_store, "CLIENT", client)
    object_store._connect.cache_clear()
    yield
    object_store._connect.cache_clear()


def first(number: int) -> Iterator[bool]:
    """True so many times, then False for ever."""
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
def test_a_body_that_breaks_off_is_fetched_again(
    location: str, server: S3Server, times: int
) -> None:
    """Half of a log entry, a snapshot or a data file, then a reset: never taken for the whole."""
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
def test_bodies_that_always_break_off_are_an_error_with_a_name(
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
def test_an_answer_that_comes_too_late_is_settled_by_reading(
    location: str, server: S3Server, hasty: None
) -> None:
    """The conditional PUT of an entry was done, its answer comes when nobody listens, and the
    second one is refused: it was ours.
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
def test_an_entry_of_somebody_else_in_that_gap_is_not_taken_for_ours(
    location: str, server: S3Server, hasty: None
) -> None:
    """While our answer is lost, another claim takes the partitions: the commit that follows is
    refused, not counted twice.
    """
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
def test_a_silent_store_is_an_error_in_bounded_time(
    location: str, server: S3Server, hasty: None
) -> None:
    workspace = Workspace.create(location, partitions=4)
    server.faults.late = lambda method, key: 1.5
    before = len(server.faults.requests)
    with pytest.raises(StorageError, match=location):
        workspace.storage.read("workspace.json")
    assert len(server.faults.requests) - before == 6


@pytest.mark.prove
@pytest.mark.parametrize("step", ["start", "end"])
def test_a_success_that_contains_an_error_is_none(
    location: str, server: S3Server, step: str
) -> None:
    """S3 may answer 200 to the end of an upload in parts, with an error in the body: the client
    repeats it. At the start the upload fails and may be repeated.
    """
    path = "data/00000001/urls.parquet"
    storage = open_storage(location)
    storage.create("workspace.json", b"{}")
    content = random.Random(7).randbytes(11 * 2**20)
    Path(storage.files.draft_path(path)).write_bytes(content)
    posts = iter([step == "start", step == "end"])
    server.faults.say = lambda method, key: (
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
def test_a_list_comes_in_pieces(
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
def test_a_list_that_makes_no_sense_is_an_error_and_deletes_nothing(
    location: str, server: S3Server, output: bytes
) -> None:
    """What is not listed might be taken for gone: a sweep, a check and a claim must not act on
    that.
    """
    workspace = Workspace.create(location, partitions=4)
    commit(workspace, 3)
    server.faults.say = lambda method, key: output if method == "GET" and not key else None
    with pytest.raises(StorageError, match=location):
        workspace.storage.files_below("data")
    server.faults.clear()
    assert Workspace.open(location).state().counters == {"rounds": 3}


@pytest.mark.parametrize("listing", [EMPTY_LIST, ERROR_IN_A_SUCCESS], ids=["empty", "an error"])
def test_a_list_that_is_empty_loses_nothing(
    location: str, server: S3Server, listing: bytes
) -> None:
    """obstore reads an error inside a successful response as an empty list. In a workspace of the
    last minutes, that may also be an outdated one.
    """
    workspace = Workspace.create(location, partitions=4)
    commit(workspace, 3)
    server.faults.say = lambda method, key: listing if method == "GET" and not key else None
    assert workspace.storage.files_below("data") == []
    assert Workspace.open(location).state().counters == {"rounds": 3}
    commit(Workspace.open(location))
    server.faults.clear()
    assert Workspace.open(location).state().counters == {"rounds": 4}


@pytest.mark.proves("durability-remote-storage")
@pytest.mark.prove
def test_commits_in_a_storm_lose_nothing(location: str, server: S3Server, hasty: None) -> None:
    """Every fault at once, again and again; a commit that fails is made again, as the worker does
    at its next start.
    """
    workspace = Workspace.create(location, partitions=4)
    chance, lock = random.Random(20261122), threading.Lock()

    def one_in(share: float) -> bool:
        with lock:
            return chance.random() < share

    server.faults.drop = lambda method, key: method in ("PUT", "POST") and one_in(0.05)
    server.faults.refuse = lambda method, key: chance.choice((500, 503)) if one_in(0.08) else 0
    server.faults.cut = lambda method, key: method == "GET" and one_in(0.1)
    server.faults.late = lambda method, key: 1.3 if one_in(0.02) else 0.0
    server.faults.say = lambda method, key: (
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
