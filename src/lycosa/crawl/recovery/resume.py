"""Taking up collections where the log left them: URLs, hosts, and what a wider or narrower call
changes.

Only the owner of the partitions calls this, after its claim and before it replays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from lycosa.core.errors import Exclusion
from lycosa.core.records import UrlRow, UrlState, operation_mask
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.held_partitions import HeldPartitions
from lycosa.frontier.rows.row_reader import HostRowReader
from lycosa.frontier.scheduler.parked_hosts import RowReaders
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import url_record
from lycosa.url.scope import hostname

_RECONSIDERED = (
    Exclusion.SCOPE,
    Exclusion.DEPTH,
    Exclusion.PATTERN,
    Exclusion.SCHEME,
    Exclusion.TOO_LONG,
    Exclusion.ADDRESS,
)
"""Exclusions that today's configuration, or newly named hosts, may lift. (A robots.txt that changed
lifts its own.)
"""


@dataclass(slots=True, frozen=True)
class Resumed:
    """How many rows of URLs (one a collection) and hosts the tables held."""

    urls: int
    hosts: int


@dataclass(slots=True, frozen=True)
class HeldShelves(RowReaders):
    """The shelves of a worker that may hold some of the partitions."""

    held_partitions: HeldPartitions

    def refresh(self, state: LogState) -> None:
        self.urls.refresh(self.held_partitions.files(state, "urls"))
        self.hosts.refresh(self.held_partitions.files(state, "hosts"))


def load(crawl: CrawlState, tables: LiveTables, path: Callable[[str], str]) -> Resumed:
    """Fill what the crawl knows from the live tables: keys, hosts with their next times, counts.

    `path` gives the absolute path of a workspace's file. Politeness holds over the change of owner:
    every host counts as fetched at this moment.
    """
    held_partitions = crawl.held_partitions
    row_readers = HeldShelves(
        HostRowReader("urls", path, held_partitions.held),
        HostRowReader("hosts", path, held_partitions.held),
        held_partitions,
    )
    row_readers.refresh(tables.state)
    urls = 0
    frames = crawl.scheduler.load(row_readers)
    for name, assignment in crawl.assignments.items():
        assignment.seen.load(_recorded(frames, name, crawl.progress.states))
        urls += len(assignment.seen)
        # Suspects count those of all workers. Each worker may use the rest: shared out, a site
        # would get less the more workers there are.
        counters = tables.state.counters
        assignment.resume(counters[f"pages.{name}"], counters[f"suspects.{name}"])
        # a pass for each collection: the keys of one at a time are in memory
        frames = row_readers.urls.live(("state", "depth"))
    crawl.budgets.load()
    return Resumed(urls, len(crawl.scheduler.parked.directory))


def _recorded(
    frames: Iterable[pl.DataFrame], collection: str, states: Counter[str]
) -> Iterator[pl.DataFrame]:
    """Keys and depths of a collection's rows, part by part; `states` counts them."""
    for frame in frames:
        own = frame.filter(pl.col("collection") == collection)
        states.update(dict(own.group_by("state").len().iter_rows()))
        yield own.with_columns(url_key=_row_keys(own))


def _row_keys(frame: pl.DataFrame) -> pl.Series:
    """`UrlRow.key` of every row."""
    keys = frame["url_key"].to_numpy()
    operations = frame["operation"]
    for operation in operations.unique().to_list():
        if operation:
            keys = np.where(
                (operations == operation).to_numpy(),
                keys ^ np.uint64(operation_mask(operation)),
                keys,
            )
    return pl.Series("url_key", keys, dtype=pl.UInt64)


def reconsider(crawl: CrawlState, tables: LiveTables, assignment: Assignment) -> int:
    """Ask today's configuration about every row: what it lets in again is known, what it stops is
    excluded. Returns how many rows changed.
    """
    changed = 0
    for row in stored_rows(tables, assignment.name, (UrlState.KNOWN, UrlState.EXCLUDED)):
        if crawl.urls.find(row.collection, row.id) is not None:
            continue
        refusal = assignment.gate.refuses(row)
        if row.state == UrlState.EXCLUDED:
            lifted = row.reason in _RECONSIDERED or (
                row.reason == Exclusion.OPERATOR and not crawl.excluded(row.id.url)
            )
            if lifted and refusal is None:
                crawl.urls.reopen(row)
                changed += 1
        elif refusal is None and row.not_before and _put_off(row.reason):
            crawl.urls.make_due(row)
            changed += 1
        elif refusal is not None:
            crawl.urls.exclude(row, Exclusion(refusal.value))
            changed += 1
    return changed


def _put_off(reason: str) -> bool:
    """Whether a URL waits for a budget or a trap rule: today's settings may say otherwise."""
    return reason.endswith("budget") or reason.startswith("trap_")


def stored_rows(tables: LiveTables, collection: str, states: tuple[str, ...]) -> Iterator[UrlRow]:
    """The live rows of one collection that are in one of these states, file by file."""
    for frame in tables.batches("urls"):
        chosen = frame.filter(
            (pl.col("collection") == collection)
            & (pl.col("operation") == "")
            & pl.col("state").is_in([str(state) for state in states])
        ).with_columns(cs.datetime().dt.epoch("ms"))
        for row in chosen.iter_rows():
            yield url_record(row, hostname(row[3]))
