"""Results of crawls, hunts and submissions: see `models`. A crawl imports no other model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from lycosa.core.dataclass import dataclass, doc


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
        fetched = self.pages or self.replayed or self.statuses.get("304")
        return bool(self.failures) and not fetched


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
    event: str = "found"


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


@dataclass(frozen=True)
class FocusedCrawlReport:
    """The end of a focused crawl and its relevant pages, best first.

    `ended`: enough, max_time, max_pages, finished (no links), or stopped.
    """

    question: str
    ended: str
    pages: int
    relevant: int
    failed: Mapping[str, int] = field(metadata=doc("URLs without a page, by reason."))
    hits: Sequence[HuntHit] = field(metadata=doc("At most 100, ranked by their last scores."))
