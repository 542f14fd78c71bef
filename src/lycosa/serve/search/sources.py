"""The index that the pages search: opened at the first query, reloaded as it grows."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from lycosa.index.shards.shards import by_count
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.searcher import NewestIndex, SearchRequest, SearchResults
from lycosa.search.federation.backend import LocalBackend
from lycosa.search.federation.federated_search import FederatedSearch
from lycosa.search.federation.sharded_search import ShardedSearch
from lycosa.search.suggest.completion import Suggestion, SuggestRequest


class Source(Protocol):
    """The index for the pages and the API. Threads may share it."""

    def search(self, request: SearchRequest) -> SearchResults: ...

    def languages(self) -> dict[str, int]:
        """Return the approximate number of pages by language; empty without an index."""
        ...

    def holds(self, url: str) -> bool:
        """Return whether a page is in the index; approximate.

        False for shards: requests to all of them for every link of a page would take too long.
        """
        return False

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """Return suggestions for typed text, best first."""
        ...

    @property
    def index(self) -> OpenIndex | None:
        """The newest index of this workspace at the last search; None: it is searched elsewhere."""
        return None

    @property
    def own(self) -> LocalBackend | None:
        """This workspace's index, for peers that request parts of a result; None: it is searched
        elsewhere.
        """
        return None


class ShardSource(Source):
    """Replicas of the index's shards, on any machine."""

    def __init__(self, federation: ShardedSearch) -> None:
        self._federation = federation

    def search(self, request: SearchRequest) -> SearchResults:
        return self._federation.search(request)

    def languages(self) -> dict[str, int]:
        return self._federation.languages()

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """See `Source`."""
        return self._federation.suggest(request)


class ShardsAndOthers(ShardSource):
    """The shards, other workspaces, and peers: `federated` searches all of them."""

    def __init__(self, federation: ShardedSearch, federated: FederatedSearch) -> None:
        super().__init__(federation)
        self._federated = federated

    def search(self, request: SearchRequest) -> SearchResults:
        return self._federated.search(request)

    def languages(self) -> dict[str, int]:
        """Return the approximate number of pages by language in the shards and workspaces."""
        counts = Counter(super().languages())
        counts.update(self._federated.languages())
        return by_count(counts)


class SearchSource(NewestIndex):
    """The newest index of a workspace, in this process."""

    _backend: LocalBackend | None = None

    @property
    def own(self) -> LocalBackend:
        """See `Source`."""
        searcher = self.newest()
        with self._opening:
            self._backend = self._backend or LocalBackend("", searcher)
        return self._backend
