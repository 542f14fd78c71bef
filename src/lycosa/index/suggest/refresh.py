"""The suggestions of a new generation: the file of the previous one, or a new file.

Writing takes time in proportion to the pages. The file is therefore renewed at intervals of
`REST_MS_A_PAGE` per page, and new pages are suggested that much later than they can be searched.
After an exclusion both index and file are rebuilt, so that nothing excluded remains. Removed pages
are left out of a new file.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from lycosa.core.errors import WorkspaceError
from lycosa.graph.generation import LinkSignals
from lycosa.index.generation import link_or_copy
from lycosa.index.suggest import file as suggest_file
from lycosa.index.suggest.collect import (
    BEGINNING,
    COLUMNS,
    PAGE,
    WORD_PAGES,
    Collector,
)
from lycosa.index.suggest.file import SuggestFile, SuggestInfo
from lycosa.index.suggest.writer import write
from lycosa.store.tables.live import LiveTables, in_partitions

FRESH_PAGES = 2_000
"""Up to this many pages, every generation has a new file: writing it takes less than a second."""
REST_MS_A_PAGE = 10
"""At least 20 times the time per page of writing (bench/suggest.py), so it takes at most 5 % of
the indexer's time.
"""
_FRAME_BYTES = 8 * 2**20


def is_due(generation: Path, now_ms: int, log_entry: int) -> bool:
    """Return whether the file of a generation is outdated and its interval is over."""
    info = _info(generation)
    if info is None:
        return True
    age_ms = now_ms - info.made_at
    rested = info.pages <= FRESH_PAGES or not 0 <= age_ms < info.pages * REST_MS_A_PAGE
    return info.log_entry < log_entry and rested


def write_file(
    build: Path,
    tables: LiveTables,
    partitions: range | None,
    removed: pl.Series,
    links: LinkSignals | None,
    now_ms: int,
) -> None:
    """Write a file into a build folder.

    Args:
        partitions: the partitions of a shard, None for all.
        removed: keys of pages without suggestions.

    Raises:
        FileNotFoundError, polars.exceptions.PolarsError: a table cannot be read.
    """

    filters = pl.col("may_index") & ~pl.col("url_key").is_in(removed.implode())
    if partitions is not None:
        filters &= in_partitions(partitions)
    rows = sum(file.rows for file in tables.state.files.get("pages", []))
    collector = Collector(max(1, -(-rows // WORD_PAGES)))
    for frame in tables.ordered("pages", COLUMNS, memory_bytes=_FRAME_BYTES):
        # a page of several collections once
        pages = frame.filter(filters).unique("url_key", keep="last", maintain_order=True)
        if pages.height:
            columns = ["url_key", "prior", "anchors"]
            signals = None if links is None else links.pages(pages["url_key"], columns=columns)
            collector.add(pages, signals)
    sample = collector.read_for_words()
    beginnings = tables.batches(
        "pages",
        [*PAGE, "language", BEGINNING],
        pl.col("url_key").is_in(sample["url_key"].implode()),
        memory_bytes=_FRAME_BYTES,
    )
    for frame in beginnings:
        collector.add_words(frame.join(sample, on=PAGE))
    words = collector.words()
    info = SuggestInfo(tables.state.head, now_ms, collector.pages)
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
