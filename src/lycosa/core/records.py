"""The records that packages exchange.

Times named `*_at` are milliseconds since 1970-01-01 UTC. Keys are unsigned 64-bit integers (see
`lycosa.url.keys`). The columns of tables are in `lycosa.store.tables.schema`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from lycosa.core.dataclass import dataclass


class UrlId(NamedTuple):
    """A normalised URL with its keys. `host`: without port, IPv6 in brackets."""

    url: str
    host: str
    host_key: int
    url_key: int
    partition: int


class UrlState(StrEnum):
    """The stored states of a URL; due, queued and in flight are not stored."""

    KNOWN = "known"
    VISITED = "visited"
    GONE = "gone"
    EXCLUDED = "excluded"


class VisitKind(StrEnum):
    """The purpose of an exchange."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    FEED = "feed"
    DOCUMENT = "document"
    CHECK = "check"
    LOGIN = "login"  # a login form: its page, its submission, the redirects
    REQUISITE = "requisite"  # a subresource of a rendered page


KINDS_WITHOUT_ROWS = frozenset(
    {VisitKind.ROBOTS, VisitKind.LOGIN, VisitKind.REQUISITE, VisitKind.CHECK}
)
"""Kinds of visits without a row of `urls`."""

CHECKS = "_uptime"
"""The collection in visits of kind `check`."""


class LinkKind(StrEnum):
    """Where a link was, in a page or in HTTP."""

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


FOLLOWED_KINDS = frozenset(LinkKind) - {LinkKind.IMAGE, LinkKind.FEED, LinkKind.REQUISITE}
"""Links that the crawl follows. Images and requisites are only stored in `links`."""


class Link(NamedTuple):
    """A link of a page. `target`: normalised, without fragment. `position`: from 0."""

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
"""`Page.language_share` if the declared language differs, or also that of the title."""


@dataclass(slots=True)
class Metadata:
    """The declared metadata of a page, normalised: a row of `metadata`.

    Empty: not declared.
    """

    type: str = ""  # of schema.org, such as NewsArticle
    headline: str = ""
    authors: list[str] = field(default_factory=list)
    published_at: int | None = None
    modified_at: int | None = None
    description: str = ""
    image: str = ""  # absolute URL
    language: str = ""  # code
    site_name: str = ""
    publisher: str = ""
    section: str = ""
    keywords: list[str] = field(default_factory=list)
    license: str = ""
    price: float | None = None  # the lowest of several offers
    currency: str = ""  # ISO 4217
    availability: str = ""  # of schema.org, such as InStock
    rating: float | None = None  # on a scale to `best_rating`
    best_rating: float | None = None
    rating_count: int | None = None
    raw: str = ""  # the declared values by format, a JSON object


class ItemProblem(NamedTuple):
    """A value that does not fit its field, or a required field without one."""

    field: str  # dotted, for a nested one
    selector: str
    value: str
    problem: str


class Item(NamedTuple):
    """An item that a schema of a collection extracted: a row of `items`.

    `position` is None if the schema applies to the page and selects nothing there.
    """

    collection: str
    schema: str
    position: int | None
    values: str = "{}"  # a JSON object
    valid: bool = True  # nothing required is missing
    missing: tuple[str, ...] = ()  # fields with selectors that selected nothing
    problems: tuple[ItemProblem, ...] = ()


@dataclass(slots=True)
class Page:
    """A parsed document. Strings are in NFC, with white space collapsed."""

    title: str = ""
    headline: str = ""  # the first h1, or the declared headline
    description: str = ""
    headings: list[str] = field(default_factory=list)  # h1 to h6 in order
    main_text: str = ""  # blocks joined by newline; a subsequence of the lines of `text`
    # line ranges of `text` that are main text: first, last + 1, first, last + 1, …; []: unknown
    main_lines: list[int] = field(default_factory=list)
    text: str = ""  # all that is visible, blocks joined by newline
    markdown: str | None = None  # of the main content; None: not requested
    language: str = ""  # ISO 639-1 (or -3) code identified from the text; "" unknown
    language_score: float = 0.0  # 0 to 1
    other_languages: list[str] = field(default_factory=list)
    # code from <html lang>, <meta http-equiv> or Content-Language; "" none
    declared_language: str = ""
    # 1; less if declaration, URL or title do not fit `language`: lycosa.text.identify
    language_share: float = 1.0
    # article, collection, documentation, forum, listing, product or service; "" not HTML
    page_type: str = ""
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
    metadata: Metadata = field(default_factory=Metadata)
    items: list[Item] = field(default_factory=list)  # of all collections that requested it


@dataclass(slots=True, frozen=True)
class Request:
    """A request. `token` is returned unchanged in the exchange.

    `unwanted`: whether to abort a large response with this Content-Type.
    """

    url: str
    kind: str = VisitKind.PAGE
    headers: tuple[tuple[str, str], ...] = ()  # further request headers, e.g. If-None-Match
    token: object = None
    unwanted: Callable[[str], bool] | None = None
    form: bytes | None = None  # the body of a POST (application/x-www-form-urlencoded); None: GET


@dataclass(slots=True)
class Exchange:
    """A request and its response: exact bytes, times, address.

    `body`: as transferred, with Content-Encoding and chunk framing (see `lycosa.http.decode`).
    """

    url: str
    kind: str
    started_at: int
    duration_ms: int
    ip: str = ""
    protocol: str = ""  # "http/1.0", "http/1.1", "h2", "h3"
    request_head: bytes = b""  # request line and headers up to and including the empty line
    # status line and headers up to and including the empty line; empty: no response
    response_head: bytes = b""
    body: bytes = b""
    status: int = 0  # 0: no response
    error: str = ""  # a FetchError value, or ""
    error_text: str = ""  # the message of libcurl
    # "" | "length" | "time" | "disconnect" | "unspecified" (not of a wanted type) | "decoded"
    # (not of WARC's vocabulary)
    truncated: str = ""
    first_byte_ms: int = 0  # from the start to the first byte
    # the document after its scripts have run, UTF-8; empty: not rendered
    rendered: bytes = b""
    connect_ms: int = 0  # until the request was sent: name resolution, connection, TLS
    token: object = None

    def fail(self, error: str, text: str) -> None:
        """Record that the response is an error."""
        self.error, self.error_text = error, text

    def replace_head(self, head: bytes) -> None:
        """Replace the response head by one without data that must not be archived."""
        self.response_head = head

    def set_rendered(self, html: bytes) -> None:
        """Set the rendered document; b"" if there is none."""
        self.rendered = html

    def set_body(self, body: bytes) -> None:
        """Set the body; b"" frees the memory of one that is stored elsewhere."""
        self.body = body


@dataclass(slots=True)
class Visit:
    """The outcome of an exchange: a row of `visits` for each collection."""

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

    def set_location(self, record_id: str, file: str, offset: int, length: int) -> None:
        """Set the place of the exchange in the archive."""
        self.record_id = record_id
        self.warc_file = file
        self.warc_offset = offset
        self.warc_length = length

    def set_digest(self, digest: str) -> None:
        """Set the payload digest."""
        self.digest = digest

    def record_content(self, links_count: int, *, changed: bool) -> None:
        """Record the parsed content. `changed`: since the last visit."""
        self.links_count = links_count
        self.changed = changed

    def record_fault(self, error: str = "", *, truncated: bool = False) -> None:
        """Record an error of decoding or parsing, or a stop at the size limit."""
        self.error = error or self.error
        if truncated and not self.truncated:
            self.truncated = "decoded"

    def record_redirect(self, target: str) -> None:
        """Record a redirect; "": its Location cannot be used."""
        self.redirect_to = target


@dataclass(slots=True)
class UrlRow:
    """A row of `urls`, owned by the worker that holds its partition."""

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
    redirects: int = 0  # redirects that led to it
    redirect_from: str = ""
    fails: int = 0
    checks: int = 0
    changes: int = 0
    etag: str = ""
    last_modified: str = ""
    digest: str = ""
    text_digest: int = 0  # xxh3_64 of the text at the last visit; 0: no text
    captured_at: int = 0  # when the complete payload was last archived
    record_id: str = ""  # of that capture; revisit records refer to it
    importance: float = 0.0  # 0: unknown
    change_rate: float = 0.0  # estimated changes a day; 0: unknown
    claim: float = 0.0  # probability of a change according to a sitemap or feed
    silence: float = 0.0  # probability that an unannounced page has not changed
    # observed changes (`lycosa.frontier.recrawl.change_rate.ChangeStats`)
    history: tuple[float, ...] = ()

    @property
    def key(self) -> int:
        """The key of the row within its collection, which depends on the operation."""
        return operation_key(self.id.url_key, self.operation) if self.operation else self.id.url_key

    def change_state(self, state: str, reason: str, now_ms: int) -> None:
        """Enter a state.

        A URL that leaves the index loses its capture, so that it is fetched completely if it
        returns.
        """
        if state in (UrlState.GONE, UrlState.EXCLUDED) or reason == "redirect":
            self.etag = self.last_modified = self.digest = self.record_id = ""
        self.state = state
        self.reason = reason
        self.state_at = now_ms

    def record_visit(self, at: int, *, gone: bool = False) -> None:
        """Record a successful fetch, or that the URL is `gone`."""
        self.checks += self.visited_at > 0
        self.visited_at = at
        self.fails = 0 if not gone else self.fails + 1 if self.state == UrlState.GONE else 1
        self.not_before = 0

    def record_capture(self, visit: Visit) -> None:
        """Record that the payload was archived."""
        self.etag = visit.etag
        self.last_modified = visit.last_modified
        self.digest = visit.digest
        self.captured_at = visit.fetched_at
        self.record_id = visit.record_id

    def record_text(self, text_digest: int, *, first: bool) -> bool:
        """Record the extracted text, and return whether it is new or changed.

        `first`: the URL had no text before, which counts as a change.
        """
        changed = first or self.text_digest != text_digest
        self.changes += changed and not first
        self.text_digest = text_digest
        return changed

    def record_failure(self, reason: str, now_ms: int) -> None:
        """Record a failed fetch that is repeated later; the state remains."""
        self.fails += 1
        self.reason = reason
        self.state_at = now_ms

    def defer_until(self, not_before: int, reason: str | None = None) -> None:
        """Do not fetch the URL before that time. `reason`: None: unchanged."""
        self.not_before = not_before
        if reason is not None:
            self.reason = reason

    def renew(self, now_ms: int) -> None:
        """Record that a link or list shows that the URL exists."""
        self.state_at = now_ms

    def learn_changes(self, history: tuple[float, ...], change_rate: float) -> None:
        """Set the estimate of the change rate after a visit. A claim of a change is resolved."""
        self.history = history
        self.change_rate = change_rate
        self.claim = 0.0

    def weigh_claims(self, claim: float, silence: float | None = None) -> None:
        """Set the probabilities, by a sitemap or feed, that the URL changed, or did not."""
        self.claim = claim
        if silence is not None:
            self.silence = silence

    def rank(self, importance: float, change_rate: float | None) -> None:
        """Set the results of the daily ranking.

        `change_rate`: None if a visit has a newer estimate.
        """
        self.importance = importance
        if change_rate is not None:
            self.change_rate = change_rate

    def reduce_depth(self, depth: int) -> None:
        """Set the depth to `depth` if that is less: a shorter path was found."""
        self.depth = min(self.depth, depth)


def operation_key(url_key: int, operation: str) -> int:
    """Return the key of a URL for an operation; the mapping is reversible."""
    return url_key ^ operation_mask(operation)


def operation_mask(operation: str) -> int:
    """Return the mask of the keys of an operation, 0 for crawling."""
    if not operation:
        return 0
    return crc32(operation.encode()) * 0x9E37_79B9_7F4A_7C15 & 0xFFFF_FFFF_FFFF_FFFF
