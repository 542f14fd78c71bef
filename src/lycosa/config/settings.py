"""The configuration: one closed, typed schema with its defaults, bounds and texts.

`lycosa.toml`, `--set section.key=value` and `docs/reference/settings*.md` come from the models
below: the description of a field is its documentation. An unknown key is an error with its line
and the nearest known key.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lycosa.config.collection import Collection as Collection
from lycosa.config.monitor import Monitor
from lycosa.config.section import DurationMs, SettingsSection, SizeBytes, Variable
from lycosa.config.serving import NotifySettings, SearchSettings, ServeSettings
from lycosa.core.version import VERSION


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
        "certificates of the system. A relative path starts at the folder of `lycosa.toml`.",
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
        "is read again when it changes. A relative path starts at the folder of `lycosa.toml`.",
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
        20 * 2**20,
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


class EncoderSettings(SettingsSection):
    """The encoder that turns texts into vectors, for passages and for searches across languages.
    Lycosa includes no model. See docs/how-to/passages.md.
    """

    source: str = Field(
        "",
        description="A Python function as `package.module:function`, the URL of an "
        "OpenAI-compatible API as `https://HOST/v1`, `fastembed` or `sentence-transformers`. "
        "Empty: no encoder.",
    )
    model: str = Field(
        "",
        max_length=200,
        description="Name of the model. A change of `source`, `model` or a prefix encodes all "
        "chunks again.",
    )
    api_key_env: Variable | Literal[""] = Field(
        "", description="Environment variable with the API key. Empty: no key is sent."
    )
    query_prefix: str = Field(
        "", max_length=1_000, description="Text before each query, if the model needs one."
    )
    passage_prefix: str = Field(
        "", max_length=1_000, description="Text before each chunk, if the model needs one."
    )
    chunk_tokens: int = Field(
        200,
        ge=16,
        le=4_000,
        description="Maximum number of tokens of a chunk that is encoded, estimated.",
    )
    batch: int = Field(64, ge=1, le=2_048, description="Number of texts that are encoded together.")
    timeout: DurationMs = Field(
        30_000, ge=100, description="Time limit for one request to the API."
    )
    query_timeout: DurationMs = Field(
        3_000,
        ge=50,
        description="Time limit for encoding a query. Then passages are ranked by words only.",
    )
    retries: int = Field(
        4,
        ge=0,
        le=20,
        description="Number of further attempts if the API is overloaded or fails. Queries are not "
        "tried again.",
    )
    interval: DurationMs = Field(
        60_000, ge=1_000, description="Minimum time between two encodings during a crawl."
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
        "longer ago than this. At least 8 times the duration of a request to storage.",
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


class Config(SettingsSection):
    """The configuration in lycosa.toml."""

    fetch: FetchSettings = Field(default_factory=lambda: FetchSettings())
    crawl: CrawlSettings = Field(default_factory=lambda: CrawlSettings())
    render: RenderSettings = Field(default_factory=lambda: RenderSettings())
    index: IndexSettings = Field(default_factory=lambda: IndexSettings())
    encoder: EncoderSettings = Field(default_factory=lambda: EncoderSettings())
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
