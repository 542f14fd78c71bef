"""The results of the use cases: what the Python API, the JSON API, `--json` and the pages show.

All are frozen dataclasses of plain values, which `dataclasses.asdict`, FastAPI and `json_text`
render alike. Reports that contain types of a feature package are in `feature_models`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from lycosa.search.presentation.results import Explanation


def doc(description: str) -> dict[str, str]:
    """Return field metadata with the description that the OpenAPI document shows."""
    return {"description": description}


@dataclass(frozen=True)
class SnippetFragment:
    """A fragment of a snippet."""

    text: str
    match: bool = field(metadata=doc("Whether the fragment matches the query."))


@dataclass(frozen=True)
class SearchHit:
    """A search result."""

    url: str
    title: str
    snippet: str = field(metadata=doc("Plain text, not HTML: escape it."))
    fragments: Sequence[SnippetFragment] = field(
        metadata=doc("The snippet in fragments; joined, they are `snippet`.")
    )
    language: str = field(metadata=doc("ISO 639 code identified from the text; empty: unknown."))
    host: str
    collection: str
    fetched_at: str = field(metadata=doc("UTC, ISO 8601."))
    published_at: str | None = field(
        metadata=doc("Publication date that the page states; UTC, ISO 8601.")
    )
    score: float
    type: str = field(metadata=doc("File type: html, pdf, txt …"))
    copies: int = field(metadata=doc("Number of hidden duplicates of this page."))
    from_host: int = field(
        metadata=doc("Number of pages of its host among the first few hundred results.")
    )
    cached: str = field(
        metadata=doc(
            "Location of the cached copy: a path on this server, or the URL of a peer; empty: none."
        )
    )
    source: str = field(
        metadata=doc(
            "Source: empty for the workspace of this server, else another workspace or the "
            "address of a peer."
        ),
        default="",
    )
    explanation: Explanation | None = field(
        metadata=doc("With `explain`: the parts of the score."), default=None
    )


@dataclass(frozen=True)
class TranslationChoice:
    """A translation of a word."""

    text: str
    weight: float = field(metadata=doc("Weight, at most 1."))
    origin: str = field(
        metadata=doc(
            "Source: the name of a translation table, `as typed`, or `given` (parameter "
            "`translate`)."
        )
    )


@dataclass(frozen=True)
class WordTranslations:
    """A word of the query and its translations, highest weight first."""

    source: str
    alternatives: Sequence[TranslationChoice]


@dataclass(frozen=True)
class QueryTranslation:
    """The query in one language."""

    language: str
    terms: Sequence[WordTranslations]


@dataclass(frozen=True)
class ResultNote:
    """A note about the results."""

    code: str = field(metadata=doc("Stable identifier of the message; empty: none."))
    text: str = field(metadata=doc("In English."))
    values: Mapping[str, str | int] = field(metadata=doc("The values in the text."))


@dataclass(frozen=True)
class SpellingSuggestion:
    """A query with another spelling."""

    query: str
    total: int = field(metadata=doc("Number of pages with all of its words."))


@dataclass(frozen=True)
class FacetCount:
    """One value of a facet and its number of pages."""

    value: str
    count: int


@dataclass(frozen=True)
class SearchAnswer:
    """Search results, best first."""

    query: str
    total: int = field(metadata=doc("Number of matching pages."))
    offset: int
    took_ms: float
    generation: int = field(metadata=doc("Generation of the index; 0: there is no index yet."))
    notes: Sequence[str] = field(metadata=doc("Notes about these results, in English."))
    remarks: Sequence[ResultNote] = field(metadata=doc("The notes with their codes and values."))
    missing_shards: Sequence[int] = field(
        metadata=doc(
            "Shards of the index, counted from 0, whose pages are missing in these results."
        )
    )
    hits: Sequence[SearchHit]
    translations: Sequence[QueryTranslation] = field(
        metadata=doc("With `across`: the query in each language, its own language first.")
    )
    did_you_mean: SpellingSuggestion | None = field(
        metadata=doc("Another spelling, if the query has few results and that spelling has more.")
    )
    expansion: Sequence[str] = field(
        metadata=doc("Terms that feedback added to the query, highest weight first.")
    )
    facets: Mapping[str, Sequence[FacetCount]] = field(
        metadata=doc("Values of the requested facets, most pages first.")
    )


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
    """The newest generation of the search index."""

    generation: int
    documents: int
    log_entry: int


@dataclass(frozen=True)
class WorkspaceStatus:
    """Counts of a workspace and the state of its crawl.

    `waiting` counts known URLs by what they wait for: `due`, `host_paused`, or the reason of their
    row. `live` is the report of a running daemon, `cluster` the last one of a coordinator.
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


@dataclass(frozen=True)
class HostTable:
    """The hosts with the most pages, new hosts by day, and hosts by server software."""

    hosts: list[HostSummary]
    total: int
    new_by_day: Mapping[date, int] = field(metadata=doc("Number of new hosts by day."))
    servers: Mapping[str, int] = field(metadata=doc("Number of hosts by server software."))


@dataclass(frozen=True)
class ExclusionReport:
    """All exclusion rules in effect, and what a purge deleted.

    `pending`: (where, why) of data that is not deleted yet; empty after a purge: nothing is left.
    """

    rules: Sequence[str]
    exclusion: int | None
    purged: bool
    rows: Mapping[str, int]
    records: int
    archives: int
    bytes_deleted: int
    documents: int
    pending: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class CrawlReport:
    """Counters of a crawl that ended. `ended`: finished, max_pages, max_time or stopped."""

    workspace: str
    collection: str
    ended: str
    pages: int
    public_pages: int
    visits: int
    bytes: int
    seconds: float
    pages_per_second: float
    hosts: int
    replayed: int
    damaged: Mapping[str, int]
    commits: int
    states: Mapping[str, int]
    statuses: Mapping[str, int]
    errors: Mapping[str, int]
    failures: Mapping[str, str]
    refused: Mapping[str, int]
    languages: Mapping[str, int]
    left_for_later: Mapping[str, int]

    @property
    def has_nothing(self) -> bool:
        """Whether no page was fetched because requests failed."""
        return bool(self.failures) and not (self.pages or self.replayed)


@dataclass(frozen=True)
class PageRecord:
    """The record of a page: text and metadata."""

    url: str
    collection: str
    title: str
    headline: str
    description: str
    language: str
    charset: str
    published_at: datetime | None
    fetched_at: datetime
    canonical: str | None
    headings: Sequence[str]
    main_text: str
    text: str


@dataclass(frozen=True)
class PageMetadata:
    """What a page declares about itself (JSON-LD, Open Graph, microdata, RDFa, meta elements).

    Fields are columns of the table `metadata`. `raw` has the declared values by format.
    """

    type: str = ""
    headline: str = ""
    authors: Sequence[str] = ()
    published_at: datetime | None = None
    modified_at: datetime | None = None
    description: str = ""
    image: str = ""
    language: str = ""
    site_name: str = ""
    publisher: str = ""
    section: str = ""
    keywords: Sequence[str] = ()
    license: str = ""
    price: float | None = None
    currency: str = ""
    availability: str = ""
    rating: float | None = None
    best_rating: float | None = None
    rating_count: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FetchedPage(PageRecord):
    """A page that was just fetched, with its links, its metadata, its main text as Markdown, and
    the status of the response.
    """

    status: int
    links: Sequence[str]
    markdown: str = ""
    metadata: PageMetadata = field(default_factory=PageMetadata)


@dataclass(frozen=True)
class FetchHop:
    """One exchange of a fetch that follows redirects. `refused`: why it was not made."""

    url: str
    refused: str = ""
    status: int = 0
    error: str = ""
    error_text: str = ""
    ip: str = ""
    protocol: str = ""
    duration_ms: int = 0
    first_byte_ms: int | None = None
    truncated: str = ""
    body_bytes: int = 0
    request: str = ""
    response: str = ""


@dataclass(frozen=True)
class RobotsReport:
    """Whether the robots.txt of an origin allows a URL, and which line decides.

    `verdict`: parse, allow_all or deny_all; `problem`: why there was no response.
    """

    url: str
    robots: str
    status: int
    verdict: str
    token: str
    allowed: bool
    line: str
    crawl_delay_ms: int | None
    sitemaps: Sequence[str]
    body: str
    problem: str


@dataclass(frozen=True)
class VersionInfo:
    """An archived capture of a page."""

    number: int = field(metadata=doc("Number in the list, from 1: the newest."))
    at: str = field(metadata=doc("Time as used by the parameter `at`: UTC, in milliseconds."))
    fetched_at: str = field(metadata=doc("The same time, ISO 8601."))
    status: int
    content_type: str = field(metadata=doc("Media type stated by the server."))
    size: int = field(metadata=doc("Size of the body as transferred, in bytes."))
    digest: str = field(metadata=doc("`sha1:BASE32` of the body as transferred."))
    changed: bool = field(metadata=doc("Whether the text differs from that of the previous visit."))
    original: str | None = field(
        metadata=doc("For a revisit: time of the original capture, ISO 8601.")
    )
    redirect_to: str
    truncated: str = field(metadata=doc("Reason for a truncated body; empty: complete."))
    error: str
    collections: Sequence[str]
    record_id: str
    warc_file: str
    warc_offset: int
    warc_length: int


@dataclass(frozen=True)
class VersionList:
    """Captures of a page, newest first."""

    url: str
    total: int
    versions: Sequence[VersionInfo]


@dataclass(frozen=True)
class VersionContent:
    """The text of one version."""

    url: str
    version: VersionInfo
    title: str
    main_text: str
    text: str


@dataclass(frozen=True)
class HuntHit:
    """A relevant page of a focused crawl, as soon as it is fetched."""

    url: str
    title: str
    score: float = field(metadata=doc("Relevance when it was fetched, 0 to 1."))
    snippet: str
    fragments: Sequence[Mapping[str, Any]]
    language: str
    number: int = field(metadata=doc("Ordinal number among the fetched pages."))
    via: str = field(metadata=doc("Page that links to it; empty for a seed."))
    rank: int = field(metadata=doc("Rank among the pages so far."))
    seconds: float = field(metadata=doc("Seconds since the start."))


@dataclass(frozen=True)
class AddedUrls:
    """Submitted URLs, normalised. `process`: ID of the running crawl that fetches them; 0: none."""

    workspace: str
    collection: str
    urls: Sequence[str]
    file: str
    running: bool
    process: int


@dataclass(frozen=True)
class FindSubmission:
    """A find that a crawl executes. `id`: name of its matches."""

    workspace: str
    collection: str
    id: str
    running: bool


@dataclass(frozen=True)
class FindReport:
    """A find in a site. `left`: pages that are not searched yet; None: it has not started."""

    id: str
    fetched: int
    left: int | None
    running: bool
