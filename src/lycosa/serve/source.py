"""The index behind the pages: opened at the first question, followed as it grows."""

from __future__ import annotations

import threading
from typing import Protocol

from lycosa.search.engine import Searcher, SearchRequest, SearchResults
from lycosa.search.federation import Federation


class Source(Protocol):
    """What the pages and the API ask; any thread may."""

    def search(self, request: SearchRequest) -> SearchResults: ...

    def languages(self) -> dict[str, int]:
        """Pages by language, about; empty while nothing is indexed."""
        ...


class ShardSource:
    """Replicas of the index's shards, wherever they are."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def search(self, request: SearchRequest) -> SearchResults:
        return self._federation.search(request)

    def languages(self) -> dict[str, int]:
        return self._federation.languages


class SearchSource:
    """A `Searcher` over a workspace, shared by the threads that answer requests.

    Raises (all methods):
        WorkspaceError: there is no workspace, or its index is damaged.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._opening = threading.Lock()
        self._searcher: Searcher | None = None

    def search(self, request: SearchRequest) -> SearchResults:
        """Ask the newest generation."""
        return self._newest().search(request)

    def languages(self) -> dict[str, int]:
        """Pages by language, about; empty while nothing is indexed."""
        return self._newest().languages

    def _newest(self) -> Searcher:
        if self._searcher is None:
            with self._opening:
                if self._searcher is None:
                    self._searcher = Searcher(self._root)
        self._searcher.reload()
        return self._searcher
