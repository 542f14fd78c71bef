"""The index behind the pages: opened at the first question, followed as it grows."""

from __future__ import annotations

import threading

from lycosa.search.engine import Searcher, SearchRequest, SearchResults


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
