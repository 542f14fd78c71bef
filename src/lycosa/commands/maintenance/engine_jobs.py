"""Index, ranks and compaction of a workspace, here or on an engine."""

from __future__ import annotations

from dataclasses import asdict

from lycosa.commands.engines import open_engine
from lycosa.commands.feature_models import CompactionResult, IndexResult
from lycosa.config.settings import Config
from lycosa.core.errors import OwnedError, WorkError
from lycosa.graph.generation import GraphInfo
from lycosa.index.indexer import Indexer
from lycosa.maintenance.jobs import index_on, merge_on, rank_on, rank_workspace
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.workspace import Workspace
from lycosa.vectors.encoders import load_encoder
from lycosa.vectors.update import VectorsReport, update_vectors


def update_index(
    root: str, config: Config, engine: str = "", address: str = "", *, rebuild: bool = False
) -> IndexResult:
    """Update or rebuild the search index, then encode chunks without vectors.

    Raises:
        OwnedError: another process is indexing this workspace.
        ConfigError: the encoder of the settings cannot be used; the index is complete.
    """
    workspace = Workspace.open(root)
    if engine or address:
        with open_engine(engine, address, config) as processes:
            report = index_on(processes, root, config.index, rebuild=rebuild)
    else:
        with Indexer(root, config.index) as indexer:
            report = indexer.rebuild() if rebuild else indexer.update(last=True)
    return IndexResult(**asdict(report), vectors=encode_chunks(workspace, config))


def encode_chunks(workspace: Workspace, config: Config) -> VectorsReport | None:
    """Encode chunks without vectors, and remove those of removed pages.

    Returns None if there is no encoder.

    Raises:
        ConfigError: the encoder of the settings cannot be used.
    """
    encoder = load_encoder(config) if config.encoder.source else None
    try:
        return update_vectors(workspace, encoder)
    except OwnedError as error:
        return VectorsReport(problem=str(error))


def update_ranks(root: str, config: Config, engine: str = "", address: str = "") -> GraphInfo:
    """Compute link ranks, duplicates and translations of all pages.

    Raises:
        WorkError: table files were deleted repeatedly while they were read.
    """
    location = Workspace.open(root).root
    if engine or address:
        with open_engine(engine, address, config) as processes:
            return rank_on(processes, location)
    return rank_workspace(location)


def compact_workspace(
    root: str, config: Config, engine: str = "", address: str = "", *, full: bool = False
) -> CompactionResult:
    """Compact the tables, and delete obsolete files. `full`: all files of each table.

    Raises:
        WorkError: another process is compacting.
    """
    workspace = Workspace.open(root)
    settings = CompactionSettings(config.store.merge_commits)
    if engine or address:
        with open_engine(engine, address, config) as processes:
            merged = merge_on(processes, workspace.root, settings, whole=full)
    else:
        merged = compact(workspace, settings, whole=full)
    if merged.gave_up:
        raise WorkError(f"nothing was compacted: {merged.gave_up}; run the command again later")
    swept = vacuum(
        workspace,
        keep_replaced_ms=config.store.keep_replaced,
        keep_entries_ms=config.store.keep_entries,
    )
    return CompactionResult(merged, swept)
