"""The records that travel between the rooms.

Times named `*_at` are integer milliseconds since 1970-01-01 UTC; durations name their unit. Keys
are unsigned 64-bit integers (see `lycosa.url.keys`). The tables' columns, which are public, are in
`lycosa.store.tables.schema`; these records are what the code hands around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32


class UrlId(NamedTuple):
    """A normalised URL with its identity. `host` is the hostname: no port, no brackets dropped from
    IPv6.
    """

    url: str
    host: str
    host_key: int
    url_key: int
    partition: int


class UrlState(StrEnum):
    """The stored states of a URL. Due, queued and in flight are views, not states."""

    KNOWN = "known"
    VISITED = "visited"
    GONE = "gone"
    EXCLUDED = "excluded"


class VisitKind(StrEnum):
    """What an exchange was for."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    FEED = "feed"
    DOCUMENT = "document"
    CHECK = "check"
    LOGIN = "login"  # a form to log in with: its page, its sending, what follows
    REQUISITE = "requisite"  # what a page that is being rendered asked for


KINDS_WITHOUT_ROWS = frozenset(
    {VisitKind.ROBOTS, VisitKind.LOGIN, VisitKind.REQUISITE, VisitKind.CHECK}
)
"""Visits of URLs that no row of `urls` stands for: what serves other fetches, and checks of
availability.
"""

CHECKS = "_uptime"
"""Stands for the collection in visits of kind `check`, which belong to none."""


class LinkKind(StrEnum):
    """Where in a page (or in the protocol) a link stood."""

    A = "a"
    AREA = "area"
    FRAME = "frame"
    IFRAME = "iframe"
    IMAGE = "image"
    CANONICAL = "canonical"
    ALTERNATE = "alternate"
    FEED = "feed"
    REDIRECT = "redirect"
    REFRESH = "refresh"
    REQUISITE = "requisite"


FOLLOWED_KINDS = frozenset(
    {
        LinkKind.A,
        LinkKind.AREA,
        LinkKind.FRAME,
        LinkKind.IFRAME,
        LinkKind.CANONICAL,
        LinkKind.ALTERNATE,
        LinkKind.REDIRECT,
        LinkKind.REFRESH,
    }
)
"""Links that the crawl follows. Images and requisites are stored in `links`, never fetched by a
plain crawl.
"""


class Link(NamedTuple):
    """One link of a page. `target` is absolute and normalised (no fragment). `position` counts
    links from 0.
    """

    target: str
    anchor: str
    rel: str  # lower case tokens joined by one space
    kind: str  # a LinkKind value
    position: int


class Alternate(NamedTuple):
    """A declared translation or variant of a page (hreflang)."""

    language: str
    url: str


DECLARATION_DIFFERS, TITLE_DIFFERS_TOO = 0.75, 0.5
"""Values of `Page.language_share` below 1: the declared language, or that of the URL, differs from
the text, or also the title does.
"""


@dataclass(slots=True)
class Page:
    """What was understood of a fetched document. Strings are NFC as found, white space folded,
    never None unless said.
    """

    title: str = ""
    headline: str = ""  # the first h1, or what the page marks as its headline
    description: str = ""
    headings: list[str] = field(default_factory=list)  # h1 to h6 in order
    main_text: str = ""  # blocks joined by newline; a subsequence of the lines of `text`
    text: str = ""  # all that is visible, blocks joined by newline
    language: str = ""  # ISO 639-1 (or -3) code identified from the text; "" unknown
    language_score: float = 0.0  # 0 to 1
    other_languages: list[str] = field(default_factory=list)
    # code from <html lang>, <meta http-equiv> or Content-Language; "" none
    declared_language: str = ""
    # 1; less if declaration, URL or title do not fit `language`: lycosa.text.consistency
    language_share: float = 1.0
    charset: str = ""
    published_at: int | None = None
    canonical: str | None = None
    may_index: bool = True
    may_follow: bool = True
    size: int = 0  # bytes of the decoded body
    text_digest: int = 0  # xxh3_64 of `text`
    simhash: int = 0
    faults: list[str] = field(default_factory=list)
    alternates: list[Alternate] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    # Refusal -> how many hrefs were not usable as links
    refused: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Request:
    """One exchange to be made. `token` is the caller's own and comes back untouched.

    `unwanted` is asked about the Content-Type of a large answer; true ends the transfer (the body
    stays empty).
    """

    url: str
    kind: str = VisitKind.PAGE
    headers: tuple[tuple[str, str], ...] = ()  # further request headers, e.g. If-None-Match
    token: object = None
    unwanted: Callable[[str], bool] | None = None
    form: bytes | None = None  # the body of a POST (application/x-www-form-urlencoded); None: GET


@dataclass(slots=True)
class Exchange:
    """What happened on the wire for one request: exact bytes, times, address.

    `body` is as it came: content-encoded, and with chunk framing where `Transfer-Encoding: chunked`
    was used over HTTP/1.1. `lycosa.http.decode` gives the plain payload.
    """

    url: str
    kind: str
    started_at: int
    duration_ms: int
    ip: str = ""
    protocol: str = ""  # "http/1.0", "http/1.1", "h2", "h3"
    request_head: bytes = b""  # request line and headers up to and including the empty line
    # status line and headers up to and including the empty line; empty: no answer
    response_head: bytes = b""
    body: bytes = b""
    status: int = 0  # 0: no answer
    error: str = ""  # a FetchError value, or ""
    error_text: str = ""  # for people: what libcurl said
    truncated: str = (
        # "" | "length" | "time" | "disconnect" | "unspecified" (not of a wanted type) | "decoded"
        # (not of WARC's vocabulary)
        ""
    )
    first_byte_ms: int = 0  # from the start to the first byte
    # the document as it stood in a browser after its scripts had run, UTF-8; empty: not rendered
    rendered: bytes = b""
    connect_ms: int = 0  # of it, until the request was sent: looking up the name, connecting, TLS
    token: object = None


@dataclass(slots=True)
class Visit:
    """The outcome of one exchange: one row of `visits` for each collection that wanted it."""

    url: str
    host: str
    partition: int
    host_key: int
    url_key: int
    kind: str
    collection: str
    depth: int
    fetched_at: int
    duration_ms: int
    ip: str = ""
    protocol: str = ""
    http_status: int = 0
    error: str = ""
    content_type: str = ""
    content_length: int = 0  # bytes of the body as transferred
    server: str = ""
    redirect_to: str = ""
    etag: str = ""
    last_modified: str = ""
    digest: str = ""  # sha1:BASE32 of the payload as in WARC-Payload-Digest; "" without payload
    changed: bool = True
    links_count: int = 0
    referrer: str = ""
    attempt: int = 1
    truncated: str = ""
    record_id: str = ""  # urn:uuid:… of the response (or revisit, or metadata) record
    warc_file: str = ""  # workspace-relative path
    warc_offset: int = 0
    warc_length: int = 0  # compressed bytes of that record
    # Of checks only (see the table's columns):
    verdict: str | None = None
    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    first_byte_ms: float | None = None
    certificate_until: int | None = None


@dataclass(slots=True)
class UrlRow:
    """One URL of one collection: a row of `urls`, owned by the worker that holds its partition."""

    id: UrlId
    collection: str
    depth: int
    operation: str = ""
    state: str = UrlState.KNOWN
    reason: str = ""
    state_at: int = 0
    priority: float = 0.0
    not_before: int = 0
    first_seen_at: int = 0
    visited_at: int = 0  # 0: never
    referrer: str = ""
    redirects: int = 0  # redirect hops behind it
    redirect_from: str = ""
    fails: int = 0
    checks: int = 0
    changes: int = 0
    etag: str = ""
    last_modified: str = ""
    digest: str = ""
    text_digest: int = 0  # xxh3_64 of the text at the last visit; 0: no text
    captured_at: int = 0  # when the payload was last archived whole
    record_id: str = ""  # of that capture: what a revisit record refers to
    importance: float = 0.0  # how much the page matters; 0: not known
    change_rate: float = 0.0  # changes a day, estimated; 0: not known
    claim: float = 0.0  # chance that it changed since its last visit, as a sitemap or feed says
    silence: float = 0.0  # chance that the silence of sitemaps and feeds means no change
    # what the visits said of its changes (`lycosa.frontier.recrawl.change_rate.ChangeStats`)
    history: tuple[float, ...] = ()

    @property
    def key(self) -> int:
        """The row's key within its collection: the URL's, another one for each operation."""
        return (
            self.id.url_key
            if not self.operation
            else operation_key(self.id.url_key, self.operation)
        )


def operation_key(url_key: int, operation: str) -> int:
    """The key of a URL's row for an operation; reversible, so that equal keys stay as rare as they
    are.
    """
    return url_key ^ operation_mask(operation)


def operation_mask(operation: str) -> int:
    """What an operation's keys differ by: 64 bits, 0 for plain crawling."""
    return (
        crc32(operation.encode()) * 0x9E37_79B9_7F4A_7C15 & 0xFFFF_FFFF_FFFF_FFFF
        if operation
        else 0
    )


class RobotsEntry(NamedTuple):
    """One origin's robots.txt as last fetched (a list of these stands in `hosts.robots`)."""

    origin: str  # scheme://host[:port]
    status: int  # 0: no answer
    fetched_at: int
    expires_at: int
    body: str  # at most 512 KiB, decoded as UTF-8 with replacement


@dataclass(slots=True)
class HostRow:
    """A host: its clock, its robots files, its counts. A row of `hosts`."""

    host: str
    partition: int
    host_key: int
    registrable_domain: str
    first_seen_at: int
    last_visit_at: int = 0
    ip: str = ""
    server: str = ""
    robots: list[RobotsEntry] = field(default_factory=list)
    delay_ms: int = 0  # the usual pause after a fetch, back-off and Retry-After left out
    not_before: int = 0
    latency_ms: float = 0.0  # moving mean of the transfer time
    fails: int = 0  # failures in a row
    known: int = 0
    visited: int = 0
    pages: int = 0
    bytes: int = 0
    budget: int | None = None
    traps: dict[str, int] = field(default_factory=dict)
    # claims of a change (lastmod in sitemaps and feeds) that a visit found true
    claims_right: float = 0.0
    claims_wrong: float = 0.0
    claims_missed: float = 0.0  # changes of listed pages that nothing had announced
