"""The status of a worker, and its pauses by schedule, command, full disk."""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.hours import parse_hours
from lycosa.core.json_object import json_object
from lycosa.core.units import format_duration, format_time
from lycosa.crawl.session.pausing import ManualPauses
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.processes.disk import DiskSpace
from lycosa.store.coordination.owner import FOLDER, owner_of
from lycosa.store.storage.storage import Storage, open_storage

if TYPE_CHECKING:  # `status` imports this module, and none of the crawl
    from lycosa.crawl.session.session import CrawlSession

_RATE_OVER_MS = 60_000
_CURRENT = ("states", "queue", "in_flight", "hosts", "later")
"""Fields of `Progress` that describe the current state; all others are counters."""


def cpu_s() -> float:
    """Return the CPU-seconds of this process and of its ended child processes."""
    return sum(os.times()[:4])


class Rate:
    """Pages per second over the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[tuple[int, int]] = deque()

    def take(self, pages: int) -> float:
        """Record the number of pages; return the rate."""
        now = self._clock.monotonic_ms()
        samples = self._samples
        samples.append((now, pages))
        while len(samples) > 1 and now - samples[0][0] > _RATE_OVER_MS:
            samples.popleft()
        (since, before), elapsed = samples[0], now - samples[0][0]
        return round((pages - before) * 1000 / elapsed, 2) if elapsed and since else 0.0


def workspace_disk(storage: Storage, config: Config) -> DiskSpace:
    """Return the free space of the disk on which a workspace, or its cache, is."""
    folder = storage.root if storage.on_disk else storage.scratch_dir()
    return DiskSpace(folder, config.run.disk_reserve)


class CrawlPause:
    """Pauses collections by schedule and by command, and all of them when the disk is full.

    `scheduled`: whether the schedules apply; only `run` observes them.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        storage: Storage,
        config: Config,
        clock: Clock,
        *,
        scheduled: bool = True,
    ) -> None:
        self._clock = clock
        jobs = list(jobs)
        self._hours = {
            job.collection.name: parse_hours(job.collection.schedule if scheduled else "")
            for job in jobs
        }
        self._paused = frozenset(job.collection.name for job in jobs if job.collection.paused)
        self._manual_pauses = ManualPauses(storage, clock)
        self._disk_space = workspace_disk(storage, config)
        self.paused_collections: frozenset[str] = frozenset()

    def update(self, session: CrawlSession) -> None:
        """Set the collections for which the worker may fetch."""
        now_ms = self._clock.now_ms()
        manually_paused = self._manual_pauses.read() & self._hours.keys()
        self.paused_collections = (
            self._paused
            | manually_paused
            | {name for name, hours in self._hours.items() if not hours.open_at(now_ms)}
        )
        session.worker.dispatcher.pause_collections(self.paused_collections)
        session.worker.dispatcher.pause(not self._disk_space.check())

    @property
    def message(self) -> str:
        """Reason for fetching nothing; "" in normal operation."""
        if self._disk_space.message:
            return self._disk_space.message
        if self._hours and len(self.paused_collections) == len(self._hours):
            return "every collection is paused, by a command or by its schedule"
        return ""


@dataclass(slots=True, frozen=True)
class WorkerStatus:
    """The status of one worker. Picklable.

    `progress`: over all its claims. `collections`: name -> number of pages (with several workers,
    those that this claim has added), and of pages in flight.
    """

    progress: Progress
    collections: Mapping[str, tuple[int, int]]
    paused: frozenset[str]
    rate: float = 0.0
    message: str = ""
    last_commit: tuple[int, str] | None = None  # entry, at
    cpu_s: float = 0.0  # of its process and its ended child processes


def figures(statuses: Iterable[WorkerStatus]) -> dict[str, Any]:
    """Return the sums of several workers' figures.

    A ping has those of one worker, the live file those of all.
    """
    columns = list(statuses)
    progress = added(each.progress for each in columns)
    collections: dict[str, dict[str, Any]] = {}
    for each in columns:
        for name, (pages, in_flight) in each.collections.items():
            row = collections.setdefault(name, {"pages": 0, "in_flight": 0, "paused": False})
            row["pages"] += pages
            row["in_flight"] += in_flight
            row["paused"] = row["paused"] or name in each.paused
    last = max((each.last_commit for each in columns if each.last_commit is not None), default=None)
    return {
        "pages": progress.pages,
        "visits": progress.visits,
        "rate": round(sum(each.rate for each in columns), 2),
        "queue": progress.queue,
        "hosts": progress.hosts,
        "in_flight": progress.in_flight,
        "errors": dict(progress.errors),
        "collections": collections,
        "message": next((each.message for each in columns if each.message), ""),
        "last_commit": {"entry": last[0], "at": last[1]} if last is not None else None,
        "cpu_s": round(sum(each.cpu_s for each in columns), 2),
    }


def added(progresses: Iterable[Progress], started_ms: int = 0) -> Progress:
    """Return the sum of the figures of several workers."""
    total = Progress(started_ms)
    for progress in progresses:
        for field in fields(Progress):
            _add(total, progress, field.name)
    return total


def continued(former: Progress, current: Progress) -> Progress:
    """Return a worker's figures over several claims.

    Figures of the current state (`_CURRENT`) are those of the current claim.
    """
    total = added([former, current], former.started_ms)
    for name in _CURRENT:
        setattr(total, name, getattr(current, name))
    return total


def _add(total: Progress, more: Progress, name: str) -> None:
    mine, theirs = getattr(total, name), getattr(more, name)
    if isinstance(mine, Counter):
        mine.update(theirs)
    elif name == "failures":
        for url, why in theirs.items():
            total.fail(url, why)
    elif isinstance(mine, int) and name not in ("started_ms", "ended_ms"):
        setattr(total, name, mine + theirs)


FILE = f"{FOLDER}/worker.json"
COMMAND = "run"
"""Command of a daemon in the owner file."""

LIVE_EVERY_MS = 2_000
"""How often the live file is written."""

_SILENT_MS = 3 * LIVE_EVERY_MS


def write_live(storage: Storage, document: Mapping[str, object]) -> None:
    """Write the live file atomically. Storage errors are ignored."""
    with suppress(OSError):
        storage.replace(FILE, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def live_status(root: str, clock: Clock | None = None) -> dict[str, Any] | None:
    """Return the status of a workspace's daemon; None if none is running.

    Keys: `daemon` and `pid` (processes: the daemon and its worker, 0 if there is none now), `since`
    (start of the worker and its counters; without a worker, of the daemon), `written_at`, `pages`,
    `visits`, `rate` (pages a second over the last minute), `queue`, `hosts`, `in_flight`, `errors`
    (by kind), `collections` (by name: `pages` ever held, `in_flight`, `paused`), `message` (why
    nothing is fetched, or that the file is old; "" without problems), `last_commit` (`entry`, `at`;
    null before the first), `bad` (invalid collections, with the reason). The worker's counters are
    missing without a worker.
    """
    storage = open_storage(root)
    owner = owner_of(storage)
    if owner is None or owner.command != COMMAND:
        return None
    document = json_object(storage.read(FILE))
    if document.get("daemon") != owner.pid:
        return None
    with suppress(KeyError, TypeError, ValueError):  # the time is missing or damaged
        written_ms = round(datetime.fromisoformat(document["written_at"]).timestamp() * 1000)
        age_ms = (clock or SystemClock()).now_ms() - written_ms
        if age_ms > _SILENT_MS:
            silence = (
                f"no report from process {document.get('pid') or owner.pid} on {owner.host} for "
                f"{format_duration(age_ms // 1000 * 1000)} (the last at {format_time(written_ms)}):"
                " it may be suspended, busy with one page, or waiting for the storage"
            )
            document["message"] = "; ".join(filter(None, (document.get("message"), silence)))
    return document
