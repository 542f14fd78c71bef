"""Questions and answers, as whoever searches sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from lycosa.search.snippet import Snippet

MOST_HITS = 1_000
"""Hits that one request may page to and take: `offset` + `count` is cut to it."""


@dataclass(slots=True, frozen=True)
class SearchRequest:
    """One question. `language` (ISO 639 code), `collection` and `host` narrow it; `host` takes the hosts below it too."""

    text: str
    count: int = 10
    offset: int = 0
    language: str | None = None
    collection: str | None = None
    host: str | None = None


@dataclass(slots=True, frozen=True)
class Hit:
    """A page that was found. Times in ms since 1970 UTC. `snippet` and `marked_title`: (text, is it a match) in order."""

    url: str
    title: str
    snippet: Snippet
    language: str
    host: str
    collection: str  # several are joined by ", "
    fetched_at: int
    published_at: int | None
    score: float
    marked_title: Snippet = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class SearchResults:
    """An answer. `total` counts all pages found; `notes` say what a person should know about it."""

    query: str
    total: int
    hits: list[Hit]
    took_ms: float
    offset: int
    generation: int  # of several shards the sum of theirs; 0: there is no index
    notes: list[str]
    missing_shards: tuple[int, ...] = ()  # shards, counted from 0, whose pages are not in the answer
