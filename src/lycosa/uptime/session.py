"""Checks of availability in a process that holds partitions: monitors taken in as they come,
history taken up, notices delivered.

Who crawls, or only watches (`lycosa.commands.crawling.uptime`), calls `Uptime.tick` once a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import polars as pl

from lycosa.config.monitor import Monitor
from lycosa.config.settings import Config
from lycosa.core.clock import Clock
from lycosa.core.units import format_duration, format_time
from lycosa.crawl.policy.availability_checks import CheckPace
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.worker import Worker
from lycosa.fetch.check import CheckRunner
from lycosa.fetch.guard import AddressGuard
from lycosa.notify.outbox import Outbox, Postman
from lycosa.notify.transports import notifier_of
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.live import read_live
from lycosa.store.workspace import Workspace
from lycosa.uptime.checker import Checker, Watched
from lycosa.uptime.history import checks, runs, standings
from lycosa.uptime.monitors import monitors_of, private_pairs, signature, with_targets
from lycosa.uptime.notifications import Desk
from lycosa.uptime.outages import Event, Offline, Watchman, authority
from lycosa.uptime.verdict import UP
from lycosa.url.scope import hostname

LIVE = "run/uptime.json"
"""How the monitors stand now, for `lycosa uptime`."""

HISTORY_MS = 3 * 86_400_000
"""Period of history that is read at the start. Longer outages are known from the notifications
sent.
"""

# at the folder of monitors: on this machine, elsewhere
_LOOK_EVERY_MS, _LOOK_FAR_MS = 2_000, 30_000
_LIVE_EVERY_MS = 5_000
_PATIENCE_S = 3.0  # at the end, for notices that are under way


class Uptime:
    """The checks of one worker. `say` gets a line for people at every event and every trouble with
    a notice.
    """

    def __init__(
        self,
        workspace: Workspace,
        crawl: CrawlState,
        worker: Worker,
        config: Config,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self._workspace, self._crawl, self._worker = workspace, crawl, worker
        self._storage: Storage = workspace.storage
        self._config, self._clock, self._say = config, clock, say
        self._guard = AddressGuard()
        self._seen: tuple[tuple[str, int], ...] | None = None
        self._configured: dict[str, Monitor] = {}  # with their targets as they were at the start
        self._next_look = self._next_live = 0
        self._postman = Postman(say)
        self._boxes: dict[str, Outbox] = {}
        self._checker: Checker | None = None
        self._watchman = Watchman(lambda url: crawl.domains.registrable(hostname(url)))
        self._desk = Desk(self._box)

    def tick(self) -> None:
        """Take in what was added or removed. The first call tells what is wrong with lycosa.toml.

        Raises:
            ConfigError: a monitor's URL in lycosa.toml cannot be used.
            UsageError: a monitor's target in lycosa.toml is wrong.
        """
        now = self._clock.monotonic_ms()
        if now < self._next_look:
            return
        self._next_look = now + (_LOOK_EVERY_MS if self._storage.on_disk else _LOOK_FAR_MS)
        seen = signature(self._storage)
        if seen == self._seen:
            return
        self._seen = seen
        kept = monitors_of(self._storage, self._config)
        kept = {
            url: each
            for url, each in kept.items()
            if self._crawl.held_partitions.holds(self._crawl.identifier.identify(url).partition)
        }
        for url, each in kept.items():
            if each.configured and url not in self._configured:
                self._configured[url] = with_targets(each, self._config)
        if not kept and self._checker is None:
            return
        self._guard.allow(private_pairs(kept))
        monitors = {url: self._configured.get(url, each.monitor) for url, each in kept.items()}
        checker = self._checker or self._begin()
        before = set(checker.watched)
        checker.watch(monitors.values())
        new = monitors.keys() - before
        if new:
            self._take_up(checker, new)
        self._postman.wake()

    def close(self) -> None:
        """Drop the checks under way; what is to be told and was not delivered is kept."""
        self._worker.make_checks(None)
        if self._checker is None:
            return
        self._checker.close()
        self._postman.stop(_PATIENCE_S)
        self._write_live(self._checker)

    def _begin(self) -> Checker:
        self._postman.start()
        self._checker = Checker(
            runner=CheckRunner(self._config.fetch, self._guard, self._clock),
            pace=CheckPace(self._crawl),
            keep=lambda exchange, visit: self._crawl.buffer.batch.add_check(exchange, visit),
            identify=self._crawl.identifier.identify,
            watchman=self._watchman,
            desk=self._desk,
            clock=self._clock,
            excluded=self._crawl.excluded,
            say=lambda event: self._say(told(event)),
            tick=self._each_second,
        )
        self._worker.make_checks(self._checker)
        return self._checker

    def _take_up(self, checker: Checker, urls: set[str]) -> None:
        """Go on where whoever watched these before has left off."""
        if self._crawl.buffer.batch.checks:
            self._worker.commit_now()  # what was replayed
        since_ms = self._clock.now_ms() - HISTORY_MS
        history = read_live(
            self._workspace.root, lambda tables: runs(checks(tables, urls, since_ms))
        )
        addresses = read_live(
            self._workspace.root,
            lambda tables: (
                checks(tables, urls, since_ms)
                .filter(verdict=UP)
                .group_by("url")
                .agg(pl.col("ip").last())
                .collect()
            ),
        )
        monitors = {url: watched.monitor for url, watched in checker.watched.items()}
        places = {authority(url): ip for url, ip in addresses.iter_rows()}
        told_of = {key for key in self._desk.told() if key.partition("|")[2] in urls}
        over = self._watchman.restore(
            standings(history, monitors), places, told_of, self._desk.offline_since()
        )
        self._desk.take(over, self._clock.now_ms())

    def _box(self, target: str) -> Outbox:
        box = self._boxes.get(target)
        if box is None:
            box = self._boxes[target] = Outbox(
                self._storage,
                "uptime",
                target,
                lambda: notifier_of(target, self._config),
                self._clock,
            )
            self._postman.add(box)
        return box

    def _each_second(self) -> None:
        if any(box.due_in_ms() == 0 for box in self._boxes.values()):
            self._postman.wake()
        now = self._clock.monotonic_ms()
        if now >= self._next_live and self._checker is not None:
            self._next_live = now + _LIVE_EVERY_MS
            self._write_live(self._checker)

    def _write_live(self, checker: Checker) -> None:
        now = self._clock.now_ms()
        offline = self._watchman.offline_since
        monitors = {url: self._standing(url, watched) for url, watched in checker.watched.items()}
        document = {
            "written_at": format_time(now),
            "offline_since": format_time(offline) if offline else None,
            "monitors": monitors,
        }
        with suppress(OSError):  # a disk that does not take it is no reason to stop
            self._storage.replace(LIVE, (json.dumps(document, ensure_ascii=False) + "\n").encode())

    def _standing(self, url: str, watched: Watched) -> dict[str, object]:
        standing, last = self._watchman.standings[url], watched.last
        state = (
            "down"
            if standing.down
            else "failing"
            if standing.fails
            else "up"
            if last or standing.well_at
            else "new"
        )
        return {
            "state": state,
            "since": format_time(standing.since) if standing.fails else None,
            "text": watched.text if last is not None else standing.text if standing.fails else "",
            "checked_at": format_time(last.fetched_at) if last is not None else None,
            "duration_ms": last.duration_ms if last is not None else None,
            "certificate_until": format_time(last.certificate_until)
            if last is not None and last.certificate_until
            else None,
        }


def told(event: Event) -> str:
    """A line for people."""
    since = format_time(event.since)
    if isinstance(event, Offline):
        return (
            f"the network of this machine is up again; it was down since {since}"
            if event.until
            else f"the network of this machine has been down since {since}"
        )
    if event.until:
        return (
            f"{event.url} is up again after "
            f"{format_duration(max(1_000, round(event.until - event.since, -3)))}"
        )
    return f"{event.url} has been down since {since}: {event.cause}, {event.text}"
