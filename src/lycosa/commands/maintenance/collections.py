"""List collections, copy one into another workspace, or purge one."""

from __future__ import annotations

import itertools
from collections import Counter

import polars as pl

from lycosa.commands.inspection.status_by import groups_of
from lycosa.commands.maintenance.exclude import drop_vectors
from lycosa.commands.models import CollectionSummary
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.crawl.session.pausing import paused
from lycosa.export.archives.collection_copy import CopyReport, copy_collection
from lycosa.export.library.editions import library_languages
from lycosa.graph.builder import rebuild_graph
from lycosa.index.indexer import Indexer
from lycosa.index.shards.shards import current_generation, index_analysis
from lycosa.store.compaction.plan import base_place
from lycosa.store.exclusion.purge import PurgeReport
from lycosa.store.exclusion.purge_collection import purge_collection
from lycosa.store.log.claim import INBOX
from lycosa.store.log.transaction import CommitContents
from lycosa.store.storage.storage import json_documents
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace


def list_collections(workspace: Workspace, config: Config) -> list[CollectionSummary]:
    """Return the collections that are configured or have data, by name."""
    state = workspace.state()
    languages = library_languages(config, state)
    groups = {row.name: row for row in groups_of(workspace, "collection", config).rows}
    counted = (
        LiveTables(workspace, state)
        .scan("urls")
        .filter(pl.col("operation") == "")
        .group_by("collection", "state")
        .len()
        .collect()
    )
    urls: dict[str, dict[str, int]] = {}
    for name, state_name, number in counted.iter_rows():
        urls.setdefault(name, {})[state_name] = number
    on_disk = Counter[str]()
    for file in itertools.chain.from_iterable(state.files.values()):
        if (place := base_place(file.path)) is not None:
            on_disk[place[0]] += file.bytes
    paused_by_people = paused(workspace.storage)
    configured = {collection.name for collection in config.collection}
    return [
        CollectionSummary(
            name,
            languages.get(name, ""),
            name in configured,
            *((group.pages, group.sites, group.bytes) if group else (0, 0, 0)),
            urls=dict(sorted(urls.get(name, {}).items())),
            pages_ever=state.counters[f"pages.{name}"],
            on_disk=on_disk[name],
            paused=name in paused_by_people,
        )
        for name in sorted(configured | urls.keys() | groups.keys())
        for group in (groups.get(name),)
    ]


def copy_to(root: str, name: str, target: str) -> CopyReport:
    """Copy a collection into another workspace, which is created if necessary.

    Raises the errors of `copy_collection`, and OwnedError.
    """
    source = Workspace.open(root)
    other = Workspace.open_or_create(target, source.partitions)
    if other.root == source.root:
        raise UsageError(
            "the target is the workspace of the collection itself: specify the "
            "folder of another workspace"
        )
    with other.own("collection copy"):
        return copy_collection(source, name, other, source.state().settings.get(name, {}))


_ORPHAN = "left by an interrupted crawl; the next crawl processes it: run a crawl, then purge again"


def purge(root: str, name: str, config: Config) -> PurgeReport:
    """Remove a collection from tables, archives, inbox and search index.

    Exports and copies are not removed.

    Raises:
        UsageError: it is configured, so that the next `run` would fetch it again; or the workspace
        has no data of it.
        OwnedError: another process is crawling in this workspace.
    """
    if any(collection.name == name for collection in config.collection):
        raise UsageError(
            f"collection {name!r} is still configured, so the next `lycosa run` would fetch it "
            "again: remove it from lycosa.toml first"
        )
    workspace = Workspace.open(root)
    with workspace.own("collection purge"):
        held = (
            LiveTables(workspace)
            .all_rows("urls")
            .filter(pl.col("collection") == name)
            .head(1)
            .collect()
            .height
        )
        if not held and name not in workspace.state().settings:
            raise UsageError(
                f"{workspace.root} has no collection {name!r}; list the collections "
                "with `lycosa collection list`"
            )
        claim = workspace.claim("collection purge")
        try:
            orphans = claim.orphans()
            report = purge_collection(workspace, name)
            report += PurgeReport(pending=tuple((orphan.path, _ORPHAN) for orphan in orphans))
            _clear_inbox(workspace, name)
            counters = workspace.state().counters
            used = {key: -counters[key] for key in (f"pages.{name}", f"suspects.{name}")}
            claim.commit(claim.next_folder(), {}, CommitContents(counters=used))
        finally:
            claim.release()
        rebuild_graph(workspace, index_analysis(root))
        if current_generation(root) is not None:
            with Indexer(root, config.index) as indexer:
                indexer.rebuild()
        if report.complete:  # at the end: a purge that was interrupted can be repeated
            workspace.claim("collection purge", settings={name: None}).release()
    return report + PurgeReport(pending=tuple(drop_vectors(workspace)))


def _clear_inbox(workspace: Workspace, name: str) -> None:
    for each, document in json_documents(workspace.storage, INBOX):
        if document.get("collection") == name:
            workspace.storage.remove(f"{INBOX}/{each}.json")
