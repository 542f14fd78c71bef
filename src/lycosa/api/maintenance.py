"""Maintenance of a workspace: index, ranks, compaction, check, exclusions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lycosa.api.groups import Part

if TYPE_CHECKING:
    from lycosa.commands.feature_models import CompactionResult, IndexResult
    from lycosa.commands.maintenance.repair import RepairReport
    from lycosa.commands.models import ExclusionReport
    from lycosa.graph.generation import GraphInfo


class Maintenance(Part):
    """Maintenance. `engine`, `address`: work on this machine, or on a Ray cluster."""

    def index(self, *, rebuild: bool = False, engine: str = "", address: str = "") -> IndexResult:
        """Add all crawled pages to the search index; `rebuild`: make it anew. Then encode chunks
        without vectors, if an encoder is configured.
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
        from lycosa.store.workspace import Workspace as Store

        rows = current_duplicates(Store.open(self._root)).head(count)
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
