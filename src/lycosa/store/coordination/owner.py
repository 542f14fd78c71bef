"""Who runs a crawl in a workspace on this machine: a lock that the kernel frees, and a note for
people and programs.

`run/owner.lock` is held with flock for as long as the process lives, however it dies.
`run/owner.json` says who it is and, for a daemon, where its loopback API listens; it carries a
token, so only its user may read it (mode 0600).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass, fields

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import OwnedError
from lycosa.core.units import format_time
from lycosa.store.storage.storage import Storage

FOLDER = "run"
LOCK = f"{FOLDER}/owner.lock"
NOTE = f"{FOLDER}/owner.json"
TOUCH_INTERVAL_MS = 5_000
"""How often the owner rewrites its note; observers on other machines take one that is unchanged for
30 s for dead.
"""

SILENT_MS = 30_000
"""A note on another machine that stands unchanged for so long, by this one's clock, is a dead
owner's.
"""

_LOOK_S = 0.2
_ATTEMPTS, _ATTEMPT_WAIT_S = 5, 0.05
# Somebody who only asks whether the lock is held takes it for a moment; a few attempts see past
# that.


@dataclass(slots=True, frozen=True)
class OwnerNote:
    """What owner.json says."""

    pid: int
    host: str
    started_at: str
    command: str
    touched_at: str = ""
    address: str = ""  # http://127.0.0.1:PORT of the owner's API; empty: it has none
    token: str = ""


class Owner:
    """The lock, held. Use as a context manager, or call `release`."""

    def __init__(self, storage: Storage, descriptor: int, note: OwnerNote, clock: Clock) -> None:
        self._storage = storage
        self._descriptor = descriptor
        self._clock = clock
        self._touched = -TOUCH_INTERVAL_MS
        self.note = note
        self._write()

    def touch(self) -> None:
        """Say that we live, at most every 5 s; call it as often as you like."""
        if self._clock.monotonic_ms() - self._touched >= TOUCH_INTERVAL_MS:
            self._write()

    def publish(self, address: str, token: str) -> None:
        """Tell other commands where our API listens and what they must show to use it."""
        self.note = OwnerNote(**(asdict(self.note) | {"address": address, "token": token}))
        self._write()

    def release(self) -> None:
        """Take the note away and free the lock. May be called twice."""
        if self._descriptor >= 0:
            self._storage.remove(NOTE)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _write(self) -> None:
        self._touched = self._clock.monotonic_ms()
        self.note = OwnerNote(
            **(asdict(self.note) | {"touched_at": format_time(self._clock.now_ms())})
        )
        self._storage.replace(
            NOTE, (json.dumps(asdict(self.note), indent=1) + "\n").encode(), mode=0o600
        )


def own(storage: Storage, command: str, clock: Clock | None = None) -> Owner:
    """Become the owner of a workspace. Takes half a minute where one was killed on another machine
    and nobody came since.

    The lock is not passed on to programs that are started, but a bare `os.fork` shares it: child
    processes are spawned.

    Raises:
        OwnedError: a living process is.
    """
    clock = clock or SystemClock()
    storage.make_folder(FOLDER)
    descriptor = os.open(storage.lock_path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for _ in range(_ATTEMPTS):
        if _locked(descriptor, fcntl.LOCK_EX):
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
    """The note of the living owner on this machine; None if there is none (a dead one's note does
    not count).
    """
    try:
        descriptor = os.open(storage.lock_path(LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _locked(descriptor, fcntl.LOCK_SH):
            return None
    finally:
        os.close(descriptor)
    return _note(storage) or OwnerNote(0, "", "", "")


def _require_none_elsewhere(storage: Storage, clock: Clock) -> None:
    """The lock says nothing of other machines; the note of a living owner there changes every 5 s.
    One that was killed leaves a note that stands still: it is waited for.

    Raises:
        OwnedError: the note of a process on another machine changes.
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
        time.sleep(_LOOK_S)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _note(storage: Storage) -> OwnerNote | None:
    try:
        content = storage.read(NOTE)
        document = json.loads(content) if content else None
    except (ValueError, RecursionError, PermissionError):
        return None
    known = {field.name for field in fields(OwnerNote)}
    if not isinstance(document, dict) or not {"pid", "host", "started_at", "command"} <= set(
        document
    ):
        return None
    return OwnerNote(**{key: value for key, value in document.items() if key in known})


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
