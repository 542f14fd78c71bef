"""Real-time search: go out for a question. Own the workspace, claim, start from the index or from
named pages, follow what looks relevant, say what is found as it is found, index, release.

Everything that is fetched is archived and indexed like a crawl's pages, in the order's collection.
What is relevant is judged as a page is absorbed (`lycosa.hunt.hunt`), not when the index comes to
it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.units import parse_duration_ms
from lycosa.crawl.session.seeds import check_seeds, seeds_of
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits, Observer, Worker
from lycosa.fetch.fetcher import Fetcher
from lycosa.hunt.dispatcher import HuntDealer
from lycosa.hunt.fish import DEPTH, WIDTH
from lycosa.hunt.hunt import STRATEGIES, Found, Hunt, StrategyName
from lycosa.hunt.leads import Lead
from lycosa.hunt.relevance import Question
from lycosa.hunt.starts import Started, recall, start_from_index
from lycosa.index.follower import IndexFollower
from lycosa.processes.memory import tune_memory
from lycosa.store.coordination.leadership import require_no_leader
from lycosa.store.coordination.owner import Owner
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname

AGENTS = 15
"""Fetches at once, unless asked otherwise."""

TIME_MS = 30_000
"""Default duration of a hunt."""

MAX_PAGES = 50_000
"""A hunt ends after so many at the latest: what it has learned of them is in memory."""

COMMAND = "hunt"


Scope = Literal["host", "domain", "prefix", "any"]


@dataclass(slots=True, frozen=True)
class HuntRequest:
    """What is asked of a hunt: plain data, that goes into a file or over the network. `from_index`:
    start from what the workspace holds; None: where no seed is named. `time_ms`, `pages`, `enough`
    (relevant pages) end it; None: not by that. `delay`: as `crawl --delay` takes it, "" for the
    collection's. `typed`: the operator named the seeds, so their hosts may be private, and they are
    the collection's from now on.
    """

    question: str
    seeds: tuple[str, ...] = ()
    from_index: bool | None = None
    strategy: StrategyName = "best"
    time_ms: int | None = TIME_MS
    pages: int | None = None
    enough: int | None = None
    agents: int = AGENTS
    collection: str = "default"
    scope: Scope = "any"
    delay: str = ""
    width: int = WIDTH
    depth: int = DEPTH
    typed: bool = True


@dataclass(slots=True, frozen=True)
class HuntOrder:
    """A request, and the workspace and settings that it is about. `index`: index what is fetched,
    too; a daemon has somebody else do it.
    """

    root: str
    config: Config
    request: HuntRequest
    index: bool = True


@dataclass(slots=True, frozen=True)
class Hit:
    """A relevant page as it is told: `found`, so many milliseconds after the hunt began; `rank`
    among those found until then.
    """

    found: Found
    after_ms: int
    rank: int


@dataclass(slots=True, frozen=True)
class HuntReport:
    """The end of a hunt. `ended`: enough, max_time, max_pages, finished (nothing is left to
    follow), stopped. `ranked`: the relevant pages with their scores as they are now that all are
    known. `listed`: links that were not followed; `failed`: what gave no page, by reason.
    """

    ended: str
    ranked: tuple[tuple[Found, float], ...]
    pages: int
    relevant: int
    listed: int
    failed: Mapping[str, int]
    progress: Progress


@dataclass(slots=True)
class Ears:
    """Who is told what, in the thread that hunts."""

    started: Callable[[Started], None] = lambda started: None
    hit: Callable[[Hit], None] = lambda hit: None
    progress: Observer | None = None
    worker: Callable[[Worker], None] = lambda worker: None  # whose `stop` ends the hunt early
    tick: Callable[[], None] = lambda: None  # called once a second


@dataclass(slots=True)
class _State:
    dealer: HuntDealer | None = None
    enough: bool = False
    hits: list[Hit] = field(default_factory=list)


def hunt_collection(config: Config, request: HuntRequest) -> Collection:
    """The collection that a hunt writes to: the configured one, or a new one; with the hunt's own
    order, reach and connections.

    Raises:
        UsageError: its name cannot be one, or the delay is no time.
    """
    chosen = next((each for each in config.collection if each.name == request.collection), None)
    if chosen is None:
        chosen = next(
            each
            for each in parse_config(
                f"[[collection]]\nname = {json.dumps(request.collection)}\n"
            ).collection
        )
    settings: dict[str, Any] = {
        "scope": request.scope,
        "strategy": "best-first",
        "depth": None,
        "connections": request.agents,
    }
    if request.delay:
        settings["delay"] = parse_duration_ms(request.delay)
        if settings["delay"] == 0:
            settings["courtesy_factor"] = 0.0
    return chosen.model_copy(update=settings)


def hunt(
    order: HuntOrder,
    ears: Ears | None = None,
    *,
    clock: Clock | None = None,
    fetcher: Fetcher | None = None,
    owned: bool = False,
) -> HuntReport:
    """Hunt until there is enough, the time is over, or nothing is left to follow. `owned`: our
    caller owns the workspace.

    Raises:
        UsageError: the question has no words, a seed cannot be used, or there is nothing to start
        from: nothing was fetched. OwnedError: another process is crawling in this workspace.
        WorkError: the disk is full, the archive or the log is damaged.
    """
    clock, ears = clock or SystemClock(), ears or Ears()
    tune_memory()
    request = order.request
    collection = hunt_collection(order.config, request)
    check_seeds(request.seeds, collection)
    seeds = tuple(normalise(seed) for seed in request.seeds)
    question = Question(request.question)
    if request.strategy not in STRATEGIES:
        raise UsageError(f"--strategy {request.strategy!r}: choose {', '.join(STRATEGIES)}")
    workspace = Workspace.open_or_create(order.root) if seeds else Workspace.open(order.root)
    if owned:
        return _hunt(order, collection, seeds, question, ears, workspace, None, clock, fetcher)
    with workspace.own(COMMAND, clock) as owner:
        require_no_leader(workspace.storage)
        return _hunt(order, collection, seeds, question, ears, workspace, owner, clock, fetcher)


def _hunt(
    order: HuntOrder,
    collection: Collection,
    seeds: tuple[str, ...],
    question: Question,
    ears: Ears,
    workspace: Workspace,
    owner: Owner | None,
    clock: Clock,
    fetcher: Fetcher | None,
) -> HuntReport:
    settings = workspace.state().settings
    before = settings.get(collection.name, {})
    request = order.request
    began = clock.monotonic_ms()
    follower: IndexFollower | None = None

    def ticks() -> None:
        if owner is not None:
            owner.touch()
        ears.tick()

    session = open_session(
        workspace,
        order.config,
        [Job(collection, seeds_of(before, collection, seeds if request.typed else ()))],
        SessionOptions(
            limits=Limits(min(request.pages or MAX_PAGES, MAX_PAGES), request.time_ms),
            observer=ears.progress,
            committed=lambda entry: follower.committed(entry) if follower else None,
            tick=ticks,
            fetcher=fetcher,
        ),
        command=COMMAND,
        clock=clock,
    )
    try:
        state = _State()
        assignment = session.crawl.assignments[collection.name]
        hunt = Hunt(
            question,
            request.strategy,
            width=request.width,
            depth=request.depth,
            takes=assignment.gate.takes,
            respect_nofollow=collection.respect_nofollow,
        )

        def found(page: Found) -> None:
            rank = (
                1 + sum(score > page.score for _, score in hunt.ranked())
                if hunt.relevant <= _RANKED
                else 0
            )
            ears.hit(Hit(page, clock.monotonic_ms() - began, rank))
            if request.enough is not None and hunt.relevant >= request.enough:
                state.enough = True
                session.worker.stop()

        dealer = HuntDealer(
            hunt,
            session.crawl,
            assignment,
            found,
            lambda urls: recall(workspace, session.tables, urls),
            agents=request.agents,
            elsewhere=len(settings.keys() - {collection.name}) > 0,
        )
        session.take_up()
        if session.worker.progress.replayed:
            # pages that a killed run had fetched: the hunt goes through them by the tables
            session.worker.commit_now()
        started = _start(request, seeds, hunt, session)
        if len(hunt.listed) <= len(seeds):
            session.worker.progress.start_only_from(seeds)
        ears.started(started)
        dealer.begin()
        follower = IndexFollower(order.root, order.config.index, clock) if order.index else None
        ears.worker(session.worker)
        progress = session.worker.run()
        session.claim.release()
        if follower is not None:
            follower.finish()
        ended = "enough" if state.enough else progress.ended
        return HuntReport(
            ended,
            tuple(hunt.ranked()),
            hunt.pages,
            hunt.relevant,
            len(hunt.listed) + hunt.listed.dropped,
            Counter(dealer.failed),
            progress,
        )
    finally:
        session.close()
        if follower is not None:
            follower.close()


_RANKED = 1_000  # results up to which each is told its rank


def _start(
    request: HuntRequest, seeds: tuple[str, ...], hunt: Hunt, session: CrawlSession
) -> Started:
    """List what the hunt starts from.

    Raises:
        UsageError: that is nothing.
    """
    hunt.start([Lead(seed, hostname(seed)) for seed in seeds])
    hits = well_linked = 0
    if request.from_index or (request.from_index is None and not seeds):
        hits, well_linked = start_from_index(hunt, session.workspace, session.tables)
    if not len(hunt.listed):
        raise UsageError(
            "there are no start pages: no stored page links to a page that was not "
            "fetched; specify a start page with --seed"
        )
    return Started(len(seeds), hits, well_linked, len(hunt.listed))
