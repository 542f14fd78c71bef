"""The log: create-if-absent, unclear results, damaged entries and newer formats."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import WorkspaceError
from lycosa.store.log.entry import (
    CLAIM,
    COMMIT,
    KINDS,
    Entry,
    decode_entry,
    encode_entry,
    entry_path,
    new_attempt,
    sealed,
)
from lycosa.store.log.log import Log
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import append
from lycosa.store.storage.files import DataFile
from lycosa.store.storage.local import LocalStorage
from lycosa.store.workspace import Workspace
from tests.store.racing import race
from tests.waiting import run_concurrently


@pytest.fixture
def log(tmp_path: Path) -> Log:
    storage = LocalStorage(str(tmp_path))
    storage.make_folder("log")
    return Log(storage)


def draft(worker: str = "w", partitions: tuple[int, ...] = (0,)) -> Entry:
    return Entry(
        kind=CLAIM,
        attempt=new_attempt(),
        at="2026-11-21T10:00:00Z",
        worker=worker,
        partitions=partitions,
    )


def no_newer(entry: Entry) -> None:
    raise AssertionError(f"unexpected entry {entry.number}")


_names = st.text(max_size=12)
_numbers = st.integers(0, 2**53)
_files = st.builds(DataFile, _names, _numbers, _numbers, _names, st.integers(0, 9)).map(
    lambda file: file._replace(merged=file.entry > 0)
)
_entries = st.builds(
    Entry,
    kind=st.sampled_from(sorted(KINDS)),
    attempt=_names,
    at=_names,
    number=st.integers(1, 10**9),
    claim=_numbers,
    worker=_names,
    partitions=st.sets(st.integers(0, 4095), max_size=20).map(
        lambda numbers: tuple(sorted(numbers))
    ),
    files=st.dictionaries(_names, st.lists(_files, min_size=1, max_size=2).map(tuple), max_size=2),
    warcs=st.lists(_files, max_size=2).map(tuple),
    indexes=st.lists(_files, max_size=2).map(tuple),
    replaces=st.lists(_names, max_size=2).map(tuple),
    orphans=st.lists(_names, max_size=2).map(tuple),
    inbox=st.lists(_names, max_size=2).map(tuple),
    applied=st.dictionaries(st.integers(0, 4095), _numbers, max_size=3),
    counters=st.dictionaries(_names, st.integers(-5, 2**53), max_size=3),
    settings=st.dictionaries(
        _names, st.dictionaries(_names, _names | st.booleans() | st.none(), max_size=2), max_size=2
    ),
)


@given(_entries)
def test_entry_is_decoded_to_what_was_encoded(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry), entry.number) == entry


@given(
    st.binary(max_size=80)
    | st.recursive(
        st.none() | _names | _numbers,
        lambda inner: st.lists(inner) | st.dictionaries(_names, inner),
    )
)
def test_invalid_entry_is_refused_with_its_path(content: object) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(WorkspaceError, match=r"log/00000007\.json"):
        decode_entry(raw, 7)


@given(_entries, st.data())
def test_an_entry_with_a_wrong_value_is_refused(entry: Entry, data: st.DataObject) -> None:
    document = json.loads(encode_entry(entry))
    field = data.draw(st.sampled_from(sorted(document)))
    document[field] = data.draw(st.sampled_from([None, 1.5, True, [[]], {"x": []}, [{"path": 1}]]))
    try:
        read = decode_entry(json.dumps(document).encode(), entry.number)
    except WorkspaceError:
        return
    # Some values are valid for some fields ({"x": []} as files): the entry must then have them.
    assert json.loads(encode_entry(read)).get(field, document[field]) == document[field]


def test_entries_are_numbered_from_one_without_gaps(log: Log) -> None:
    for number in range(1, 4):
        assert log.append(draft(), seen=number - 1, on_newer=no_newer).number == number
    assert [entry.number for entry in log.entries()] == [1, 2, 3]
    assert ([entry.number for entry in log.entries(2)], log.numbers()) == ([3], [1, 2, 3])
    assert log.read(4) is None


def test_existing_entry_is_read_and_the_next_number_is_used(log: Log) -> None:
    first = log.append(draft("a"), seen=0, on_newer=no_newer)
    read: list[Entry] = []
    second = log.append(draft("b"), seen=0, on_newer=read.append)
    assert (read, second.number, second.claim) == ([first], 2, 2)


def test_refusal_during_catch_up_writes_nothing(log: Log) -> None:
    log.append(draft("a"), seen=0, on_newer=no_newer)

    def refuse(entry: Entry) -> None:
        raise WorkspaceError(f"not after {entry.worker}")

    with pytest.raises(WorkspaceError, match="not after a"):
        log.append(draft("b"), seen=0, on_newer=refuse)
    assert log.numbers() == [1]


def test_unexpected_files_in_the_log_folder_are_ignored(log: Log, tmp_path: Path) -> None:
    log.append(draft(), seen=0, on_newer=no_newer)
    for name in ("notes.txt", ".0123.temporary", "2.json", "00000002.json.tmp", "00000003.JSON"):
        (tmp_path / "log" / name).write_bytes(b"{torn")
    (tmp_path / "log" / "folder").mkdir()
    assert (len(log.entries()), log.append(draft(), seen=1, on_newer=no_newer).number) == (1, 2)


@pytest.mark.parametrize("content", [b"", b'{"kind":"claim","num', b"\0" * 200, b"[]", b"\xff\xfe"])
def test_damaged_entry_stops_readers_and_writers_with_its_path(
    log: Log, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / entry_path(1)).write_bytes(content)
    with pytest.raises(WorkspaceError, match=r"log/00000001\.json is damaged.*lycosa check"):
        log.entries()
    with pytest.raises(WorkspaceError, match="damaged"):
        log.append(draft(), seen=0, on_newer=no_newer)


@pytest.mark.proves("consistency-versions")
@pytest.mark.parametrize("change", [{"kind": "snapshot"}, {"epoch": 7}])
def test_entry_of_a_newer_version_is_refused_with_the_remedy(
    log: Log, tmp_path: Path, change: dict[str, object]
) -> None:
    document = json.loads(encode_entry(log.append(draft(), seen=0, on_newer=no_newer)))
    del document["digest"]
    (tmp_path / entry_path(1)).write_bytes(sealed(json.dumps(document | change).encode()))
    with pytest.raises(WorkspaceError, match=r"newer version.*pip install -U"):
        log.entries()


@pytest.mark.proves("consistency-check")
def test_any_changed_byte_of_an_entry_is_detected() -> None:
    content = encode_entry(entry := replace(draft(), number=1, claim=1))
    assert decode_entry(content, 1) == entry
    for position in range(len(content) - 1):  # except the newline
        changed = bytearray(content)
        changed[position] ^= 1
        with pytest.raises(WorkspaceError):
            decode_entry(bytes(changed), 1)


def test_renamed_entry_is_detected(log: Log, tmp_path: Path) -> None:
    log.append(draft(), seen=0, on_newer=no_newer)
    (tmp_path / entry_path(1)).rename(tmp_path / entry_path(2))
    with pytest.raises(WorkspaceError, match="contains entry 1"):
        log.entries(1)


def test_append_with_a_lost_response_is_recognised_by_its_attempt(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_then_fail(source: str, target: str) -> None:
        link(source, target)
        raise OSError(errno.EIO, "the answer was lost")

    monkeypatch.setattr(os, "link", link_then_fail)
    entry = draft()
    written = log.append(entry, seen=0, on_newer=no_newer)
    assert ((written.number, written.attempt), log.entries()) == ((1, entry.attempt), [written])


def test_repeated_link_of_the_same_entry_is_a_success(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    # A network file system may repeat a request.
    def link_twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert (log.append(draft(), seen=0, on_newer=no_newer).number, len(log.entries())) == (1, 1)


@pytest.mark.parametrize("call", ["link", "fsync", "open"])
def test_failed_append_raises_and_leaves_no_file(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="no space left"):
            log.append(draft(), seen=0, on_newer=no_newer)
    assert list((tmp_path / "log").iterdir()) == []
    assert log.append(draft(), seen=0, on_newer=no_newer).number == 1


@pytest.mark.proves("consistency-log")
def test_concurrent_appends_of_threads_lose_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=4)
    workspace.storage.make_folder("log")
    threads, rounds = 4, 300
    appended: list[list[Entry]] = [[] for _ in range(threads)]

    def append_rounds(number: int) -> None:
        state = LogState(Log(workspace.storage))
        entry = partial(draft, f"w{number}", (number,))
        appended[number].extend(append(state, entry()) for _ in range(rounds))

    run_concurrently(*(partial(append_rounds, number) for number in range(threads)))
    entries = workspace.log.entries()
    assert [entry.number for entry in entries] == list(range(1, threads * rounds + 1))
    assert sorted(chain(*appended), key=lambda entry: entry.number) == entries
    assert {len(part) for part in appended} == {rounds}


@pytest.mark.proves("consistency-log")
def test_concurrent_commits_of_processes_lose_nothing(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=4)
    rounds = 60
    race(workspace.root, 3, rounds)
    state = workspace.state()
    assert (state.head, state.counters) == (3 * (rounds + 1), {"rounds": 3 * rounds})
    assert {claim.worker: claim.commits for claim in state.claims.values()} == dict.fromkeys(
        ("w0", "w1", "w2"), rounds
    )
    commits = [entry for entry in workspace.log.entries() if entry.kind == COMMIT]
    assert len({entry.files["urls"][0].path for entry in commits}) == 3 * rounds
    for entry in commits:
        assert workspace.storage.size(entry.files["urls"][0].path) == entry.files["urls"][0].bytes
