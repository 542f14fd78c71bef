"""The index behind the pages: opened when there is one, followed when it grows, asked by one request at a time."""

from __future__ import annotations

import threading

from lycosa.search.engine import Searcher, SearchRequest, SearchResults


class SearchSource:
    """A `Searcher` over a workspace that may not have an index yet.

    Requests come on several threads. A search takes milliseconds and holds the interpreter, so they take turns.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._searcher: Searcher | None = None

    def search(self, request: SearchRequest) -> SearchResults | None:
        """Ask the newest index; None while there is none.

        Raises:
            QueryError: the query cannot be understood.
            WorkspaceError: there is no workspace, or it cannot be read.
        """
        with self._lock:
            if self._searcher is None:
                self._searcher = Searcher(self._root)
            else:
                self._searcher.reload()
            return self._searcher.search(request)
