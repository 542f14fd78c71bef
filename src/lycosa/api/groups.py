"""Parts of a workspace that are managed: collections, alerts, translations, maintenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lycosa.api.checked_calls import CheckedCalls
from lycosa.core.parameters import moment

if TYPE_CHECKING:
    from lycosa.api.workspace import Workspace
    from lycosa.commands.feature_models import (
        CompactionResult,
        IndexResult,
        MatchList,
    )
    from lycosa.commands.maintenance.repair import RepairReport
    from lycosa.commands.models import CollectionFacts, CollectionSummary, ExclusionReport
    from lycosa.commands.search_models import QueryTranslation
    from lycosa.export.archives.collection_copy import CopyReport
    from lycosa.graph.generation import GraphInfo
    from lycosa.store.exclusion.purge import PurgeReport
    from lycosa.store.workspace import Workspace as Store
    from lycosa.translation.table import TableInfo
    from lycosa.translation.workspace_tables import OpenTables
    from lycosa.uptime.monitors import MonitorInfo
    from lycosa.uptime.report import UptimeReport
    from lycosa.watch.watches import WatchInfo


class Part(CheckedCalls):
    """A group of methods of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._root = workspace.root

    def _store(self, collection: str = "") -> Store:
        """Open the workspace. Raises UsageError if it has no such collection; "" is any."""
        from lycosa.store.workspace import Workspace as Store

        store = Store.open(self._root)
        if collection:
            from lycosa.crawl.session.planning import require_collection

            require_collection(store, self._workspace.config(), collection)
        return store


class Collections(Part):
    """The collections of a workspace."""

    def list(self) -> list[CollectionSummary]:
        """Return the collections that are configured or contain data."""
        from lycosa.commands.maintenance.collections import list_collections

        return list_collections(self._store(), self._workspace.config())

    def facts(self, name: str) -> CollectionFacts | None:
        """Return contents, queue and settings of a collection; None if it is unknown."""
        from lycosa.commands.inspection.collection_facts import collection_facts

        return collection_facts(self._root, self._workspace.config(), name)

    def pause(self, name: str) -> None:
        """Stop fetching for a collection until it is resumed."""
        from lycosa.crawl.session.pausing import set_paused

        set_paused(self._root, name, paused=True)

    def resume(self, name: str) -> None:
        """Resume a paused collection."""
        from lycosa.crawl.session.pausing import set_paused

        set_paused(self._root, name, paused=False)

    def copy(self, name: str, target: str) -> CopyReport:
        """Copy a collection and its archive into another workspace."""
        from lycosa.commands.maintenance.collections import copy_to

        return copy_to(self._root, name, target)

    def purge(self, name: str) -> PurgeReport:
        """Delete a collection that was removed from the configuration."""
        from lycosa.commands.maintenance.collections import purge

        return purge(self._root, name, self._workspace.config())


class Monitors(Part):
    """The monitors of availability."""

    def list(self) -> list[MonitorInfo]:
        """Return the monitors with their settings."""
        from lycosa.uptime.monitors import list_monitors

        return list_monitors(self._root, self._workspace.config(errors={}))

    def add(self, url: str, **settings: object) -> MonitorInfo:
        """Monitor a URL; `settings` are those of [[monitor]] in lycosa.toml.

        Raises:
            UsageError: a setting is wrong, or the URL is already monitored.
        """
        from lycosa.uptime.monitors import add_monitor
        from lycosa.url.normalise import typed_url

        stated = {name: value for name, value in settings.items() if value not in ("", None)}
        config = self._workspace.config(errors={})
        return add_monitor(self._root, config, {**stated, "url": typed_url(url)})

    def remove(self, url: str) -> None:
        """Remove a monitor and keep its history."""
        from lycosa.uptime.monitors import remove_monitor
        from lycosa.url.normalise import typed_url

        remove_monitor(self._root, self._workspace.config(errors={}), typed_url(url))

    def report(self, target: str = "") -> UptimeReport:
        """Return availability, response times and outages of a host or URL, or of all."""
        from lycosa.uptime.report import report_host, report_monitors

        config = self._workspace.config(errors={})
        if target:
            return report_host(self._root, config, target)
        return report_monitors(self._root, config)

    def run(self, report: Callable[[str], None] = print) -> None:
        """Run the checks until SIGTERM or SIGINT; call it in the main thread."""
        from lycosa.commands.crawling.checks import run_checks

        run_checks(self._root, self._workspace.config(), report)


class Watches(Part):
    """The content alerts: patterns that are matched against every fetched page."""

    def list(self) -> list[WatchInfo]:
        """Return the watches and the state of their notifications."""
        from lycosa.watch.watches import list_watches

        return list_watches(self._root)

    def add(
        self,
        *patterns: str,
        name: str = "",
        ignore: Sequence[str] = (),
        collections: Sequence[str] = (),
        notify: Sequence[str] = (),
    ) -> WatchInfo:
        """Match patterns against every page fetched from now on.

        `ignore`: "case", "accents", "width"; `notify`: "webhook URL", "command …" or "file PATH".
        """
        from lycosa.watch.watches import add_watch

        return add_watch(
            self._root,
            self._workspace.config(),
            patterns,
            ignore,
            name=name,
            collections=collections,
            notify=notify,
        )

    def remove(self, watch: str) -> WatchInfo:
        """Remove a watch by ID or name, and keep its matches."""
        from lycosa.watch.watches import remove_watch

        return remove_watch(self._root, watch)

    def matches(
        self,
        watch: str = "",
        *,
        since: date | None = None,
        site: str = "",
        count: int | None = None,
        every: bool = False,
    ) -> MatchList:
        """Return matches, newest first; `every`: of older versions of a page too.

        `since`: a day or time, UTC without a zone.
        """
        from lycosa.commands.feature_models import MatchList
        from lycosa.watch.watches import matches

        start = None if since is None else moment(since)
        rows, total = matches(self._root, watch, since=start, site=site, most=count, every=every)
        return MatchList(total, rows)


class Translations(Part):
    """The translation tables of searches across languages."""

    def tables(self) -> OpenTables:
        """Return the tables, including those learned from the crawl."""
        from lycosa.commands.maintenance.translate import tables_of

        return tables_of(self._root)

    def add(
        self, file: Path | str, source: str = "", target: str = "", name: str = ""
    ) -> TableInfo:
        """Add a dictionary: dictd, Wiktionary list, TSV or TMX. Languages are ISO 639 codes."""
        from lycosa.commands.maintenance.translate import add_dictionary

        return add_dictionary(self._root, Path(file), source, target, name)

    def learn(
        self, files: Sequence[Path | str], source: str = "", target: str = "", name: str = ""
    ) -> TableInfo:
        """Learn word translations from parallel sentences."""
        from lycosa.commands.maintenance.translate import learn_table

        paths = [Path(file) for file in files]
        return learn_table(self._root, paths, source, target, name)

    def remove(self, name: str) -> None:
        """Remove a table that was added or learned."""
        from lycosa.commands.maintenance.translate import remove_table

        remove_table(self._root, name)

    def lookup(
        self, text: str, source: str = "", targets: Sequence[str] = ()
    ) -> list[QueryTranslation]:
        """Return the translations that a search uses for words."""
        from lycosa.commands.inspection.search import query_translation
        from lycosa.commands.maintenance.translate import look_up

        found = look_up(self._root, text, source, targets)
        return [query_translation(each) for each in found]


class Maintenance(Part):
    """Maintenance. `engine`, `address`: work on this machine, or on a Ray cluster."""

    def index(self, *, rebuild: bool = False, engine: str = "", address: str = "") -> IndexResult:
        """Add crawled pages to the search index and encode missing vectors.

        `rebuild`: build a new index. Chunks are encoded only if an encoder is configured.
        """
        from lycosa.commands.maintenance.engine_jobs import update_index

        config = self._workspace.config()
        return update_index(self._root, config, engine, address, rebuild=rebuild)

    def rank(self, *, engine: str = "", address: str = "") -> GraphInfo:
        """Compute link ranks, anchor texts and duplicates; `index` then applies them."""
        from lycosa.commands.maintenance.engine_jobs import update_ranks

        return update_ranks(self._root, self._workspace.config(), engine, address)

    def duplicates(self, count: int) -> list[dict[str, Any]]:
        """Return duplicate pages (`collection`, `url`, `canonical_of`), after `rank`."""
        from lycosa.graph.generation import current_duplicates

        rows = current_duplicates(self._store()).head(count)
        return rows.select("collection", "url", "canonical_of").to_dicts()

    def compact(
        self, *, full: bool = False, engine: str = "", address: str = ""
    ) -> CompactionResult:
        """Compact small files and delete obsolete ones; `full`: all files of each table.

        Raises:
            WorkError: another process is compacting.
        """
        from lycosa.commands.maintenance.engine_jobs import compact_workspace

        return compact_workspace(self._root, self._workspace.config(), engine, address, full=full)

    def check(self, *, deep: bool = False, repair: bool = False) -> RepairReport:
        """Verify log, tables, archive and index.

        `deep`: also read every record; `repair`: delete leftovers and rebuild derived data.
        """
        from lycosa.commands.maintenance.check import check_workspace
        from lycosa.commands.maintenance.repair import RepairReport, repair_workspace

        if repair:
            return repair_workspace(self._root, deep=deep)
        report = check_workspace(self._root, deep=deep)
        return RepairReport(report.findings, report.counts)

    def exclude(self, *rules: str, purge: bool = False) -> ExclusionReport:
        """Exclude sites permanently; `purge`: also delete stored data.

        A rule is a host, a URL, `domain:NAME` or `prefix:URL`. Without rules, all are applied.
        """
        from lycosa.commands.maintenance.exclude import exclude_and_purge

        return exclude_and_purge(self._root, self._workspace.config(), rules, remove=purge)
