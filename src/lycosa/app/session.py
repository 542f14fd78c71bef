"""A worker with all it needs, from a claim to its release: what `crawl` and `run` have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lycosa.app.memory import give_back_code
from lycosa.app.oneoff import fetching_of, named_pair
from lycosa.app.ranking import RankerBeside, RankerHere
from lycosa.app.ranking_shared import RankerAmong
from lycosa.archive.writer import crawl_info
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.config import Config
from lycosa.core.credentials import without_user
from lycosa.crawl.found import FoundReader
from lycosa.crawl.inbox import Inbox
from lycosa.crawl.ledger import Job, Ledger
from lycosa.crawl.manners import require_secrets
from lycosa.crawl.membership import Lease
from lycosa.crawl.operation import Operations
from lycosa.crawl.replay import replay
from lycosa.crawl.resume import load, reconsider
from lycosa.crawl.sandbox import ChildReader
from lycosa.crawl.schedule import Ranker, Schedule
from lycosa.crawl.screen import Excluded
from lycosa.crawl.stored_pages import StoredPages
from lycosa.crawl.territory import HeldTables, Territory
from lycosa.crawl.understand import Reader
from lycosa.crawl.walk import find_again
from lycosa.crawl.worker import Limits, Observer, Worker
from lycosa.fetch.browser_process import find_browser
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.fetcher import Fetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.monitor.find_work import FIND, find_type
from lycosa.monitor.watching import Watcher
from lycosa.store.claim import Claim
from lycosa.store.live import LiveTables
from lycosa.store.state import LogState
from lycosa.store.workspace import Workspace
from lycosa.url.exclusions import ExclusionFile
from lycosa.url.normalise import normalise

CLAIMS_BEFORE_SANDBOX = 2
"""After this many claims in a row without a commit, replay parses in a child process (STORE.md)."""

REPARSED = "reparsed"
"""Set in a collection's settings by `reparse`: its stored links may hold more than before."""

_SHAPE = (
    *("scope", "depth", "allow", "deny", "seeds", "max_url_length", "respect_nofollow", "media_types", "traps"),
    *("max_pages", "max_pages_per_host", "max_pages_per_domain", "max_prefix_share"),
)
"""Settings whose change may admit what was left out before."""

SINCE = "unchanged_since"
"""Key in a collection's settings with several workers: the log entry after which the settings last changed. A worker that claims a
partition last claimed before that entry walks its links again."""

_WALK_SHARE = 4  # a walk over the stored links waits so many times as long as the last one took
_FALLEN_KEPT = 100_000  # of a collection without a limit of depth, where the depth is a figure and no more


@dataclass(slots=True)
class Session:
    """An open claim and the worker under it. Use `take_up`, then `worker.run()`, then `release`; `close` in any case."""

    workspace: Workspace
    claim: Claim
    ledger: Ledger
    worker: Worker
    fetcher: Fetcher
    inbox: Inbox
    tables: LiveTables
    changed: tuple[str, ...]  # collections whose stored links are to be walked again
    schedule: Schedule
    found: FoundReader
    guide: Callable[[], int] | None = None  # where a driver walks: takes what that reached; up to which log entry it has walked
    _next_walk: int = 0  # monotonic

    def take_up(self) -> None:
        """Load what is committed, admit seeds and inbox, then replay what is only archived (a run may have died uncommitted).

        Raises:
            UrlError: a seed cannot be used.
        """
        ledger = self.ledger
        load(ledger, self.tables, self.workspace.path)
        for name in self.changed:
            reconsider(ledger, self.tables, ledger.assignments[name])
        for job in ledger.jobs:
            ledger.seed(job.collection.name, job.seeds)
        self.worker.absorber.discovery.configured()
        self.inbox.admit()
        ledger.linked = self.schedule.linked  # a link that another worker found meanwhile is news
        self.found.apply(self.worker.commit_if_due)
        ledger.linked = None
        self._replay()
        self.inbox.apply()
        if self.changed:
            self.worker.commit_now()  # what was replayed is then in the tables, as the walk over them wants it
            for name in self.changed:
                find_again(ledger, self.tables, ledger.assignments[name], every_link=True)
        give_back_code()

    def follow(self) -> int:
        """Apply what others have found, and walk from what lies nearer while there is nothing else to do. For a worker that does not
        hold all partitions, each second. Returns the log entry up to which all is applied.

        Raises what `run` raises.
        """
        self.found.apply()
        self.found.say()
        now = self.worker.clock.monotonic_ms()
        if now >= self._next_walk and self.worker.nothing_to_do(now):
            self.walk_fallen()
            self._next_walk = now + _WALK_SHARE * (self.worker.clock.monotonic_ms() - now)
        for assignment in self.ledger.assignments.values():
            if assignment.collection.depth is None and len(assignment.fallen) > _FALLEN_KEPT:
                assignment.fallen.clear()
        return self.found.read_to if self.guide is None else min(self.found.read_to, self.guide())

    def walk_fallen(self) -> bool:
        """Walk the links of pages that turned out to lie nearer. True if there were any."""
        fallen = [each for each in self.ledger.assignments.values() if each.fallen]
        if fallen:
            self.worker.commit_now()
        for assignment in fallen:
            find_again(self.ledger, self.tables, assignment, every_link=False)
        return bool(fallen)

    def close(self) -> None:
        """Leave an open WARC for replay, if there is one, and give connections back."""
        self.schedule.close()
        self.worker.close()
        self.fetcher.close()
        self.ledger.close()

    def _replay(self) -> None:
        orphans = self.claim.orphans()
        if not orphans:
            return
        absorber = self.worker.absorber
        every = LiveTables(self.workspace, self.claim.state)
        if self.claim.failed_before < CLAIMS_BEFORE_SANDBOX:
            replay(absorber, orphans, self.tables, self.workspace.path, self.worker.commit_if_due, every)
            return
        reader = absorber.understand
        assert isinstance(reader, Reader)
        with ChildReader(reader) as child:
            absorber.understand = child
            replay(absorber, orphans, self.tables, self.workspace.path, self.worker.commit_if_due, every)
        absorber.understand = reader


def seeds_of(before: dict[str, Any], *more: Sequence[str]) -> tuple[str, ...]:
    """All seeds of a collection: those of earlier calls, then these, each once, without user names and passwords: they are kept."""
    return tuple(dict.fromkeys(map(without_user, [*before.get("seeds", ()), *(seed for seeds in more for seed in seeds)])))


def open_session(
    workspace: Workspace,
    config: Config,
    jobs: Sequence[Job],
    *,
    command: str,
    clock: Clock,
    limits: Limits | None = None,
    forever: bool = False,
    observer: Observer | None = None,
    committed: Callable[[int], None] | None = None,
    tick: Callable[[], None] | None = None,
    fetcher: Fetcher | None = None,
    longest_wait_ms: int = 200,
    partitions: Iterable[int] | None = None,
    worker: str = "",
    lease: Lease | None = None,
    granted: Mapping[str, int] | None = None,
) -> Session:
    """Claim partitions for these collections, and build the worker. Nothing is fetched yet.

    `partitions`: None claims all. Where it is given others may hold the rest: the worker hands on what it finds there, and reads what
    they find for it; it is `forever`, for only all of them together know when a crawl has come to its end (`Worker.idle`). `worker`
    names it in the log. `lease`: it fetches only while that holds, and adds no more pages than its answer grants this claim.
    `granted`: without a lease, how many pages this claim may add by collection, in place of their budgets (`Worker.grant` raises it);
    one that is missing has none.

    Raises:
        ConfigError: the exclusion list cannot be read, or a fetch setting is wrong: nothing was claimed.
        UsageError: a partition that the workspace does not have.
    """
    workspace.storage.limit_cache(config.store.cache)
    state = workspace.state()
    held = None if partitions is None else frozenset(partitions)
    shared = held is not None
    territory = Territory(workspace.partitions, held if held is not None and len(held) < workspace.partitions else None)
    settings = _settings_of(jobs, state, shared=shared)
    file = ExclusionFile(Path(config.crawl.exclusions), clock) if config.crawl.exclusions else None
    if any(job.collection.render != "never" for job in jobs):
        find_browser(config.crawl.browser)
    require_secrets((job.collection for job in jobs), os.environ)
    every_seed = [normalise(seed) for job in jobs for seed in (*job.seeds, *job.collection.feed_urls)]
    fetching = fetcher or CurlFetcher(fetching_of(every_seed, config.fetch), AddressGuard(named_pair(seed) for seed in every_seed), clock)
    claim = workspace.claim(worker or f"{command}-{os.getpid()}", held, settings=settings, clock=clock)
    names = ", ".join(settings)
    ledger = Ledger(
        claim,
        config,
        jobs,
        domains=workspace.domains,
        partitions=workspace.partitions,
        clock=clock,
        info=crawl_info(config.fetch.user_agent, config.fetch.contact, names),
        folder=workspace.storage.scratch(),
        excluded=Excluded(file, workspace.domains, claim.state),
        territory=territory,
    )
    schedule = Schedule(ledger, _ranker(workspace, config, clock, worker if shared else None), config.run.rank_interval)
    watcher = Watcher(workspace.storage, clock)

    def ticks() -> None:
        schedule.tick()
        watcher.refresh()
        if tick is not None:
            tick()

    working = Worker(
        ledger,
        config,
        fetcher=fetching,
        clock=clock,
        limits=limits or Limits(),
        forever=forever or shared,
        observer=observer,
        committed=lambda entry: _after_commit(entry, committed),
        tick=ticks,
        longest_wait_ms=longest_wait_ms,
        lease=lease,
        follow=(lambda: session.follow()) if shared else None,
    )
    if lease is None and granted is not None:
        working.grant(granted)
    operations = Operations(ledger, working.absorber.discovery, StoredPages(workspace), {FIND: find_type(workspace.storage)})
    working.absorber.watching, working.absorber.operations = watcher, operations
    tables = HeldTables(workspace, claim.state, territory)
    inbox = Inbox(claim, workspace.storage, ledger)
    inbox.operations = operations
    found = FoundReader(ledger, working.absorber.discovery, inbox, claim, workspace.storage)
    ledger.applied = found.applied
    session = Session(workspace, claim, ledger, working, fetching, inbox, tables, _changed(state, claim, settings), schedule, found)
    return session


def _settings_of(jobs: Iterable[Job], state: LogState, *, shared: bool) -> dict[str, dict[str, Any]]:
    """What the claim says of each collection: its settings and seeds, and, where others hold partitions too, since when they are so."""
    settings: dict[str, dict[str, Any]] = {}
    for job in jobs:
        chosen = settings[job.collection.name] = {**job.collection.model_dump(mode="json"), "seeds": list(job.seeds)}
        if shared:
            before = state.settings.get(job.collection.name)
            same = before is not None and not _shape_differs(before, chosen)
            chosen[SINCE] = before.get(SINCE, 0) if before is not None and same else state.head
    return settings


def _ranker(workspace: Workspace, config: Config, clock: Clock, among: str | None) -> Ranker:
    """Who computes ranks: another process in real time. `among`: the name of this worker, where several agree on one of them."""
    in_real_time = isinstance(clock, SystemClock)
    ranker: Ranker = RankerBeside(workspace.root, workspace.storage.scratch()) if in_real_time else RankerHere(workspace)
    return RankerAmong(workspace.storage, ranker, among, config.run.rank_interval // 2, clock) if among is not None else ranker


def _changed(state: LogState, claim: Claim, settings: Mapping[str, dict[str, Any]]) -> tuple[str, ...]:
    """The collections whose stored links this claim is to walk again. `state`: as it was before the claim."""
    claimed = _last_claims(state)
    oldest = min((claimed[partition] for partition in claim.partitions if partition in claimed), default=claim.entry)
    before = state.settings
    return tuple(
        name for name, chosen in settings.items() if name in before and (look_again(before[name], chosen) or oldest <= chosen.get(SINCE, 0))
    )


def _after_commit(entry: int, committed: Callable[[int], None] | None) -> None:
    give_back_code()
    if committed is not None:
        committed(entry)


def look_again(before: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether stored links may lead to more than the last call admitted.

    They may if the call is of another shape or the pages were parsed anew; and with a depth limit always, since a call that
    was killed or stopped may have known that a visited page lies nearer, and not yet have walked its links.
    """
    return settings["depth"] is not None or _shape_differs(before, settings)


def _shape_differs(before: dict[str, Any], settings: dict[str, Any]) -> bool:
    return REPARSED in before or any(before.get(key) != settings[key] for key in _SHAPE)


def _last_claims(state: LogState) -> dict[int, int]:
    """The latest claim of each partition that was ever claimed."""
    claims = sorted(state.claims.values(), key=lambda claim: claim.number)
    return {partition: claim.number for claim in claims for partition in claim.partitions}
