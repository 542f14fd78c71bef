"""Runs the checks in a process that holds partitions: monitors, history, notifications.

The crawl, or `lycosa monitor run`, calls `Uptime.tick` once a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import polars as pl

from lycosa.config.monitor import Monitor
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, Interval
from lycosa.core.errors import UsageError
from lycosa.crawl.policy.host_delay import CheckPace
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.worker import Worker
from lycosa.fetch.check import CheckRunner
from lycosa.fetch.guard import AddressGuard
from lycosa.notify.outbox import DeliveryWorker, Outbox
from lycosa.notify.transports import notifier_of
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.store.workspace import Workspace
from lycosa.uptime.checker import Checker, CheckerHooks
from lycosa.uptime.history import MonitorHistory, read_checks, replay_checks
from lycosa.uptime.monitors import monitors_of, private_pairs, signature, with_targets
from lycosa.uptime.notifications import OutageNotifier, event_text
from lycosa.uptime.outages import OutageDetector, authority, url_of_key
from lycosa.uptime.report import LIVE, LiveMonitor, LiveStatus
from lycosa.uptime.results import UP
from lycosa.url.scope import hostname

HISTORY_MS = 3 * 86_400_000
"""Period of history that is read at the start. Longer outages are in the cursors of outboxes."""

_LOCAL_SCAN_MS, _REMOTE_SCAN_MS = 2_000, 30_000  # of the stored monitors
_LIVE_EVERY_MS = 5_000


class Uptime:
    """The checks of one worker. `report` gets a line for every event and failed notification."""

    def __init__(
        self,
        workspace: Workspace,
        crawl: CrawlState,
        worker: Worker,
        config: Config,
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._workspace, self._crawl, self._worker = workspace, crawl, worker
        self._config, self._clock, self._report = config, clock, report
        self._guard = AddressGuard()
        self._signature: object = None
        self._configured: dict[str, Monitor] = {}  # with the targets of the start
        self._scans = Interval(
            clock, _LOCAL_SCAN_MS if workspace.storage.on_disk else _REMOTE_SCAN_MS
        )
        self._live_writes = Interval(clock, _LIVE_EVERY_MS)
        self._delivery = DeliveryWorker(report)
        self._boxes: dict[str, Outbox] = {}
        self._checker: Checker | None = None
        self._detector = OutageDetector(lambda url: crawl.domains.registrable(hostname(url)))
        self._notifier = OutageNotifier(self._box, clock)

    def tick(self) -> None:
        """Apply changes of the monitors.

        Raises:
            ConfigError: a monitor's URL in lycosa.toml is invalid (first call only).
            UsageError: a monitor's target in lycosa.toml is invalid (first call only).
        """
        if not self._scans.is_due():
            return
        storage = self._workspace.storage
        before, self._signature = self._signature, signature(storage)
        if before == self._signature:
            return
        identify, held = self._crawl.identifier.identify, self._crawl.held_partitions
        stored = {
            url: each
            for url, each in monitors_of(storage, self._config).items()
            if held.holds(identify(url).partition)
        }
        for url, each in stored.items():
            if each.configured and url not in self._configured:
                try:
                    self._configured[url] = with_targets(each.monitor, self._config)
                except UsageError as error:
                    raise UsageError(f"[[monitor]] {url}: {error}") from None
        if not stored and self._checker is None:
            return
        self._guard.allow(private_pairs(stored))
        checker = self._checker or self._start()
        new = checker.watch(self._configured.get(url, each.monitor) for url, each in stored.items())
        if new:
            self._restore(checker, new)
        self._delivery.wake()

    def close(self) -> None:
        """Drop running checks. Undelivered notifications remain stored."""
        self._worker.make_checks(None)
        if self._checker is not None:
            self._checker.close()
            self._delivery.stop()
            self._write_live(self._checker)

    def _start(self) -> Checker:
        self._delivery.start()
        self._checker = Checker(
            CheckRunner(self._config.fetch, self._guard, self._clock),
            CheckPace(self._crawl),
            self._detector,
            self._notifier,
            self._clock,
            CheckerHooks(
                store=lambda exchange, visit: self._crawl.buffer.batch.add_check(exchange, visit),
                identify=self._crawl.identifier.identify,
                excluded=self._crawl.excluded,
                on_event=lambda event: self._report(event_text(event)),
                tick=self._each_second,
            ),
        )
        self._worker.make_checks(self._checker)
        return self._checker

    def _restore(self, checker: Checker, urls: set[str]) -> None:
        """Continue where the process before has stopped."""
        if self._crawl.buffer.batch.checks:
            self._worker.commits.now()  # checks replayed from the journal
        since_ms = self._clock.now_ms() - HISTORY_MS

        def read(tables: LiveTables) -> tuple[MonitorHistory, pl.DataFrame]:
            checks = read_checks(tables, urls, since_ms)
            addresses = checks.filter(verdict=UP).group_by("url").agg(pl.col("ip").last())
            return replay_checks(checks, checker.monitors), addresses.collect()

        history, addresses = read_live(self._workspace.root, read)
        ended = self._detector.restore(
            history.states,
            {authority(url): ip for url, ip in addresses.iter_rows()},
            {key for key in self._notifier.notified_keys() if url_of_key(key) in urls},
            self._notifier.offline_since(),
        )
        self._notifier.add(ended)

    def _box(self, target: str) -> Outbox:
        if target not in self._boxes:
            box = Outbox(
                self._workspace.storage,
                "uptime",
                target,
                lambda: notifier_of(target, self._config),
                self._clock,
            )
            self._boxes[target] = box
            self._delivery.add(box)
        return self._boxes[target]

    def _each_second(self) -> None:
        if any(box.due_in_ms() == 0 for box in self._boxes.values()):
            self._delivery.wake()
        if self._checker is not None and self._live_writes.is_due():
            self._write_live(self._checker)

    def _write_live(self, checker: Checker) -> None:
        status = LiveStatus(
            written_at=self._clock.now_ms(),
            offline_since=self._detector.offline_since,
            monitors={url: self._live_monitor(url, checker) for url in checker.monitors},
        )
        with suppress(OSError):  # for example a full disk, which pauses the crawl
            # `model_dump_json` would write dates, which the model does not read
            self._workspace.storage.replace(LIVE, f"{json.dumps(status.model_dump())}\n".encode())

    def _live_monitor(self, url: str, checker: Checker) -> LiveMonitor:
        state = self._detector.states[url]
        last, text = checker.last.get(url, (None, state.text))
        since = state.since if state.failures else 0
        tested = last is not None or state.last_up_at
        name = "failing" if since else "up" if tested else "new"
        return LiveMonitor(
            state="down" if state.down else name,
            since=since,
            text=text if since or last is not None else "",
            checked_at=last.fetched_at if last is not None else 0,
            duration_ms=last.duration_ms if last is not None else None,
            certificate_until=(last.certificate_until or 0) if last is not None else 0,
        )
