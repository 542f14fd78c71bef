"""The configuration: one closed, typed schema with its defaults, bounds and texts.

`lycosa.toml`, `--set section.key=value` and `docs/settings.md` all come from the models below: the
description of a field is its documentation. An unknown key is an error that names its line and the
nearest known key.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lycosa.config.credentials import BasicAuth, FormLogin, without_user
from lycosa.config.monitor import Monitor
from lycosa.config.section import DurationMs, SettingsSection, SizeBytes
from lycosa.config.serving import NotifySettings, SearchSettings, ServeSettings
from lycosa.core.errors import UsageError
from lycosa.core.hours import parse_hours
from lycosa.core.version import VERSION


def _hours(value: str) -> str:
    try:
        parse_hours(value)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return value


_Address = Annotated[str, AfterValidator(without_user)]
Scope = Literal["host", "domain", "prefix", "any"]
Strategy = Literal["breadth-first", "depth-first", "server-first", "best-first"]
Recrawl = Literal["never", "age", "daily", "fresh"]


class FetchSettings(SettingsSection):
    """HTTP requests: identification, time limits, size limits and retries."""

    user_agent: str = Field(
        f"lycosa/{VERSION}",
        min_length=1,
        description="User-Agent header. The part before the first slash is the product token that "
        "is matched in robots.txt.",
    )
    contact: str = Field(
        "",
        description="URL or email address for webmasters. It is added to the "
        "User-Agent header and to the archive.",
    )
    connections: int = Field(
        100,
        ge=1,
        le=10_000,
        description="Maximum number of concurrent connections, over all hosts.",
    )
    connect_timeout: DurationMs = Field(
        10_000, ge=1, description="Time limit for connecting, including name resolution."
    )
    first_byte_timeout: DurationMs = Field(
        20_000, ge=1, description="Time limit from the request to the first byte of the response."
    )
    total_timeout: DurationMs = Field(
        120_000, ge=1, description="Time limit for one request and its response."
    )
    slow_time: DurationMs = Field(
        20_000,
        ge=1000,
        description="Period over which the transfer rate is compared with `slow_speed`.",
    )
    slow_speed: SizeBytes = Field(
        64,
        ge=0,
        description="Minimum number of bytes per second. A slower transfer is aborted "
        "with the error `too_slow`.",
    )
    max_header: SizeBytes = Field(
        64 * 1024,
        ge=1024,
        description="Maximum size of the response header. A larger header is "
        "the error `headers_too_large`.",
    )
    max_body: SizeBytes = Field(
        10 * 2**20,
        ge=1024,
        description="Maximum size of a body as transferred. A longer body is "
        "truncated and marked as truncated.",
    )
    max_decoded: SizeBytes = Field(
        40 * 2**20,
        ge=1024,
        description="Maximum size of a body after decompression. A longer "
        "body is truncated and marked as truncated.",
    )
    retries: int = Field(
        3,
        ge=0,
        le=20,
        description="Maximum number of retries after a temporary "
        "failure. Each attempt is recorded.",
    )
    retry_wait: DurationMs = Field(
        5_000, ge=0, description="Delay before the first retry. It doubles with each further retry."
    )
    retry_later: DurationMs = Field(
        86_400_000,
        ge=0,
        description="When all retries have failed, the URL is due again after this time. The time "
        "doubles with each further "
        "failure, up to 7 days.",
    )
    other_schemes: bool = Field(
        False,
        description="Follow ftp:// and gopher:// links within the scope: files, directory "
        "listings and menus. A scheme that a "
        "seed of the collection uses is always followed.",
    )
    max_redirects: int = Field(
        10,
        ge=0,
        le=50,
        description="Maximum length of a redirect chain. The next URL of the chain is excluded.",
    )
    http2: bool = Field(True, description="Offer HTTP/2 over TLS.")
    verify_tls: bool = Field(True, description="Reject invalid TLS certificates.")
    ca_file: str = Field(
        "",
        description="File with trusted CA certificates. It replaces the CA "
        "certificates of the system.",
    )
    accept_language: str = Field(
        "", description="Accept-Language header. Empty: the header is not sent."
    )
    connect_to: tuple[str, ...] = Field(
        (),
        description="Connect to another address than the URL names, as `--connect-to` of curl "
        "does. Format: "
        "`HOST:PORT:HOST:PORT`. An empty part matches all.",
    )


class CrawlSettings(SettingsSection):
    """Crawl workers: commits, memory limits and documents."""

    patience: DurationMs = Field(
        120_000,
        ge=0,
        description="`lycosa crawl` ends when no request is in flight and no URL "
        "is due within this time.",
    )
    commit_pages: int = Field(5_000, ge=1, description="Commit after this many requests.")
    commit_interval: DurationMs = Field(
        30_000, ge=100, description="Maximum time between two commits, if there are changes."
    )
    commit_text: SizeBytes = Field(
        12 * 2**20, ge=2**20, description="Commit when the uncommitted text reaches this size."
    )
    commit_urls: int = Field(
        20_000, ge=100, description="Commit when this many rows of `urls` are uncommitted."
    )
    active_hosts: int = Field(
        20_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of active hosts per worker. "
        "Inactive hosts are kept in the tables only.",
    )
    waiting_urls: int = Field(
        20_000,
        ge=100,
        le=1_000_000,
        description="Maximum number of queued URLs in memory, over all hosts. The others are kept "
        "in the tables only.",
    )
    documents: int = Field(
        2,
        ge=0,
        le=64,
        description="Number of processes per worker that parse PDF, office and other documents. "
        "They start with the first "
        "document. 0: documents are neither fetched nor parsed.",
    )
    document_timeout: DurationMs = Field(
        20_000,
        ge=100,
        description="CPU time limit for parsing a document. The wall-clock limit is 5 times as "
        "long. If a limit is exceeded, "
        "the document has no text.",
    )
    document_memory: SizeBytes = Field(
        2**30,
        ge=400 * 2**20,
        description="Address space limit of a process that parses "
        "documents. A document that needs more has no text.",
    )
    exclusions: str = Field(
        "",
        description="File with URLs that are never fetched: `host NAME`, `domain NAME` or `prefix "
        "URL`, one rule per line. It "
        "is read again when it changes.",
    )
    remind_pages: int = Field(
        500,
        ge=0,
        description="`lycosa crawl` recommends setting `fetch.contact` after this many "
        "pages from public hosts.",
    )


class RenderSettings(SettingsSection):
    """Rendering of pages with scripts in Chromium. Collections use it according to
    `collection.render`.
    """

    browser: str = Field(
        "",
        description="Path of the Chromium program that renders pages. Empty: "
        "`chromium` or an equivalent on the PATH.",
    )
    pages: int = Field(
        2, ge=1, le=32, description="Number of pages that are rendered concurrently."
    )
    timeout: DurationMs = Field(
        10_000,
        ge=500,
        description="Time limit for rendering a page, without the time spent waiting for the "
        "network. The limit with that time"
        " is 10 times as long.",
    )
    requests: int = Field(
        40, ge=0, le=1_000, description="Maximum number of requests per rendered page."
    )
    bytes: SizeBytes = Field(
        16 * 2**20,
        ge=2**16,
        description="Maximum number of bytes that a rendered page may load, and its maximum size.",
    )
    memory: SizeBytes = Field(
        2**31,
        ge=2**28,
        description="Memory limit of the browser with all its processes. It is "
        "restarted when it exceeds the limit.",
    )
    sandbox: bool = Field(
        True,
        description="Run Chromium in its sandbox. The sandbox does not work as root: rendering as "
        "root is refused unless this is "
        "`false`, and scripts of web pages then run without it.",
    )


class IndexSettings(SettingsSection):
    """The search index."""

    heap: SizeBytes = Field(
        40 * 2**20,
        ge=15 * 2**20,
        description="Memory for the index writer of tantivy: between 15 MB and 4 GB per thread.",
    )
    threads: int = Field(1, ge=1, le=16, description="Number of indexing threads.")
    interval: DurationMs = Field(
        10_000, ge=0, description="Minimum time between two updates of the index during a crawl."
    )
    shards: int = Field(
        1,
        ge=1,
        le=1_024,
        description="Number of index shards. Each shard indexes a group of partitions, and shards "
        "can be on different "
        "machines. A change rebuilds the index.",
    )
    korean: Literal["bigrams", "kiwi"] = Field(
        "bigrams",
        description="Analysis of Korean: `bigrams` (pairs of syllables) or `kiwi` (morphemes, "
        "requires `pip install "
        "'lycosa[ko]'`). A change rebuilds the index.",
    )
    encoder: str = Field(
        "",
        description="Custom encoder for cross-language search, as "
        "`module:object`. See docs/translation.md.",
    )


class StoreSettings(SettingsSection):
    """Compaction and retention of the files in the workspace, and the local cache."""

    merge_commits: int = Field(
        32, ge=2, le=1_000, description="Compact small commits when there are this many."
    )
    keep_replaced: DurationMs = Field(
        86_400_000,
        ge=0,
        description="Time until files that were replaced by a compaction are "
        "deleted. Readers may still have them open.",
    )
    keep_entries: DurationMs = Field(
        7 * 86_400_000, ge=0, description="Time until log entries before a snapshot are deleted."
    )
    cache: SizeBytes = Field(
        10 * 2**30,
        ge=2**20,
        description="Maximum disk space per machine for copies of files of a workspace on S3 or "
        "HDFS. Files in use are kept "
        "even above this limit.",
    )


class RunSettings(SettingsSection):
    """The daemon `lycosa run`, which crawls the configured collections continuously."""

    restarts: int = Field(
        5,
        ge=0,
        description="Maximum number of worker restarts within `window`. If more workers "
        "die, the daemon stops with an error.",
    )
    window: DurationMs = Field(
        600_000, ge=1_000, description="Period in which restarts are counted."
    )
    stop_timeout: DurationMs = Field(
        10_000, ge=1_000, description="Grace period in which a stopped worker commits and ends."
    )
    merge_interval: DurationMs = Field(
        60_000, ge=1_000, description="Interval between two checks whether a compaction is due."
    )
    rank_interval: DurationMs = Field(
        86_400_000,
        ge=60_000,
        description="Interval between two computations of page importance "
        "and of the recrawl schedule.",
    )
    disk_reserve: SizeBytes = Field(
        256 * 2**20,
        ge=0,
        description="Minimum free disk space. The crawl is paused while less is free.",
    )


class ClusterSettings(SettingsSection):
    """A cluster of several workers: failure detection and installation on nodes."""

    ping_interval: DurationMs = Field(
        3_000,
        ge=100,
        description="Interval between two pings of a worker to the coordinator. "
        "The reply contains the assigned partitions.",
    )
    hold: DurationMs = Field(
        15_000,
        ge=500,
        description="A worker starts no request if it sent its last answered ping "
        "longer ago than this.",
    )
    reassign: DurationMs = Field(
        30_000,
        ge=1_000,
        description="The partitions of a worker are reassigned this long after its last answered "
        "ping. At least twice `hold`.",
    )
    install: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Installation of required packages on the nodes of a Ray cluster: `auto` if "
        "one is missing, `always` or "
        "`never`. The code of Lycosa itself is always sent.",
    )


class Collection(SettingsSection):
    """A collection: its seeds, scope, politeness and schedule."""

    name: str = Field(
        "default",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="Name of the collection: lower-case letters, digits, `-` and `_`, at most 64 "
        "characters.",
    )
    seeds: tuple[_Address, ...] = Field((), description="Seed URLs.")
    seed_file: str = Field(
        "", description="File with seed URLs, one URL per line. `#` starts a comment."
    )
    language: str = Field(
        "",
        pattern=r"^([a-z]{2,3})?$",
        description="Language under which exports file the pages, as an ISO 639 code. Empty: the "
        "detected language of each page.",
    )
    scope: Scope = Field(
        "host",
        description="Which links are followed: `host` (hosts and ports of the seeds), `domain` "
        "(their registrable domains), "
        "`prefix` (URLs below the folder of a seed) or `any`.",
    )
    depth: int | None = Field(
        None,
        ge=0,
        description="Maximum number of links from a seed. 0: only the seeds. Not set: no limit.",
    )
    allow: tuple[str, ...] = Field(
        (),
        description="Regular expressions. If there are any, a URL is only followed if one of "
        "them matches a part of it.",
    )
    deny: tuple[str, ...] = Field(
        (),
        description="Regular expressions. A URL is not followed if "
        "one of them matches a part of it.",
    )
    delay: DurationMs = Field(
        1_000, ge=0, description="Minimum delay between two requests to a host."
    )
    courtesy_factor: float = Field(
        10.0,
        ge=0,
        allow_inf_nan=False,
        description="The delay is at least this multiple of the duration of the last transfer.",
    )
    max_delay: DurationMs = Field(
        600_000,
        ge=0,
        description="Maximum delay that results from `courtesy_factor` or from slow responses.",
    )
    backoff: DurationMs = Field(
        60_000,
        ge=0,
        description="Delay after the first failure of a host (no response, 429 or 503). It "
        "doubles with each further failure, up to 1 day.",
    )
    connections: int = Field(
        30, ge=1, description="Maximum number of concurrent connections of the collection."
    )
    connections_per_host: int = Field(
        1, ge=1, le=16, description="Maximum number of concurrent connections to a host."
    )
    max_pages: int | None = Field(
        None, ge=0, description="Maximum number of pages in the collection."
    )
    max_pages_per_host: int | None = Field(
        None, ge=0, description="Maximum number of pages per host in the collection."
    )
    max_pages_per_domain: int | None = Field(
        None, ge=0, description="Maximum number of pages per registrable domain in the collection."
    )
    max_prefix_share: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Maximum share of `max_pages_per_host` for URLs with the "
        "same first path segment.",
    )
    strategy: Strategy = Field(
        "breadth-first",
        description="Order of URLs. `breadth-first`: fewest links from a seed first. "
        "`depth-first`: most links first (set "
        "`depth`). `server-first`: one page of every known host first, then the host whose last "
        "visit is the "
        "oldest. `best-first`: highest priority first.",
    )
    priority: float = Field(
        0.0,
        allow_inf_nan=False,
        description="If two collections share a host, the collection "
        "with the higher priority is served first.",
    )
    media_types: tuple[str, ...] = Field(
        (),
        description="Accepted media types, with `*` as a wildcard: `text/html`, `application/*`. "
        "Other responses are aborted "
        "after their headers. Empty: all types that can be parsed.",
    )
    schedule: Annotated[str, AfterValidator(_hours)] = Field(
        "",
        description="Hours in which `lycosa run` crawls the collection, in UTC: `22:00-06:00`, "
        "several separated by commas. Empty: always.",
    )
    paused: bool = Field(False, description="Stop requests for the collection. All data is kept.")
    recrawl: Recrawl = Field(
        "never",
        description="When pages are fetched again: `never`, `age` (older than `max_age`), `daily` "
        "(at `daily_at`) or `fresh` "
        "(by change rate and importance, within `fetches_per_day`).",
    )
    max_age: DurationMs = Field(
        86_400_000,
        ge=1_000,
        description="With recrawl `age`: pages older than this are fetched again.",
    )
    recrawl_triggers: tuple[Literal["timer", "on_link"], ...] = Field(
        ("timer",),
        description="With recrawl `age`: `timer` fetches a page when it reaches `max_age`, "
        "`on_link` when a link to it is "
        "found after that.",
    )
    daily_at: str = Field(
        "03:00",
        pattern=r"^([01]\d|2[0-3]):[0-5]\d$",
        description="With recrawl `daily`: time of day, in UTC.",
    )
    fetches_per_day: int = Field(
        10_000,
        ge=1,
        description="With recrawl `fresh`: maximum number of fetches of known pages per day.",
    )
    sitemaps: bool = Field(True, description="Read the sitemaps that are listed in robots.txt.")
    feeds: bool = Field(True, description="Read the RSS and Atom feeds that pages link to.")
    feed_urls: tuple[_Address, ...] = Field(
        (), description="Feeds and sitemaps that are always read."
    )
    traps: bool = Field(
        True,
        description="Skip URLs and site sections that look like crawler traps. `lycosa "
        "explain` shows the counters of the rules.",
    )
    domain_connections: int = Field(
        2,
        ge=1,
        le=64,
        description="Maximum number of concurrent connections to all hosts of a registrable "
        "domain. A connection counts until "
        "the delay after its request is over.",
    )
    address_connections: int = Field(
        4,
        ge=0,
        le=256,
        description="Maximum number of concurrent connections to all hosts with "
        "the same IP address. 0: no limit.",
    )
    burst: int = Field(
        1,
        ge=1,
        le=100,
        description="Number of requests that may follow each other on an open connection without "
        "a delay. The delays are added"
        " up after them.",
    )
    max_url_length: int = Field(
        2_000,
        ge=64,
        le=4_096,
        description="Maximum length of a URL in characters. Longer URLs are skipped.",
    )
    drop_parameters: tuple[str, ...] = Field(
        (),
        description="Query parameters that are removed from URLs, with `*` as a wildcard: "
        "`utm_*`, `fbclid`. This may change "
        "the resource that a URL identifies.",
    )
    drop_session_ids: bool = Field(
        False, description="Remove session IDs such as `jsessionid` and `PHPSESSID` from URLs."
    )
    merge_slashes: bool = Field(False, description="Replace `//` in paths by `/`.")
    drop_trailing_dot: bool = Field(
        False, description="Replace the host `example.org.` by `example.org`."
    )
    requisites: bool = Field(
        False,
        description="Also fetch page requisites within the scope: images, style sheets and what "
        "they refer to, scripts and "
        "fonts. They are archived but not indexed. `lycosa export mirror` needs them for complete "
        "copies.",
    )
    respect_nofollow: bool = Field(True, description="Do not follow links with `rel=nofollow`.")
    accept_language: str = Field(
        "",
        pattern=r"^[A-Za-z0-9*,;=. -]*$",
        description="Accept-Language header of the collection. Empty: `language` if it is set, "
        "else `fetch.accept_language`.",
    )
    referer: bool = Field(
        False,
        description="Send a Referer header with the URL of the linking page. Other origins "
        "receive only the origin. Nothing is"
        " sent from https to http.",
    )
    cookies: bool = Field(
        False,
        description="Store cookies and send them back. They are kept in the memory of the worker "
        "only.",
    )
    auth: tuple[BasicAuth, ...] = Field(
        (), description="Basic authentication: one `[[collection.auth]]` per URL prefix."
    )
    login: tuple[FormLogin, ...] = Field(
        (), description="Login forms: one `[[collection.login]]` per form."
    )
    render: Literal["never", "auto", "always"] = Field(
        "never",
        description="Render pages in Chromium: `never`, `auto` (if samples of the host show that "
        "rendering adds text or links)"
        " or `always` (every page with scripts).",
    )
    render_hosts: tuple[str, ...] = Field(
        (),
        description="Further hosts, with their subdomains, from which rendered pages may load "
        "scripts and data. The "
        "registrable domain of the page is always allowed.",
    )

    @property
    def recrawled_on_link(self) -> bool:
        """Whether a link to an old page makes it due."""
        return self.recrawl == "age" and "on_link" in self.recrawl_triggers


ADMISSION_SETTINGS = (
    *(
        "seeds",
        "scope",
        "depth",
        "allow",
        "deny",
        "media_types",
        "traps",
        "max_url_length",
        "respect_nofollow",
        "requisites",
    ),
    *("max_pages", "max_pages_per_host", "max_pages_per_domain", "max_prefix_share"),
    *("drop_parameters", "drop_session_ids", "merge_slashes", "drop_trailing_dot"),
)
"""Collection settings whose change may admit URLs that were left out before: stored links are
walked again then.
"""

OTHER_SETTINGS = (
    *(
        "name",
        "seed_file",
        "language",
        "strategy",
        "priority",
        "schedule",
        "paused",
        "recrawl",
        "max_age",
        "recrawl_triggers",
        "daily_at",
    ),
    *(
        "fetches_per_day",
        "delay",
        "courtesy_factor",
        "max_delay",
        "backoff",
        "connections",
        "connections_per_host",
        "domain_connections",
    ),
    *(
        "address_connections",
        "burst",
        "sitemaps",
        "feeds",
        "feed_urls",
        "accept_language",
        "referer",
        "cookies",
        "auth",
        "login",
        "render",
    ),
    *("render_hosts",),
)
"""Collection settings that concern the order, pace and content of requests, and what is read anew
in any case. Every setting is in one of the two (a test requires it).
"""


class Config(SettingsSection):
    """The configuration in lycosa.toml."""

    fetch: FetchSettings = Field(default_factory=lambda: FetchSettings())
    crawl: CrawlSettings = Field(default_factory=lambda: CrawlSettings())
    render: RenderSettings = Field(default_factory=lambda: RenderSettings())
    index: IndexSettings = Field(default_factory=lambda: IndexSettings())
    store: StoreSettings = Field(default_factory=lambda: StoreSettings())
    run: RunSettings = Field(default_factory=lambda: RunSettings())
    cluster: ClusterSettings = Field(default_factory=lambda: ClusterSettings())
    serve: ServeSettings = Field(default_factory=lambda: ServeSettings())
    search: SearchSettings = Field(default_factory=lambda: SearchSettings())
    notify: NotifySettings = Field(default_factory=lambda: NotifySettings())
    collection: tuple[Collection, ...] = Field(
        (), description="Collections, one `[[collection]]` each."
    )
    monitor: tuple[Monitor, ...] = Field((), description="Monitored URLs, one `[[monitor]]` each.")
