"""Parts of a workspace that report: archive, sites, statistics, texts, single URLs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from lycosa.api.checked_calls import accepts
from lycosa.api.groups import Part
from lycosa.api.options import FindArguments, PassageArguments, TermsArguments
from lycosa.commands.crawl_models import FindReport, FindSubmission
from lycosa.commands.models import GroupTable, HostTable
from lycosa.commands.page_models import (
    FetchHop,
    RobotsReport,
    VersionContent,
    VersionList,
    VersionMarkdown,
)
from lycosa.core.errors import UsageError
from lycosa.core.parameters import (
    Duration,
    duration_ms,
    in_utc,
    moment,
    moment_ms,
)

if TYPE_CHECKING:
    from lycosa.captures.content import Versions
    from lycosa.commands.feature_models import VersionComparison
    from lycosa.commands.inspection.passages import PassageFinder
    from lycosa.commands.search_models import ChunkList, PassagesResult
    from lycosa.core.records import Page
    from lycosa.crawl.recovery.import_archives import Imported
    from lycosa.crawl.recovery.reparse import Reparsed
    from lycosa.find.find import Scan
    from lycosa.search.query.term_statistics import TermsReport
    from lycosa.site.changes import PageChange
    from lycosa.site.links import StoredLink
    from lycosa.site.report import SiteReport


VersionName = str | int | datetime
"""A version of a page: its number, or a time, as text in UTC or as a `datetime`."""


class ArchivedVersions(Part):
    """The archived versions of pages. `at`, `before`, `after`: see `VersionName`."""

    def versions(self, url: str, *, count: int | None = None, changed: bool = False) -> VersionList:
        """Return the archived versions of a page, newest first; `changed`: with a new text."""
        from lycosa.commands.inspection.versions import list_versions

        with self._open() as archive:
            return list_versions(archive, url, count=count, changed=changed)

    def text(self, url: str, at: VersionName = "") -> VersionContent:
        """Return the text of a version: the newest, or the newest up to a time, else the oldest."""
        from lycosa.commands.inspection.versions import version_content

        with self._open() as archive:
            return version_content(archive, url, _version_name(at))

    def markdown(self, url: str, at: VersionName = "", *, mode: str = "main") -> VersionMarkdown:
        """Return a version as Markdown. `mode`: see `Workspace.fetch`."""
        from lycosa.commands.inspection.versions import version_markdown
        from lycosa.page.html.markdown import markdown_mode

        with self._open() as archive:
            return version_markdown(archive, url, _version_name(at), markdown_mode(mode))

    def compare(self, url: str, before: VersionName, after: VersionName = "") -> VersionComparison:
        """Return the changes between two versions; by default to the newest."""
        from lycosa.commands.inspection.versions import compare_versions

        with self._open() as archive:
            return compare_versions(archive, url, _version_name(before), _version_name(after))

    def import_files(
        self,
        *files: str,
        collection: str = "default",
        base: str = "",
        in_scope: bool = False,
        index: bool = True,
        on_progress: Callable[[Imported], None] | None = None,
    ) -> Imported:
        """Import WARC, WACZ or ARC files, or directories of these or of pages.

        `base`: the URL of a directory of pages. Captures that are stored are skipped; damaged files
        are named in `damaged`.
        """
        from lycosa.commands.crawling.import_archives import ImportOptions, import_configured

        options = ImportOptions(base, in_scope, index)
        config = self._workspace.config(collection)
        return import_configured(self._root, config, collection, files, options, on_progress)

    def reparse(
        self,
        *,
        collection: str = "",
        since: date | int = 0,
        fields_only: bool = False,
        report: Callable[[str], None] = lambda message: None,
    ) -> Reparsed:
        """Parse archived pages again.

        `since`: only pages fetched since a day or time, UTC without a zone, or milliseconds since
        1970 UTC. `fields_only`: only extract items; `report` gets a line for each value that does
        not fit.
        """
        from lycosa.commands.crawling.reparse import reparse_workspace

        worker = f"reparse-{os.getpid()}"
        self._store(collection)
        return reparse_workspace(
            self._root,
            self._workspace.config(),
            collection or None,
            moment_ms(since) or None,
            worker,
            fields_only=fields_only,
            report=report,
        )

    def _open(self) -> closing[Versions]:
        from lycosa.captures.content import Versions

        return closing(Versions(self._root, self._workspace.config()))


def _version_name(at: VersionName) -> str:
    """Return the name of a version as text."""
    if isinstance(at, datetime):
        time = in_utc(at)
        return f"{time:%Y%m%d%H%M%S}{time.microsecond // 1000:03d}"
    return str(at)


class Sites(Part):
    """Reports about sites."""

    def audit(
        self, site: str, *, slow: Duration = "1s", large_bytes: int = 1_000_000
    ) -> SiteReport:
        """Audit a site: structure, broken links, redirects, duplicates, orphan pages."""
        from lycosa.site.report import Thresholds, report_of

        thresholds = Thresholds(duration_ms("slow", slow) or 0, large_bytes)
        return report_of(self._root, site, thresholds, self._workspace.config())

    def links(
        self, *, to: str = "", source: str = "", broken: bool = False, site: str = ""
    ) -> list[StoredLink]:
        """Return stored links: to a URL, from a page, both, or broken ones."""
        from lycosa.site.links import links_of

        if not (to or source or broken):
            raise UsageError("choose --to URL, --from URL or --broken")
        return links_of(self._root, to, source, broken=broken, site=site)

    def changes(self, since: date, *, site: str = "", differences: bool = True) -> list[PageChange]:
        """Return new, removed and changed pages, with text differences.

        `since`: a day or time, UTC without a zone.
        """
        from lycosa.site.changes import changes_of

        start = moment(since)
        config = self._workspace.config()
        return changes_of(self._root, config, start, site, differences=differences)


class WorkspaceStatistics(Part):
    """Numbers of pages, hosts and words."""

    def groups(self, by: str, *, sites: bool = False) -> GroupTable:
        """Return pages, sizes and rates by language, collection or type.

        Raises:
            UsageError: there is no such table.
            WorkError: table files were replaced repeatedly while they were read.
        """
        from lycosa.commands.inspection.status_by import read_groups

        return read_groups(self._root, self._workspace.config(), by, sites=sites)

    def hosts(self, count: int | None = None) -> HostTable:
        """Return the hosts with the most pages, all without `count`."""
        from lycosa.commands.inspection.hosts import list_hosts

        return list_hosts(self._root, count=count)

    @accepts(TermsArguments)
    def terms(self, **options: Unpack[TermsArguments]) -> TermsReport:
        """Count the words of stored pages. `options`: see `lycosa.api.options.TermsArguments`."""
        from lycosa.commands.inspection.search import language_filter, site_filter
        from lycosa.search.query.term_statistics import TermsRequest, workspace_terms

        values: dict[str, Any] = {**options}
        request = TermsRequest(
            language=language_filter(values.pop("language", "")),
            host=site_filter(values.pop("site", "")) or "",
            since=moment_ms(values.pop("since", 0)) or None,
            until=moment_ms(values.pop("until", 0)) or None,
            period_ms=duration_ms("period", values.pop("period", "7d")) or 0,
            **values,
        )
        self._store(request.collection)
        return workspace_terms(self._root, request)

    def names(self, kind: str) -> list[str]:
        """Return the collections, hosts or languages of the workspace, for completion."""
        from lycosa.commands.inspection.hosts import names_of

        return names_of(self._root, self._workspace.config(errors={}), kind)


class Texts(Part):
    """Passages and chunks of stored pages, and searches for exact texts.

    `ignore`: "case", "accents", "width".
    """

    @accepts(PassageArguments)
    def passages(self, query: str, **options: Unpack[PassageArguments]) -> PassagesResult:
        """Return the best passages of the pages for a query, best first, with their sources.

        `options`: see `lycosa.api.options.PassageArguments`.

        Raises:
            UsageError: a parameter is wrong.
            WorkspaceError: there is no workspace, or its index is damaged.
        """
        from lycosa.commands.inspection.passages import PassageRequest
        from lycosa.commands.inspection.search import language_filter, site_filter

        values: dict[str, Any] = {**options}
        host = site_filter(values.pop("site", "")) or ""
        language = language_filter(values.pop("language", ""))
        request = PassageRequest(query, language=language, host=host, **values)
        return self._passage_finder.find(request)

    @cached_property
    def _passage_finder(self) -> PassageFinder:
        from lycosa.commands.inspection.passages import PassageFinder

        return PassageFinder(self._root, config=self._workspace.config())

    def chunks(self, url: str, *, max_tokens: int = 200) -> ChunkList:
        """Return the chunks of the newest version of a stored page.

        They are those that `passages` returns for the same `max_tokens`.

        Raises:
            UsageError: it is no URL.
            WorkError: its page is not stored.
        """
        from lycosa.commands.inspection.passages import chunks

        return chunks(self._root, url, max_tokens)

    def find(
        self, *patterns: str, ignore: Sequence[str] = (), site: str = "", collection: str = ""
    ) -> Scan:
        """Find texts in stored pages: `run()` of the result yields the matches."""
        from lycosa.find.find import find_stored

        self._store(collection)
        return find_stored(
            self._root,
            patterns,
            ignore,
            site=site,
            collection=collection,
        )

    @accepts(FindArguments)
    def find_in_site(
        self, *patterns: str, site: str, **options: Unpack[FindArguments]
    ) -> FindReport:
        """Find texts in a site. A running crawl executes the find if there is one.

        `options`: see `lycosa.api.options.FindArguments`.
        """
        from lycosa.commands.crawling.find_site import SiteFind, find_in_site
        from lycosa.commands.crawling.run_crawl import CrawlCall
        from lycosa.crawl.worker import Limits

        values: dict[str, Any] = {**options}
        collection = values.pop("collection", "default")
        call = CrawlCall(
            self._root,
            self._workspace.config(collection),
            collection,
            limits=Limits(values.pop("max_pages", None)),
            delay_ms=duration_ms("delay", values.pop("delay", None)),
        )
        max_age_ms = duration_ms("max_age", values.pop("max_age", "1d")) or 0
        find = SiteFind(patterns, values.pop("ignore", ()), site, max_age_ms)
        return find_in_site(call, find, **values)

    def submit(
        self,
        urls: Sequence[str],
        patterns: Sequence[str],
        *,
        ignore: Sequence[str] = (),
        collection: str = "",
        max_age: Duration = "1d",
    ) -> FindSubmission:
        """Submit URLs: their pages and all reachable ones are searched."""
        from lycosa.api.workspace import submission_config
        from lycosa.commands.crawling.submissions import submit_texts

        config = submission_config(self._workspace, collection)
        age_ms = duration_ms("max_age", max_age) or 0
        return submit_texts(
            self._root,
            config,
            urls,
            patterns,
            ignore,
            collection,
            age_ms,
        )


class Urls(Part):
    """Single URLs; nothing is stored."""

    def hops(self, url: str) -> tuple[list[FetchHop], bytes]:
        """Fetch one URL: return the exchanges, redirects included, and the decoded body."""
        from lycosa.commands.inspection.single import fetch_hops

        return fetch_hops(self._workspace.config().fetch, url)

    def parse(
        self,
        source: str | bytes,
        url: str = "http://localhost/",
        content_type: str = "",
        name: str = "",
        *,
        fields_of: str | None = None,
    ) -> Page:
        """Parse a page: fetch a URL (text), or parse its content (bytes).

        `url`: base URL of the content; `name`: its name in errors; `fields_of`: extract the items
        of this collection, "": of all collections.
        """
        from lycosa.commands.inspection.single import parse_content, parse_url, schemas_of

        config = self._workspace.config()
        collections = () if fields_of is None else schemas_of(config, fields_of)
        if isinstance(source, bytes):
            title = name or url
            return parse_content(config.fetch, title, source, url, content_type, collections)
        return parse_url(config.fetch, source, collections)

    def robots(self, url: str) -> RobotsReport:
        """Return whether robots.txt allows a URL, and which line decides."""
        from lycosa.commands.inspection.single import robots_report

        return robots_report(self._workspace.config().fetch, url)
