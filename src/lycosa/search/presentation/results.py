"""Search requests and their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from lycosa.core.dataclass import dataclass
from lycosa.search.crosslingual.translated import Across, TranslatedQuery
from lycosa.search.presentation.snippet import Snippet
from lycosa.search.query import syntax
from lycosa.search.ranking.feedback import AUTO
from lycosa.search.suggest.spelling import Spelling
from lycosa.url.languages import language_code

MAX_HITS = 1_000
"""Maximum of `offset` + `count` of a request."""

PER_HOST = 2
"""Default number of results of a host that precede those of other hosts."""

FACETS = ("language", "host", "collection", "type", "date")
"""Names of the facets."""


@dataclass(slots=True, frozen=True)
class SearchRequest:
    """A search request. `language` (ISO 639 code), `collection` and `host` are filters; `host`
    includes its subdomains.

    `order`: `date` (newest first), `relevance`, or "" for the order in the query. `per_host`: how
    many results of a host may precede those of other hosts with similar scores; 0: any number.
    `folded`: show one of the pages with the same text. `facets`: by which to count matches (of
    `FACETS`). `explain`: explain scores. `spelling`: suggest another spelling if there are few
    results.
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
    feedback: str = AUTO  # "on", "off", "auto": see `ranking.feedback`
    across: Across | None = None  # search in other languages too
    hops: int | None = None  # limit of forwarding to peers, within the configured one; 0: none
    spelling: bool = True
    snippets: bool = True  # False: hits have neither snippets nor marked titles

    @property
    def only_language(self) -> str:
        """The language filter as `lang:` reads it; "": none."""
        value = self.language or ""
        return language_code(value) or value.lower()

    @property
    def only_site(self) -> str:
        """The host filter as `site:` reads it; "": none."""
        value = self.host or ""
        return syntax.site(value) or value.lower()


@dataclass(slots=True, frozen=True)
class ScorePart:
    """The score of one term or phrase in one field of a page: BM25 times the field's weight."""

    field: str
    terms: tuple[str, ...]
    score: float


@dataclass(slots=True, frozen=True)
class Explanation:
    """A score is `words` * `prior` * `freshness`; `parts` form `words`: see
    docs/explanation/ranking.md.
    """

    words: float
    prior: float
    freshness: float
    parts: tuple[ScorePart, ...]


@dataclass(slots=True, frozen=True)
class Hit:
    """A page of the results. Times in ms since 1970 UTC. `snippet` and `marked_title`: pieces of
    text, each with whether it is a match.

    `copies`: number of omitted pages with the same text. `from_host`: number of pages of its host
    among the first few hundred matches.
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
    # of several searched indexes: the workspace, or the address of the peer
    source: str = ""


@dataclass(slots=True, frozen=True)
class SearchResults:
    """Results of a search. `total` counts all matches, without omitted copies if all
    of them were read (docs/explanation/ranking.md); `notes` are messages for the user.
    """

    query: str
    total: int
    hits: list[Hit]
    took_ms: float
    offset: int
    generation: int  # the sum of several shards'; 0: there is no index
    notes: list[str]
    # numbers (from 0) of shards with missing pages
    missing_shards: tuple[int, ...] = ()
    # by name: value -> pages, most first
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # the query in each searched language; its own first
    translations: tuple[TranslatedQuery, ...] = ()
    did_you_mean: Spelling | None = None  # another spelling, which more pages match
    expansion: tuple[str, ...] = ()  # terms that feedback added to the query, heaviest first

    def __iter__(self) -> Iterator[Hit]:
        """Iterate over the hits, best first."""
        return iter(self.hits)
