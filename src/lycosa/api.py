"""A workspace from Python: search it, add to it, ask its tables. docs/python.md shows it.

Like a command, a method imports what it needs when it is called: who only searches never loads what reads tables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lycosa.search.engine import Searcher, SearchRequest, SearchResults
from lycosa.search.results import PER_HOST
from lycosa.search.translated import Across

if TYPE_CHECKING:
    import polars as pl

    from lycosa.app.submission import Submitted
    from lycosa.crawl.progress import Progress
    from lycosa.graph.generation import GraphInfo
    from lycosa.index.indexer import IndexReport

DEFAULT_ROOT = "lycosa-data"
DEFAULT_COLLECTION = "default"


class OpenWorkspace:
    """A workspace at a folder or a URL (`s3://…`). It need not be there yet: `crawl` makes it.

    Several threads may search with it. All errors that are meant for people are `lycosa.core.errors.LycosaError`.
    """

    def __init__(self, root: str | os.PathLike[str] = DEFAULT_ROOT, settings: Sequence[str] = ()) -> None:
        """`settings`: as after `--set`, `"fetch.user_agent=…"`; they override those of lycosa.toml."""
        self.root = os.fspath(root)
        self.settings = tuple(settings)
        self._searcher: Searcher | None = None

    def __repr__(self) -> str:
        return f"open_workspace({self.root!r})"

    def search(
        self,
        query: str,
        *,
        count: int = 10,
        offset: int = 0,
        language: str = "",
        collection: str = "",
        host: str = "",
        order: str = "",
        per_host: int = PER_HOST,
        folded: bool = True,
        facets: Sequence[str] = (),
        explain: bool = False,
        across: Sequence[str] | None = None,
    ) -> SearchResults:
        """Search the newest index; iterate over the answer for its hits. Parameters are those of `SearchRequest`.

        `across`: ask in these languages too (ISO 639 codes); `()`: in all that the index has.

        Raises:
            WorkspaceError: there is no workspace, or its index is damaged.
        """
        request = SearchRequest(
            query,
            count=count,
            offset=offset,
            language=language or None,
            collection=collection or None,
            host=host or None,
            order=order,
            per_host=per_host,
            folded=folded,
            facets=tuple(facets),
            explain=explain,
            across=None if across is None else Across(tuple(across)),
        )
        searcher = self._searcher
        if searcher is None:
            searcher = self._searcher = Searcher(self.root)
        else:
            searcher.reload()
        return searcher.search(request)

    def crawl(
        self,
        *urls: str,
        collection: str = DEFAULT_COLLECTION,
        max_pages: int | None = None,
        max_time: str = "",
        depth: int | None = None,
        delay: str = "",
        scope: str = "",
        strategy: str = "",
        index: bool = True,
    ) -> Progress:
        """Crawl to the end, or to a limit, and index; without URLs go on where the last call stopped. As `lycosa crawl`.

        Raises:
            UsageError: no seed, now or before; a seed or an option that cannot be used.
            ConfigError: a setting is wrong.
            OwnedError: somebody crawls in this workspace.
            WorkError: the disk is full, the archive or the log is damaged.
        """
        from lycosa.app.configuring import called_collection, read_config
        from lycosa.app.crawling import CrawlOrder, crawl
        from lycosa.app.planning import read_seeds
        from lycosa.core.units import parse_duration_ms
        from lycosa.crawl.worker import Limits

        config = read_config(self.root, self.settings, collection)
        seed_file = next(entry for entry in config.collection if entry.name == collection).seed_file
        seeds = read_seeds(seed_file) if seed_file else ()
        chosen = called_collection(config, collection, depth=depth, delay=delay, scope=scope, strategy=strategy, seeds=seeds)
        limits = Limits(max_pages, parse_duration_ms(max_time) if max_time else None)
        return crawl(CrawlOrder(self.root, config, chosen, urls, limits, index=index))

    def add(self, *urls: str, collection: str = "") -> Submitted:
        """Submit URLs to a crawl, whether it runs or rests; one that is known is fetched again. As `lycosa add`.

        Raises:
            UsageError: which collection is not clear, or a URL cannot be used.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.app.configuring import read_config
        from lycosa.app.submission import submit

        return submit(self.root, read_config(self.root, self.settings), urls, collection)

    def status(self) -> Mapping[str, object]:
        """The workspace's counts, as `lycosa status --json` prints them.

        Raises:
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.app.status import workspace_status

        return workspace_status(self.root)

    def sql(self, query: str) -> pl.DataFrame:
        """SQL over the live tables (docs/tables.md). As `lycosa sql`.

        Raises:
            UsageError: the query is wrong.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.store.live import LiveTables
        from lycosa.store.workspace import Workspace

        return LiveTables(Workspace.open(self.root)).sql(query)

    def table(self, name: str) -> pl.LazyFrame:
        """The live rows of a table as they are now, read when they are collected.

        Raises:
            UsageError: there is no such table.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.store.live import LiveTables
        from lycosa.store.workspace import Workspace

        return LiveTables(Workspace.open(self.root)).scan(name)

    def index(self) -> IndexReport:
        """Bring the search index up to what was crawled. As `lycosa index`.

        Raises:
            OwnedError: another process is indexing this workspace.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.app.configuring import read_config
        from lycosa.index.indexer import Indexer

        with Indexer(self.root, read_config(self.root, self.settings).index) as indexer:
            return indexer.update()

    def rank(self) -> GraphInfo:
        """Work out what follows from all pages together: ranks, texts of links, copies. As `lycosa rank`; `index` takes it in.

        Raises:
            WorkspaceError: there is no workspace, or it is damaged.
            WorkError: the tables' files went away again and again.
        """
        from lycosa.app.batch import rank_workspace

        return rank_workspace(self.root)


def open_workspace(root: str | os.PathLike[str] = DEFAULT_ROOT, settings: Sequence[str] = ()) -> OpenWorkspace:
    """The workspace at a folder or a URL (`s3://…`); nothing is read or made before a method is called."""
    return OpenWorkspace(root, settings)
