"""`crawl` with several workers: a cluster, and updates of the index."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

import polars as pl

from lycosa.cluster.cluster import Cluster, ClusterOptions
from lycosa.cluster.engine import Engine
from lycosa.cluster.quota_leases import PageBudget
from lycosa.cluster.walking_shared import WalkDriver
from lycosa.commands.crawling.crawl import CrawlOrder, open_for, plan_crawl, report_excluded
from lycosa.config.settings import Collection
from lycosa.core.clock import Clock, Interval, SystemClock
from lycosa.core.errors import LycosaError
from lycosa.crawl.admission.url_filter import ExclusionCheck
from lycosa.crawl.session.pausing import PauseFollower
from lycosa.crawl.session.worker_status import added
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.worker import Observer
from lycosa.hooks.plugins import CrawlServices
from lycosa.index.follower import IndexFollower
from lycosa.maintenance.upkeep import Upkeep
from lycosa.processes.threads import Stoppable
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.exclusions import configured_file

_LOOK_S = 0.05
_LOG_EVERY_MS = 1_000
_OBSERVE_MS = 200


class _Crawl:
    """One running call. `stop` may be called from a signal handler."""

    def __init__(
        self, cluster: Cluster, workspace: Workspace, state: LogState, clock: Clock
    ) -> None:
        self.cluster = cluster
        self._workspace, self._state = workspace, state
        self._clock = clock
        self._before = dict(state.counters)
        self._started = clock.monotonic_ms()
        self._stopped = False

    def stop(self) -> None:
        """Stop soon. Workers commit fetched pages and release their claims."""
        self._stopped = True

    def run(
        self, order: CrawlOrder, tick: Callable[[int], object], observer: Observer | None
    ) -> Progress:
        """Run the crawl until it ends. `tick` is called repeatedly with the head of the log."""
        logs, observations = (
            Interval(self._clock, _LOG_EVERY_MS),
            Interval(self._clock, _OBSERVE_MS),
        )
        kill_at: int | None = None
        reason = ""
        while not self.cluster.ended:
            now = self._clock.monotonic_ms()
            self.cluster.tick()
            late = (
                order.limits.max_time_ms is not None
                and now - self._started >= order.limits.max_time_ms
            )
            if not reason and (self._stopped or late):
                reason = "stopped" if self._stopped else "max_time"
                self.cluster.stop(reason)
                kill_at = now + order.config.run.stop_timeout
            if kill_at is not None and now >= kill_at:
                break
            if logs.is_due():
                with suppress(OSError):
                    self._state.refresh()
                tick(self._state.head)
            if observer is not None and observations.is_due():
                observer(self.progress(order.collection.name))
            time.sleep(_LOOK_S)
        self._state.refresh()
        progress = self.progress(order.collection.name)
        progress.end(reason or self.cluster.why)
        progress.stop_clock(self._clock.monotonic_ms())
        return progress

    def progress(self, collection: str) -> Progress:
        """Return the sum of the workers' progress.

        After the end, counts are read from the log, so that killed workers are included.
        """
        total = added((each.progress for each in self.cluster.worker_statuses()), self._started)
        committed = {
            name: self._state.counters[name] - self._before.get(name, 0)
            for name in (f"pages.{collection}", "visits", "bytes")
        }
        if not self.cluster.ended:
            return total
        pages, visits, transferred = committed.values()
        urls = LiveTables(self._workspace, self._state).scan("urls")
        own = urls.filter((pl.col("collection") == collection) & (pl.col("operation") == ""))
        return replace(
            total,
            pages=pages,
            visits=visits,
            bytes=transferred,
            states=Counter(dict(own.group_by("state").len().collect().iter_rows())),
            hosts=int(own.select(pl.col("host_key").n_unique()).collect().item()),
        )


def crawl_together(
    order: CrawlOrder,
    engine: Engine,
    workers: int | None,
    *,
    observer: Observer | None = None,
    started: Callable[[Stoppable], None] | None = None,
    clock: Clock | None = None,
) -> Progress:
    """Crawl to the end or to a limit with `workers` on an engine.

    `workers` None: one per CPU. `started` gets an object with a method `stop`, which ends the crawl
    early. Raises the same errors as `crawl`.
    """
    clock = clock or SystemClock()
    workspace = open_for(order)
    with workspace.own(order.command, report=order.say) as owner, ExitStack() as stack:
        state = workspace.state()
        job, start = plan_crawl(order, workspace, clock)
        excluded = _exclusions(order, workspace, state, clock)
        follower = IndexFollower(order.root, order.config.index, clock) if order.index else None
        if follower is not None:
            stack.callback(follower.close)
        walk = WalkDriver(workspace, job, start, order.config, clock) if start is not None else None
        if walk is not None:
            stack.callback(walk.close)
        upkeep = stack.enter_context(closing(Upkeep(workspace, order.config, clock, engine)))
        services = stack.enter_context(
            closing(CrawlServices(workspace.root, order.config, order.say))
        )
        budgets = _budgets(job.collection, order.limits.max_pages, state)
        walk_order = walk.order if walk is not None else None
        options = ClusterOptions(order.command, workers, budgets, ends=True, walk=walk_order)
        cluster = Cluster(engine, workspace, order.config, [job], options, order.say, clock)
        stack.callback(_close, cluster)
        pauses = PauseFollower(workspace.storage, job.collection.name, None, order.say, clock)
        head = state.head

        def tick(newest: int) -> None:
            nonlocal head
            owner.touch()
            upkeep.tick()
            pauses.tick()
            if walk is not None:
                walk.tick()
            if newest > head and follower is not None:
                head = newest
                follower.committed(newest)

        services.start()
        under_way = _Crawl(cluster, workspace, state, clock)
        if started is not None:
            started(under_way)
        progress = under_way.run(order, tick, observer)
        report_excluded(progress, order.seeds, excluded)
        cluster.close()
        services.finish()
        if follower is not None:
            follower.finish()
        return progress


def _exclusions(
    order: CrawlOrder, workspace: Workspace, state: LogState, clock: Clock
) -> ExclusionCheck:
    file = configured_file(order.config.crawl.exclusions, clock)
    return ExclusionCheck(file, workspace.domains, state)


def _close(cluster: Cluster) -> None:
    """Close a cluster. Its errors must not hide the crawl's own error."""
    with suppress(LycosaError):
        cluster.close()


def _budgets(collection: Collection, more: int | None, state: LogState) -> list[PageBudget]:
    """Return the page budget of the collection for this call, if there is one.

    It is the smaller of the collection's own budget and the present pages plus `more`.
    """
    bounds = [collection.max_pages] if collection.max_pages is not None else []
    if more is not None:
        bounds.append(state.counters[f"pages.{collection.name}"] + more)
    return [PageBudget(collection.name, min(bounds))] if bounds else []
