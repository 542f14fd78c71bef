"""Questions and answers, as whoever searches sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lycosa.search.crosslingual.translated import Across, TranslatedQuery
from lycosa.search.presentation.snippet import Snippet
from lycosa.search.ranking.feedback import AUTO
from lycosa.search.suggest.spelling import Spelling

MAX_HITS = 1_000
"""Hits that one request may page to and take: `offset` + `count` is cut to it."""

PER_HOST = 2
"""Results of one host that stand together before those of other hosts do, unless asked otherwise.
"""

FACETS = ("language", "host", "collection", "type", "date")
"""What results can be counted by."""


@dataclass(slots=True, frozen=True)
class SearchRequest:
    """One question. `language` (ISO 639 code), `collection` and `host` narrow it; `host` takes the
    hosts below it too.

    `order`: `date` puts the newest first, `relevance` the best; "": as the query says, else the
    best. `per_host`: so many results of a host come before those of other hosts that match about as
    well; 0: hosts do not matter. `folded`: of pages with the same text one is shown. `facets`: by
    what to count all pages found (of `FACETS`). `explain`: hits say what their score is made of.
    `spelling`: say another spelling of a query that finds little.
    """

    text: str
    count: int = 10
    offset: int = 0
    language: str | None = None
    collection: str | None = None
    host: str | None = None
    order: str = ""
    per_host: int = PER_HOST
    folded: bool = True
    facets: tuple[str, ...] = ()
    explain: bool = False
    feedback: str = AUTO  # "on", "off", "auto": see search.feedback
    across: Across | None = None  # ask in other languages too
    hops: int | None = None  # how far peers are asked, at most as is configured; 0: none is
    spelling: bool = True


@dataclass(slots=True, frozen=True)
class ScorePart:
    """What one term or phrase in one field counts for a page: BM25's score, times the field's
    weight.
    """

    field: str
    terms: tuple[str, ...]
    score: float


@dataclass(slots=True, frozen=True)
class Explanation:
    """What a score is made of: `words` (of the parts some may count for others, see docs/query.md),
    times `prior`, times `freshness`.
    """

    words: float
    prior: float
    freshness: float
    parts: tuple[ScorePart, ...]


@dataclass(slots=True, frozen=True)
class Hit:
    """A page that was found. Times in ms since 1970 UTC. `snippet` and `marked_title`: (text, is it
    a match) in order.

    `copies`: pages with the same text that were left out for this one. `from_host`: how many pages
    of its host were found, among the first few hundred.
    """

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
    type: str = ""
    copies: int = 0
    from_host: int = 1
    explanation: Explanation | None = None
    # where it is from, if several indexes were searched: a workspace, or another Lycosa's address
    source: str = ""


@dataclass(slots=True, frozen=True)
class SearchResults:
    """An answer. `total` counts all pages found, but for copies that were left out; `notes` say
    what a person should know about it.
    """

    query: str
    total: int
    hits: list[Hit]
    took_ms: float
    offset: int
    generation: int  # of several shards the sum of theirs; 0: there is no index
    notes: list[str]
    # shards, counted from 0, whose pages are not in the answer
    missing_shards: tuple[int, ...] = ()
    # by name: value -> pages, most first
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # how the query was asked in each language; its own comes first
    translations: tuple[TranslatedQuery, ...] = ()
    did_you_mean: Spelling | None = None  # another spelling, with which more pages are found
    expansion: tuple[str, ...] = ()  # terms that feedback added to the query, heaviest first

    def __iter__(self) -> Iterator[Hit]:
        """The hits, best first."""
        return iter(self.hits)
