"""`run`: a process that works collections for good. It never fetches nor parses; it starts those who do, and looks after them.

Its children are a worker (`lycosa.app.worker_process`), an indexer (`lycosa.app.index_process`), and now and then a job that merges
and sweeps (`lycosa.app.upkeep`). All of them may be killed at any moment: what was archived is taken up again.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lycosa.app import worker_process
from lycosa.app.index_keeper import IndexKeeper
from lycosa.app.live import COMMAND, FILE, write_live
from lycosa.app.live import live_status as live_status
from lycosa.app.log_news import LogNews
from lycosa.app.planning import Plan, make_plan
from lycosa.app.processes import Child, News
from lycosa.app.room import Room
from lycosa.app.settings_watch import SettingsWatch, read_text
from lycosa.app.upkeep import Upkeep
from lycosa.app.worker_process import PageMark, WorkerOrder
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ConfigError, LycosaError, UsageError, WorkError, WorkspaceError
from lycosa.core.units import format_duration, format_time
from lycosa.store.owner import Owner
from lycosa.store.workspace import CONFIGURATION, Workspace

_LOOK_EVERY_S = 0.1
_ROOM_EVERY_MS = 1_000
_LIVE_EVERY_MS = 2_000
_RESTART_PAUSE_MS = 1_000
_NO_ROOM_PAUSE_MS = 3_000
LONGEST_PAGE_MS = 180_000
"""A worker that reads one page for so long hangs, and is killed: the slowest page of the hostile server takes under 5 s."""

_OF_STOP_TIMEOUT = 0.8
"""Children get this much of run.stop_timeout; then they are killed, so that within the whole of it everything is gone."""


@dataclass(slots=True, frozen=True)
class RunOrder:
    """One call of `run`. `collections`: only these; `overrides`: `section.key=value`, which hold whatever the file comes to say."""

    root: str
    collections: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()


def run(order: RunOrder, say: Callable[[str], None], clock: Clock | None = None) -> None:
    """Work the collections of lycosa.toml until SIGTERM or SIGINT. Main thread only. `say` gets lines for people.

    Raises:
        UsageError: the configuration is wrong, no collection is good, or a contact is needed: nothing was done.
        OwnedError: somebody crawls in this workspace.
        WorkError: the worker died too often, or lost its claim: the message says why.
    """
    clock = clock or SystemClock()
    source = Path(order.root) / CONFIGURATION
    watch = SettingsWatch(clock)
    watch.watch([str(source)])
    try:
        text = read_text(source)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} cannot be read: {error}") from None
    before: Mapping[str, Any] = {}
    with suppress(WorkspaceError):  # there is none yet; what is wrong with one that is there is said below
        before = Workspace.open(order.root).state().settings
    plan = make_plan(text, str(source), overrides=order.overrides, chosen=order.collections, before=before)
    workspace = Workspace.open_or_create(order.root)
    with workspace.own(COMMAND, clock) as owner:
        Daemon(order, workspace, owner, plan, watch, say, clock).run()


class Daemon:
    """The supervisor. `run` returns after SIGTERM or SIGINT, when all children are gone."""

    def __init__(
        self,
        order: RunOrder,
        workspace: Workspace,
        owner: Owner,
        plan: Plan,
        watch: SettingsWatch,
        say: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._order = order
        self._workspace = workspace
        self._owner = owner
        self._plan = plan
        self._proven: Plan | None = None  # the last plan that a worker has started with
        self._say = say
        self._clock = clock
        self._source = Path(order.root) / CONFIGURATION
        self._since = format_time(clock.now_ms())
        self._mark = PageMark()
        self._watch = watch
        watch.watch(self._watched(plan))
        self._news = LogNews(workspace, say, clock)
        self._upkeep = Upkeep(workspace, plan.config, clock)
        self._room = Room(workspace.root, plan.config.run.disk_reserve)
        self._next_room = self._next_live = 0
        self._worker: Child | None = None
        self._worker_at = 0  # start it at this time of the monotonic clock, when there is room
        self._kill_at: int | None = None  # it was asked to stop; from then on it is killed
        self._deaths: deque[int] = deque()
        self._reads = (0, 0)  # number of the page that it reads, and since when
        self._index = IndexKeeper(workspace.root, say)
        self._trouble = ""  # why there is no worker now
        self._stop = self._reload = False
        self._signals = 0

    def run(self) -> None:
        """Raises WorkError, ConfigError: see `lycosa.app.daemon.run`."""
        former = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        try:
            self._say(f"process {os.getpid()} works {', '.join(self._plan.names)} in {self._workspace.root}")
            self._tell_bad({})
            while not self._stop:
                self._look()
                time.sleep(_LOOK_EVERY_S)
        finally:
            self._end()
            for number, handler in former.items():
                signal.signal(number, handler)
        self._say("stopped: everything that was fetched is committed or archived")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._reload = True
            return
        self._stop = True
        self._signals += 1

    def _look(self) -> None:
        now = self._clock.monotonic_ms()
        with suppress(OSError):  # a full disk is looked after elsewhere
            self._owner.touch()
        if now >= self._next_room:
            self._next_room = now + _ROOM_EVERY_MS
            self._look_at_room()
        if self._watch.changed() or self._reload:
            self._read_settings()
        self._look_after_worker(now)
        self._index.look(now, self._plan.config.index, room=self._room.enough)
        with suppress(OSError):
            self._upkeep.tick(room=self._room.enough)
        self._news.tick()
        if self._worker is None and now >= self._next_live:
            self._next_live = now + _LIVE_EVERY_MS
            self._write_live()

    # -- settings -----------------------------------------------------------------------------------------------------

    def _watched(self, plan: Plan) -> list[str]:
        return [str(self._source), *(each.seed_file for each in plan.config.collection if each.seed_file)]

    def _read_settings(self) -> None:
        """Take what lycosa.toml says now; what is wrong is told, and then what was in force stays."""
        asked, self._reload = self._reload, False
        try:
            new = make_plan(
                read_text(self._source),
                str(self._source),
                overrides=self._order.overrides,
                chosen=self._order.collections,
                before=self._workspace.state().settings,
            )
        except (UsageError, OSError, UnicodeDecodeError) as error:
            self._say(f"{self._source} was changed and cannot be used; the settings of before stay in force: {error}")
            return
        # A collection that has become bad goes on as it was.
        kept = tuple(job for job in self._plan.jobs if job.collection.name in new.bad)
        plan = Plan(new.config, (*new.jobs, *kept), new.bad)
        known_bad = self._plan.bad
        changed = (plan.config, plan.jobs) != (self._plan.config, self._plan.jobs)
        self._watch.watch(self._watched(plan))
        if changed:
            self._say(f"{self._source} was read again; works {', '.join(plan.names)}")
            self._adopt(plan)
        elif asked:
            self._say(f"{self._source} was read again: nothing has changed")
        self._plan = plan
        self._tell_bad(known_bad)

    def _adopt(self, plan: Plan) -> None:
        """Start anew what depends on what has changed."""
        old, self._plan = self._plan, plan
        if (plan.config.store, plan.config.run) != (old.config.store, old.config.run):
            self._upkeep.close()
            self._upkeep = Upkeep(self._workspace, plan.config, self._clock)
            self._room = Room(self._workspace.root, plan.config.run.disk_reserve)
        if plan.config.index != old.config.index:
            self._index.end()
        self._stop_worker()
        self._worker_at = 0

    def _tell_bad(self, known: Mapping[str, str]) -> None:
        for name, message in self._plan.bad.items():
            if known.get(name) != message:
                works = any(job.collection.name == name for job in self._plan.jobs)
                self._say(f"collection {name} {'goes on as before' if works else 'is left out'}: {message}")

    # -- the worker ---------------------------------------------------------------------------------------------------

    def _look_after_worker(self, now: int) -> None:
        child = self._worker
        if child is None:
            if now >= self._worker_at and self._room.enough:
                self._start_worker()
            return
        child.listen()
        if child.told(News.WORKING):
            if self._proven is not self._plan and self._kill_at is None:
                self._proven = self._plan
            self._trouble = ""
        if not child.alive:
            self._worker_ended(child, now)
        elif (self._kill_at is not None and now >= self._kill_at) or self._hangs(now):
            child.kill()

    def _hangs(self, now: int) -> bool:
        """Whether it reads one page for too long."""
        number, since = self._reads
        if number != self._mark.number or not self._mark.url:
            self._reads = (self._mark.number, now)
            return False
        return now - since >= LONGEST_PAGE_MS

    def _start_worker(self) -> None:
        self._mark.set("")
        plan = self._plan
        order = WorkerOrder(self._workspace.root, plan.config, plan.jobs, dict(plan.bad), os.getpid(), self._since)
        self._worker = Child("worker", worker_process.work, order, self._mark)
        self._say(f"worker {self._worker.pid} starts")

    def _stop_worker(self) -> None:
        """Ask it to commit and end."""
        if self._worker is not None and self._kill_at is None:
            self._worker.terminate()
            self._kill_at = self._clock.monotonic_ms() + round(self._plan.config.run.stop_timeout * _OF_STOP_TIMEOUT)

    def _worker_ended(self, child: Child, now: int) -> None:
        """What to do about a worker that is gone."""
        asked = self._kill_at is not None
        self._worker = self._kill_at = None
        how = child.end() or "it ended by itself"
        if asked:
            self._worker_at = now
            return
        if child.told(News.LOST):
            raise WorkError(f"the worker stopped: {how}")
        if child.told(News.USAGE):
            self._refuse(how, now)
            return
        self._trouble = f"the worker died: {how}" + (f", while it read {self._mark.url}" if self._mark.url else "")
        if child.told(News.DISK) or not self._room.look():
            self._say(f"{self._trouble}; it starts again when there is room on the disk")
            self._worker_at = now + _NO_ROOM_PAUSE_MS
            return
        self._count_death(now)
        self._worker_at = now + _RESTART_PAUSE_MS
        self._say(f"{self._trouble}; it starts again ({len(self._deaths)} of {self._plan.config.run.restarts} restarts)")

    def _count_death(self, now: int) -> None:
        """Raises WorkError if there were too many."""
        settings = self._plan.config.run
        self._deaths.append(now)
        while self._deaths[0] < now - settings.window:
            self._deaths.popleft()
        if len(self._deaths) > settings.restarts:
            raise WorkError(
                f"the worker died {len(self._deaths)} times in {format_duration(settings.window)}, more than run.restarts "
                f"({settings.restarts}) allows; the last time: {self._trouble}. Nothing is lost: mend the cause and run again"
            )

    def _refuse(self, problem: str, now: int) -> None:
        """The worker cannot work with these settings: go back to those that it could. Raises ConfigError if there are none."""
        if self._proven is None or self._proven is self._plan:
            raise ConfigError(problem)
        self._say(f"the new settings cannot be used; those of before are in force again: {problem}")
        self._plan = self._proven
        self._worker_at = now

    # -- room, and what is shown --------------------------------------------------------------------------------------

    def _look_at_room(self) -> None:
        before = self._room.enough
        if self._room.look() == before:
            return
        self._say(self._room.message or "the disk has room again: the crawl goes on")
        if not self._room.enough:
            self._index.end()

    def _write_live(self) -> None:
        """While there is no worker, say so."""
        write_live(
            self._workspace.storage,
            {
                "daemon": os.getpid(),
                "pid": 0,
                "since": self._since,
                "written_at": format_time(self._clock.now_ms()),
                "message": self._room.message or self._trouble or "the worker starts",
                "bad": dict(self._plan.bad),
            },
        )

    def _end(self) -> None:
        """Have everybody commit and end, the worker first: the indexer then reads its last commit. Whoever is late is killed."""
        deadline = time.monotonic() + self._plan.config.run.stop_timeout * _OF_STOP_TIMEOUT / 1000
        self._upkeep.close()
        for child in (self._worker, self._index.child):
            if child is None:
                continue
            child.terminate()
            asked = self._signals
            while not child.wait(_LOOK_EVERY_S):
                child.listen()
                if time.monotonic() >= deadline or self._signals > max(asked, 1):
                    child.kill()
            how = child.end()
            if how:
                self._say(f"{'the worker' if child is self._worker else 'the indexer'}: {how}")
        self._worker = self._index.child = None
        with suppress(LycosaError, OSError):
            self._news.tick()
            self._workspace.storage.remove(FILE)
        self._news.tell_commits()
