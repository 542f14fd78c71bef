"""The protocol of an index that is searched together with others, and its implementation for a
workspace in this process.

A search has up to five steps: term statistics, matches, URL keys of pages that others may have too,
facets, and the hits to show. All use the generation that returned the statistics.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lycosa.core.errors import LycosaError, WorkError
from lycosa.index.schema import analysis_versions, signed_key
from lycosa.search.engine.indexed_pages import Address
from lycosa.search.engine.open_index import IndexMatches, OpenIndex
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.replica import GenerationGone
from lycosa.search.presentation.results import Hit, SearchRequest, SearchResults
from lycosa.search.ranking.ordering import Ranked
from lycosa.search.ranking.statistics import TermStatistics

_MAX_OPEN_GENERATIONS = 3  # generations that stay open, for searches that began with them


class BackendError(WorkError):
    """A backend returned no usable answer; the message is for users."""


class IncompatiblePeer(BackendError):
    """A backend of another version. It can return complete results only."""


@dataclass(slots=True, frozen=True)
class IndexDescription:
    """The contents of an index. Only indexes with equal `versions` (of fields and analyzers) have
    the same terms.
    """

    generation: int = 0
    documents: int = 0
    languages: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class QueryStep:
    """The input of a search step: the generation, the query as text and parsed, the stage (how
    many of its terms a page must match), and the term statistics of all backends.
    """

    generation: int
    text: str
    question: SearchQuery
    stage: float
    everywhere: TermStatistics = field(default_factory=TermStatistics)


class ResultsBackend(Protocol):
    """An index, or several, that returns complete results."""

    @property
    def name(self) -> str:
        """The source of its hits."""
        ...

    def search(self, request: SearchRequest, hops: int, timeout_s: float) -> SearchResults:
        """Return complete results. `hops`: how often the request may be forwarded."""
        ...


class SearchBackend(ResultsBackend, Protocol):
    """An index that answers the steps of a search: a workspace in this process, or a peer.

    Every method raises BackendError, and takes at most `timeout_s`.
    """

    def describe(self, timeout_s: float) -> IndexDescription:
        """Raises IncompatiblePeer if it cannot be asked for parts of an answer."""
        ...

    def statistics(
        self, text: str, question: SearchQuery, timeout_s: float
    ) -> tuple[IndexDescription, TermStatistics]: ...

    def find(self, step: QueryStep, limit: int, timeout_s: float) -> IndexMatches: ...

    def facets(
        self, step: QueryStep, names: tuple[str, ...], timeout_s: float
    ) -> Mapping[str, Mapping[str, int]]: ...

    def hits(
        self, step: QueryStep, found: Sequence[Ranked[Address]], timeout_s: float
    ) -> list[Hit]: ...

    def urls(self, generation: int, addresses: Sequence[Address], timeout_s: float) -> list[int]:
        """Return a key of each page's URL, the same in every backend."""
        ...


class LocalBackend:
    """A workspace's index in this process, reloaded as it grows. Shared by threads.

    Raises:
        UsageError, WorkspaceError: as `Searcher`.
    """

    def __init__(self, name: str, searcher: Searcher) -> None:
        self.searcher = searcher
        self._name = name
        self._open: dict[int, OpenIndex] = {}  # replaced, never changed: searches read it meanwhile
        self._changing = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    def describe(self, timeout_s: float) -> IndexDescription:
        index = self._newest()
        return IndexDescription() if index is None else _described(index)

    def statistics(
        self, text: str, question: SearchQuery, timeout_s: float
    ) -> tuple[IndexDescription, TermStatistics]:
        index = self._newest()
        return (
            (IndexDescription(), TermStatistics())
            if index is None
            else (_described(index), index.statistics.of_query(question))
        )

    def find(self, step: QueryStep, limit: int, timeout_s: float) -> IndexMatches:
        return self.generation(step.generation).find(
            step.question, step.stage, limit, step.everywhere
        )

    def facets(
        self, step: QueryStep, names: tuple[str, ...], timeout_s: float
    ) -> Mapping[str, Mapping[str, int]]:
        return self.generation(step.generation).facets(step.question, step.stage, names)

    def hits(
        self, step: QueryStep, found: Sequence[Ranked[Address]], timeout_s: float
    ) -> list[Hit]:
        return self.generation(step.generation).hits(
            step.question, step.stage, found, step.everywhere
        )

    def urls(self, generation: int, addresses: Sequence[Address], timeout_s: float) -> list[int]:
        index = self.generation(generation)
        return [signed_key(index.pages.stored(address).url) for address in addresses]

    def search(self, request: SearchRequest, hops: int, timeout_s: float) -> SearchResults:
        return self.searcher.search(request)

    def _newest(self) -> OpenIndex | None:
        try:
            self.searcher.reload()
        except (LycosaError, OSError) as error:  # what was opened before still answers
            if not self._open:
                raise BackendError(str(error)) from None
        index = self.searcher.index
        if index is not None and index.number not in self._open:
            with self._changing:
                self._open = dict(
                    [
                        *list(self._open.items())[-(_MAX_OPEN_GENERATIONS - 1) :],
                        (index.number, index),
                    ]
                )
        return index

    def generation(self, generation: int) -> OpenIndex:
        """Return a recent generation. Raises GenerationGone."""
        index = self._open.get(generation)
        if index is None:
            raise GenerationGone(f"{self._name}: generation {generation} is closed")
        return index


def _described(index: OpenIndex) -> IndexDescription:
    return IndexDescription(
        index.number, index.documents, dict(index.info.languages), analysis_versions()
    )
