"""A workspace: crawl, search, inspect and maintain it from Python. See docs/python.md.

Methods import their dependencies when they are called, so a program that only searches does not
load the table libraries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lycosa.api.groups import Collections, Monitors, Translations, Watches
from lycosa.api.results import PageStream, Results
from lycosa.core.errors import UsageError
from lycosa.core.parameters import (
    Duration,
    Settings,
    duration_ms,
    overrides_of,
    texts,
    whole_number,
)
from lycosa.processes.stopping import Stoppable
from lycosa.search.presentation.results import PER_HOST, SearchRequest

if TYPE_CHECKING:
    from datetime import datetime

    import polars as pl

    from lycosa.api.exports import Exports
    from lycosa.commands.feature_models import CompactionResult, VersionComparison
    from lycosa.commands.inspection.pages import PageTable
    from lycosa.commands.maintenance.repair import Repaired
    from lycosa.commands.models import (
        AddedUrls,
        CrawlReport,
        ExclusionReport,
        FetchedPage,
        FetchHop,
        FindReport,
        FindSubmission,
        GroupTable,
        HostTable,
        HuntHit,
        RobotsReport,
        UrlExplanation,
        VersionContent,
        VersionList,
        WorkspaceStatus,
    )
    from lycosa.config.settings import Config
    from lycosa.core.records import Page
    from lycosa.crawl.recovery.import_archives import Imported
    from lycosa.crawl.recovery.reparse import Reparsed
    from lycosa.crawl.state.progress import Progress
    from lycosa.find.scan import Scan
    from lycosa.graph.generation import GraphInfo
    from lycosa.index.indexer import IndexReport
    from lycosa.matching.matches import StoredMatch
    from lycosa.search.engine.searcher import Searcher
    from lycosa.search.query.term_statistics import TermsReport
    from lycosa.site.changes import PageChange
    from lycosa.site.links import StoredLink
    from lycosa.site.report import SiteReport

DEFAULT_ROOT = "lycosa-data"
DEFAULT_COLLECTION = "default"


class Workspace:
    """A workspace at a folder or a URL (`s3://…`).

    Nothing is read or created before a method is called; `crawl` and `add` create the workspace.
    Threads may share it for searches. Expected errors are subclasses of
    `lycosa.core.errors.LycosaError`: `UsageError` (a parameter is wrong), `ConfigError` (a setting
    is wrong), `WorkspaceError` (there is no workspace, or it is damaged), `OwnedError` (another
    process uses it) and `WorkError` (the disk is full, the archive is damaged).
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

    def names(self, kind: str) -> list[str]:
        """Return the collections, hosts or languages of the workspace, for completion."""
        from lycosa.commands.inspection.names import names_of

        return names_of(self.root, self.config(errors={}), kind)

    def search(
        self,
        query: str,
        *,
        count: int = 10,
        offset: int = 0,
        language: str = "",
        collection: str = "",
        site: str = "",
        order: str = "",
        per_host: int = PER_HOST,
        copies: bool = False,
        facets: Sequence[str] = (),
        explain: bool = False,
        feedback: str = "auto",
        spelling: bool = True,
        across: Sequence[str] | None = None,
        source_language: str = "",
        translate: Sequence[str] = (),
        workspaces: Sequence[str] = (),
        peers: Sequence[str] = (),
        local: bool = False,
    ) -> Results:
        """Search the index; the results are a sequence of hits, best first.

        Args:
            language, collection, site: only pages in this language (ISO 639 code), of this
                collection, of this host.
            order: "date" for newest first; by default by relevance.
            per_host: maximum number of results per host before those of other hosts; 0: no limit.
            copies: also return pages with the same text.
            facets: count all results by language, host, collection, type or date.
            explain: return how each score is computed.
            feedback: "on", "off" or "auto": add terms of the first results to the query.
            across: also search in these languages; (): in all languages of the index.
            source_language: language of the query, if it is not identified correctly.
            translate: use these translations, such as "de:house=Haus|Gebäude".
            workspaces, peers: search these workspaces and Lycosa servers too.
            local: ignore the workspaces and peers of the configuration.

        Raises:
            UsageError: a parameter is wrong.
            WorkspaceError: there is no workspace, or its index is damaged.
        """
        from lycosa.commands.inspection.search import (
            SearchSources,
            across_languages,
            check_request,
            search_answer,
            search_sources,
        )

        if not isinstance(query, str):
            raise UsageError(f"query: {query!r} is not text")
        request = SearchRequest(
            query,
            count=whole_number("count", count) or 0,
            offset=whole_number("offset", offset) or 0,
            language=language or None,
            collection=collection or None,
            host=self._host(site) or None,
            order=order,
            per_host=per_host,
            folded=not copies,
            facets=texts("facets", facets),
            explain=explain,
            feedback=feedback,
            spelling=spelling,
            across=None
            if across is None
            else across_languages(texts("across", across), source_language, translate),
        )
        sources = SearchSources([self.root, *workspaces], peers, local, self.settings)
        results = search_sources(sources, check_request(request), self._open_searcher)
        return Results(search_answer(results), self.root)

    def _host(self, site: str) -> str:
        if not site:
            return ""
        from lycosa.url.site_name import site_name  # loads Polars

        return site_name(site).host

    def _open_searcher(self) -> Searcher:
        from lycosa.search.engine.searcher import Searcher

        if self._searcher is None:
            self._searcher = Searcher(self.root)
        else:
            self._searcher.reload()
        return self._searcher

    def terms(
        self,
        *,
        language: str = "",
        site: str = "",
        collection: str = "",
        since: int = 0,
        until: int = 0,
        rising: bool = False,
        period: Duration = "7d",
        stop_words: bool = False,
        count: int = 50,
    ) -> TermsReport:
        """Count the words of stored pages. `since`, `until`: milliseconds since 1970 UTC.

        `rising`: only words that are more frequent in the pages of the last `period`.
        """
        from lycosa.commands.inspection.terms import workspace_terms
        from lycosa.search.query.term_statistics import TermsRequest

        return workspace_terms(
            self.root,
            TermsRequest(
                count,
                language,
                self._host(site),
                collection,
                since or None,
                until or None,
                rising,
                duration_ms("period", period) or 0,
                stop_words,
            ),
        )

    def find(
        self,
        *patterns: str,
        ignore: Sequence[str] = (),
        site: str = "",
        collection: str = "",
    ) -> Scan:
        """Find texts in stored pages: `run()` of the result yields the matches.

        `ignore`: "case", "accents", "width".
        """
        from lycosa.find.find import find_stored

        return find_stored(self.root, patterns, ignore, site=site, collection=collection)

    def find_in_site(
        self,
        *patterns: str,
        site: str,
        ignore: Sequence[str] = (),
        collection: str = DEFAULT_COLLECTION,
        max_age: Duration = "1d",
        max_pages: int | None = None,
        delay: Duration | None = None,
        on_match: Callable[[StoredMatch], None] = lambda match: None,
        on_start: Callable[[Stoppable], None] = lambda crawl: None,
        report: Callable[[str], None] = lambda message: None,
    ) -> FindReport:
        """Find texts in a site; pages without a stored copy of `max_age` are fetched first.

        `on_match` is called with each match. A running crawl executes the find if there is one.
        """
        from lycosa.commands.crawling.called import CrawlCall
        from lycosa.commands.crawling.find_site import SiteFind, find_in_site
        from lycosa.crawl.worker import Limits

        call = CrawlCall(
            self.root,
            self.config(collection),
            collection,
            limits=Limits(whole_number("max_pages", max_pages)),
            delay_ms=duration_ms("delay", delay),
        )
        find = SiteFind(patterns, ignore, site, duration_ms("max_age", max_age) or 0)
        return find_in_site(call, find, on_match, on_start, report)

    def sql(self, query: str) -> pl.DataFrame:
        """Run a SQL query on the live tables (docs/tables.md) and return the rows.

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
        """Return the stored pages: iterate over them, or call `arrow()` or `polars()`."""
        from lycosa.commands.inspection.pages import PageTable

        return PageTable(self.root, collection, language, site)

    def fetch(self, url: str, *, mode: str = "main") -> FetchedPage:
        """Fetch one page: text, Markdown, links, metadata. Stores nothing, and obeys robots.txt.

        Args:
            mode: the Markdown has the "main" text, the "full" page, or the main text with
                "citations", which are numbered references instead of links.

        Raises:
            WorkError: robots.txt disallows it, there is no response, or it cannot be parsed.
        """
        from lycosa.commands.inspection.single import fetch_page
        from lycosa.page.html.markdown import MarkdownMode

        return fetch_page(self.config().fetch, url, MarkdownMode(mode))

    def fetch_hops(self, url: str) -> tuple[list[FetchHop], bytes]:
        """Fetch one URL: return the exchanges, redirects included, and the decoded body."""
        from lycosa.commands.inspection.single import fetch_hops

        return fetch_hops(self.config().fetch, url)

    def parse(
        self,
        source: str | bytes,
        url: str = "http://localhost/",
        content_type: str = "",
        name: str = "",
    ) -> Page:
        """Parse a page: fetch a URL (text), or parse its content (bytes). Stores nothing.

        `url`: base URL of the content; `name`: its name in errors.
        """
        from lycosa.commands.inspection.single import parse_content, parse_url

        settings = self.config().fetch
        if isinstance(source, bytes):
            return parse_content(settings, name or url, source, url, content_type)
        return parse_url(settings, source)

    def robots(self, url: str) -> RobotsReport:
        """Return whether robots.txt allows a URL, and which line decides."""
        from lycosa.commands.inspection.single import robots_report

        return robots_report(self.config().fetch, url)

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
        start: str = "",
        index: bool = True,
        engine: str = "",
        address: str = "",
        workers: int | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_page: Callable[[FetchedPage], None] | None = None,
        on_start: Callable[[Stoppable], None] | None = None,
    ) -> CrawlReport:
        """Crawl until no URL is due or a limit is reached, and index the pages.

        Without URLs, the last crawl is resumed. `CrawlReport.failures` names seeds that could not
        be fetched.

        Args:
            max_time, delay: seconds, a `timedelta`, or text such as "10m".
            depth: maximum number of links from a seed.
            scope: "host", "domain", "prefix" or "any": which links to follow.
            strategy: "breadth-first", "depth-first", "server-first" or "best-first".
            start: fetch only known unvisited URLs: from this URL on, or all ("unvisited").
            engine, address, workers: crawl with several workers, here or on a Ray cluster.
            on_progress: called several times a second with the counters.
            on_page: called with each fetched page, not with several workers.
            on_start: called with an object whose `stop` ends the crawl early.

        Raises:
            UsageError: there is no seed, or a seed or a parameter is invalid.
            ConfigError: a setting is invalid.
            OwnedError: another process is crawling in this workspace.
            WorkError: the disk is full, the archive or the log is damaged.
        """
        from lycosa.commands.crawling.called import CrawlCall, run_call
        from lycosa.crawl.worker import Limits

        call = CrawlCall(
            self.root,
            self.config(collection),
            collection,
            texts("urls", urls),
            Limits(whole_number("max_pages", max_pages), duration_ms("max_time", max_time)),
            depth=whole_number("depth", depth),
            delay_ms=duration_ms("delay", delay),
            scope=scope,
            strategy=strategy,
            start=start,
            index=index,
            engine=engine,
            address=address,
            workers=workers,
        )
        return run_call(call, on_progress, on_page, on_start)

    def crawl_iter(self, *urls: str | Iterable[str], **options: Any) -> PageStream[FetchedPage]:
        """Crawl, and yield pages as they are fetched: use `for` or `async for`.

        Leaving the loop by `close`, or a `with` block, stops the crawl. `options` are those of
        `crawl`; `report` of the stream is the `CrawlReport`, after the last page.
        """
        return PageStream(
            lambda put, started: self.crawl(*urls, on_page=put, on_start=started, **options)
        )

    def hunt(
        self,
        question: str,
        *,
        seeds: Sequence[str] = (),
        time: Duration | None = "30s",
        pages: int | None = None,
        enough: int | None = None,
        strategy: str = "best",
        from_index: bool | None = None,
        agents: int = 15,
        width: int = 10,
        depth: int = 3,
        scope: str = "any",
        delay: str = "",
        collection: str = DEFAULT_COLLECTION,
        on_event: Callable[[dict[str, Any]], None] | None = None,
    ) -> PageStream[HuntHit]:
        """Focused crawl: yield relevant pages as soon as they are fetched.

        Args:
            seeds: pages to start from; without any, matching pages of the index.
            time, pages, enough: stop after this time, this many pages, this many relevant pages.
            strategy: "best", "fish" or "shark": how to select links.
            agents: number of concurrent requests.
            width, depth: for fish and shark: links per page, steps without a relevant page.
            on_event: called with each event of the hunt, see `lycosa hunt --jsonl`.

        Raises (from the iteration):
            UsageError: the question, a seed or a parameter is invalid.
            OwnedError: a crawl is running in this workspace.
        """
        from lycosa.commands.crawling.hunt import hunt_request, run_hunt
        from lycosa.commands.models import HuntHit

        request = hunt_request(
            question=question,
            seeds=tuple(seeds),
            from_index=from_index,
            strategy=strategy,
            time_ms=duration_ms("time", time) or None,
            pages=pages,
            enough=enough,
            agents=agents,
            collection=collection,
            scope=scope,
            delay=delay,
            width=width,
            depth=depth,
        )

        def run(put: Callable[[HuntHit], None], started: Callable[[Stoppable], None]) -> object:
            def handle(event: dict[str, Any]) -> None:
                if on_event is not None:
                    on_event(event)
                if event["event"] == "found":
                    put(HuntHit(**{name: event[name] for name in event.keys() - {"event"}}))

            return run_hunt(self.root, self.config(collection), request, handle, started)

        return PageStream(run)

    def add(self, *urls: str | Iterable[str], collection: str = "") -> AddedUrls:
        """Submit URLs to a running or stopped crawl. Known URLs are fetched again.

        Raises:
            UsageError: the collection is ambiguous, or a URL is invalid.
        """
        from lycosa.commands.crawling.submit import submit_urls

        return submit_urls(self.root, self._submitting(collection), texts("urls", urls), collection)

    def add_find(
        self,
        urls: Sequence[str],
        patterns: Sequence[str],
        *,
        ignore: Sequence[str] = (),
        collection: str = "",
        max_age: Duration = "1d",
    ) -> FindSubmission:
        """Submit URLs whose pages, and all reachable ones, are searched for texts."""
        from lycosa.commands.crawling.submit import submit_texts

        config = self._submitting(collection)
        age_ms = duration_ms("max_age", max_age) or 0
        return submit_texts(self.root, config, urls, patterns, ignore, collection, age_ms)

    def _submitting(self, collection: str) -> Config:
        """Return the settings; a wrong collection does not prevent submissions to others."""
        errors: dict[str, str] = {}
        config = self.config(errors=errors)
        if collection in errors:
            raise UsageError(f"collection {collection}: {errors[collection]}")
        return config

    def import_archives(
        self,
        *files: str,
        collection: str = DEFAULT_COLLECTION,
        base: str = "",
        in_scope: bool = False,
        index: bool = True,
        on_progress: Callable[[Imported], None] | None = None,
    ) -> Imported:
        """Import WARC, WACZ or ARC files, or directories of these or of pages.

        `base`: the URL of a directory of pages. Captures that are stored are skipped; damaged files
        are named in `damaged`.
        """
        from lycosa.commands.crawling.import_archives import import_configured

        return import_configured(
            self.root,
            self.config(),
            collection,
            files,
            base=base,
            in_scope=in_scope,
            index=index,
            observer=on_progress,
        )

    def reparse(self, *, collection: str = "", since: int = 0) -> Reparsed:
        """Parse archived pages again. `since`: fetched since, in milliseconds since 1970 UTC."""
        from lycosa.commands.crawling.reparse import reparse_workspace

        return reparse_workspace(
            self.root, self.config(), collection or None, since or None, f"reparse-{os.getpid()}"
        )

    def status(self) -> WorkspaceStatus:
        """Return the counts of the workspace and the state of its crawl."""
        from lycosa.commands.inspection.status import workspace_status

        return workspace_status(self.root)

    def groups(self, by: str, *, sites: bool = False) -> GroupTable:
        """Return pages, sizes and rates by language, collection or type.

        Raises:
            UsageError: there is no such table.
            WorkError: table files were replaced repeatedly while they were read.
        """
        from lycosa.commands.inspection.status_by import read_groups

        return read_groups(self.root, self.config(), by, sites=sites)

    def hosts(self, count: int | None = None) -> HostTable:
        """Return the hosts with the most pages, all without `count`."""
        from lycosa.commands.inspection.hosts import list_hosts

        return list_hosts(self.root, count=count)

    def explain(self, url: str) -> UrlExplanation:
        """Return the state of a URL and why it was or was not fetched."""
        from lycosa.commands.inspection.explain import explain_url

        return explain_url(self.root, self.config(), url)

    def site(self, site: str, *, slow: Duration = "1s", large_bytes: int = 1_000_000) -> SiteReport:
        """Audit a site: structure, broken links, redirects, duplicates, orphan pages."""
        from lycosa.site.report import Thresholds, report_of

        thresholds = Thresholds(duration_ms("slow", slow) or 0, large_bytes)
        return report_of(self.root, site, thresholds, self.config())

    def links(
        self, *, to: str = "", source: str = "", broken: bool = False, site: str = ""
    ) -> list[StoredLink]:
        """Return stored links: to a URL, from a page, both, or broken ones."""
        from lycosa.site.links import links_of

        if not (to or source or broken):
            raise UsageError("choose --to URL, --from URL or --broken")
        return links_of(self.root, to, source, broken=broken, site=site)

    def changes(
        self, since: datetime, *, site: str = "", differences: bool = True
    ) -> list[PageChange]:
        """Return new, gone and changed pages since a time, with text differences."""
        from lycosa.site.changes import changes_of

        return changes_of(self.root, self.config(), since, site, differences=differences)

    def versions(self, url: str, *, count: int | None = None, changed: bool = False) -> VersionList:
        """Return the archived versions of a page, newest first; `changed`: with a new text."""
        from lycosa.commands.inspection.versions import list_versions

        return list_versions(self.root, self.config(), url, count, changed=changed)

    def version(self, url: str, at: str = "") -> VersionContent:
        """Return the text of a version: the newest up to a time (UTC), or by its number."""
        from lycosa.commands.inspection.versions import version_content

        return version_content(self.root, self.config(), url, at)

    def compare(self, url: str, before: str, after: str) -> VersionComparison:
        """Return the changes between two versions, named by number or time."""
        from lycosa.commands.inspection.versions import compare_versions

        return compare_versions(self.root, self.config(), url, before, after)

    def index(self, *, rebuild: bool = False, engine: str = "", address: str = "") -> IndexReport:
        """Add all crawled pages to the search index; `rebuild`: make it anew."""
        from lycosa.commands.maintenance.upkeep import update_index

        return update_index(self.root, self.config(), engine, address, rebuild=rebuild)

    def rank(self, *, engine: str = "", address: str = "") -> GraphInfo:
        """Compute link ranks, anchor texts and duplicates; `index` then applies them."""
        from lycosa.commands.maintenance.upkeep import update_ranks

        return update_ranks(self.root, self.config(), engine, address)

    def duplicates(self, count: int) -> list[dict[str, Any]]:
        """Return duplicate pages (`collection`, `url`, `canonical_of`), after `rank`."""
        from lycosa.graph.generation import current_duplicates
        from lycosa.store.workspace import Workspace as Store

        rows = current_duplicates(Store.open(self.root)).head(count)
        return rows.select("collection", "url", "canonical_of").to_dicts()

    def compact(
        self, *, full: bool = False, engine: str = "", address: str = ""
    ) -> CompactionResult:
        """Compact small files and delete obsolete ones; `full`: all files of each table.

        Raises:
            WorkError: another process is compacting.
        """
        from lycosa.commands.maintenance.upkeep import compact_workspace

        return compact_workspace(self.root, self.config(), engine, address, full=full)

    def check(self, *, deep: bool = False, repair: bool = False) -> Repaired:
        """Verify log, tables, archive and index: the findings are `report.findings`.

        `deep`: also read every record; `repair`: delete leftovers and rebuild derived data.
        """
        from lycosa.commands.maintenance.check import check_workspace
        from lycosa.commands.maintenance.repair import Repaired, repair_workspace

        if repair:
            return repair_workspace(self.root, deep=deep)
        return Repaired(check_workspace(self.root, deep=deep))

    def exclude(self, *rules: str, purge: bool = False) -> ExclusionReport:
        """Exclude sites permanently; `purge`: also delete stored data.

        A rule is a host, a URL, `domain:NAME` or `prefix:URL`. Without rules, all are applied.
        """
        from lycosa.commands.maintenance.exclude import exclude_and_purge

        return exclude_and_purge(self.root, self.config(), rules, remove=purge)

    @cached_property
    def export(self) -> Exports:
        """Exports: `library` (XML, JSON Lines, Parquet, text), `warc`, `wacz`, `mirror`, `bulk`."""
        from lycosa.api.exports import Exports

        return Exports(self)

    @cached_property
    def collections(self) -> Collections:
        """The collections: list, pause, resume, copy, purge."""
        return Collections(self)

    @cached_property
    def monitors(self) -> Monitors:
        """The monitors of availability: list, add, remove, report."""
        return Monitors(self)

    @cached_property
    def watches(self) -> Watches:
        """The content alerts: list, add, remove, matches."""
        return Watches(self)

    @cached_property
    def translations(self) -> Translations:
        """The translation tables: list, add, learn, remove, lookup, encode."""
        return Translations(self)
