"""`crawl` from end to end: own the workspace, claim, load, replay, fetch, find again what lies nearer, index, release."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lycosa.app.indexing import IndexFollower
from lycosa.app.memory import tune_memory
from lycosa.app.oneoff import named_pair
from lycosa.app.reparsing import REPARSED
from lycosa.archive.writer import crawl_info
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.config import Collection, Config
from lycosa.core.errors import UsageError
from lycosa.crawl.later import left_for_later
from lycosa.crawl.ledger import Job, Ledger
from lycosa.crawl.progress import Progress
from lycosa.crawl.replay import replay
from lycosa.crawl.resume import load, reconsider
from lycosa.crawl.sandbox import ChildReader
from lycosa.crawl.understand import Reader
from lycosa.crawl.walk import find_again
from lycosa.crawl.worker import Limits, Observer, Worker
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
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
        fetcher = CurlFetcher(order.config.fetch, AddressGuard(named_pair(normalise(seed)) for seed in seeds), clock)
        claim = workspace.claim(f"{order.command}-{os.getpid()}", settings={order.collection.name: settings})
        follower = IndexFollower(order.root, order.config.index, clock) if order.index else None
        ledger = Ledger(
            claim,
            order.config,
            [Job(order.collection, seeds)],
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
            limits=order.limits,
            observer=_watch(observer, owner.touch),
            committed=follower.committed if follower else None,
        )
        try:
            tables = LiveTables(workspace, claim.state)
            changed = bool(before) and _look_again(order.collection, before, settings)
            _take_up(worker, claim, workspace, order, seeds, changed)
            assignment = ledger.assignments[order.collection.name]
            if changed:
                worker.commit_now()  # what was replayed is then in the tables, as the walk over them wants it
                find_again(ledger, tables, assignment, every_link=True)
            if started is not None:
                started(worker)
            progress = worker.run()
            while progress.ended == "finished" and assignment.fallen:
                find_again(ledger, tables, assignment, every_link=False)
                progress = worker.run()
            progress.later = left_for_later(ledger, tables, ledger.assignments)
            claim.release()
            if follower is not None:
                follower.finish()
            return progress
        finally:
            worker.close()
            fetcher.close()
            if follower is not None:
                follower.close()


def _take_up(worker: Worker, claim: Claim, workspace: Workspace, order: CrawlOrder, seeds: tuple[str, ...], changed: bool) -> None:
    """Load what is committed, admit the seeds, then replay what is only archived (a first run may have died uncommitted)."""
    ledger = worker.ledger
    tables = LiveTables(workspace, claim.state)
    load(ledger, tables, workspace.path)
    if changed:
        reconsider(ledger, tables, ledger.assignments[order.collection.name])
    ledger.seed(order.collection.name, seeds)
    orphans = claim.orphans()
    if not orphans:
        return
    if claim.failed_before < CLAIMS_BEFORE_SANDBOX:
        replay(worker.absorber, orphans, tables, workspace.path, worker.commit_if_due)
        return
    reader = worker.absorber.understand
    assert isinstance(reader, Reader)
    with ChildReader(reader) as child:
        worker.absorber.understand = child
        replay(worker.absorber, orphans, tables, workspace.path, worker.commit_if_due)
    worker.absorber.understand = reader


def _look_again(collection: Collection, before: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether stored links may lead to more than the last call admitted.

    They may if the call is of another shape or the pages were parsed anew; and with a depth limit always, since a call that
    was killed or stopped may have known that a visited page lies nearer, and not yet have walked its links.
    """
    return collection.depth is not None or REPARSED in before or any(before.get(key) != settings[key] for key in _SHAPE)


def _watch(observer: Observer | None, touch: Callable[[], None]) -> Observer:
    def observe(progress: Progress) -> None:
        touch()
        if observer is not None:
            observer(progress)

    return observe
