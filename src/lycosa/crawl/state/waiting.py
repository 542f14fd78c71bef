"""Waiting URLs: a snapshot by partition, and counts by reason at the end.

The worker's loop renews the snapshot each second; other threads read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field

import numpy as np
import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.core.records import UrlState
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.held_partitions import HeldPartitions
from lycosa.frontier.hosts.directory import HostDirectory
from lycosa.frontier.recrawl.due import due_expr
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.store.tables.live import LiveTables

SCHEDULED, REFETCH_BUDGET = "scheduled", "refetch_budget"
"""A sitemap or feed was read and has its next time; the refetches of a collection are limited."""

# interval of counting waiting URLs, and its maximum share of the time
_COUNT_MS, _COUNT_SHARE = 1_000, 50


@dataclass(slots=True, frozen=True)
class IdlenessSnapshot:
    """Whether a worker is idle, by the log entries up to `head`.

    `idle`: nothing is due within `crawl.patience`, in flight, awaiting retry, uncommitted,
    unapplied or to be walked again. `seeds_failed`: all seeds failed, and this holds for a shorter
    patience. `waiting`: partition -> number of known URLs.
    """

    idle: bool = False
    seeds_failed: bool = False
    head: int = 0
    waiting: dict[int, int] = field(default_factory=dict)


class IdlenessTracker:
    """Stores the latest snapshot, which any thread may read."""

    def __init__(self, crawl: CrawlState) -> None:
        self.latest = IdlenessSnapshot()
        self._crawl = crawl
        self._next_count = 0

    def renew(self, *, idle: bool, seeds_failed: bool, head: int) -> None:
        """Store a snapshot. All log entries up to `head` are applied."""
        crawl, clock = self._crawl, self._crawl.clock
        now = clock.monotonic_ms()
        waiting = self.latest.waiting
        if now >= self._next_count:
            waiting = waiting_by_partition(
                crawl.scheduler.parked.directory, crawl.frontier, crawl.held_partitions
            )
            self._next_count = now + _COUNT_MS + _COUNT_SHARE * (clock.monotonic_ms() - now)
        self.latest = IdlenessSnapshot(idle, seeds_failed, head, waiting)


def waiting_by_partition(
    directory: HostDirectory, frontier: Frontier, held_partitions: HeldPartitions
) -> dict[int, int]:
    """Return held partition -> number of waiting known URLs.

    The directory has the counts of parked hosts, the rows of active hosts have theirs.
    """
    used = slice(0, len(directory))
    waiting = np.where(directory.active[used], 0, directory.waiting[used])
    counts = np.bincount(
        directory.partition[used], weights=waiting, minlength=held_partitions.total
    ).astype(np.int64)
    for queue in frontier.hosts.values():
        counts[queue.row.partition] += queue.row.known
    held = range(held_partitions.total) if held_partitions.held is None else held_partitions.held
    return {partition: int(counts[partition]) for partition in held if counts[partition]}


def left_for_later(
    crawl: CrawlState, tables: LiveTables, collections: Iterable[str]
) -> Counter[str]:
    """Return the number of waiting URLs by reason. Sitemaps and feeds that were read do not wait.

    Reasons of known URLs: the last failure, `robots_unreachable`, `login_failed`, `host_paused`,
    `not_reached`; of visited ones: `refetch_budget`.
    """
    collections = list(collections)
    waiting = (
        tables.scan("urls")
        .filter((pl.col("state") == UrlState.KNOWN) & pl.col("collection").is_in(collections))
        .filter(pl.col("reason").fill_null("") != SCHEDULED)
        .with_columns(origin=pl.col("url").str.extract(r"^([a-z]+://[^/]+)"))
        .group_by("collection", "host_key", "origin", "reason")
        .len()
        .collect()
    )
    now, now_ms = crawl.clock.monotonic_ms(), crawl.clock.now_ms()
    # a crawl that finished ended because of the pauses, of which its last commit took a part
    patience = 0 if crawl.progress.ended == "finished" else crawl.config.crawl.patience
    later: Counter[str] = Counter()
    for collection, host_key, origin, reason, number in waiting.iter_rows():
        if (
            not reason
            and crawl.robots.is_current(origin, now_ms)
            and not crawl.robots.reachable(origin)
        ):
            reason = "robots_unreachable"
        if not reason and (collection, origin) in crawl.failed_logins:
            reason = "login_failed"
        if (
            not reason
            and host_key in crawl.frontier.hosts
            and crawl.frontier.clocks.host_ready_at(host_key) > now + patience
        ):
            reason = "host_paused"
        later[reason or "not_reached"] += number
    agenda = crawl.scheduler.agenda
    for name in collections:
        if name in agenda.budgets and not agenda.budgets[name].open:
            due = (
                tables.scan("urls")
                .filter(pl.col("state") != UrlState.KNOWN, pl.col("collection") == name)
                .filter(due_expr(agenda.rules[name], now_ms) <= now_ms)
            )
            later[REFETCH_BUDGET] += due.select(pl.len()).collect().item()
    return later
