"""`run`: the daemon that crawls collections continuously.

Its child processes are a worker (`lycosa.daemon.worker_process`), an indexer
(`lycosa.daemon.index_process`) and maintenance jobs (`lycosa.maintenance.upkeep`). All of them may
be killed at any time: archived data is processed again.
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
from lycosa.core.clock import Clock, Interval, SystemClock
from lycosa.core.errors import (
    ConfigError,
    LycosaError,
    SettingsRefused,
    StorageError,
    UsageError,
    WorkspaceError,
)
from lycosa.core.units import format_time, number_of
from lycosa.crawl.session.planning import CrawlPlan
from lycosa.crawl.session.worker_status import (
    COMMAND,
    FILE,
    LIVE_EVERY_MS,
    workspace_disk,
    write_live,
)
from lycosa.daemon.cluster_supervisor import ClusterSupervisor
from lycosa.daemon.settings_files import SettingsFiles
from lycosa.daemon.supervisors import (
    KILL_SHARE,
    HuntSupervisor,
    IndexSupervisor,
    WorkerSupervisor,
)
from lycosa.hooks.plugins import CrawlServices
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.memory import collect_garbage
from lycosa.store.coordination.owner import Owner
from lycosa.store.log.entry import COMMIT, EXCLUDE, MERGE, PURGE, Entry
from lycosa.store.log.log import EntriesGone
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import has_monitors

_LOOK_EVERY_S = 0.1
_SPACE_CHECK_MS = 1_000
_COLLECTION_INTERVAL_MS = 60_000
_LOG_EVERY_MS = 1_000
_COMMITS_EVERY_MS = 60_000


@dataclass(slots=True, frozen=True)
class RunOrder:
    """Arguments of `run`.

    `collections`: only these; (): all. `overrides`: `section.key=value`, which take precedence over
    the file. `engine`: runs `workers` workers (None: one for each CPU of its nodes); without it,
    one worker is a child process.
    """

    root: str
    collections: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    workers: int | None = None
    engine: Engine | None = None


def run(order: RunOrder, report: Callable[[str], None], clock: Clock | None = None) -> None:
    """Crawl the collections of lycosa.toml until SIGTERM or SIGINT. Main thread only.

    `report` gets lines for the user.

    Raises:
        UsageError: the configuration is wrong, no collection is usable, or a contact is needed;
            nothing was done.
        OwnedError: another process is crawling in this workspace.
        WorkError: the worker died too often, or lost its claim; the message has the reason.
    """
    clock = clock or SystemClock()
    files = SettingsFiles(order.root, order.collections, order.overrides, clock)
    before: Mapping[str, Any] = {}
    monitors = False
    with suppress(WorkspaceError):  # it may not exist yet; a damaged one is reported below
        existing = Workspace.open(order.root)
        before, monitors = existing.state().settings, has_monitors(existing.storage)
    try:
        plan = files.read_plan(before, monitors=monitors)
    except OSError as error:
        raise ConfigError(f"{files.source} cannot be read: {error}") from None
    workspace = Workspace.open_or_create(order.root)
    if order.engine is not None and (monitors or plan.config.monitor):
        report(
            "availability checks are not made with several workers: run `lycosa monitor run` in "
            "a separate workspace"
        )
    with workspace.own(COMMAND, clock, report) as owner:
        Daemon(order, workspace, owner, plan, files, report, clock).run()


class Daemon:
    """Runs and supervises the child processes until SIGTERM or SIGINT."""

    def __init__(
        self,
        order: RunOrder,
        workspace: Workspace,
        owner: Owner,
        plan: CrawlPlan,
        files: SettingsFiles,
        report: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._order = order
        self._workspace = workspace
        self._owner = owner
        self._plan = plan
        self._report = report
        self._clock = clock
        self._since = format_time(clock.now_ms())
        self._files = files
        files.watch(plan.config)
        self._log_messages = LogMessages(workspace, report, clock)
        self._state = workspace.state()
        self._upkeep = self._make_upkeep()
        self._disk_space = workspace_disk(workspace.storage, plan.config)
        self._space_checks = Interval(clock, _SPACE_CHECK_MS)
        self._live_writes = Interval(clock, LIVE_EVERY_MS)
        self._collections = Interval(clock, _COLLECTION_INTERVAL_MS)
        self._worker: WorkerSupervisor | ClusterSupervisor = (
            WorkerSupervisor(workspace.root, report)
            if order.engine is None
            else ClusterSupervisor(
                workspace, order.engine, order.workers, report, clock, self._state
            )
        )
        self._hunts = HuntSupervisor(workspace, report, alone=order.engine is None)
        self._index = IndexSupervisor(workspace.root, report)
        self._services = CrawlServices(workspace.root, plan.config, report)
        self._storage_error = ""
        self._stop = self._reload = False
        self._signals = 0

    def run(self) -> None:
        """Work until a signal. Raises WorkError and ConfigError as `run`."""
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
                self._tick()
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

    def _tick(self) -> None:
        now = self._clock.monotonic_ms()
        with suppress(OSError):  # a full disk pauses the crawl below
            self._owner.touch()
        if self._space_checks.is_due():
            self._check_disk_space()
        try:
            self._read_storage(now)
            self._storage_error = ""
        except StorageError as error:
            if not self._storage_error:
                self._report(f"storage is not available: {error}; the daemon waits for it")
            self._storage_error = str(error)
        try:
            self._worker.tick(now, self._plan, self._disk_space)
        except SettingsRefused as refused:
            self._go_back(refused)
        self._index.tick(now, self._plan.config.index, has_space=self._disk_space.enough)
        with suppress(OSError):
            self._upkeep.tick(has_space=self._disk_space.enough)
        if self._collections.is_due():
            collect_garbage()
        if self._worker.child is None and self._live_writes.is_due():
            self._write_live()

    def _read_storage(self, now: int) -> None:
        """Apply changed settings, hunt requests and new log entries. Raises StorageError."""
        if self._files.changed() or self._reload:
            self._read_settings()
        if self._hunts.tick(
            now, self._plan.config, free=self._worker.child is None and self._disk_space.enough
        ):
            self._worker.hold(now, self._plan.config.run)
        self._log_messages.tick()

    # -- settings

    def _make_upkeep(self) -> Upkeep:
        return Upkeep(
            self._workspace, self._plan.config, self._clock, self._order.engine, self._state
        )

    def _read_settings(self) -> None:
        """Apply the settings files; if they are wrong, report that and change nothing."""
        reload_requested, self._reload = self._reload, False
        source = self._files.source
        try:
            new = self._files.read_plan(
                self._workspace.state().settings, monitors=has_monitors(self._workspace.storage)
            )
        except StorageError:
            self._reload = True  # once storage is available
            raise
        except (UsageError, OSError) as error:
            self._report(
                f"{source} has changed but cannot be used; the previous settings stay in force: "
                f"{error}"
            )
            return
        # A collection with invalid new settings continues with its previous ones.
        unchanged_jobs = tuple(job for job in self._plan.jobs if job.collection.name in new.bad)
        plan = CrawlPlan(new.config, (*new.jobs, *unchanged_jobs), new.bad)
        old, self._plan = self._plan, plan
        self._files.watch(plan.config)
        if (plan.config, plan.jobs) != (old.config, old.jobs):
            self._report(f"{source} was reloaded; collections: {', '.join(plan.names) or 'none'}")
            self._adopt(plan, old)
        elif reload_requested:
            self._report(f"{source} was reloaded: no changes")
        self._report_bad(old.bad)

    def _adopt(self, plan: CrawlPlan, old: CrawlPlan) -> None:
        """Restart the worker, and other parts if their settings have changed."""
        if (plan.config.store, plan.config.run) != (old.config.store, old.config.run):
            self._upkeep.close()
            self._upkeep = self._make_upkeep()
            self._disk_space = workspace_disk(self._workspace.storage, plan.config)
        if plan.config.index != old.config.index:
            self._index.end()
        if any(
            getattr(plan.config, name) != getattr(old.config, name)
            for name in ("notify", "fetch", "encoder")
        ):
            self._services.close()
            self._services = CrawlServices(self._workspace.root, plan.config, self._report)
            self._services.start()
        self._worker.renew(self._clock.monotonic_ms(), plan.config.run)

    def _go_back(self, refused: SettingsRefused) -> None:
        """Return to the last plan that worked, if it is another one."""
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

    # -- disk space, status and end

    def _check_disk_space(self) -> None:
        before = self._disk_space.enough
        if self._disk_space.check() == before:
            return
        self._report(
            self._disk_space.message or "the disk has enough free space again: the crawl continues"
        )
        if not self._disk_space.enough:
            self._index.end()

    def _write_live(self) -> None:
        """Write a status while there is no worker."""
        write_live(
            self._workspace.storage,
            {
                "daemon": os.getpid(),
                "pid": 0,
                "since": self._since,
                "written_at": format_time(self._clock.now_ms()),
                "message": self._disk_space.message
                or self._hunts.message
                or self._worker.failure
                or "the worker is starting",
                "bad": dict(self._plan.bad),
            },
        )

    def _end(self) -> None:
        """Let all children commit and end, the worker before the indexer.

        Children that take too long are killed.
        """
        deadline = time.monotonic() + self._plan.config.run.stop_timeout * KILL_SHARE / 1000
        self._upkeep.close()
        supervisors = {"hunt": self._hunts, "worker": self._worker, "indexer": self._index}
        for name, supervisor in supervisors.items():
            kill_signals = max(self._signals, 1) + 1

            def is_late(kill_signals: int = kill_signals) -> bool:
                return time.monotonic() >= deadline or self._signals >= kill_signals

            how = supervisor.finish(is_late)
            if how:
                self._report(f"the {name}: {how}")
        self._services.finish()
        with suppress(LycosaError, OSError):
            self._log_messages.tick()
            self._workspace.storage.remove(FILE)
        self._log_messages.report_commits()


class LogMessages:
    """Follows the log; `report` gets one line at a time."""

    def __init__(self, workspace: Workspace, report: Callable[[str], None], clock: Clock) -> None:
        self._workspace = workspace
        self._report = report
        self._head = workspace.state().head
        self._looks = Interval(clock, _LOG_EVERY_MS)
        self._commit_reports = Interval(clock, _COMMITS_EVERY_MS)
        self._commits = self._pages = self._visits = 0

    def tick(self) -> None:
        """Report new entries; call it often. Raises WorkspaceError if the log is damaged."""
        if not self._looks.is_due():
            return
        try:
            entries = self._workspace.log.entries(self._head)
        except EntriesGone:
            self._head = self._workspace.state().head
            return
        for entry in entries:
            self._report_entry(entry)
        if self._commits and self._commit_reports.is_due():
            self.report_commits()

    def report_commits(self) -> None:
        """Report the commits that were not reported yet."""
        if self._commits:
            self._report(
                f"committed {number_of(self._pages, 'page')} from "
                f"{number_of(self._visits, 'fetch', 'fetches')} in "
                f"{number_of(self._commits, 'commit')} (log entry {self._head})"
            )
        self._commits = self._pages = self._visits = 0

    def _report_entry(self, entry: Entry) -> None:
        self._head = entry.number
        if entry.kind == COMMIT:
            self._commits += 1
            self._pages += entry.counters.get("pages", 0)
            self._visits += entry.counters.get("visits", 0)
        elif entry.kind == MERGE:
            made = sum(len(files) for files in entry.files.values())
            self._report(
                f"compacted {number_of(len(entry.replaces), 'file')} into {made} (log entry "
                f"{entry.number})"
            )
        elif entry.kind in (EXCLUDE, PURGE):
            self._report(f"{entry.kind} (log entry {entry.number})")
