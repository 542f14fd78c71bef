"""The index that the pages search: opened at the first query, reloaded as it grows."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Protocol

from lycosa.index.shards.shards import by_count
from lycosa.processes.platform import trim_malloc
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.searcher import Searcher, SearchRequest, SearchResults
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
        """Return whether a page is in the index; approximate."""
        ...

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """Return suggestions for typed text, best first."""
        ...

    @property
    def index(self) -> OpenIndex | None:
        """The newest index of this workspace at the last search; None: it is searched elsewhere."""
        ...

    @property
    def own(self) -> LocalBackend | None:
        """This workspace's index, for peers that request parts of a result; None: it is searched
        elsewhere.
        """
        ...


class ShardSource:
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

    def holds(self, url: str) -> bool:
        """Return False: requests to all shards for every link of a page would take too long."""
        return False

    @property
    def index(self) -> None:
        """See `Source`."""
        return

    @property
    def own(self) -> None:
        """See `Source`."""
        return


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


class SearchSource:
    """A `Searcher` over a workspace, shared by the threads that answer requests.

    Raises (all methods):
        WorkspaceError: there is no workspace, or its index is damaged.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._opening = threading.Lock()
        self._reloading = threading.Lock()
        self._searcher: Searcher | None = None
        self._backend: LocalBackend | None = None

    @property
    def index(self) -> OpenIndex | None:
        """See `Source`."""
        return None if self._searcher is None else self._searcher.index

    @property
    def own(self) -> LocalBackend:
        """See `Source`."""
        searcher = self._newest()
        if self._backend is None:
            with self._opening:
                if self._backend is None:
                    self._backend = LocalBackend("", searcher)
        return self._backend

    def search(self, request: SearchRequest) -> SearchResults:
        """Search the newest generation."""
        return self._newest().search(request)

    def languages(self) -> dict[str, int]:
        """Return the approximate number of pages by language; empty without an index."""
        return self._newest().languages

    def holds(self, url: str) -> bool:
        """Return whether a page is in the index; approximate."""
        return self._newest().holds(url)

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """See `Source`."""
        return self._newest().suggest(request)

    def _newest(self) -> Searcher:
        if self._searcher is None:
            with self._opening:
                if self._searcher is None:
                    self._searcher = Searcher(self._root)
        # the first request opens the new generation; the others use the open one
        if self._reloading.acquire(blocking=False):
            try:
                if self._searcher.reload():
                    trim_malloc()  # the former generation is free now
            finally:
                self._reloading.release()
        return self._searcher
