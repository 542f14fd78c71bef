"""The process that crawls a workspace on this machine: a file lock, and a note about the process.

`run/owner.lock` is locked with flock while the process lives. `run/owner.json` describes the
process and the address of its loopback API; it contains a token, so only its user can read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, TypeVar

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import OwnedError
from lycosa.core.units import format_time
from lycosa.store.storage.files import file_lock, try_lock
from lycosa.store.storage.storage import Storage

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Note = TypeVar("_Note", bound="DataclassInstance")
FOLDER = "run"
LOCK = f"{FOLDER}/owner.lock"
NOTE = f"{FOLDER}/owner.json"
TOUCH_INTERVAL_MS = 5_000
"""How often the owner rewrites its note."""

SILENT_MS = 30_000
"""The owner on another machine is dead if its note is unchanged for this long."""

_POLL_S = 0.2
_ATTEMPTS, _ATTEMPT_WAIT_S = 5, 0.05
# `owner_of` holds the lock for a moment; repeated attempts succeed after it.


@dataclass(slots=True, frozen=True)
class OwnerNote:
    """The content of owner.json."""

    pid: int
    host: str
    started_at: str
    command: str
    touched_at: str = ""
    address: str = ""  # http://127.0.0.1:PORT of the owner's API; empty: it has none
    token: str = ""


class Owner:
    """The held lock. Use as a context manager, or call `release`."""

    def __init__(self, storage: Storage, descriptor: int, note: OwnerNote, clock: Clock) -> None:
        self._storage = storage
        self._descriptor = descriptor
        self._clock = clock
        self._touched = -TOUCH_INTERVAL_MS
        self.note = note
        self._write()

    def touch(self) -> None:
        """Rewrite the note, at most every 5 s."""
        if self._clock.monotonic_ms() - self._touched >= TOUCH_INTERVAL_MS:
            self._write()

    def publish(self, address: str, token: str) -> None:
        """Publish the address of the API and its token for other commands."""
        self.note = replace(self.note, address=address, token=token)
        self._write()

    def release(self) -> None:
        """Remove the note, if storage responds, and release the lock. May be called twice."""
        if self._descriptor >= 0:
            with suppress(OSError):  # must not hide the error that ends the crawl
                self._storage.remove(NOTE)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _write(self) -> None:
        self._touched = self._clock.monotonic_ms()
        self.note = replace(self.note, touched_at=format_time(self._clock.now_ms()))
        self._storage.replace(NOTE, encode_note(self.note), mode=0o600)


def own(storage: Storage, command: str, clock: Clock | None = None) -> Owner:
    """Become the owner of a workspace. Takes 30 s if the last owner was killed on another machine.

    Started programs do not inherit the lock, but a bare `os.fork` shares it: spawn child processes.

    Raises:
        OwnedError: another process is the owner.
    """
    clock = clock or SystemClock()
    storage.make_folder(FOLDER)
    descriptor = os.open(storage.lock_path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for _ in range(_ATTEMPTS):
        if try_lock(descriptor, fcntl.LOCK_EX):
            try:
                _require_none_elsewhere(storage, clock)
            except BaseException:
                os.close(descriptor)
                raise
            note = OwnerNote(
                os.getpid(), socket.gethostname(), format_time(clock.now_ms()), command
            )
            return Owner(storage, descriptor, note, clock)
        time.sleep(_ATTEMPT_WAIT_S)
    os.close(descriptor)
    raise OwnedError(_refusal(storage))


def owner_of(storage: Storage) -> OwnerNote | None:
    """Return the note of the living owner on this machine, None without one."""
    try:
        descriptor = os.open(storage.lock_path(LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if try_lock(descriptor, fcntl.LOCK_SH):
            return None
    finally:
        os.close(descriptor)
    return _note(storage) or OwnerNote(0, "", "", "")


def _require_none_elsewhere(storage: Storage, clock: Clock) -> None:
    """Wait until the note of an owner on another machine is unchanged for `SILENT_MS`.

    The lock does not cover other machines.

    Raises:
        OwnedError: the note changed.
    """
    first = _note(storage)
    if first is None or first.host in ("", socket.gethostname()):
        return
    began = clock.monotonic_ms()
    while clock.monotonic_ms() - began < SILENT_MS:
        note = _note(storage)
        if note is None or note.host == socket.gethostname():
            return
        if note != first:
            raise OwnedError(_refusal(storage))
        time.sleep(_POLL_S)


def _note(storage: Storage) -> OwnerNote | None:
    try:
        return decode_note(OwnerNote, storage.read(NOTE))
    except PermissionError:
        return None


def encode_note(note: DataclassInstance) -> bytes:
    """Return a note as JSON."""
    return (json.dumps(asdict(note), indent=1) + "\n").encode()


def decode_note(kind: type[_Note], content: bytes | None) -> _Note | None:
    """Return a note without its unknown fields, None if it is invalid."""
    try:
        document = json.loads(content or b"null")
        return kind(
            **{field.name: document[field.name] for field in fields(kind) if field.name in document}
        )
    except (ValueError, TypeError, RecursionError):
        return None


def _refusal(storage: Storage) -> str:
    note = _note(storage)
    if note is None:
        return (
            f"another process is crawling in {storage.root}: wait for it, stop it, or use "
            "another workspace (-w DIR)"
        )
    where = f"; it listens at {note.address}" if note.address else ""
    return (
        f"process {note.pid} on {note.host} has been crawling in {storage.root} since "
        f"{note.started_at} ({note.command}){where}; "
        f"wait for it, stop it (kill {note.pid}: it commits and ends), or use another workspace "
        "(-w DIR)"
    )


MAINTENANCE_LOCK = f"{FOLDER}/merge.lock"
BUSY = "another process is merging, cleaning up or purging this workspace"


@contextmanager
def maintenance(storage: Storage) -> Iterator[bool]:
    """Hold the lock during the block; yields False if another process holds it."""
    storage.make_folder(FOLDER)
    with file_lock(storage.lock_path(MAINTENANCE_LOCK)) as locked:
        yield locked
