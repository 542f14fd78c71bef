"""Models of single pages, fetched or stored, and of their versions: see `models`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from lycosa.core.dataclass import dataclass, doc


@dataclass(frozen=True)
class PageRecord:
    """The record of a page: text and metadata. `markdown`: the main content, if it is stored or
    requested.
    """

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
    markdown: str


@dataclass(frozen=True)
class PageMetadata:
    """Metadata that a page declares.

    Formats: JSON-LD, Open Graph, microdata, RDFa, meta elements. Fields are columns of the table
    `metadata`. `raw` has the declared values by format.
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
    """A page that was just fetched, with its links, its metadata, and the status of the
    response.
    """

    status: int
    links: Sequence[str]
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
    digest: str = field(
        metadata=doc(
            "`sha1:BASE32` of the body as transferred; for a revisit, that of the original."
        )
    )
    changed: bool = field(metadata=doc("Whether the text differs from that of the previous visit."))
    original: str | None = field(
        metadata=doc(
            "For a revisit (status 304, or the same bytes): time of the original capture, ISO 8601."
        )
    )
    redirect_to: str
    truncated: str = field(metadata=doc("Reason for a truncated body; empty: complete."))
    error: str
    cached: str = field(metadata=doc("Path of the cached copy on the server of the workspace."))
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
class VersionMarkdown:
    """One version as Markdown."""

    url: str
    version: VersionInfo
    title: str
    mode: str
    markdown: str


@dataclass(frozen=True)
class MarkdownPart:
    """A part of a page as Markdown."""

    url: str
    title: str
    fetched_at: str = field(metadata=doc("UTC, ISO 8601."))
    markdown: str
    start: int = field(metadata=doc("Position of the part in the Markdown, in characters from 0."))
    length: int = field(metadata=doc("Length of the complete Markdown in characters."))
    next_start: int | None = field(
        metadata=doc("`start` of the next part; null: this is the last one.")
    )
