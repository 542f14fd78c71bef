"""`crawl` from end to end: own the workspace, claim, load, replay, fetch, find again what lies nearer, index, release."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from lycosa.app.indexing import IndexFollower
from lycosa.app.memory import tune_memory
from lycosa.app.oneoff import named_pair
from lycosa.app.reparsing import REPARSED
from lycosa.archive.writer import crawl_info
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.config import Collection, Config
from lycosa.core.errors import UsageError
from lycosa.crawl.ledger import Ledger
from lycosa.crawl.progress import Progress
from lycosa.crawl.replay import committed_records, replay
from lycosa.crawl.resume import find_again, load
from lycosa.crawl.sandbox import ChildReader
from lycosa.crawl.understand import Reader
from lycosa.crawl.worker import Limits, Observer, Worker
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.robots import product_token
from lycosa.store.claim import Claim
from lycosa.store.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise

CLAIMS_BEFORE_SANDBOX = 2
"""After this many claims in a row without a commit, replay parses in a child process (STORE.md)."""

_SHAPE = ("scope", "depth", "allow", "deny", "seeds", "max_url_length", "respect_nofollow")
"""Settings whose change may admit what was left out before."""


@dataclass(slots=True)
class CrawlOrder:
    """What one call of `crawl` is to do. `seeds` are added to those of earlier calls."""

    root: str
    config: Config
    collection: Collection
    seeds: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    index: bool = True
    command: str = "crawl"


def crawl(
    order: CrawlOrder, *, observer: Observer | None = None, started: Callable[[Worker], None] | None = None, clock: Clock | None = None
) -> Progress:
    """Crawl one collection to the end or to a limit. `started` gets the worker, whose `stop` ends the crawl early.

    Raises:
        UsageError: no seed, now or before; a seed that cannot be used; a wrong setting.
        OwnedError: somebody crawls in this workspace.
        WorkError: the disk is full, the archive or the log is damaged: the message says which.
    """
    clock = clock or SystemClock()
    tune_memory()
    for seed in order.seeds:
        normalise(seed)  # a wrong call changes nothing
    workspace = Workspace.open_or_create(order.root)
    with workspace.own(order.command) as owner:
        state = workspace.state()
        before: dict[str, Any] = state.settings.get(order.collection.name, {})
        seeds = tuple(dict.fromkeys((*before.get("seeds", ()), *order.collection.seeds, *order.seeds)))
        if not seeds:
            raise UsageError(f"nothing to crawl: name a URL, as in `lycosa crawl https://example.org/` ({order.root} has no seeds yet)")
        settings = {**order.collection.model_dump(mode="json"), "seeds": list(seeds)}
        limits = _within_budget(workspace, order)
        fetcher = CurlFetcher(order.config.fetch, AddressGuard(named_pair(normalise(seed)) for seed in seeds), clock)
        claim = workspace.claim(f"{order.command}-{os.getpid()}", settings={order.collection.name: settings})
        follower = IndexFollower(order.root, order.config.index, clock) if order.index else None
        ledger = Ledger(
            claim,
            order.config,
            order.collection,
            seeds,
            domains=workspace.domains,
            partitions=workspace.partitions,
            clock=clock,
            info=crawl_info(order.config.fetch.user_agent, order.config.fetch.contact, order.collection.name),
        )
        worker = Worker(
            ledger,
            order.config,
            fetcher=fetcher,
            clock=clock,
            limits=limits,
            observer=_watch(observer, owner.touch),
            committed=follower.committed if follower else None,
        )
        try:
            _take_up(worker, claim, workspace, order, seeds)
            if before and _look_again(order.collection, before, settings):
                worker.commit_now()  # what was replayed is then in the tables, as the walk over them wants it
                find_again(ledger, LiveTables(workspace), clock.now_ms(), every_link=True)
            if started is not None:
                started(worker)
            progress = worker.run()
            while progress.ended == "finished" and ledger.fallen:
                find_again(ledger, LiveTables(workspace), clock.now_ms(), every_link=False)
                progress = worker.run()
            claim.release()
            if follower is not None:
                follower.finish()
            return progress
        finally:
            worker.close()
            fetcher.close()
            if follower is not None:
                follower.close()


def _take_up(worker: Worker, claim: Claim, workspace: Workspace, order: CrawlOrder, seeds: tuple[str, ...]) -> None:
    """Load what is committed, admit the seeds, then replay what is only archived (a first run may have died uncommitted)."""
    ledger, clock = worker.ledger, worker.clock
    tables = LiveTables(workspace)
    load(ledger, tables, clock.now_ms(), clock.monotonic_ms())
    for seed in seeds:
        ledger.gate.seed(seed, clock.now_ms())
    orphans = claim.orphans()
    if not orphans:
        return
    committed = committed_records(tables, orphans, workspace.path)
    if claim.failed_before < CLAIMS_BEFORE_SANDBOX:
        replay(ledger, orphans, workspace.path, committed, worker.commit_if_due)
        return
    reader = Reader(order.config.fetch.max_decoded, product_token(order.config.fetch.user_agent))
    with ChildReader(reader) as child:
        ledger.understand = child
        replay(ledger, orphans, workspace.path, committed, worker.commit_if_due)
    ledger.understand = reader


def _look_again(collection: Collection, before: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether stored links may lead to more than the last call admitted.

    They may if the call is of another shape or the pages were parsed anew; and with a depth limit always, since a call that
    was killed or stopped may have known that a visited page lies nearer, and not yet have walked its links.
    """
    return collection.depth is not None or REPARSED in before or any(before.get(key) != settings[key] for key in _SHAPE)


def _within_budget(workspace: Workspace, order: CrawlOrder) -> Limits:
    budget = order.collection.max_pages
    if budget is None:
        return order.limits
    pages = LiveTables(workspace).scan("pages").filter(pl.col("collection") == order.collection.name)
    left = max(0, budget - int(pages.select(pl.len()).collect().item()))
    wanted = order.limits.max_pages
    return Limits(left if wanted is None else min(wanted, left), order.limits.max_time_ms)


def _watch(observer: Observer | None, touch: Callable[[], None]) -> Observer:
    def observe(progress: Progress) -> None:
        touch()
        if observer is not None:
            observer(progress)

    return observe
