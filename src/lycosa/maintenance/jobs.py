"""Batch jobs on an engine: compaction, vacuum, indexing and ranking. Every item may be retried."""

from __future__ import annotations

from functools import partial

from lycosa.cluster.engine import Engine
from lycosa.config.settings import IndexSettings, StoreSettings
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import GraphInfo
from lycosa.index.indexer import IndexReport, combined_report, index_shard, tasks_of
from lycosa.index.shards.shards import index_analysis
from lycosa.store.compaction.compact import CompactionReport, compact_table
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import VacuumReport, vacuum
from lycosa.store.coordination.owner import maintenance
from lycosa.store.tables.live import retried
from lycosa.store.tables.schema import TABLES
from lycosa.store.workspace import Workspace


def merge_on(
    engine: Engine, location: str, settings: CompactionSettings, *, whole: bool = False
) -> CompactionReport:
    """Compact the tables in parallel: `store.compaction.compact.compact` on an engine.

    Raises:
        WorkError: the process of a table died three times.
    """
    workspace = Workspace.open(location)
    with maintenance(workspace.storage) as alone:
        if not alone:
            return CompactionReport(
                gave_up="another process is compacting, vacuuming or purging this "
                "workspace; run the command again later"
            )
        merge_one = partial(_merge_table, workspace.root, settings, whole)
        return sum(engine.map(merge_one, TABLES), CompactionReport())


def vacuum_on(engine: Engine, location: str, settings: StoreSettings) -> VacuumReport:
    """Delete obsolete files: `store.compaction.vacuum.vacuum` in a process of an engine."""
    (report,) = engine.map(partial(_sweep, settings), [location])
    return report


def index_on(
    engine: Engine, location: str, settings: IndexSettings, *, rebuild: bool = False
) -> IndexReport:
    """Update or rebuild the shards of the index in parallel on an engine."""
    return combined_report(
        list(engine.map(index_shard, tasks_of(location, settings, rebuild=rebuild)))
    )


def rank_on(engine: Engine, location: str) -> GraphInfo:
    """Run `rank_workspace` in a process of an engine.

    Raises:
        WorkError: its process died three times, or table files were deleted repeatedly.
    """
    (info,) = engine.map(rank_workspace, [location])
    return info


def rank_workspace(location: str) -> GraphInfo:
    """Make a generation of the graph.

    Raises:
        WorkError: table files were deleted repeatedly while they were read.
    """
    workspace = Workspace.open(location)
    return retried(lambda: make_generation(workspace, index_analysis(location)))


def _merge_table(
    location: str, settings: CompactionSettings, whole: bool, table: str
) -> CompactionReport:
    return compact_table(Workspace.open(location), table, settings, whole=whole)


def _sweep(settings: StoreSettings, location: str) -> VacuumReport:
    return vacuum(
        Workspace.open(location),
        keep_replaced_ms=settings.keep_replaced,
        keep_entries_ms=settings.keep_entries,
    )
