"""`run`: a process that works collections for good. It never fetches nor parses; it starts those
who do, and looks after them.

Its children are a worker (`lycosa.daemon.worker_process`), an indexer
(`lycosa.daemon.index_process`), and now and then a job that merges and sweeps
(`lycosa.maintenance.upkeep`). All of them may be killed at any moment: what was archived is taken
up again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from lycosa.cluster.engine import Engine
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ConfigError, LycosaError, SettingsRefused, UsageError, WorkspaceError
from lycosa.core.units import format_time
from lycosa.crawl.session.planning import CrawlPlan, make_plan
from lycosa.crawl.session.worker_status import COMMAND, FILE, write_live
from lycosa.crawl.session.worker_status import live_status as live_status
from lycosa.daemon.cluster_supervisor import ClusterSupervisor
from lycosa.daemon.hunt_supervisor import HuntSupervisor
from lycosa.daemon.index_supervisor import IndexSupervisor
from lycosa.daemon.log_messages import LogMessages
from lycosa.daemon.settings_watch import SettingsWatch, read_text
from lycosa.daemon.worker_supervisor import OF_STOP_TIMEOUT, WorkerSupervisor
from lycosa.hooks.services import CrawlServices
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.disk_space import DiskSpace
from lycosa.processes.memory import tidy
from lycosa.store.coordination.leadership import require_no_leader
from lycosa.store.coordination.owner import Owner
from lycosa.store.workspace import CONFIGURATION, Workspace
from lycosa.uptime.monitors import has_monitors

_LOOK_EVERY_S = 0.1
_ROOM_EVERY_MS = 1_000
_LIVE_EVERY_MS = 2_000
_TIDY_EVERY_MS = 60_000


@dataclass(slots=True, frozen=True)
class RunOrder:
    """One call of `run`. `collections`: only these; `overrides`: `section.key=value`, which hold
    whatever the file comes to say.
    """

    root: str
    collections: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    workers: int | None = None  # on an engine: how many; None: one for each CPU of its nodes


def run(
    order: RunOrder,
    report: Callable[[str], None],
    clock: Clock | None = None,
    engine: Engine | None = None,
) -> None:
    """Work the collections of lycosa.toml until SIGTERM or SIGINT. Main thread only. `report` gets
    lines for people.

    Without an `engine` by one worker, which is a child process of this one; else by a cluster
    (`lycosa.cluster.cluster`).

    Raises:
        UsageError: the configuration is wrong, no collection is good, or a contact is needed:
        nothing was done. OwnedError: another process is crawling in this workspace. WorkError: the
        worker died too often, or lost its claim: the message says why.
    """
    clock = clock or SystemClock()
    source = f"{order.root}/{CONFIGURATION}"
    watch = SettingsWatch(clock)
    watch.watch([source])
    try:
        text = read_text(source)
    except OSError as error:
        raise ConfigError(f"{source} cannot be read: {error}") from None
    before: Mapping[str, Any] = {}
    monitors = False
    # there is none yet; what is wrong with one that is there is said below
    with suppress(WorkspaceError):
        existing = Workspace.open(order.root)
        before, monitors = existing.state().settings, has_monitors(existing.storage)
    plan = make_plan(
        text,
        source,
        overrides=order.overrides,
        chosen=order.collections,
        before=before,
        monitors=monitors,
    )
    workspace = Workspace.open_or_create(order.root)
    if engine is not None and (monitors or plan.config.monitor):
        report(
            "availability checks are not made with several workers: run `lycosa monitor run` in "
            "a separate workspace"
        )
    with workspace.own(COMMAND, clock) as owner:
        if engine is None:
            require_no_leader(workspace.storage)
        Daemon(order, workspace, owner, plan, watch, report, clock, engine).run()


class Daemon:
    """The supervisor. `run` returns after SIGTERM or SIGINT, when all children are gone."""

    def __init__(
        self,
        order: RunOrder,
        workspace: Workspace,
        owner: Owner,
        plan: CrawlPlan,
        watch: SettingsWatch,
        report: Callable[[str], None],
        clock: Clock,
        engine: Engine | None = None,
    ) -> None:
        self._order = order
        self._workspace = workspace
        self._owner = owner
        self._plan = plan
        self._report = report
        self._clock = clock
        self._source = f"{order.root}/{CONFIGURATION}"
        self._since = format_time(clock.now_ms())
        self._watch = watch
        watch.watch(self._watched(plan))
        self._news = LogMessages(workspace, report, clock)
        self._engine = engine
        self._state = workspace.state()
        self._upkeep = Upkeep(workspace, plan.config, clock, engine, self._state)
        here = workspace.storage
        self._room = DiskSpace(
            here.root if here.on_disk else here.scratch_dir(), plan.config.run.disk_reserve
        )
        self._next_room = self._next_live = self._next_tidy = 0
        self._worker: WorkerSupervisor | ClusterSupervisor = (
            WorkerSupervisor(workspace.root, report)
            if engine is None
            else ClusterSupervisor(workspace, engine, order.workers, report, clock, self._state)
        )
        self._hunts = HuntSupervisor(workspace, report, alone=engine is None)
        self._index = IndexSupervisor(workspace.root, report)
        self._services = CrawlServices(workspace.root, plan.config, report)
        self._stop = self._reload = False
        self._signals = 0

    def run(self) -> None:
        """Raises WorkError, ConfigError: see `lycosa.daemon.daemon.run`."""
        former = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        try:
            self._report(
                f"process {os.getpid()} started in {self._workspace.root}: "
                f"{', '.join(self._plan.names) or 'monitors only'}"
            )
            self._report_bad({})
            self._services.start()
            while not self._stop:
                self._look()
                time.sleep(_LOOK_EVERY_S)
        finally:
            self._end()
            for number, handler in former.items():
                signal.signal(number, handler)
        self._report("stopped: all fetched data is committed or archived")

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
        if self._hunts.look(
            now, self._plan.config, free=self._worker.child is None and self._room.enough
        ):
            self._worker.hold(now, self._plan.config.run)
        try:
            self._worker.look(now, self._plan, self._room)
        except SettingsRefused as refused:
            self._go_back(refused)
        self._index.look(now, self._plan.config.index, room=self._room.enough)
        with suppress(OSError):
            self._upkeep.tick(room=self._room.enough)
        self._news.tick()
        if now >= self._next_tidy:
            self._next_tidy = now + _TIDY_EVERY_MS
            tidy()
        if self._worker.child is None and now >= self._next_live:
            self._next_live = now + _LIVE_EVERY_MS
            self._write_live()

    # -- settings
    # ------------------------------------------------------------

    def _watched(self, plan: CrawlPlan) -> list[str]:
        return [
            self._source,
            *(each.seed_file for each in plan.config.collection if each.seed_file),
        ]

    def _read_settings(self) -> None:
        """Take what lycosa.toml says now; what is wrong is told, and then what was in force
        stays.
        """
        reload_requested, self._reload = self._reload, False
        try:
            new = make_plan(
                read_text(self._source),
                self._source,
                overrides=self._order.overrides,
                chosen=self._order.collections,
                before=self._workspace.state().settings,
                monitors=has_monitors(self._workspace.storage),
            )
        except (UsageError, OSError) as error:
            self._report(
                f"{self._source} has changed but cannot be used; the previous settings stay "
                f"in force: {error}"
            )
            return
        # A collection that has become bad goes on as it was.
        unchanged_jobs = tuple(job for job in self._plan.jobs if job.collection.name in new.bad)
        plan = CrawlPlan(new.config, (*new.jobs, *unchanged_jobs), new.bad)
        bad_before = self._plan.bad
        changed = (plan.config, plan.jobs) != (self._plan.config, self._plan.jobs)
        self._watch.watch(self._watched(plan))
        if changed:
            self._report(f"{self._source} was reloaded; collections: {', '.join(plan.names)}")
            self._adopt(plan)
        elif reload_requested:
            self._report(f"{self._source} was reloaded: no changes")
        self._plan = plan
        self._report_bad(bad_before)

    def _adopt(self, plan: CrawlPlan) -> None:
        """Start anew what depends on what has changed."""
        old, self._plan = self._plan, plan
        if (plan.config.store, plan.config.run) != (old.config.store, old.config.run):
            self._upkeep.close()
            self._upkeep = Upkeep(
                self._workspace, plan.config, self._clock, self._engine, self._state
            )
            here = self._workspace.storage
            self._room = DiskSpace(
                here.root if here.on_disk else here.scratch_dir(), plan.config.run.disk_reserve
            )
        if plan.config.index != old.config.index:
            self._index.end()
        if (plan.config.notify, plan.config.fetch) != (old.config.notify, old.config.fetch):
            self._services.close()
            self._services = CrawlServices(self._workspace.root, plan.config, self._report)
            self._services.start()
        self._worker.renew(self._clock.monotonic_ms(), plan.config.run)

    def _go_back(self, refused: SettingsRefused) -> None:
        """Work by the last settings that a worker could work with, if these are others."""
        if self._worker.proven in (None, self._plan):
            raise refused
        self._report(
            f"the new settings cannot be used; the previous settings are in force again: {refused}"
        )
        self._plan = self._worker.proven

    def _report_bad(self, bad_before: Mapping[str, str]) -> None:
        for name, message in self._plan.bad.items():
            if bad_before.get(name) != message:
                works = any(job.collection.name == name for job in self._plan.jobs)
                self._report(
                    f"collection {name} "
                    f"{'continues with its previous settings' if works else 'is not crawled'}: "
                    f"{message}"
                )

    # -- room, and what is shown
    # ------------------------------------------------------------

    def _look_at_room(self) -> None:
        before = self._room.enough
        if self._room.look() == before:
            return
        self._report(
            self._room.message or "the disk has enough free space again: the crawl continues"
        )
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
                "message": self._room.message
                or self._hunts.message
                or self._worker.trouble
                or "the worker is starting",
                "bad": dict(self._plan.bad),
            },
        )

    def _end(self) -> None:
        """Have everybody commit and end, the worker first: the indexer then reads its last commit.
        Whoever is late is killed.
        """
        deadline = time.monotonic() + self._plan.config.run.stop_timeout * OF_STOP_TIMEOUT / 1000
        self._upkeep.close()
        for name, child in (
            ("hunt", self._hunts.child),
            ("worker", self._worker.child),
            ("indexer", self._index.child),
        ):
            if child is None:
                continue
            child.terminate()
            signals = self._signals
            while not child.wait(_LOOK_EVERY_S):
                child.listen()
                if time.monotonic() >= deadline or self._signals > max(signals, 1):
                    child.kill()
            how = child.end()
            if how:
                self._report(f"the {name}: {how}")
        for supervisor in (self._hunts, self._worker, self._index):
            supervisor.forget()
        self._services.finish()
        with suppress(LycosaError, OSError):
            self._news.tick()
            self._workspace.storage.remove(FILE)
        self._news.report_commits()
