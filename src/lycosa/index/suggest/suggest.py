"""Keeps the file of suggestions with a generation: carried over from the one before, or made anew
when it is due.

To make it takes a while that grows with the pages, so it rests in proportion (`REST_MS_A_PAGE`):
what was added since is suggested that much later, and searched at once. After an exclusion the
index begins from nothing, and so does this file: nothing of what was excluded is in it. Pages that
are gone are left out when it is made.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lycosa.core.errors import WorkspaceError
from lycosa.index.suggest import file as suggest_file
from lycosa.index.suggest.collect import COLUMNS, COPY_COLUMNS, WORD_PAGES, Collector, copies_of
from lycosa.index.suggest.file import SuggestFile, SuggestInfo
from lycosa.index.suggest.writer import write
from lycosa.store.tables.live import LiveTables, in_partitions

FRESH_PAGES = 2_000
"""Up to so many pages it is made with every generation: that takes less than a second."""
REST_MS_A_PAGE = 10
"""Twenty times and more what a page costs while it is made (bench/suggest.py): a twentieth of the
indexer's time at most.
"""
_FRAME_BYTES = 24 * 2**20


@dataclass(slots=True, frozen=True)
class SuggestTask:
    """What to make a file from. `only`: the partitions of a shard; None: all. `gone`: gives keys of
    pages that are not to be suggested; `said`: gives what links say of the pages with these keys
    (url_key, prior, anchors), or None.
    """

    tables: LiveTables
    only: range | None
    now_ms: int
    gone: Callable[[], pl.Series]
    said: Callable[[pl.Series], pl.DataFrame | None]


def is_due(generation: Path, now_ms: int, log_entry: int) -> bool:
    """Whether the file of a generation is older than the log's head, and has rested long enough."""
    info = info_of(generation)
    if info is None:
        return True
    rested = (
        info.pages <= FRESH_PAGES or not 0 <= now_ms - info.made_at < info.pages * REST_MS_A_PAGE
    )
    return info.log_entry < log_entry and rested


def info_of(generation: Path) -> SuggestInfo | None:
    """How the file of a generation was made; None if it has none that can be read."""
    path = suggest_file.find(generation)
    try:
        return None if path is None else SuggestFile(path).info
    except (WorkspaceError, OSError):
        return None


def place(task: SuggestTask, build: Path, before: Path | None) -> None:
    """Put the file into a folder that is about to be published, after the generation `before`;
    None: the index began from nothing.

    Raises:
        FileNotFoundError, polars.exceptions.PolarsError: a table cannot be read.
    """
    if before is not None and not is_due(before, task.now_ms, task.tables.state.head):
        carry_over(before, build)
        return
    pages = sum(file.rows for file in task.tables.state.files.get("pages", []))
    share = max(1, -(-pages // WORD_PAGES))
    gone = task.gone()
    collector = Collector(share, copies_of(_frames(task, gone, COPY_COLUMNS), share))
    for frame in _frames(task, gone, COLUMNS):
        collector.add(frame, task.said(frame["url_key"]))
    words = collector.words()
    info = SuggestInfo(task.tables.state.head, task.now_ms, collector.pages)
    write(build, info, collector.phrases(words), words)


def carry_over(before: Path, build: Path) -> None:
    """Put the file of the generation before into a folder that is about to be published, if it has
    one.
    """
    path = suggest_file.find(before)
    if path is None:
        return
    try:
        os.link(path, build / path.name)
    except PermissionError:  # a file system without hard links
        shutil.copyfile(path, build / path.name)


def _frames(task: SuggestTask, gone: pl.Series, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The pages to look at, each once, whatever collections have it."""
    wanted = pl.col("may_index") & ~pl.col("url_key").is_in(gone.implode())
    if task.only is not None:
        wanted &= in_partitions(task.only)
    for frame in task.tables.ordered("pages", columns, memory_bytes=_FRAME_BYTES):
        pages = frame.filter(wanted).unique("url_key", keep="last", maintain_order=True)
        if pages.height:
            yield pages
