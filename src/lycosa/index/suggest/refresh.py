"""Provide a new generation with suggestions: keep the previous file, or write a new one.

Writing takes time in proportion to the pages. The file is therefore renewed at intervals of
`REST_MS_A_PAGE` per page, and new pages are suggested that much later than they can be searched.
After an exclusion both index and file are rebuilt, so that nothing excluded remains. Removed pages
are left out of a new file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lycosa.core.errors import WorkspaceError
from lycosa.index.generation import link_or_copy
from lycosa.index.suggest import file as suggest_file
from lycosa.index.suggest.collect import COLUMNS, COPY_COLUMNS, WORD_PAGES, Collector, copies_of
from lycosa.index.suggest.file import SuggestFile, SuggestInfo
from lycosa.index.suggest.writer import write
from lycosa.store.tables.live import LiveTables, in_partitions

FRESH_PAGES = 2_000
"""Up to this many pages, every generation has a new file: writing it takes less than a second."""
REST_MS_A_PAGE = 10
"""At least 20 times the time per page of writing (bench/suggest.py), so it takes at most 5 % of
the indexer's time.
"""
_FRAME_BYTES = 24 * 2**20


@dataclass(slots=True, frozen=True)
class SuggestTask:
    """Sources of a file.

    `only`: the partitions of a shard, None for all. `removed` returns the keys of pages without
    suggestions. `link_signals` returns url_key, prior and anchors of pages, or None.
    """

    tables: LiveTables
    only: range | None
    now_ms: int
    removed: Callable[[], pl.Series]
    link_signals: Callable[[pl.Series], pl.DataFrame | None]


def is_due(generation: Path, now_ms: int, log_entry: int) -> bool:
    """Return whether the file of a generation is outdated and its interval is over."""
    info = _info(generation)
    if info is None:
        return True
    age_ms = now_ms - info.made_at
    rested = info.pages <= FRESH_PAGES or not 0 <= age_ms < info.pages * REST_MS_A_PAGE
    return info.log_entry < log_entry and rested


def place(task: SuggestTask, build: Path, before: Path | None) -> None:
    """Put a file into a build folder. `before`: the previous generation, None for a rebuild.

    Raises:
        FileNotFoundError, polars.exceptions.PolarsError: a table cannot be read.
    """
    if before is not None and not is_due(before, task.now_ms, task.tables.state.head):
        keep(before, build)
        return
    pages = sum(file.rows for file in task.tables.state.files.get("pages", []))
    share = max(1, -(-pages // WORD_PAGES))
    removed = task.removed()
    collector = Collector(share, copies_of(_frames(task, removed, COPY_COLUMNS), share))
    for frame in _frames(task, removed, COLUMNS):
        collector.add(frame, task.link_signals(frame["url_key"]))
    words = collector.words()
    info = SuggestInfo(task.tables.state.head, task.now_ms, collector.pages)
    write(build, info, collector.phrases(words), words)


def keep(before: Path, build: Path) -> None:
    """Put the file of the previous generation, if it has one, into a build folder."""
    path = suggest_file.find(before)
    if path is not None:
        link_or_copy(path, build / path.name)


def _info(generation: Path) -> SuggestInfo | None:
    path = suggest_file.find(generation)
    try:
        return None if path is None else SuggestFile(path).info
    except (WorkspaceError, OSError):
        return None


def _frames(
    task: SuggestTask, removed: pl.Series, columns: Sequence[str]
) -> Iterator[pl.DataFrame]:
    """Yield the pages, each once even if several collections have it."""
    filters = pl.col("may_index") & ~pl.col("url_key").is_in(removed.implode())
    if task.only is not None:
        filters &= in_partitions(task.only)
    for frame in task.tables.ordered("pages", columns, memory_bytes=_FRAME_BYTES):
        pages = frame.filter(filters).unique("url_key", keep="last", maintain_order=True)
        if pages.height:
            yield pages
