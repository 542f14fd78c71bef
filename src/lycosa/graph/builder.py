"""Make a generation of `lycosa.graph.generation` from all tables."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl

from lycosa.core.clock import SystemClock
from lycosa.core.errors import WorkspaceError
from lycosa.graph.generation import (
    DUPLICATES,
    FOLDER,
    FORMAT,
    INFO,
    MAX_GENERATIONS,
    PAGES,
    GraphInfo,
    find_duplicates,
    newest,
)
from lycosa.graph.ranking import page_ranks
from lycosa.processes.memory import batch_memory
from lycosa.store.storage.staging import (
    build_folder,
    generation_numbers,
    publish_generation,
    remove_generations,
    write_list,
)
from lycosa.store.tables.files import writing
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import Analysis
from lycosa.translation.training import train_tables


@batch_memory()
def make_generation(workspace: Workspace, analysis: Analysis = Analysis()) -> GraphInfo:
    """Compute and publish a generation. Translation tables get keys by `analysis`.

    Raises:
        FileNotFoundError: a file of a table was deleted meanwhile: call again.
        OSError: storage failed.
    """
    state = workspace.state()
    tables = LiveTables(workspace, state)
    copies = find_duplicates(tables)
    storage = workspace.storage
    folder, before = _previous(workspace)
    number = max(generation_numbers(storage, FOLDER), default=0) + 1
    with build_folder(storage, FOLDER) as build:
        with writing(build / DUPLICATES):
            copies.write_parquet(build / DUPLICATES, compression="zstd")
        pages = page_ranks(tables, copies, before, number, build)
        changed = pages.filter(pl.col("since") == number).height
        grouped = pages.filter(pl.col("group") != 0)["group"]
        translations = train_tables(tables, build, analysis, folder)
        info = GraphInfo(
            FORMAT,
            number,
            state.head,
            copies.height,
            pages.height,
            changed,
            SystemClock().now_ms(),
            translations,
            grouped.len(),
            grouped.n_unique(),
        )

        def write(generation: int) -> None:
            since = pl.when(pl.col("since") == number).then(generation).otherwise("since")
            with writing(build / PAGES):
                pages.with_columns(since=since).write_parquet(
                    build / PAGES, compression="zstd", row_group_size=50_000
                )
            document = asdict(replace(info, generation=generation))
            (build / INFO).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            write_list(build)

        published = publish_generation(
            storage, FOLDER, number, build, write, retained=MAX_GENERATIONS
        )
    return replace(info, generation=published)


def rebuild_graph(workspace: Workspace, analysis: Analysis = Analysis()) -> None:
    """Replace all generations, if there are any, after a purge: they may contain purged pages.

    Raises the same errors as `make_generation`.
    """
    if workspace.storage.names(FOLDER):  # or an unfinished folder
        info = make_generation(workspace, analysis)
        remove_generations(workspace.storage, FOLDER, info.generation)


def _previous(workspace: Workspace) -> tuple[Path | None, pl.DataFrame | None]:
    """Return the folder and `PAGES` of the newest generation; None for each that cannot be read."""
    folder = None
    try:
        latest = newest(workspace)
        folder = latest[1] if latest is not None else None
        return folder, pl.read_parquet(folder / PAGES) if folder is not None else None
    except (WorkspaceError, OSError, pl.exceptions.PolarsError):
        return folder, None  # damaged or removed: all pages count as changed
