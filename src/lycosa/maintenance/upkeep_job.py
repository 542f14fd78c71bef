"""The job that `upkeep` starts: compaction, vacuum and ranking, each if it is due."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from lycosa.config.settings import StoreSettings
from lycosa.core.clock import SystemClock
from lycosa.core.units import milliseconds
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
    """Compact, vacuum and rank if due, while the worker runs."""
    workspace = Workspace.open(root)
    if merging:
        compact(workspace, CompactionSettings(settings.merge_commits))
    vacuum(
        workspace, keep_replaced_ms=settings.keep_replaced, keep_entries_ms=settings.keep_entries
    )
    if ranking:
        rank_when_due(root)


def rank_when_due(root: str) -> None:
    """Make a generation of the graph once a day, if the log has grown since the last one.

    The first is made when the workspace is a day old. After a ranking, the index reads all pages
    with a changed rank again, which slows down a fast crawl.
    """
    workspace = Workspace.open(root)
    result = newest(workspace)
    if result is None:
        last = milliseconds(datetime.fromisoformat(workspace.created_at))
    else:
        last = result[0].made_at
    if abs(SystemClock().now_ms() - last) < RANK_EVERY_MS or (
        result is not None and result[0].log_entry == workspace.state().head
    ):
        return
    with suppress(FileNotFoundError):  # compaction removed a file: next time
        make_generation(workspace, index_analysis(root))


if __name__ == "__main__":
    order = job_order("upkeep")
    keep_up(order["root"], StoreSettings(**order["settings"]), order["merging"], order["ranking"])
