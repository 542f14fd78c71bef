"""The results of the use cases, for APIs, `--json` and the pages.

All are frozen dataclasses of plain values, which `dataclasses.asdict`, FastAPI and `json_text`
render alike. Reports that contain types of a feature package are in `feature_models`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from lycosa.core.dataclass import dataclass, doc


@dataclass(frozen=True)
class RunningProcess:
    """The process that owns a workspace."""

    pid: int
    host: str
    since: str
    command: str


@dataclass(frozen=True)
class ReasonCount:
    """URLs in one state for one reason."""

    state: str
    reason: str
    urls: int


@dataclass(frozen=True)
class OperationCount:
    """Sitemaps, feeds and other repeated operations in one state."""

    operation: str
    state: str
    urls: int


@dataclass(frozen=True)
class TrapCount:
    """A trap rule: URLs that were not fetched, and parts of hosts that are stopped."""

    rule: str
    urls: int = 0
    parts: int = 0


@dataclass(frozen=True)
class CollectionStatus:
    """A collection: pages, URLs by state, and order, recrawl and hours by its last crawl."""

    collection: str
    pages: int = 0
    newest: datetime | None = None
    known: int = 0
    visited: int = 0
    gone: int = 0
    excluded: int = 0
    strategy: str = ""
    priority: float = 0.0
    recrawl: str = ""
    schedule: str = ""
    paused: bool = False
    max_pages: int | None = None
    open_now: bool = False
    due_again: int = 0


@dataclass(frozen=True)
class HostStatus:
    """A host with the counters of the table `hosts`."""

    host: str
    known: int
    visited: int
    pages: int
    bytes: int
    fails: int
    delay: int | None
    not_before: datetime | None
    last_visit_at: datetime | None
    server: str


@dataclass(frozen=True)
class LargestHosts:
    """The number of hosts, and those with the most pages."""

    total: int
    largest: Sequence[HostStatus]


@dataclass(frozen=True)
class IndexStatus:
    """The newest generation of the search index, and the log entry up to which it is complete."""

    generation: int
    documents: int
    log_entry: int


@dataclass(frozen=True)
class WorkspaceStatus:
    """Counts of a workspace and the state of its crawl.

    `waiting`: number of known URLs by the reason for their wait: `due`, `host_paused`, or the
    reason of their row. `live` is the report of a running daemon, `cluster` the last one of a
    coordinator.
    """

    workspace: str
    running: RunningProcess | None
    log_entry: int
    urls: Mapping[str, int]
    reasons: Sequence[ReasonCount]
    waiting: Mapping[str, int]
    operations: Sequence[OperationCount]
    traps: Sequence[TrapCount]
    collections: Sequence[CollectionStatus]
    exclusions: Sequence[str]
    live: Mapping[str, Any] | None
    cluster: Mapping[str, Any] | None
    pages: int
    languages: Mapping[str, int]
    visits: int
    bytes: int
    first_visit: datetime | None
    last_visit: datetime | None
    pages_per_second: float | None
    statuses: Mapping[str, int]
    errors: Mapping[str, int]
    refused_links: Mapping[str, int]
    hosts: LargestHosts
    index: IndexStatus | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Inlinks:
    """The number of links to a URL, and the earliest."""

    total: int
    first: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class UrlExplanation:
    """The state of a URL and why it was or was not fetched.

    `collections` has a row of `urls` for each collection, with `why`, `verdict`, `due_at` and the
    settings that decide; `host_clock` the pauses of the host; `visits` and `page` rows of these
    tables; `same_text` URLs with the same text.
    """

    url: str
    given: str
    host: str
    partition: int
    url_key: str
    exclusion: str
    collections: Sequence[Mapping[str, Any]]
    robots: Mapping[str, Any]
    host_clock: Sequence[Mapping[str, Any]]
    visits: Sequence[Mapping[str, Any]]
    page: Sequence[Mapping[str, Any]]
    referrers: Inlinks
    same_text: Sequence[str]


@dataclass(frozen=True)
class CollectionSummary:
    """A collection of the workspace."""

    name: str
    language: str = field(
        metadata=doc(
            "Language that its pages are filed under in the library; empty: the language of each "
            "page."
        )
    )
    configured: bool
    pages: int
    sites: int
    bytes: int = field(metadata=doc("Decoded size of its pages in bytes."))
    urls: Mapping[str, int] = field(metadata=doc("URLs by state."))
    pages_ever: int = field(
        metadata=doc("Number of pages counted by the page quota (`max_pages`).")
    )
    on_disk: int = field(
        metadata=doc("Size in bytes of the base files that contain only this collection.")
    )
    paused: bool = field(
        metadata=doc("Paused by a command, on a page or by the API, not by lycosa.toml.")
    )


@dataclass(frozen=True)
class CollectionFacts:
    """Contents, queue and settings of a collection. Counts are of URLs, pages and fetches."""

    name: str
    language: str
    configured: bool
    paused: Mapping[str, str] | None = field(metadata=doc("Who paused it (`by`) and when (`at`)."))
    states: Mapping[str, int] = field(metadata=doc("URLs by state."))
    waiting: Mapping[str, int] = field(
        metadata=doc("Queued URLs by reason: `due`, `host_paused`, or a reason code.")
    )
    pages: int
    newest: datetime | None
    languages: Mapping[str, int] = field(metadata=doc("Current pages by language."))
    fetches: int
    bytes: int
    first_fetch: datetime | None
    last_fetch: datetime | None
    statuses: Mapping[str, int]
    errors: Mapping[str, int]
    host_count: int
    hosts: list[dict[str, Any]] = field(metadata=doc("Hosts with the most pages."))
    queue: list[dict[str, Any]] = field(metadata=doc("First queued URLs, highest priority first."))
    schedule: Mapping[str, Any]
    seeds: list[str]
    settings: Mapping[str, Any] = field(
        metadata=doc("Settings of the last crawl; durations as text.")
    )
    changed: list[str] = field(metadata=doc("Names of settings that differ from their defaults."))
    pending: list[str] = field(
        metadata=doc(
            "Names of settings that differ in lycosa.toml; they take effect with the next crawl."
        )
    )


@dataclass(frozen=True)
class CollectionHoldings:
    """Stored data of a collection."""

    name: str

    captures: int = field(metadata=doc("Number of captures in the archive."))
    archived_bytes: int = field(metadata=doc("Compressed size of these captures."))
    waiting: int = field(metadata=doc("Number of queued URLs."))
    pages: int
    links: int = field(metadata=doc("Number of links in its live pages."))


@dataclass(frozen=True)
class HostFacts:
    """One host: its row of `hosts`, the first URLs that wait, and its last visits."""

    row: dict[str, Any]
    waiting: int
    queue: list[dict[str, Any]]
    visits: list[dict[str, Any]]


@dataclass(frozen=True)
class GroupRow:
    """One language, collection or type. Averages are over the days from the first to the last
    fetch.
    """

    name: str
    pages: int
    sites: int
    bytes: int = field(metadata=doc("Decoded size of the live pages."))
    first: datetime | None
    newest: datetime | None
    days: int
    fetched: int
    fetched_bytes: int
    pages_a_day: float
    bytes_a_day: float


@dataclass(frozen=True)
class GroupHost:
    """One host of a group."""

    name: str = field(metadata=doc("Name of the group."))
    host: str
    pages: int
    bytes: int
    newest: datetime


@dataclass(frozen=True)
class GroupTable:
    """A table by language, collection or type: rows, their sum, and hosts on request."""

    by: str
    rows: list[GroupRow]
    total: GroupRow
    sites: list[GroupHost] = field(metadata=doc("Hosts of the group (with parameter `sites`)."))
    totals: Mapping[str, int] = field(
        metadata=doc("Length of each complete list."), default_factory=dict
    )


@dataclass(frozen=True)
class HostSummary:
    """One host of the workspace."""

    host: str
    registrable_domain: str
    server: str
    pages: int
    known: int
    visited: int
    bytes: int
    first_seen_at: datetime | None
    last_visit_at: datetime | None
    ip: str
    delay: int | None = field(metadata=doc("Delay between two requests in ms."))
    not_before: datetime | None = field(metadata=doc("Time until which the host is paused."))
    fails: int = field(metadata=doc("Consecutive failures."))
    latency: float | None = field(metadata=doc("Mean response time in ms."))


@dataclass(frozen=True)
class HostTable:
    """The hosts with the most pages, new hosts by day, and hosts by server software."""

    hosts: list[HostSummary]
    total: int
    new_by_day: Mapping[str, int] = field(metadata=doc("Number of new hosts by day, ISO 8601."))
    servers: Mapping[str, int] = field(metadata=doc("Number of hosts by server software."))


@dataclass(frozen=True)
class ExclusionReport:
    """All exclusion rules in effect, and the amount of deleted data."""

    rules: Sequence[str]
    exclusion: int | None
    purged: bool
    rows: Mapping[str, int]
    records: int
    archives: int
    bytes_deleted: int
    documents: int
    pending: Mapping[str, str] = field(
        metadata=doc("Data that is not deleted yet, by its place, with the reason.")
    )


@dataclass(frozen=True)
class QueryResult:
    """Rows of a SQL query."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]] = field(metadata=doc("Times are ISO 8601, in UTC."))
    truncated: bool = field(
        metadata=doc("Whether rows or parts of values were left out because of a limit.")
    )
