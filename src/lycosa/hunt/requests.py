"""Hunts in other processes: requests and events as files of this machine, in `run/hunts`.

    ID.order   the request (`HuntRequest` as JSON), until a daemon starts the hunt
    ID.jsonl   events, one per line (`lycosa.hunt.session`); the last is `ended` or `failed`.
               For a hunt started from the pages the first is `requested`, and the file is
               retained. A missing file means that no client reads the events.
    ID.stop    stops the hunt
    starting.lock   locked while a hunt without a daemon starts

A daemon ends its worker, runs the hunt in a child process, and starts the next worker (decision
14). Without a daemon the hunt runs in a child of the process that requests it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lycosa.core.errors import LycosaError, OwnedError, UsageError, WorkError
from lycosa.core.system_errors import refusal
from lycosa.core.units import format_time
from lycosa.crawl.session.planning import check_seeds
from lycosa.crawl.session.worker_status import COMMAND as DAEMON
from lycosa.crawl.session.workspace_config import read_config
from lycosa.crawl.worker import Worker
from lycosa.hunt.relevance import HuntQuery
from lycosa.hunt.session import (
    Event,
    HuntEnvironment,
    HuntOrder,
    HuntRequest,
    hunt,
    hunt_collection,
)
from lycosa.processes.children import Child, ReportKind
from lycosa.processes.threads import OnError, start_thread
from lycosa.store.coordination.owner import owner_of
from lycosa.store.storage.files import file_lock
from lycosa.store.storage.storage import Storage, open_storage
from lycosa.store.workspace import Workspace

FOLDER = "run/hunts"
LAST_EVENTS = frozenset({"ended", "failed"})
MAX_KEPT = 200
"""Maximum number of hunts with stored events."""

MAX_CONCURRENT = 4
MAX_SHOWN = 100
DIED = (
    "the hunt process is no longer running; the fetched pages are archived, and the next start "
    "processes them"
)

_MAX_NEWEST = 20
_POLL_S = 0.05
_ALIVE_EVERY_S = 2.0
_KEPT_S = 86_400.0  # requests and stops that were not removed
_SILENT_S = 120.0  # without an event, after which a hunt counts as failed
_ID = re.compile(r"\d{13}-[0-9a-f]{32}")
_REQUEST = TypeAdapter(HuntRequest)


class HuntFolder:
    """The files of the hunts of a workspace."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._folder = Path(storage.lock_path(FOLDER))

    def path(self, hunt_id: str, kind: str) -> Path:
        return self._folder / f"{hunt_id}.{kind}"

    def lock(self) -> AbstractContextManager[bool]:
        """Lock the start of hunts; the context is False if another one is starting."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return file_lock(str(self._folder / "starting.lock"))

    def create(self, request: HuntRequest, by: str | None = None) -> str:
        """Create the event file of a hunt and return its ID; with `by` the file is retained."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        now_ms = time.time_ns() // 1_000_000
        hunt_id = f"{now_ms:013d}-{uuid.uuid4().hex}"
        event = {
            "event": "requested",
            "question": request.question,
            "strategy": request.strategy,
            "began_at": format_time(now_ms),
            "by": by,
        }
        line = "" if by is None else json.dumps(event) + "\n"
        self.path(hunt_id, "jsonl").write_text(line, encoding="utf-8")
        return hunt_id

    def submit(self, hunt_id: str, request: HuntRequest) -> None:
        """Write a request for the daemon."""
        draft = self.path(hunt_id, "draft")
        draft.write_text(json.dumps(asdict(request)), encoding="utf-8")
        draft.rename(self.path(hunt_id, "order"))

    def ids(self, kind: str) -> list[str]:
        """Return the IDs of the hunts with a file of this kind, oldest first."""
        return sorted(path.stem for path in self._folder.glob(f"*.{kind}"))

    def take(self, hunt_id: str) -> HuntRequest | None:
        """Read and remove a request; None if it was withdrawn or is invalid."""
        path = self.path(hunt_id, "order")
        try:
            return _REQUEST.validate_json(path.read_bytes())
        except (OSError, ValidationError, UsageError):
            return None
        finally:
            path.unlink(missing_ok=True)

    def stop(self, hunt_id: str) -> None:
        """Withdraw a request, or stop its hunt."""
        try:
            self.path(hunt_id, "order").unlink()
        except FileNotFoundError:
            self.path(hunt_id, "stop").touch()
        else:
            self.fail(hunt_id, WorkError("the hunt was stopped before it started"))

    def fail(self, hunt_id: str, error: LycosaError) -> None:
        """Write `failed` as the last event, if a client reads the events and there is none."""
        with suppress(FileNotFoundError):
            events = HuntEventReader(self.path(hunt_id, "jsonl")).read()
            if not any(event["event"] in LAST_EVENTS for event in events):
                with open_events(self.path(hunt_id, "jsonl")) as file:
                    write_event(file, failed_event(error))
        self.path(hunt_id, "stop").unlink(missing_ok=True)

    def start_child(self, hunt_id: str, order: HuntOrder, *, owned: bool) -> Child:
        """Start the process of a hunt. It ends with the thread that calls this."""
        events, stop = self.path(hunt_id, "jsonl"), self.path(hunt_id, "stop")
        return Child("hunt", run_hunt, order, events, stop, owned)

    def end_child(self, hunt_id: str, child: Child) -> str:
        """Wait for the end of the process. Return how it ended, "" without an error."""
        reason = child.end()
        self.fail(hunt_id, WorkError(f"{DIED} ({reason or 'unexpected exit'})"))
        return reason

    def clean(self) -> None:
        """Remove old files, but not the events of hunts that are running or waiting to start."""
        waiting = self.ids("order")
        events = [each for each in self.ids("jsonl")[:-MAX_KEPT] if each not in waiting]
        files = [(self.path(hunt_id, "jsonl"), _SILENT_S) for hunt_id in events]
        for kind in ("order", "draft", "stop"):
            files += [(self.path(hunt_id, kind), _KEPT_S) for hunt_id in self.ids(kind)]
        for path, kept_s in files:
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - kept_s:
                    path.unlink()


class HuntEventReader:
    """Reads the events of a hunt while they are written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._rest = b""

    def read(self) -> list[Event]:
        """Return the new events. Raises FileNotFoundError."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            content = file.read()
        self._position += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [json.loads(line) for line in lines]


def open_events(path: Path) -> FileIO:
    """Open the events of a hunt for writing. Raises FileNotFoundError if no client reads them."""
    return FileIO(path, "a", opener=lambda name, flags: os.open(name, flags & ~os.O_CREAT))


def write_event(file: FileIO, event: Event) -> None:
    """Append an event with a single write, for concurrent readers."""
    file.write((json.dumps(event, ensure_ascii=False) + "\n").encode("utf-8", "replace"))


def failed_event(error: LycosaError) -> Event:
    """Return the event `failed`."""
    return {"event": "failed", "message": str(error), "exit_code": error.exit_code}


@dataclass(slots=True)
class HuntHandle:
    """A hunt in another process. `alive`: whether more events may come."""

    folder: HuntFolder
    id: str
    alive: Callable[[], bool]
    _reader: HuntEventReader = field(init=False)
    _ended: bool = False

    def __post_init__(self) -> None:
        self._reader = HuntEventReader(self.folder.path(self.id, "jsonl"))

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        events = self._reader.read()
        self._ended = self._ended or any(event["event"] in LAST_EVENTS for event in events)
        return events

    def stop(self) -> None:
        """End the hunt early; it writes `ended` then."""
        self.folder.stop(self.id)

    def close(self) -> None:
        """Stop the hunt if it has not ended, and remove its events."""
        if not self._ended:
            self.stop()
        self.folder.path(self.id, "jsonl").unlink(missing_ok=True)

    def events(self) -> Iterator[Event]:
        """Yield all events as they arrive.

        Raises:
            UsageError, WorkError: the hunt has failed.
        """
        checked_at = time.monotonic()
        try:
            while not self._ended:
                alive = True
                if time.monotonic() - checked_at >= _ALIVE_EVERY_S:
                    checked_at, alive = time.monotonic(), self.alive()
                events = self.take()
                for event in events:
                    if event["event"] == "failed":
                        usage = event.get("exit_code") == UsageError.exit_code
                        raise (UsageError if usage else WorkError)(str(event["message"]))
                    yield event
                if not events and not alive:
                    raise WorkError(DIED)
                time.sleep(_POLL_S)
        finally:
            self.close()


def ask_daemon(root: str, request: HuntRequest, by: str | None = None) -> HuntHandle | None:
    """Submit a request to the daemon that owns the workspace; None if no process owns it.

    Raises:
        OwnedError: a crawl or another hunt uses the workspace.
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
    folder = HuntFolder(storage)
    hunt_id = folder.create(request, by)
    folder.submit(hunt_id, request)

    return HuntHandle(folder, hunt_id, lambda: getattr(owner_of(storage), "pid", 0) == owner.pid)


def begin_hunt(root: str, request: HuntRequest, by: str | None = None) -> HuntHandle:
    """Start a hunt by the daemon, or else in a child process; with `by` its events are retained.

    Raises:
        UsageError: the question has no words, or a seed or a setting is invalid.
        OwnedError: a crawl or another hunt uses the workspace.
        WorkspaceError: there is no workspace.
    """
    HuntQuery(request.question)
    config = read_config(root, (), request.collection)
    check_seeds(request.seeds, hunt_collection(config, request))
    Workspace.open(root)
    storage = open_storage(root)
    folder = HuntFolder(storage)
    with ExitStack() as starting:  # locked until the child owns the workspace
        if not starting.enter_context(folder.lock()):
            raise OwnedError(f"another hunt uses {root}; a hunt can start when it has ended")
        handle = ask_daemon(root, request, by)
        if handle is not None:
            return handle
        hunt_id = folder.create(request, by)
        locked = starting.pop_all()

    def run() -> None:
        with locked:
            child = folder.start_child(hunt_id, HuntOrder(root, config, request), owned=False)
            while child.alive and owner_of(storage) is None:
                time.sleep(_POLL_S)
        folder.end_child(hunt_id, child)

    # a child ends with the thread that started it
    thread = start_thread(run, name="hunt", on_error=OnError.REPORT)
    return HuntHandle(folder, hunt_id, thread.is_alive)


def run_hunt(
    report: Callable[..., None], order: HuntOrder, events: Path, stop: Path, owned: bool
) -> None:
    """Run a hunt in this child process, whose parent may own the workspace.

    SIGTERM, or the file `stop`, ends it early.
    """
    worker: Worker | None = None

    def check_stop() -> None:
        if worker is not None and stop.exists():
            worker.stop()

    def set_worker(started: Worker) -> None:
        nonlocal worker
        worker = started
        check_stop()

    def terminate(number: int, frame: FrameType | None) -> None:
        if worker is None:
            raise SystemExit(0)
        worker.stop()

    signal.signal(signal.SIGTERM, terminate)
    with suppress(FileNotFoundError), open_events(events) as file:
        try:
            report(ReportKind.WORKING)
            record = partial(write_event, file)
            hunt(order, HuntEnvironment(record, set_worker, check_stop, owned=owned))
        except (LycosaError, OSError) as error:
            failure = error if isinstance(error, LycosaError) else WorkError(refusal(error))
            if not str(failure):
                raise
            write_event(file, failed_event(failure))
            report(ReportKind.FAILED, str(failure))
            raise SystemExit(1) from None


@dataclass(slots=True)
class HuntView:
    """The state of a hunt for the pages. `state`: running, ended or failed."""

    id: str
    question: str = ""
    strategy: str = ""
    began_at: str = ""
    by: str = ""
    state: str = "running"
    ended: str = ""
    message: str = ""
    pages: int = 0
    in_flight: int = 0
    bytes: int = 0
    seconds: float = 0.0
    relevant: int = 0
    listed: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    """Best first, as the events `found`."""
    newest: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """By URL, of the seeds."""

    def add(self, event: Event) -> None:
        """Apply an event, whose fields are those of this class."""
        match event["event"]:
            case "found":
                best = [*self.results, event]
                self.results = sorted(best, key=lambda each: -each["score"])[:MAX_SHOWN]
                self.newest = [event["url"], *self.newest][:_MAX_NEWEST]
                self.relevant += 1
                self.seconds = event["seconds"]
            case "ended" | "failed" as state:
                self.state, self.in_flight = state, 0
        if event["event"] != "found":
            for name in event.keys() & self.__dataclass_fields__.keys():
                setattr(self, name, event[name])


class HuntHistory:
    """The hunts that were started from the pages. Thread-safe."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder = HuntFolder(open_storage(root))
        self._lock = threading.Lock()
        self._views: dict[str, tuple[HuntView, HuntEventReader]] = {}

    def begin(self, request: HuntRequest, by: str = "") -> str:
        """Start a hunt; return its ID.

        Raises:
            UsageError: the request is invalid, or `MAX_CONCURRENT` hunts are running.
            OwnedError, WorkspaceError: as `begin_hunt`.
        """
        if sum(view.state == "running" for view in self.all()) >= MAX_CONCURRENT:
            raise UsageError(
                f"{MAX_CONCURRENT} hunts are running, which is the maximum: stop one or wait until "
                "one ends"
            )
        self._folder.clean()
        return begin_hunt(self._root, request, by).id

    def stop(self, hunt_id: str) -> None:
        """End a hunt early if it is running. Its results remain."""
        view = self.view(hunt_id)
        if view is not None and view.state == "running":
            self._folder.stop(hunt_id)

    def view(self, hunt_id: str) -> HuntView | None:
        """Return the state of a hunt; None if it is unknown."""
        if not _ID.fullmatch(hunt_id):
            return None
        path = self._folder.path(hunt_id, "jsonl")
        with self._lock:
            view, reader = self._views.setdefault(
                hunt_id, (HuntView(hunt_id), HuntEventReader(path))
            )
            try:
                for event in reader.read():
                    view.add(event)
                age_s = time.time() - path.stat().st_mtime
            except (OSError, ValueError, LookupError, TypeError):
                del self._views[hunt_id]
                return None
        waiting = view.state != "running" or self._folder.path(hunt_id, "order").exists()
        if age_s > _SILENT_S and not waiting:
            view.add({"event": "failed", "message": DIED})
        return view if view.question else None

    def all(self) -> list[HuntView]:
        """Return the hunts, newest first."""
        views = (self.view(hunt_id) for hunt_id in reversed(self._folder.ids("jsonl")))
        return [view for view in views if view is not None]
