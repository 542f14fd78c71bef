"""Batch jobs on an engine: merge, sweep, index and rank as functions over items, each of which may
be tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lycosa.cluster.engine import Engine
from lycosa.config.settings import IndexSettings, StoreSettings
from lycosa.core.errors import WorkError
from lycosa.graph.generation import GraphInfo, make_generation
from lycosa.index.indexer import IndexReport, combined_report, index_shard, tasks_of
from lycosa.index.shards.shards import index_analysis
from lycosa.store.compaction.compact import CompactionReport, compact_table
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import VacuumReport, vacuum
from lycosa.store.coordination.maintenance import maintenance
from lycosa.store.tables.schema import TABLES
from lycosa.store.workspace import Workspace

_RANK_ATTEMPTS = 3


@dataclass(slots=True, frozen=True)
class TableTask:
    """One table to fold. An item of a map: trying it again finds what was not folded yet."""

    location: str
    table: str
    settings: CompactionSettings
    whole: bool


@dataclass(slots=True, frozen=True)
class SweepTask:
    """A workspace to sweep."""

    location: str
    settings: StoreSettings


def merge_on(
    engine: Engine, location: str, settings: CompactionSettings, *, whole: bool = False
) -> CompactionReport:
    """As `lycosa.store.compaction.compact.merge`, the tables side by side on an engine.

    Raises:
        WorkError: a table was tried three times, and each time its process died.
    """
    workspace = Workspace.open(location)
    with maintenance(workspace.storage) as alone:
        if not alone:
            return CompactionReport(
                gave_up="another process is compacting, vacuuming or purging this "
                "workspace; run the command again later"
            )
        return combined(
            list(
                engine.map(
                    fold_table,
                    [TableTask(workspace.root, name, settings, whole) for name in TABLES],
                )
            )
        )


def sweep_on(engine: Engine, location: str, settings: StoreSettings) -> VacuumReport:
    """As `lycosa.store.compaction.vacuum.sweep`, in a process of an engine."""
    (report,) = engine.map(sweep_workspace, [SweepTask(location, settings)])
    return report


def index_on(
    engine: Engine, location: str, settings: IndexSettings, *, rebuild: bool = False
) -> IndexReport:
    """Bring the shards of the search index up to the log, side by side on an engine."""
    return combined_report(
        list(engine.map(index_shard, tasks_of(location, settings, rebuild=rebuild)))
    )


def rank_on(engine: Engine, location: str) -> GraphInfo:
    """As `lycosa.graph.generation.make_generation`, in a process of an engine.

    Raises:
        WorkError: it was tried three times, and each time its process died, or the tables' files
        went away.
    """
    (info,) = engine.map(rank_workspace, [location])
    return info


def rank_workspace(location: str) -> GraphInfo:
    """Raises WorkError: table files were deleted repeatedly while they were read."""
    workspace = Workspace.open(location)
    for _ in range(_RANK_ATTEMPTS):
        try:
            return make_generation(workspace, index_analysis(location))
        except FileNotFoundError as error:  # a merge took a file away: read the log again
            gone = error
    raise WorkError(
        f"table files were replaced during all {_RANK_ATTEMPTS} attempts ({gone}): run the "
        "command again when no compaction is running"
    )


def fold_table(task: TableTask) -> CompactionReport:
    return compact_table(Workspace.open(task.location), task.table, task.settings, whole=task.whole)


def sweep_workspace(task: SweepTask) -> VacuumReport:
    settings = task.settings
    return vacuum(
        Workspace.open(task.location),
        keep_replaced_ms=settings.keep_replaced,
        keep_entries_ms=settings.keep_entries,
    )


def combined(reports: Sequence[CompactionReport]) -> CompactionReport:
    """What all tables came to."""
    return CompactionReport(
        sorted(entry for report in reports for entry in report.entries),
        sum(report.files_before for report in reports),
        sum(report.files_after for report in reports),
        sum(report.rows_dropped for report in reports),
        sum(report.bytes_read for report in reports),
        sum(report.bytes_written for report in reports),
        "; ".join(report.gave_up for report in reports if report.gave_up),
    )
