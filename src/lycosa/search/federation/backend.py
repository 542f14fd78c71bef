"""The protocol of an index that is searched together with others, and its implementation by
indexes that are open in this process.

A search has up to six steps: term statistics, matches, exact scores (of shards) or URL keys (of
pages that others may have too), facets, and the hits to show. All use the generation that returned
the statistics.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lycosa.core.errors import LycosaError, WorkError
from lycosa.index.schema import analysis_versions, signed_key
from lycosa.index.suggest.file import Phrase
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.reader import Address
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.engine.searcher import Searcher
from lycosa.search.presentation.results import Hit, SearchRequest, SearchResults
from lycosa.search.query.query import parse_query
from lycosa.search.ranking.feedback import PageTerms
from lycosa.search.ranking.ordering import PageListing, Ranked
from lycosa.search.ranking.similar import Likeness
from lycosa.search.ranking.statistics import TermStatistics
from lycosa.search.suggest.completion import completions
from lycosa.search.suggest.spelling import SpellingCandidates, SpellingRequest

MAX_OPEN_GENERATIONS = 3  # generations that stay open, for searches that began with them


class BackendError(WorkError):
    """A backend returned no valid response; the message is for users."""


class IncompatiblePeer(BackendError):
    """A backend of another version. It can return complete results only."""


class GenerationGone(WorkError):
    """The generation of a search was closed meanwhile: start the search again."""


@dataclass(slots=True, frozen=True)
class IndexDescription:
    """The contents of an index. Only indexes with equal `versions` (of fields and analyzers) have
    the same terms.

    `generation` 0: nothing is open, for the reason in `problem`, if there is one. `hint`: see
    `OpenIndex.missing`.
    """

    generation: int = 0
    documents: int = 0
    languages: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    hint: str = ""


@dataclass(slots=True, frozen=True)
class QueryStep:
    """The input of a search step: the generation, the query as text and parsed, the stage (how
    many of its terms a page must match), and the term statistics of all backends.
    """

    generation: int
    text: str
    query: SearchQuery
    stage: float
    global_statistics: TermStatistics = field(default_factory=TermStatistics)


class ResultsBackend(Protocol):
    """An index, or several, that returns complete results."""

    @property
    def name(self) -> str:
        """The source of its hits."""
        ...

    def search(self, request: SearchRequest, hops: int, timeout_s: float) -> SearchResults:
        """Return complete results. `hops`: how often the request may be forwarded."""
        ...


class StepBackend(Protocol):
    """An index that performs the steps of a search: a workspace in this process, a shard in another
    one, or a peer.

    Every method raises BackendError or GenerationGone, and takes at most `timeout_s`.
    """

    @property
    def name(self) -> str: ...

    def describe(self, timeout_s: float) -> IndexDescription:
        """Return the description. Raises IncompatiblePeer if it returns complete results only."""
        ...

    def statistics(
        self, text: str, query: SearchQuery, timeout_s: float
    ) -> tuple[IndexDescription, TermStatistics]: ...

    def find(self, step: QueryStep, limit: int, timeout_s: float) -> PageListing[Address]: ...

    def facets(
        self, step: QueryStep, names: tuple[str, ...], timeout_s: float
    ) -> Mapping[str, Mapping[str, int]]: ...

    def hits(
        self, step: QueryStep, pages: Sequence[Ranked[Address]], timeout_s: float
    ) -> list[Hit]: ...

    def urls(self, generation: int, addresses: Sequence[Address], timeout_s: float) -> list[int]:
        """Return a key of each page's URL, the same in every backend."""
        ...


class SearchBackend(StepBackend, ResultsBackend, Protocol):
    """An index that performs steps and returns complete results: a workspace or a peer."""


class IndexBackend:
    """An index of the operator, and not of a peer: its recent generations, which are open in this
    process. It also searches for queries that were not typed, such as other spellings.

    Shared by threads. `versions` of descriptions are those of this program.
    """

    name = ""

    def __init__(self) -> None:
        self._open: dict[int, OpenIndex] = {}  # replaced, never changed: searches read it meanwhile
        self._changing = threading.Lock()

    def newest(self) -> OpenIndex | None:
        return next(reversed(self._open.values()), None)

    def refreshed(self) -> OpenIndex | None:
        """Return the newest generation, opened if necessary, at the start of a search."""
        return self.newest()

    def generation(self, generation: int) -> OpenIndex:
        """Return a recent generation. Raises GenerationGone."""
        index = self._open.get(generation)
        if index is None:
            raise GenerationGone(f"generation {generation} of the index is closed")
        return index

    def describe(self, timeout_s: float) -> IndexDescription:
        return self._describe(self.refreshed())

    def statistics(
        self, text: str, query: SearchQuery, timeout_s: float
    ) -> tuple[IndexDescription, TermStatistics]:
        index = self.refreshed()
        if index is None:
            return self._describe(None), TermStatistics()
        return self._describe(index), index.statistics.of_query(query)

    def find(self, step: QueryStep, limit: int, timeout_s: float) -> PageListing[Address]:
        index = self.generation(step.generation)
        return index.find(step.query, step.stage, limit, step.global_statistics)

    def rescore(
        self, step: QueryStep, addresses: Sequence[Address], timeout_s: float
    ) -> list[float]:
        """Return the exact scores of pages under the statistics of all backends."""
        index = self.generation(step.generation)
        return index.rescore(step.query, step.stage, addresses, step.global_statistics)

    def facets(
        self, step: QueryStep, names: tuple[str, ...], timeout_s: float
    ) -> Mapping[str, Mapping[str, int]]:
        return self.generation(step.generation).facets(step.query, step.stage, names)

    def hits(
        self, step: QueryStep, pages: Sequence[Ranked[Address]], timeout_s: float
    ) -> list[Hit]:
        index = self.generation(step.generation)
        return index.hits(step.query, step.stage, pages, step.global_statistics)

    def urls(self, generation: int, addresses: Sequence[Address], timeout_s: float) -> list[int]:
        index = self.generation(generation)
        return [signed_key(index.pages.stored(address).url) for address in addresses]

    def spelling_candidates(
        self, generation: int, request: SpellingRequest, timeout_s: float
    ) -> SpellingCandidates:
        return self.generation(generation).spelling_candidates(request)

    def page_terms(
        self, generation: int, addresses: Sequence[Address], timeout_s: float
    ) -> list[PageTerms]:
        """Return the heaviest terms of pages."""
        return self.generation(generation).pages.heaviest_terms(addresses)

    def likeness(self, generation: int, url: str, timeout_s: float) -> Likeness | None:
        return self.generation(generation).likeness(url)

    def phrases(
        self, prefix: str, count: int, language: str, words: bool, timeout_s: float
    ) -> list[Phrase]:
        """Return the phrases of its pages that complete a prefix (`suggest.completion`)."""
        index = self.newest()
        if index is None:
            return []
        files = completions(index.suggest_files, prefix, count, language, words)
        return [phrase for phrases in files for phrase in phrases]

    def count(self, text: str, language: str, timeout_s: float) -> int:
        """Return the number of pages with all words of a query; `language` "": any."""
        index = self.newest()
        return 0 if index is None else index.count(parse_query(text), language)

    def _add(self, index: OpenIndex) -> None:
        recent = list(self._open.items())[-(MAX_OPEN_GENERATIONS - 1) :]
        self._open = dict([*recent, (index.number, index)])

    def _describe(self, index: OpenIndex | None, problem: str = "") -> IndexDescription:
        if index is None:
            return IndexDescription(problem=problem)
        return IndexDescription(
            index.number,
            index.documents,
            dict(index.info.languages),
            analysis_versions(),
            problem,
            index.missing,
        )


class LocalBackend(IndexBackend):
    """A workspace's index in this process, reloaded as it grows. Shared by threads.

    Raises:
        UsageError, WorkspaceError: as `Searcher`.
    """

    def __init__(self, name: str, searcher: Searcher) -> None:
        super().__init__()
        self.searcher = searcher
        self.name = name

    def search(self, request: SearchRequest, hops: int, timeout_s: float) -> SearchResults:
        return self.searcher.search(request)

    def refreshed(self) -> OpenIndex | None:
        """Reload the index. Raises BackendError if no generation could be opened."""
        try:
            self.searcher.reload()
        except (LycosaError, OSError) as error:
            if not self._open:
                raise BackendError(str(error)) from None
        index = self.searcher.index
        if index is not None and index.number not in self._open:
            with self._changing:
                self._add(index)
        return index
