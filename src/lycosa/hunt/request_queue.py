"""Hunts where somebody else owns the workspace: orders and events as files on this machine, in the
workspace's `run/hunts`.

    ID.order      what is asked (a `HuntRequest` as JSON); whoever asks writes it, the daemon takes
    it away when the hunt begins ID.jsonl      events, a line each, as `lycosa.hunt.events` has
    them; `ended` or `failed` is the last ID.stop       the hunt is to end early

The daemon's worker commits and ends, a process of its own hunts, and then the next worker starts
(decision 14): two would ask the same hosts.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter, ValidationError

from lycosa.core.errors import OwnedError, UsageError, WorkError
from lycosa.crawl.session.worker_status import COMMAND as DAEMON
from lycosa.hunt.events import Event
from lycosa.hunt.session import HuntRequest
from lycosa.store.coordination.owner import owner_of
from lycosa.store.storage.storage import Storage, open_storage

FOLDER = "run/hunts"
LAST = frozenset({"ended", "failed"})
"""Events after which none comes."""

_LOOK_S = 0.05
_ALIVE_EVERY_S = 2.0
_KEPT_S = 86_400.0  # files that nobody took away
_REQUEST = TypeAdapter(HuntRequest)


class Hunting(Protocol):
    """A hunt that goes on elsewhere."""

    def take(self) -> list[Event]:
        """What it has told since the last call."""
        ...

    def stop(self) -> None:
        """End it early: it tells `ended` then."""
        ...

    def alive(self) -> bool:
        """Whether somebody may still tell something."""
        ...

    def close(self) -> None:
        """Nobody listens any more."""
        ...


def events(hunt: Hunting) -> Iterator[Event]:
    """All events as they come, but for `failed`.

    Raises:
        UsageError, WorkError: it failed, or whoever hunted is gone.
    """
    looked_at = time.monotonic()
    try:
        while True:
            told = hunt.take()
            for event in told:
                if event["event"] == "failed":
                    raise (
                        UsageError if event.get("exit_code") == UsageError.exit_code else WorkError
                    )(str(event["message"]))
                yield event
                if event["event"] in LAST:
                    return
            if not told and time.monotonic() - looked_at >= _ALIVE_EVERY_S:
                looked_at = time.monotonic()
                if not hunt.alive() and not (told := hunt.take()):
                    raise WorkError(
                        "the hunt process is no longer running; the fetched pages are archived, "
                        "and the next start processes them"
                    )
                yield from told
            time.sleep(_LOOK_S)
    finally:
        hunt.close()


class EventFile:
    """The file of one hunt's events, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._rest = b""

    def take(self) -> list[Event]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return []
        self._read += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [json.loads(line) for line in lines]


class EventWriter:
    """Writes events, each whole for who reads at that moment."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def tell(self, event: Event) -> None:
        os.write(
            self._descriptor,
            (json.dumps(event, ensure_ascii=False) + "\n").encode("utf-8", "replace"),
        )

    def close(self) -> None:
        os.close(self._descriptor)


@dataclass(slots=True)
class Order:
    """One order that was given to a daemon."""

    _desk: Desk
    _id: str
    _daemon: int
    _events: EventFile
    _over: bool = False

    def take(self) -> list[Event]:
        told = self._events.take()
        self._over = self._over or any(event["event"] in LAST for event in told)
        return told

    def stop(self) -> None:
        if not self._desk.withdraw(self._id):
            self._desk.path(self._id, "stop").touch()

    def alive(self) -> bool:
        owner = owner_of(self._desk.storage)
        return owner is not None and owner.pid == self._daemon

    def close(self) -> None:
        """Takes the file away; a hunt that goes on is stopped."""
        if not self._over:
            self.stop()
        self._desk.path(self._id, "jsonl").unlink(missing_ok=True)


class Desk:
    """The folder of a workspace in which orders lie."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._folder = Path(storage.lock_path(FOLDER))

    def path(self, identity: str, kind: str) -> Path:
        return self._folder / f"{identity}.{kind}"

    def make(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, request: HuntRequest) -> str:
        """Lay an order down; its id."""
        self.make()
        identity = f"{time.time_ns() // 1_000_000:013d}-{uuid.uuid4().hex}"
        draft = self.path(identity, "draft")
        draft.write_text(json.dumps(asdict(request)), encoding="utf-8")
        draft.rename(self.path(identity, "order"))
        return identity

    def first(self) -> str | None:
        """The order that has waited longest."""
        with suppress(FileNotFoundError):
            return min((path.stem for path in self._folder.glob("*.order")), default=None)
        return None

    def take(self, identity: str) -> HuntRequest | None:
        """Read an order and take it away. None: it is none, or was withdrawn."""
        path = self.path(identity, "order")
        try:
            return _REQUEST.validate_json(path.read_bytes())
        except (OSError, ValidationError):
            return None
        finally:
            path.unlink(missing_ok=True)

    def withdraw(self, identity: str) -> bool:
        """Take an order back that nobody has begun."""
        try:
            self.path(identity, "order").unlink()
        except FileNotFoundError:
            return False
        return True

    def sweep(self) -> None:
        """Remove what nobody took away for a day."""
        oldest = time.time() - _KEPT_S
        with suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()


class Orders:
    """A daemon that takes orders."""

    def __init__(self, desk: Desk, daemon: int) -> None:
        self._desk = desk
        self._daemon = daemon

    def submit(self, request: HuntRequest) -> Order:
        identity = self._desk.put(request)
        return Order(
            self._desk, identity, self._daemon, EventFile(self._desk.path(identity, "jsonl"))
        )


def daemon_of(root: str) -> Orders | None:
    """The daemon that owns a workspace; None: nobody does.

    Raises:
        OwnedError: somebody else does, a crawl or another hunt.
    """
    storage = open_storage(root)
    owner = owner_of(storage)
    if owner is None:
        return None
    if owner.command != DAEMON:
        raise OwnedError(
            f"process {owner.pid} ({owner.command}) uses {root}; a hunt can start "
            "when that process has ended"
        )
    return Orders(Desk(storage), owner.pid)
