"""Runs a hunt: start pages, fetching, results, index.

All fetched pages are archived and indexed like those of a crawl. Relevance is computed when a page
is processed, before it is indexed. A hunt reports these events as JSON objects:

- `started`: question, named (seeds), hits (matching pages of the index), well_linked, listed
- `found`: url, title, score, snippet, fragments (text, match), language, number, via, rank, seconds
- `progress`, about once a second: pages, in_flight, bytes, seconds
- `ended`: ended (enough, max_time, max_pages, finished (no links) or stopped), pages, relevant,
  listed (links that were not followed), failed (URLs without a page, by reason), failures (by
  URL), visits, bytes, seconds, results (as `found`, best first, with their last scores)
- `failed`, by the process of the hunt: message, exit_code
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock, Interval, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.records import Link, Page
from lycosa.core.units import parse_duration_ms
from lycosa.crawl.fetch_pipeline import Fetcher
from lycosa.crawl.session.planning import check_seeds, seeds_of
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.session.workspace_config import SCOPES
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits, Worker
from lycosa.graph.generation import PAGES, newest
from lycosa.hunt.hunt import STRATEGIES, Hunt, HuntDispatcher, RelevantPage, StrategyName
from lycosa.hunt.links import Lead
from lycosa.hunt.relevance import HuntQuery
from lycosa.hunt.strategies import DEPTH, WIDTH
from lycosa.index.follower import IndexFollower
from lycosa.index.shards.shards import newest_numbers
from lycosa.processes.memory import tune_memory
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.coordination.owner import Owner
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname

AGENTS = 15
"""Default number of concurrent requests."""

TIME_MS = 30_000
"""Default duration."""

MAX_PAGES = 50_000
"""Maximum number of pages: their statistics are kept in memory."""

MAX_LISTED_RESULTS = 100
"""Results of the event `ended`."""

COMMAND = "hunt"

_MAX_RANKED = 1_000  # results up to which the rank of a new one is computed
_PROGRESS_EVERY_MS = 1_000

_MINIMA = {"pages": 1, "enough": 1, "agents": 1, "width": 1, "depth": 0}
"""Smallest values of fields of `HuntRequest`."""

Scope = Literal["host", "domain", "prefix", "any"]
Event = dict[str, Any]


@dataclass(slots=True, frozen=True)
class HuntRequest:
    """The parameters of a hunt, as plain data for a file or the network.

    `from_index`: start from stored pages; None: if there are no seeds. `time_ms`, `pages` and
    `enough` (relevant pages) are limits. `delay`: as `crawl --delay`, "" for that of the
    collection. `typed`: the operator named the seeds, so they may be private, and become seeds of
    the collection.
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

    def __post_init__(self) -> None:
        """Raise UsageError if the strategy or the scope is unknown, or a number is too small."""
        for name, minimum in _MINIMA.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise UsageError(f"{name}: {value} is not an integer of at least {minimum}")
        for name, chosen, values in (
            ("strategy", self.strategy, STRATEGIES),
            ("scope", self.scope, SCOPES),
        ):
            if chosen not in values:
                raise UsageError(f"--{name} {chosen!r}: choose {', '.join(values)}")


@dataclass(slots=True, frozen=True)
class HuntOrder:
    """A request for a workspace. `index`: whether the hunt indexes its pages itself."""

    root: str
    config: Config
    request: HuntRequest
    index: bool = True


@dataclass(slots=True, frozen=True)
class HuntEnvironment:
    """The environment of a hunt. `owned`: the caller owns the workspace.

    `on_worker` gets the worker, whose `stop` ends the hunt; `tick` is called once a second.
    """

    on_event: Callable[[Event], None] = lambda event: None
    on_worker: Callable[[Worker], None] = lambda worker: None
    tick: Callable[[], None] = lambda: None
    clock: Clock = field(default_factory=SystemClock)
    fetcher: Fetcher | None = None
    owned: bool = False


def hunt_collection(config: Config, request: HuntRequest) -> Collection:
    """Return the collection that a hunt writes to, with the settings of the hunt.

    Raises:
        UsageError: the name or the delay is invalid.
    """
    chosen = next((each for each in config.collection if each.name == request.collection), None)
    if chosen is None:
        text = f"[[collection]]\nname = {json.dumps(request.collection)}\n"
        chosen = parse_config(text).collection[0]
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


def hunt(order: HuntOrder, environment: HuntEnvironment | None = None) -> Event:
    """Hunt until a limit is reached or no link is left. Return the event `ended`.

    Raises:
        UsageError: the question, a seed or the strategy is invalid, or there are no start pages.
        OwnedError: another process uses the workspace.
        WorkError: the disk is full, or the archive or the log is damaged.
    """
    environment = environment or HuntEnvironment()
    tune_memory()
    run = _HuntRun(order, environment)
    if environment.owned:
        return run.run(None)
    with run.workspace.own(COMMAND, environment.clock) as owner:
        return run.run(owner)


class _HuntRun:
    def __init__(self, order: HuntOrder, environment: HuntEnvironment) -> None:
        request = order.request
        self._order, self._request, self._environment = order, request, environment
        self._collection = hunt_collection(order.config, request)
        check_seeds(request.seeds, self._collection)
        self._seeds = tuple(map(normalise, request.seeds))
        self._query = HuntQuery(request.question)
        open_workspace = Workspace.open_or_create if self._seeds else Workspace.open
        self.workspace, self._clock = open_workspace(order.root), environment.clock
        self._follower: IndexFollower | None = None
        self._began = self._clock.monotonic_ms()
        self._progress_due = Interval(self._clock, _PROGRESS_EVERY_MS, _PROGRESS_EVERY_MS)
        self._enough = False

    def run(self, owner: Owner | None) -> Event:
        request, settings = self._request, self.workspace.state().settings

        def tick() -> None:
            if owner is not None:
                owner.touch()
            self._environment.tick()

        before = settings.get(self._collection.name, {})
        seeds = seeds_of(before, self._collection, self._seeds if request.typed else ())
        session = open_session(
            self.workspace,
            self._order.config,
            [Job(self._collection, seeds)],
            SessionOptions(
                limits=Limits(min(request.pages or MAX_PAGES, MAX_PAGES), request.time_ms),
                observer=self._progress,
                committed=lambda entry: (
                    self._follower.committed(entry) if self._follower is not None else None
                ),
                fetcher=self._environment.fetcher,
            ),
            command=COMMAND,
            clock=self._clock,
        )
        session.worker.ticks.append(tick)
        try:
            return self._hunt(session, elsewhere=bool(settings.keys() - {self._collection.name}))
        finally:
            session.close()
            if self._follower is not None:
                self._follower.close()

    def _hunt(self, session: CrawlSession, *, elsewhere: bool) -> Event:
        request, worker = self._request, session.worker
        assignment = session.crawl.assignments[self._collection.name]
        hunt = Hunt(
            self._query,
            request.strategy,
            width=request.width,
            depth=request.depth,
            admits=assignment.gate.takes,
            respect_nofollow=self._collection.respect_nofollow,
        )
        stored = VisitedPages(self.workspace, session.tables)
        dispatcher = HuntDispatcher(
            hunt,
            session.crawl,
            assignment,
            lambda page: self._report(hunt, page, worker),
            stored.read,
            agents=request.agents,
            elsewhere=elsewhere,
        )
        session.load()
        if worker.progress.replayed:
            worker.commits.now()  # pages of a killed process are then read from the tables
        self._start(hunt, stored)
        if len(hunt.queue) <= len(self._seeds):
            worker.progress.start_only_from(self._seeds)
        dispatcher.begin()
        if self._order.index:
            self._follower = IndexFollower(self._order.root, self._order.config.index, self._clock)
        self._environment.on_worker(worker)
        progress = worker.run()
        session.claim.release()
        if self._follower is not None:
            self._follower.finish()
        event: Event = {
            "event": "ended",
            "ended": "enough" if self._enough else progress.ended,
            "pages": hunt.pages,
            "relevant": hunt.relevant,
            "listed": len(hunt.queue) + hunt.queue.dropped,
            "failed": dict(dispatcher.failures),
            "failures": dict(progress.failures),
            "visits": progress.visits,
            "bytes": progress.bytes,
            "seconds": round(max(progress.ended_ms - progress.started_ms, 1) / 1000, 3),
            "results": [_result(*each) for each in hunt.ranked()[:MAX_LISTED_RESULTS]],
        }
        self._environment.on_event(event)
        return event

    def _start(self, hunt: Hunt, stored: VisitedPages) -> None:
        """Queue the start pages, or raise UsageError without any."""
        hunt.start([Lead(seed, hostname(seed)) for seed in self._seeds])
        matching = well_linked = 0
        from_index = self._request.from_index
        if from_index or (from_index is None and not self._seeds):
            hits = stored.matching(self._request.question)
            urls = hits or stored.well_linked()
            matching, well_linked = len(hits), len(urls) - len(hits)
            for url, page in stored.read(urls):
                hunt.add_stored_page(url, page)
        if not len(hunt.queue):
            raise UsageError(
                "there are no start pages: no stored page links to a page that was not "
                "fetched; specify seed URLs"
            )
        self._environment.on_event(
            {
                "event": "started",
                "question": self._request.question,
                "named": len(self._seeds),
                "hits": matching,
                "well_linked": well_linked,
                "listed": len(hunt.queue),
            }
        )

    def _report(self, hunt: Hunt, page: RelevantPage, worker: Worker) -> None:
        rank = 0
        if hunt.relevant <= _MAX_RANKED:
            rank = 1 + sum(score > page.score for _, score in hunt.ranked())
        seconds = round((self._clock.monotonic_ms() - self._began) / 1000, 3)
        result = _result(page, page.score)
        self._environment.on_event({"event": "found", **result, "rank": rank, "seconds": seconds})
        if self._request.enough is not None and hunt.relevant >= self._request.enough:
            self._enough = True
            worker.stop()

    def _progress(self, now: Progress) -> None:
        if self._progress_due.is_due():
            self._environment.on_event(
                {
                    "event": "progress",
                    "pages": now.pages,
                    "in_flight": now.in_flight,
                    "bytes": now.bytes,
                    "seconds": round((self._clock.monotonic_ms() - now.started_ms) / 1000, 3),
                }
            )


def _result(page: RelevantPage, score: float) -> Event:
    return {
        "url": page.url,
        "title": page.title,
        "score": round(score, 4),
        "snippet": "".join(text for text, _ in page.snippet),
        "fragments": [{"text": text, "match": match} for text, match in page.snippet],
        "language": page.language,
        "number": page.number,
        "via": page.via,
    }


MAX_START_PAGES = 30
"""Pages of the index, or well-linked pages, whose links are queued at the start."""

_PAGE_COLUMNS = [
    *("url", "title", "headline", "headings", "main_text", "text"),
    *("language", "published_at", "may_follow"),
]


@dataclass(slots=True, frozen=True)
class VisitedPages:
    """The visited pages of a workspace, from its index and tables."""

    workspace: Workspace
    tables: LiveTables

    def matching(self, text: str) -> list[str]:
        """Return the URLs of the best pages of the index for a query."""
        if not newest_numbers(self.workspace.storage):
            return []
        request = SearchRequest(
            text, count=MAX_START_PAGES, per_host=0, spelling=False, snippets=False
        )
        return [hit.url for hit in Searcher(self.workspace.root).search(request).hits]

    def well_linked(self) -> list[str]:
        """Return the pages with the highest rank; without ranks those nearest to a seed."""
        ranks = newest(self.workspace)
        if ranks is not None:
            pages = self.tables.scan("pages").select("partition", "host_key", "url_key", "url")
            best = pl.scan_parquet(ranks[1] / PAGES).select("url_key", "prior")
            joined = pages.join(best.top_k(MAX_START_PAGES, by="prior"), on="url_key").unique("url")
            urls = joined.sort("prior", "url", descending=[True, False]).collect()["url"].to_list()
            if urls:
                return list(urls)
        nearest = self.tables.scan("urls").filter(
            (pl.col("state") == "visited") & (pl.col("operation") == "") & (pl.col("reason") == "")
        )
        best = nearest.select("url", "depth").bottom_k(MAX_START_PAGES, by="depth")
        return best.collect()["url"].unique(maintain_order=True).to_list()

    def read(self, urls: Sequence[str]) -> list[tuple[str, Page]]:
        """Return visited URLs with the page of the last parse, and its links; omit all others."""
        identifier = Identifier(self.workspace.domains, self.workspace.partitions)
        ids = [identifier.identify(url) for url in dict.fromkeys(urls)]

        def among(name: str, values: Iterable[int], kind: pl.DataType) -> pl.Expr:
            return pl.col(name).is_in(pl.Series(sorted(set(values)), dtype=kind).implode())

        # skips the row groups that cannot contain these keys
        here = (
            among("partition", (each.partition for each in ids), pl.UInt16())
            & among("host_key", (each.host_key for each in ids), pl.UInt64())
            & among("url_key", (each.url_key for each in ids), pl.UInt64())
        )
        pages, links = self._pages(here), self._links(here)
        return [
            (url, replace(pages.get(url) or Page(), links=links.get(url, [])))
            for url in dict.fromkeys(urls)
            if url in pages or url in links
        ]

    def _pages(self, here: pl.Expr) -> dict[str, Page]:
        rows = self.tables.all_rows("pages").filter(here).select("url_key", *_PAGE_COLUMNS, ENTRY)
        newest_rows = (
            rows.collect()
            .sort(ENTRY, maintain_order=True)
            .unique("url_key", keep="last")
            .select(*_PAGE_COLUMNS)
            .with_columns(pl.col("published_at").dt.epoch("ms"))
        )
        return {row.pop("url"): Page(**row) for row in newest_rows.iter_rows(named=True)}

    def _links(self, here: pl.Expr) -> dict[str, list[Link]]:
        columns = ("source", "target", "anchor", "rel", "kind", "position")
        rows = self.tables.all_rows("links").filter(here).select(*columns, "found_at", ENTRY)
        newest_rows = rows.collect()
        for column in (ENTRY, "found_at"):
            newest_rows = newest_rows.filter(pl.col(column) == pl.col(column).max().over("source"))
        links: dict[str, list[Link]] = {}
        for source, *link in newest_rows.sort("position").select(columns).iter_rows():
            links.setdefault(source, []).append(Link(*link))
        return links
