"""The Python API: search, crawl and query a workspace. See docs/python.md.

Methods import their dependencies when they are called, so a program that only searches does not
load the table libraries.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lycosa.core.errors import UsageError
from lycosa.core.parameters import (
    Duration,
    Settings,
    duration_ms,
    overrides_of,
    texts,
    whole_number,
)
from lycosa.search.crosslingual.translated import Across
from lycosa.search.engine.searcher import Searcher, SearchRequest, SearchResults
from lycosa.search.presentation.results import PER_HOST
from lycosa.search.ranking.feedback import MODES

if TYPE_CHECKING:
    import polars as pl

    from lycosa.commands.models import WorkspaceStatus
    from lycosa.crawl.session.submission import Submitted
    from lycosa.crawl.state.progress import Progress
    from lycosa.graph.generation import GraphInfo
    from lycosa.index.indexer import IndexReport

DEFAULT_ROOT = "lycosa-data"
DEFAULT_COLLECTION = "default"


class OpenWorkspace:
    """A workspace at a folder or a URL (`s3://…`). `crawl` creates it if it does not exist.

    `search` is thread-safe. Expected errors are subclasses of `lycosa.core.errors.LycosaError`.
    """

    def __init__(
        self, root: str | os.PathLike[str] = DEFAULT_ROOT, settings: Settings = ()
    ) -> None:
        """`settings`: overrides of lycosa.toml, as a mapping (`{"fetch": {"user_agent": "…"}}`) or
        as for `--set` (`["fetch.user_agent=…"]`).

        Raises:
            UsageError: they are neither.
        """
        self.root = os.fspath(root)
        self.settings = overrides_of(settings)
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
        feedback: str = "auto",
        across: Sequence[str] | None = None,
    ) -> SearchResults:
        """Search the newest index and return the results; iterate over them for the hits. The
        parameters are those of `SearchRequest`.

        `across`: also search in these languages (ISO 639 codes); `()`: in all languages of the
        index.

        Raises:
            UsageError: a parameter has the wrong type.
            WorkspaceError: there is no workspace, or its index is damaged.
        """
        if not isinstance(query, str):
            raise UsageError(f"query: {query!r} is not text")
        if feedback not in MODES:
            raise UsageError(f"feedback: {feedback!r}: choose {', '.join(MODES)}")
        request = SearchRequest(
            query,
            count=whole_number("count", count) or 0,
            offset=whole_number("offset", offset) or 0,
            language=language or None,
            collection=collection or None,
            host=host or None,
            order=order,
            per_host=per_host,
            folded=folded,
            facets=texts("facets", facets),
            explain=explain,
            feedback=feedback,
            across=None if across is None else Across(texts("across", across)),
        )
        searcher = self._searcher
        if searcher is None:
            searcher = self._searcher = Searcher(self.root)
        else:
            searcher.reload()
        return searcher.search(request)

    def crawl(
        self,
        *urls: str | Iterable[str],
        collection: str = DEFAULT_COLLECTION,
        max_pages: int | None = None,
        max_time: Duration | None = None,
        depth: int | None = None,
        delay: Duration | None = None,
        scope: str = "",
        strategy: str = "",
        index: bool = True,
    ) -> Progress:
        """Crawl until no URL is due or a limit is reached, and index the pages. Without URLs,
        continue the last crawl. See `lycosa crawl`.

        `max_time`, `delay`: seconds, a `timedelta`, or text such as "10m". `Progress.failures`
        names seeds that could not be fetched.

        Raises:
            UsageError: there is no seed, or a seed or a parameter is invalid.
            ConfigError: a setting is invalid.
            OwnedError: another process is crawling in this workspace.
            WorkError: the disk is full, the archive or the log is damaged.
        """
        from lycosa.commands.crawling.crawl import CrawlOrder, crawl
        from lycosa.crawl.session.planning import read_seeds
        from lycosa.crawl.session.workspace_config import called_collection, read_config
        from lycosa.crawl.worker import Limits

        config = read_config(self.root, self.settings, collection)
        seed_file = next(entry for entry in config.collection if entry.name == collection).seed_file
        seeds = read_seeds(seed_file) if seed_file else ()
        chosen = called_collection(
            config,
            collection,
            depth=whole_number("depth", depth),
            delay=duration_ms("delay", delay),
            scope=scope,
            strategy=strategy,
            seeds=seeds,
        )
        limits = Limits(whole_number("max_pages", max_pages), duration_ms("max_time", max_time))
        return crawl(
            CrawlOrder(self.root, config, chosen, texts("urls", urls), limits, index=index)
        )

    def add(self, *urls: str | Iterable[str], collection: str = "") -> Submitted:
        """Submit URLs to a running or stopped crawl. Known URLs are fetched again. See `lycosa
        add`.

        Raises:
            UsageError: the collection is ambiguous, or a URL is invalid.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.crawl.session.submission import submit
        from lycosa.crawl.session.workspace_config import read_config

        return submit(
            self.root, read_config(self.root, self.settings), texts("urls", urls), collection
        )

    def status(self) -> WorkspaceStatus:
        """Return the counts of the workspace, as printed by `lycosa status --json`.

        Raises:
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.commands.inspection.status import workspace_status

        return workspace_status(self.root)

    def sql(self, query: str) -> pl.DataFrame:
        """Run a SQL query on the live tables (docs/tables.md) and return the rows. See `lycosa
        sql`.

        Raises:
            UsageError: the query is invalid.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.store.tables.live import LiveTables
        from lycosa.store.workspace import Workspace

        return LiveTables(Workspace.open(self.root)).sql(query)

    def table(self, name: str) -> pl.LazyFrame:
        """Return the current live rows of a table as a lazy frame; they are read when it is
        collected.

        Raises:
            UsageError: there is no such table.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.store.tables.live import LiveTables
        from lycosa.store.workspace import Workspace

        return LiveTables(Workspace.open(self.root)).scan(name)

    def index(self) -> IndexReport:
        """Add all crawled pages to the search index. See `lycosa index`.

        Raises:
            OwnedError: another process is indexing this workspace.
            WorkspaceError: there is no workspace, or it is damaged.
        """
        from lycosa.crawl.session.workspace_config import read_config
        from lycosa.index.indexer import Indexer

        with Indexer(self.root, read_config(self.root, self.settings).index) as indexer:
            return indexer.update()

    def rank(self) -> GraphInfo:
        """Compute link ranks, anchor texts and duplicates of all pages; `index` then uses them. See
        `lycosa rank`.

        Raises:
            WorkspaceError: there is no workspace, or it is damaged.
            WorkError: table files were deleted repeatedly while they were read.
        """
        from lycosa.maintenance.jobs import rank_workspace

        return rank_workspace(self.root)


def open_workspace(
    root: str | os.PathLike[str] = DEFAULT_ROOT, settings: Settings = ()
) -> OpenWorkspace:
    """Return the workspace at a folder or a URL (`s3://…`). Nothing is read or created before a
    method is called.
    """
    return OpenWorkspace(root, settings)
