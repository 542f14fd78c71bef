"""Hunts that people follow on pages: each runs in a thread of ours, what it told is kept, and what
it found can be read again later.

A hunt is a file, `run/hunted/ID.json`, written once a second while it runs, so that other processes
that serve the same workspace can show it, and stop it by a file beside it; the newest `MAX_KEPT`
stay.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any

from lycosa.core.errors import UsageError
from lycosa.core.units import format_time
from lycosa.hunt.events import Event
from lycosa.hunt.request_queue import LAST, Hunting
from lycosa.hunt.session import HuntRequest
from lycosa.processes.threads import OnError, start_thread
from lycosa.store.storage.storage import Storage

FOLDER = "run/hunted"
MAX_KEPT = 200
MAX_AT_ONCE = 4
MAX_SHOWN = 100
_LAST_PAGES = 20
_LOOK_S = 0.1
_TELL_EVERY_S = 1.0
_SILENT_MS = 30_000
_ID = re.compile(r"\d{13}-[0-9a-f]{32}")


@dataclass(slots=True)
class HuntView:
    """A hunt as it stands: `state` is running, ended or failed; `results` as `hunt_events` tells
    them, the best first.
    """

    id: str
    question: str
    strategy: str
    began_at: str
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
    newest: list[str] = field(default_factory=list)


class _Running:
    def __init__(self, view: HuntView) -> None:
        self.view = view
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.found: dict[str, dict[str, Any]] = {}
        self.newest: deque[str] = deque(maxlen=_LAST_PAGES)

    def take(self, event: Event) -> None:
        view = self.view
        with self.lock:
            match event["event"]:
                case "found":
                    self.found[event["url"]] = event
                    self.newest.appendleft(event["url"])
                    view.relevant = len(self.found)
                    view.seconds = event["seconds"]
                case "progress":
                    view.pages, view.in_flight, view.bytes, view.seconds = (
                        event[name] for name in ("pages", "in_flight", "bytes", "seconds")
                    )
                case "ended":
                    view.state, view.ended, view.in_flight = "ended", event["ended"], 0
                    view.pages, view.bytes, view.seconds = (
                        event["pages"],
                        event["bytes"],
                        event["seconds"],
                    )
                    view.relevant, view.listed = event["relevant"], event["listed"]
                    self.found = {each["url"]: each for each in event["results"]}
                case "failed":
                    view.state, view.message, view.in_flight = "failed", event["message"], 0

    def now(self) -> HuntView:
        with self.lock:
            best = sorted(self.found.values(), key=lambda each: -each["score"])[:MAX_SHOWN]
            return HuntView(**{**_plain(self.view), "results": best, "newest": list(self.newest)})


class HuntBoard:
    """The hunts of a workspace that were begun here. Threads may share it."""

    def __init__(self, storage: Storage, begin: Callable[[HuntRequest], Hunting]) -> None:
        self._storage = storage
        self._begin = begin
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}

    def begin(self, request: HuntRequest, by: str = "") -> str:
        """Begin a hunt; its id.

        Raises:
            UsageError: something in the request is wrong, or `MAX_AT_ONCE` are under way.
            OwnedError: a crawl or another hunt works in the workspace. Whatever else `begin` raises
            is raised, too.
        """
        now_ms = time.time_ns() // 1_000_000
        hunt_id = f"{now_ms:013d}-{uuid.uuid4().hex}"
        running = _Running(
            HuntView(hunt_id, request.question, request.strategy, format_time(now_ms), by)
        )
        with self._lock:
            if len(self._running) >= MAX_AT_ONCE:
                raise UsageError(
                    f"{MAX_AT_ONCE} hunts are running, which is the maximum: stop "
                    "one or wait until one ends"
                )
            self._running[hunt_id] = running
        begun: Future[None] = Future()
        # The child of a hunt lives as long as the thread that made it.
        start_thread(self._follow, running, request, begun, name="hunt", on_error=OnError.REPORT)
        try:
            begun.result()
        except BaseException:
            with self._lock:
                del self._running[hunt_id]
            raise
        return hunt_id

    def stop(self, hunt_id: str) -> None:
        """End a hunt; what it found is kept. One that has ended stays as it is."""
        with self._lock:
            running = self._running.get(hunt_id)
        if running is not None:
            running.stop.set()
        elif (
            _ID.fullmatch(hunt_id)
            and (view := self._kept(f"{hunt_id}.json")) is not None
            and view.state == "running"
        ):
            self._storage.create(f"{FOLDER}/{hunt_id}.stop", b"")

    def view(self, hunt_id: str) -> HuntView | None:
        """How a hunt stands, or how it ended; None for one that is not known."""
        with self._lock:
            running = self._running.get(hunt_id)
        if running is not None:
            return running.now()
        return self._kept(f"{hunt_id}.json") if _ID.fullmatch(hunt_id) else None

    def all(self) -> list[HuntView]:
        """The hunts, the newest first."""
        with self._lock:
            running = [each.now() for each in self._running.values()]
        known = {each.id for each in running}
        kept = (self._kept(name) for name in self._files())
        return sorted(
            [*running, *(each for each in kept if each is not None and each.id not in known)],
            key=lambda each: each.id,
            reverse=True,
        )

    def _follow(self, running: _Running, request: HuntRequest, begun: Future[None]) -> None:
        try:
            hunting = self._begin(request)
        except BaseException as error:  # noqa: BLE001 -- whoever asked gets it
            begun.set_exception(error)
            return
        begun.set_result(None)
        try:
            self._pump(running, hunting)
        finally:
            hunting.close()
            self._keep(running)

    def _pump(self, running: _Running, hunting: Hunting) -> None:
        stopped = False
        told_at = 0.0
        while True:
            if time.monotonic() - told_at >= _TELL_EVERY_S:
                told_at = time.monotonic()
                self._write(running.now())
                if self._storage.size(f"{FOLDER}/{running.view.id}.stop") is not None:
                    running.stop.set()
            alive = hunting.alive()
            told = hunting.take()
            for event in told:
                running.take(event)
                if event["event"] in LAST:
                    return
            if not alive and not told:
                running.take(
                    {
                        "event": "failed",
                        "message": "the hunt process died; the fetched pages are archived, and "
                        "the next start processes them",
                    }
                )
                return
            if running.stop.is_set() and not stopped:
                stopped = True
                hunting.stop()
            running.stop.wait(_LOOK_S) if not stopped else time.sleep(_LOOK_S)

    def _keep(self, running: _Running) -> None:
        view = running.now()
        self._write(view)
        self._storage.remove(f"{FOLDER}/{view.id}.stop")
        with self._lock:
            del self._running[view.id]
        for name in self._files()[:-MAX_KEPT]:
            self._storage.remove(f"{FOLDER}/{name}")

    def _write(self, view: HuntView) -> None:
        self._storage.make_folder(FOLDER)
        self._storage.replace(
            f"{FOLDER}/{view.id}.json",
            (json.dumps(asdict(view), ensure_ascii=False) + "\n").encode("utf-8", "replace"),
        )

    def _files(self) -> list[str]:
        return sorted(
            name
            for name in self._storage.names(FOLDER)
            if _ID.fullmatch(name.removesuffix(".json"))
        )

    def _kept(self, name: str) -> HuntView | None:
        """None for a file that is gone or none of ours."""
        try:
            view = HuntView(**json.loads(self._storage.read(f"{FOLDER}/{name}") or b"null"))
        except (ValueError, TypeError):
            return None
        if view.state == "running":
            written = self._storage.modified_at(f"{FOLDER}/{name}") or 0
            if time.time() * 1000 - written > _SILENT_MS:
                view.state, view.message = (
                    "failed",
                    "the hunt process is no longer running; the fetched pages are archived, and "
                    "the next start processes them",
                )
        return view


def _plain(view: HuntView) -> Mapping[str, Any]:
    return {name: getattr(view, name) for name in HuntView.__dataclass_fields__}
