"""`explain`: whether the crawl would fetch a URL now, by its own rules.

`StoredCrawl` reads the state that these rules need from the tables, for one URL: the link gate
decides about admission, the agenda and the clocks about the time, `UrlRules` about the fetch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, assert_never

import polars as pl
import polars.selectors as cs

from lycosa.config.collection import stored_collection
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock
from lycosa.core.errors import Exclusion, Refusal, UrlError
from lycosa.core.host_row import HostRow
from lycosa.core.records import Link, LinkKind, UrlId, UrlRow, UrlState, VisitKind
from lycosa.crawl.admission.discovery import KINDS
from lycosa.crawl.admission.link_gate import AdmissionListener, LinkGate
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.admission.url_filter import ExclusionCheck, HostTraps, UrlFilter
from lycosa.crawl.policy.fetch_decision import (
    Defer,
    Exclude,
    Fetch,
    Postpone,
    UrlRules,
    fetch_decision,
)
from lycosa.crawl.policy.page_budgets import PageBudgets
from lycosa.crawl.policy.robots_cache import RobotsCache
from lycosa.crawl.session.pausing import paused
from lycosa.crawl.state.assignment import Assignment, recrawl_rules
from lycosa.crawl.state.task import Task
from lycosa.fetch.robots_txt import robots_url
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.politeness.delay import DelayRules
from lycosa.frontier.rows.row_reader import HostRowReader
from lycosa.frontier.scheduler.agenda import Agenda
from lycosa.frontier.scheduler.parked_hosts import RowReaders
from lycosa.frontier.seen import SeenUrls
from lycosa.hooks.plugins import installed_plugins
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import host_record, url_records
from lycosa.store.workspace import Workspace
from lycosa.url.exclusions import configured_file
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission
from lycosa.url.traps import query_signature


class Action(StrEnum):
    """The action of the crawl for a URL."""

    FETCH = "fetch"
    DEFER = "defer"
    REFUSE = "refuse"


@dataclass(slots=True, frozen=True)
class Verdict:
    """The decision of the crawl about a URL.

    `reason`: of a wait or refusal; `at`: end of a wait, ms since 1970; None: unknown.
    """

    action: Action
    reason: str = ""
    at: int | None = None


FETCHED_NOW = Verdict(Action.FETCH)
NO_LINK, OPERATION = "no_link", "operation"
PAUSED, RECRAWL, NOT_DUE = "paused", "recrawl", "not_due"
_BY_SETTINGS = frozenset({Exclusion.SCOPE, Exclusion.DEPTH, Exclusion.PATTERN})
NOT_CONFIGURED = "not_configured"
HOST_PAUSED, ROBOTS_UNKNOWN, ROBOTS_UNREACHABLE = (
    "host_paused",
    "robots_unknown",
    "robots_unreachable",
)


@dataclass(slots=True, frozen=True)
class Candidate:
    """The gate's result for a URL that is not stored: a row, or refusals.

    `links`: number of stored links to the URL.
    """

    row: UrlRow | None
    refusals: tuple[str, ...]
    links: int

    @property
    def refusal(self) -> str:
        """The first reason why the gate admits no row; "" if it admits one."""
        if self.refusals:
            return self.refusals[0]
        return "" if self.row is not None else NO_LINK


class _AdmittedRows(AdmissionListener):
    """Collects the rows that a gate admits."""

    def __init__(self) -> None:
        self.rows: list[UrlRow] = []

    def admitted(self, rows: Sequence[UrlRow]) -> None:
        self.rows += rows


class _StoredHosts:
    """The hosts from their table; a host without a row is new."""

    def __init__(self, rows: Iterable[HostRow], robots: RobotsCache, crawl: StoredCrawl) -> None:
        self._rows = {row.host_key: row for row in rows}
        self._robots = robots
        self._crawl = crawl

    def row(self, host_key: int) -> HostRow:
        row = self._rows.get(host_key)
        if row is None:
            id = self._crawl.identity
            domain = self._crawl.identifier.domains.registrable(id.host)
            row = self._rows[host_key] = HostRow(id.host, id.partition, host_key, domain, 0)
        return row

    def has_current_robots(self, origin: str, host_key: int, now_ms: int) -> bool:
        return self._robots.load_current(self.row(host_key).robots, origin, now_ms)

    def robots_task(self, origin: str) -> Task:
        identity = self._crawl.identifier.identify(robots_url(origin))
        return Task(identity, (), origin, VisitKind.ROBOTS)


class StoredCrawl:
    """The state of a crawl for one URL, from the tables of the workspace.

    Raises:
        UrlError: the URL cannot be parsed.
        ConfigError: the exclusion list cannot be read.
    """

    def __init__(self, workspace: Workspace, config: Config, url: str, clock: Clock) -> None:
        self.workspace, self.config, self.clock = workspace, config, clock
        self.log = workspace.state()
        self.tables = LiveTables(workspace, self.log)
        self.identifier = Identifier(workspace.domains, workspace.partitions)
        file = configured_file(config.crawl.exclusions, clock)
        self.excluded = ExclusionCheck(file, workspace.domains, self.log)
        self.refused_origins: set[str] = set()
        self.in_flight: dict[int, tuple[UrlRow, ...]] = {}
        self.robots = RobotsCache(config.fetch.user_agent)
        self.traps = HostTraps()
        collections = {
            name: stored_collection(name, settings) for name, settings in self.log.settings.items()
        }
        self._plain = normalise(url)
        self._spellings = list(
            {self._plain, *(Rules(each).apply(self._plain) for each in collections.values())}
        )
        self.frame = self._urls(pl.col("url").is_in(self._spellings))
        self.url = str(self.frame["url"][0]) if self.frame.height else self._plain
        self.identity: UrlId = self.identifier.identify(self.url)
        self.domain = workspace.domains.registrable(self.identity.host)
        self.hosts = _StoredHosts(map(host_record, self._hosts().iter_rows()), self.robots, self)
        self._listener = _AdmittedRows()
        self.assignments = {
            name: self._assignment(each, self.log.settings[name])
            for name, each in collections.items()
        }
        self.pauses = paused(workspace.storage)
        self.budgets = PageBudgets(collections.values(), lambda: self._readers, lambda key: ())
        self.budgets.load()
        self._rules = UrlRules(self, lambda origin, sitemaps: None)
        self._agenda = Agenda(
            {name: recrawl_rules(each) for name, each in collections.items() if not each.paused},
            clock,
        )

    def count_suspect(self, assignment: Assignment) -> None:
        """Do nothing: `explain` fetches nothing, so no suspect is counted."""

    def rows(self) -> list[UrlRow]:
        """Return the URL's rows, one per collection and operation."""
        return list(url_records(self.frame))

    @cached_property
    def links(self) -> pl.DataFrame:
        """The stored links to the URL, earliest first."""
        links = self.tables.scan("links").filter(pl.col("target").is_in(self._spellings))
        return links.sort("found_at").collect()

    def due_at(self, row: UrlRow) -> int | None:
        """Return when a URL is due by the agenda, in ms since 1970; None: never."""
        return self._agenda.due_at(row)

    def verdict(self, row: UrlRow) -> Verdict:
        """Return the decision of a worker about this row now."""
        if row.operation not in KINDS:
            return Verdict(Action.DEFER, OPERATION)
        if row.state == UrlState.EXCLUDED:
            return Verdict(Action.REFUSE, row.reason)
        if row.collection in self.pauses or self.assignments[row.collection].collection.paused:
            return Verdict(Action.DEFER, PAUSED)
        configured = {each.name for each in self.config.collection}
        if configured and row.collection not in configured:
            return Verdict(Action.DEFER, NOT_CONFIGURED)
        due = self.due_at(row)
        if due is None:
            return Verdict(Action.DEFER, RECRAWL)
        now_ms = self.clock.now_ms()
        decision = self._decision(row)
        waits = [(due, row.reason or NOT_DUE), (self._host_ready_at(), HOST_PAUSED)]
        if decision.action is Action.DEFER and decision.at is not None:
            waits.append((decision.at, decision.reason))
        at, reason = max(waits, key=lambda wait: wait[0])
        is_decided = decision.action is not Action.FETCH and decision.reason != ROBOTS_UNREACHABLE
        if is_decided and due <= now_ms and decision.reason != ROBOTS_UNKNOWN:
            return decision
        if decision.action is Action.REFUSE and decision.reason in _BY_SETTINGS:
            return decision
        return Verdict(Action.DEFER, reason, at) if at > now_ms else decision

    def candidate(self, collection: str) -> Candidate:
        """Return the result of a collection's gate for stored links to the URL.

        Without stored links, the gate decides about a link from a seed.
        """
        gate, now_ms = self.assignments[collection].gate, self.clock.now_ms()
        sources, is_seed = self._sources(collection), self._is_seed(collection)
        if is_seed:
            try:
                gate.seed(self._plain, now_ms)
            except UrlError as error:
                gate.refused[error.reason] += 1
        elif not sources:
            gate.admit(self._plain, 1, now_ms, Provenance(""))
        for source, link, may_follow in sources:
            if not may_follow:
                gate.refused[Refusal.NOFOLLOW] += 1
            elif link.kind == LinkKind.REDIRECT:
                gate.redirect(source, link.target, now_ms)
            else:
                gate.follow(source, (link,), now_ms)
        own = [each for each in self._listener.rows if each.collection == collection]
        written = gate.identify(self._plain)
        row = next((each for each in own if each.id == written), None)
        refusals = () if row is not None else tuple(gate.take_refused())
        return Candidate(row if sources or is_seed else None, refusals, len(sources))

    def least_depth(self, collection: str) -> int:
        """Return the depth of the nearest page of a collection that links to the URL."""
        return min((source.depth for source, _, _ in self._sources(collection)), default=0)

    def same_query(self) -> list[str]:
        """Return stored URLs with the same query parameters in another order."""
        signature = query_signature(self._plain)
        if not signature:
            return []
        path = self._plain.partition("?")[0]
        urls = self._urls(pl.col("url").str.starts_with(f"{path}?"))["url"].unique()
        return sorted(
            each for each in urls if each != self._plain and query_signature(each) == signature
        )

    def _decision(self, row: UrlRow) -> Verdict:
        rules = (*self._rules.by_robots, *self._rules.by_pages)
        decision = fetch_decision((row,), rules)[0]
        match decision:
            case Fetch():
                return FETCHED_NOW
            case Postpone(_, reason):
                is_refused = self.assignments[row.collection].gate.refuses(row) is not None
                return Verdict(Action.REFUSE if is_refused else Action.DEFER, reason)
            case Exclude(_, reason):
                return Verdict(Action.REFUSE, reason)
            case Defer():
                if decision.prerequisite is not None:
                    return Verdict(Action.DEFER, ROBOTS_UNKNOWN)
                wait_ms = decision.until - self.clock.monotonic_ms()
                return Verdict(Action.DEFER, ROBOTS_UNREACHABLE, self.clock.now_ms() + wait_ms)
            case _:
                assert_never(decision)

    def _host_ready_at(self) -> int:
        """Return when the pauses of the host and its registrable domain are over."""
        now_ms, clocks = self.clock.now_ms(), Clocks(ClockRules())
        host = self.hosts.row(self.identity.host_key)
        clocks.restore(
            host.host_key,
            host.registrable_domain,
            0,
            not_before=host.not_before - max(host.last_visit_at - now_ms, 0),
            now_ms=now_ms,
            monotonic_ms=now_ms,
        )
        until = self.domain_not_before()
        if until is not None:
            at_ms = round(until.timestamp() * 1000)
            clocks.restore_domain(self.domain, not_before=at_ms, now_ms=now_ms, monotonic_ms=now_ms)
        return clocks.ready_at(host.host_key, host.registrable_domain)

    def domain_not_before(self) -> Any:
        """Return until when no host of the registrable domain is requested, or None."""
        rows = self.tables.scan("hosts").filter(
            (pl.col("host") == "") & (pl.col("registrable_domain") == self.domain)
        )
        frame = rows.select("not_before").collect()
        return frame.item() if frame.height else None

    def _is_seed(self, collection: str) -> bool:
        gate = self.assignments[collection].gate
        written = gate.identify(self._plain)
        return any(
            gate.identify(seed) == written
            for seed in self.log.settings[collection].get("seeds", ())
        )

    def _sources(self, collection: str) -> list[tuple[UrlRow, Link, bool]]:
        """Return the pages of a collection that link to the URL.

        Each with the link, and whether the page allows to follow its links.
        """
        if not self.links.height:
            return []
        pages = self.links["source"].implode()
        rows = self._urls(
            (pl.col("collection") == collection)
            & (pl.col("operation") == "")
            & pl.col("url").is_in(pages)
        )
        sources = {row.id.url: row for row in url_records(rows)}
        closed = set(
            self.tables.scan("pages")
            .filter(~pl.col("may_follow") & pl.col("url").is_in(pages))
            .select("url")
            .collect()["url"]
        )
        links = self.links.select("source", "target", "anchor", "rel", "kind", "position")
        return [
            (sources[source], Link(*link), source not in closed)
            for source, *link in links.iter_rows()
            if source in sources
        ]

    def _assignment(self, collection: Collection, settings: Mapping[str, Any]) -> Assignment:
        screen = UrlFilter(
            collection,
            self.excluded,
            self.clock,
            documents=self.config.crawl.documents > 0,
            plugins=installed_plugins(),
        )
        if not self.frame.height:
            for url in self.same_query():
                screen(url)
        seen = SeenUrls()
        gate = LinkGate(
            collection,
            Admission(
                collection,
                settings.get("seeds", ()),
                self.identifier.domains,
                other_schemes=self.config.fetch.other_schemes,
            ),
            self.identifier,
            seen,
            self._listener,
            screen=screen,
        )
        counters: Counter[str] = self.log.counters
        return Assignment(
            collection,
            gate,
            seen,
            DelayRules.of(collection, collection.backoff),
            pages=counters[f"pages.{collection.name}"],
            suspects=counters[f"suspects.{collection.name}"],
        )

    @cached_property
    def _readers(self) -> RowReaders:
        path = self.workspace.storage.files.local_path
        readers = RowReaders(HostRowReader("urls", path), HostRowReader("hosts", path))
        readers.refresh(self.log)
        return readers

    def _urls(self, condition: pl.Expr) -> pl.DataFrame:
        return self.tables.scan("urls").filter(condition).collect()

    def _hosts(self) -> pl.DataFrame:
        hosts = self.tables.scan("hosts").filter(pl.col("host") == self.identity.host)
        return hosts.with_columns(cs.datetime().dt.epoch("ms")).collect()
