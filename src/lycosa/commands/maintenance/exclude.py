"""Remove sites from a workspace.

They are excluded by an entry of the log, purged from its files, and removed from the search index.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from lycosa.commands.models import ExclusionReport
from lycosa.config.settings import Config
from lycosa.core.errors import OwnedError, UsageError
from lycosa.graph.builder import rebuild_graph
from lycosa.index.indexer import Indexer
from lycosa.index.shards.shards import current_generation, index_analysis
from lycosa.store.exclusion.exclusions import DOMAIN, PREFIX, parse_rule
from lycosa.store.exclusion.purge import PurgeReport, exclude, purge
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.uptime.monitors import forget_excluded
from lycosa.vectors.update import update_vectors
from lycosa.watch.delivery import empty_outboxes


def exclude_and_purge(
    root: str, config: Config, rules: Sequence[str], *, remove: bool
) -> ExclusionReport:
    """Exclude the pages of `rules`; `remove`: also delete their stored data.

    `pending` has place and reason of data that is not deleted yet. A running crawl applies the
    rules after its next commit.

    Raises:
        UsageError: there is no rule, or an invalid one.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    if not rules and not workspace.state().exclusions:
        raise UsageError(
            "this workspace has no exclusions: specify a rule, for example `lycosa "
            "exclude host:www.example.org`"
        )
    report = purge(workspace, rules) if remove else PurgeReport(exclusion=exclude(workspace, rules))
    pending = [*report.pending]
    owner = workspace.owner()
    if remove and owner is not None:
        pending.append(
            (
                "tables",
                f"process {owner.pid} ({owner.command}) is crawling and may "
                "have rows that are not committed yet",
            )
        )
    if remove:
        if owner is None:  # before the delivery process can read them
            empty_outboxes(workspace)
        forget_excluded(workspace)
        rebuild_graph(workspace, index_analysis(root))
    documents = _drop_from_index(root, config, pending)
    pending += drop_vectors(workspace)
    return ExclusionReport(
        rules=sorted(workspace.state().exclusions.rules),
        exclusion=report.exclusion,
        purged=remove,
        rows=dict(report.rows),
        records=report.records,
        archives=report.archives,
        bytes_deleted=report.bytes_deleted,
        documents=documents,
        pending=dict(pending),
    )


def drop_vectors(workspace: Workspace) -> list[tuple[str, str]]:
    """Remove the chunks and vectors of excluded and purged pages.

    Returns (place, reason) of data that is not removed yet.
    """
    try:
        update_vectors(workspace, None)
    except OwnedError:
        return [("vectors", "another process encodes chunks: its next update removes the pages")]
    return []


def pages_named(root: str, rule: str) -> int:
    """Return how many pages of the workspace match a rule.

    Raises:
        UsageError: it is not a rule.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    kind, _, value = parse_rule(rule).partition(":")
    rest = pl.col("url").str.split_exact("://", 1).struct.field("field_1")
    host = rest.str.extract(r"^([^/?#]*)").str.replace(r":\d+$", "").str.strip_chars_end(".")
    named = rest.str.starts_with(value) if kind == PREFIX else host == value
    if kind == DOMAIN:
        named = named | host.str.ends_with(f".{value}")
    pages = LiveTables(Workspace.open(root)).scan("pages").filter(named)
    return int(pages.select(pl.struct("host_key", "url_key").n_unique()).collect().item())


def _drop_from_index(root: str, config: Config, pending: list[tuple[str, str]]) -> int:
    """Update the search index, and return its number of documents."""
    before = current_generation(root)
    if before is None:
        return 0
    indexer = Indexer(root, config.index)
    try:
        return indexer.update(last=True).documents
    except OwnedError:
        pending.append(
            (
                "index",
                "a running crawl updates the search index: it removes the pages "
                "after its next commit",
            )
        )
        return before.documents
    finally:
        indexer.close()
