"""A workspace: crawl, search, inspect and maintain it from Python. See docs/reference/python.md.

Methods import their dependencies when they are called, so a program that only searches does not
load the table libraries.
"""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable, Iterable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from lycosa.api.checked_calls import CheckedCalls, accepts, checked, system_errors
from lycosa.api.options import CrawlArguments, HuntArguments, SearchArguments
from lycosa.core.errors import UsageError
from lycosa.core.parameters import Settings, duration_ms, overrides_of, texts
from lycosa.processes.threads import Stoppable

if TYPE_CHECKING:
    import polars as pl

    from lycosa.api.exports import Exports
    from lycosa.api.groups import Collections, Maintenance, Monitors, Translations, Watches
    from lycosa.api.inspection import ArchivedVersions, Sites, Texts, Urls, WorkspaceStatistics
    from lycosa.api.results import Results
    from lycosa.api.streams import PageStream
    from lycosa.commands.crawl_models import AddedUrls, CrawlReport, HuntHit
    from lycosa.commands.inspection.pages import PageTable
    from lycosa.commands.models import UrlExplanation, WorkspaceStatus
    from lycosa.commands.page_models import FetchedPage
    from lycosa.config.settings import Config
    from lycosa.search.engine.searcher import NewestIndex

DEFAULT_ROOT = "lycosa-data"
DEFAULT_COLLECTION = "default"

_Argument = TypeVar("_Argument")


class Workspace(CheckedCalls):
    """A workspace at a folder or a URL (`s3://…`).

    Nothing is read or created before a method is called; `crawl` and `add` create the workspace.
    Threads may share it for searches. Expected errors are subclasses of
    `lycosa.core.errors.LycosaError`: `UsageError` (a parameter is wrong), `ConfigError` (a setting
    is wrong), `WorkspaceError` (there is no workspace, or it is damaged), `OwnedError` (another
    process uses it) and `WorkError` (the disk is full or read-only, the archive is damaged).
    """

    @checked
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
        self._index: NewestIndex | None = None

    def __repr__(self) -> str:
        return f"Workspace({self.root!r})"

    def config(
        self, collection: str = "", errors: MutableMapping[str, str] | None = None
    ) -> Config:
        """Return the settings, with a `collection` that is not configured at its defaults.

        `errors`: leave out invalid collections and name them there.

        Raises:
            ConfigError: a setting is invalid.
        """
        from lycosa.crawl.session.workspace_config import read_config

        return read_config(self.root or None, self.settings, collection, errors)

    @accepts(SearchArguments)
    def search(self, query: str, **options: Unpack[SearchArguments]) -> Results:
        """Search the index; the results are a sequence of hits, best first.

        `options`: see `lycosa.api.options.SearchArguments`.

        Raises:
            UsageError: a parameter is wrong.
            WorkspaceError: there is no workspace, or its index is damaged.
        """
        from lycosa.api.results import Results
        from lycosa.commands.inspection.search import (
            SearchSources,
            search_answer,
            search_request,
            search_sources,
        )
        from lycosa.search.engine.searcher import NewestIndex

        values: dict[str, Any] = {**options}
        sources = SearchSources(
            [self.root, *values.pop("workspaces", ())],
            values.pop("peers", ()),
            values.pop("local", False),
            self.settings,
        )
        self._index = self._index or NewestIndex(self.root)
        results = search_sources(search_request(query, **values), sources, self._index)
        return Results(search_answer(results), self.root)

    def sql(self, query: str) -> pl.DataFrame:
        """Run a SQL query on the live tables (docs/reference/tables.md) and return the rows.

        Raises:
            UsageError: the query is invalid.
        """
        from lycosa.store.tables.live import LiveTables
        from lycosa.store.workspace import Workspace as Store

        return LiveTables(Store.open(self.root)).sql(query)

    def table(self, name: str) -> pl.LazyFrame:
        """Return the live rows of a table as a lazy frame; `collect` reads them.

        Raises:
            UsageError: there is no such table.
        """
        from lycosa.store.tables.live import LiveTables
        from lycosa.store.workspace import Workspace as Store

        return LiveTables(Store.open(self.root)).scan(name)

    def pages(self, *, collection: str = "", language: str = "", site: str = "") -> PageTable:
        """Return the stored pages: iterate over them, or call `arrow()` or `polars()`.

        `site`: only pages of this host (and port), or below the last slash of this URL.
        """
        from lycosa.commands.inspection.pages import PageTable
        from lycosa.commands.inspection.search import language_filter
        from lycosa.crawl.session.planning import require_collection
        from lycosa.store.workspace import Workspace as Store

        if collection:
            require_collection(Store.open(self.root), self.config(), collection)
        return PageTable(self.root, collection, language_filter(language), site)

    def fetch(self, url: str, *, mode: str = "main") -> FetchedPage:
        """Fetch one page: text, Markdown, links, metadata. Stores nothing, and obeys robots.txt.

        Args:
            mode: the Markdown has the "main" text, the "full" page, or the main text with
                "citations", which are numbered references instead of links.

        Raises:
            WorkError: robots.txt disallows it, there is no response, or it cannot be parsed.
        """
        from lycosa.commands.inspection.single import fetch_page
        from lycosa.page.html.markdown import markdown_mode

        return fetch_page(self.config().fetch, url, markdown_mode(mode))

    @accepts(CrawlArguments)
    def crawl(self, *urls: str | Iterable[str], **options: Unpack[CrawlArguments]) -> CrawlReport:
        """Crawl until no URL is due or a limit is reached, and index the pages.

        Without URLs, the last crawl is resumed. `CrawlReport.failures` names seeds that could not
        be fetched. `options`: see `lycosa.api.options.CrawlArguments`.

        Raises:
            UsageError: there is no seed, or a seed or a parameter is invalid.
            ConfigError: a setting is invalid.
            OwnedError: another process is crawling in this workspace.
            WorkError: the disk is full, the archive or the log is damaged.
        """
        from lycosa.commands.crawling.run_crawl import (
            CrawlCall,
            CrawlListeners,
            run_call,
            seed_url,
        )
        from lycosa.crawl.worker import Limits

        values: dict[str, Any] = {**options}
        names = ("on_progress", "on_page", "on_start")
        listeners = CrawlListeners(*(values.pop(name, None) for name in names))
        collection = values.pop("collection", DEFAULT_COLLECTION)
        limits = Limits(
            values.pop("max_pages", None),
            duration_ms("max_time", values.pop("max_time", None)),
        )
        delay_ms = duration_ms("delay", values.pop("delay", None))
        config = self.config(collection)
        seeds = tuple(map(seed_url, texts("urls", urls)))
        call = CrawlCall(self.root, config, collection, seeds, limits, delay_ms=delay_ms, **values)
        return run_call(call, listeners)

    @accepts(CrawlArguments)
    def crawl_iter(
        self, *urls: str | Iterable[str], **options: Unpack[CrawlArguments]
    ) -> PageStream[FetchedPage]:
        """Crawl, and yield pages as they are fetched: use `for` or `async for`.

        `break` stops the crawl if nothing else refers to the stream; `close` and leaving a `with`
        block always do. `options` are those of `crawl`; `report` of the stream is the
        `CrawlReport`, after the last page.
        """
        from lycosa.api.streams import PageStream

        def run(put: Callable[[FetchedPage], None], started: Callable[[Stoppable], None]) -> object:
            listening: CrawlArguments = {
                **options,
                "on_page": _both(options.get("on_page"), put),
                "on_start": _both(options.get("on_start"), started),
            }
            return self.crawl(*urls, **listening)

        return PageStream(run)

    @accepts(HuntArguments)
    def hunt(self, question: str, **options: Unpack[HuntArguments]) -> PageStream[HuntHit]:
        """Focused crawl: yield relevant pages as soon as they are fetched.

        `options`: see `lycosa.api.options.HuntArguments`.

        Raises (from the iteration):
            UsageError: the question, a seed or a parameter is invalid.
            OwnedError: a crawl is running in this workspace.
        """
        from lycosa.api.streams import PageStream
        from lycosa.commands.crawl_models import HuntHit
        from lycosa.commands.crawling.hunt import hunt_request, run_hunt

        values: dict[str, Any] = {**options}
        on_event = values.pop("on_event", None) or (lambda event: None)
        time_ms = duration_ms("time", values.pop("time", "30s")) or None
        delay_ms = duration_ms("delay", values.pop("delay", None))
        values["delay"] = "" if delay_ms is None else f"{delay_ms}ms"
        request = hunt_request(question=question, time_ms=time_ms, **values)

        def run(put: Callable[[HuntHit], None], started: Callable[[Stoppable], None]) -> object:
            def handle(event: dict[str, Any]) -> None:
                on_event(event)
                if event["event"] == "found":
                    put(HuntHit(**event))

            config = self.config(request.collection)
            with system_errors(self):
                return run_hunt(self.root, config, request, handle, started)

        return PageStream(run)

    def add(self, *urls: str | Iterable[str], collection: str = "") -> AddedUrls:
        """Submit URLs to a running or stopped crawl. Known URLs are fetched again.

        Raises:
            UsageError: the collection is ambiguous, or a URL is invalid.
        """
        from lycosa.commands.crawling.submissions import submit_urls

        config = submission_config(self, collection)
        return submit_urls(self.root, config, texts("urls", urls), collection)

    def status(self) -> WorkspaceStatus:
        """Return the counts of the workspace and the state of its crawl."""
        from lycosa.commands.inspection.status import workspace_status

        return workspace_status(self.root)

    def explain(self, url: str) -> UrlExplanation:
        """Return the state of a URL and why it was or was not fetched."""
        from lycosa.commands.inspection.explain import explain_url

        return explain_url(self.root, self.config(), url)

    @cached_property
    def archive(self) -> ArchivedVersions:
        """Archived versions: versions, text, markdown, compare, import_files, reparse."""
        from lycosa.api.inspection import ArchivedVersions

        return ArchivedVersions(self)

    @cached_property
    def collections(self) -> Collections:
        """The collections: list, facts, pause, resume, copy, purge."""
        from lycosa.api.groups import Collections

        return Collections(self)

    @cached_property
    def export(self) -> Exports:
        """Exports: library, warc, wacz, mirror, markdown, chunks, llms, items, jsonl, bulk."""
        from lycosa.api.exports import Exports

        return Exports(self)

    @cached_property
    def maintenance(self) -> Maintenance:
        """Maintenance: index, rank, duplicates, compact, check, exclude."""
        from lycosa.api.groups import Maintenance

        return Maintenance(self)

    @cached_property
    def monitors(self) -> Monitors:
        """The monitors of availability: list, add, remove, report, run."""
        from lycosa.api.groups import Monitors

        return Monitors(self)

    @cached_property
    def sites(self) -> Sites:
        """Site reports: audit, links, changes."""
        from lycosa.api.inspection import Sites

        return Sites(self)

    @cached_property
    def statistics(self) -> WorkspaceStatistics:
        """Statistics: groups, hosts, terms, names."""
        from lycosa.api.inspection import WorkspaceStatistics

        return WorkspaceStatistics(self)

    @cached_property
    def texts(self) -> Texts:
        """Texts of pages: passages, chunks, and exact texts: find, find_in_site, submit."""
        from lycosa.api.inspection import Texts

        return Texts(self)

    @cached_property
    def translations(self) -> Translations:
        """The translation tables: tables, add, learn, remove, lookup."""
        from lycosa.api.groups import Translations

        return Translations(self)

    @cached_property
    def urls(self) -> Urls:
        """Single URLs, of which nothing is stored: hops, parse, robots."""
        from lycosa.api.inspection import Urls

        return Urls(self)

    @cached_property
    def watches(self) -> Watches:
        """The content alerts: list, add, remove, matches."""
        from lycosa.api.groups import Watches

        return Watches(self)


# open indexes cannot be pickled
copyreg.pickle(Workspace, lambda workspace: (Workspace, (workspace.root, workspace.settings)))


def _both(
    first: Callable[[_Argument], None] | None, second: Callable[[_Argument], None]
) -> Callable[[_Argument], None]:
    """Return a function that calls two functions."""

    def call(argument: _Argument) -> None:
        if first is not None:
            first(argument)
        second(argument)

    return call


def submission_config(workspace: Workspace, collection: str) -> Config:
    """Return the settings for a submission, without other invalid collections.

    Raises:
        UsageError: the collection is invalid.
    """
    errors: dict[str, str] = {}
    config = workspace.config(errors=errors)
    if collection in errors:
        raise UsageError(f"collection {collection}: {errors[collection]}")
    return config
