"""The job that `upkeep` starts: compact, vacuum and rank what is due."""

from __future__ import annotations

from contextlib import suppress

from lycosa.config.settings import StoreSettings
from lycosa.core.clock import SystemClock
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import newest
from lycosa.index.shards.shards import index_analysis
from lycosa.processes.jobs import job_order
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.workspace import Workspace

RANK_EVERY_MS = 86_400_000


def keep_up(root: str, settings: StoreSettings, merging: bool = True, ranking: bool = True) -> None:
    """Compact and vacuum what is due, and rank daily, beside the worker."""
    workspace = Workspace.open(root)
    if merging:
        compact(workspace, CompactionSettings(settings.merge_commits))
    vacuum(
        workspace, keep_replaced_ms=settings.keep_replaced, keep_entries_ms=settings.keep_entries
    )
    if ranking:
        rank_when_due(root)


def rank_when_due(root: str) -> None:
    """Make a generation of the graph if the newest is a day old and the log has grown since."""
    workspace = Workspace.open(root)
    result = newest(workspace)
    if result is not None:
        info, _ = result
        if (
            abs(SystemClock().now_ms() - info.made_at) < RANK_EVERY_MS
            or info.log_entry == workspace.state().head
        ):
            return
    with suppress(FileNotFoundError):  # compaction removed a file: next time
        make_generation(workspace, index_analysis(root))


if __name__ == "__main__":
    order = job_order("upkeep")
    keep_up(order["root"], StoreSettings(**order["settings"]), order["merging"], order["ranking"])
