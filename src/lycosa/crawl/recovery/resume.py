"""Resume collections from the log: load URLs and hosts, walk links again.

Links are walked again if the limits of the call differ. Only the owner of the partitions calls
this, after its claim and before it replays. Nothing is fetched. Depths are relaxed as in the
Bellman-Ford algorithm: when the depth of a URL decreases, its links are walked again, until nothing
changes. Memory has the links of one data file, and the keys of those URLs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from lycosa.config.settings import Collection
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Exclusion
from lycosa.core.records import FOLLOWED_KINDS, LinkKind, UrlRow, UrlState, operation_mask
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener
from lycosa.crawl.state.held_partitions import HeldPartitions
from lycosa.frontier.rows.row_reader import HostRowReader
from lycosa.frontier.scheduler.parked_hosts import RowReaders
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import url_records

_RECONSIDERED = (
    Exclusion.SCOPE,
    Exclusion.DEPTH,
    Exclusion.PATTERN,
    Exclusion.SCHEME,
    Exclusion.TOO_LONG,
    Exclusion.ADDRESS,
)
"""Exclusions that the current configuration or new named hosts may lift.

Exclusions by robots.txt are lifted when a changed file is fetched.
"""


@dataclass(slots=True, frozen=True)
class Resumed:
    """Number of rows of URLs (one per collection) and hosts in the tables."""

    urls: int
    hosts: int


@dataclass(slots=True, frozen=True)
class HeldRowReaders(RowReaders):
    """Readers of the live files that may contain rows of held partitions."""

    held_partitions: HeldPartitions

    def refresh(self, state: LogState) -> None:
        self.urls.refresh(self.held_partitions.files(state, "urls"))
        self.hosts.refresh(self.held_partitions.files(state, "hosts"))


def load(crawl: CrawlState, tables: LiveTables) -> Resumed:
    """Load keys of URLs, hosts with next times, and counts from the tables.

    To stay polite after a change of owner, every host counts as fetched now.
    """
    held_partitions = crawl.held_partitions
    path = tables.storage.files.local_path
    row_readers = HeldRowReaders(
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
        # The count of suspects is that of all workers. Each worker may use the whole rest: divided,
        # a site would get less the more workers there are.
        counters = tables.state.counters
        assignment.resume(counters[f"pages.{name}"], counters[f"suspects.{name}"])
        # a pass for each collection: the keys of one at a time are in memory
        frames = row_readers.urls.live(("state", "depth"))
    crawl.budgets.load()
    return Resumed(urls, len(crawl.scheduler.parked.directory))


def _recorded(
    frames: Iterable[pl.DataFrame], collection: str, states: Counter[str]
) -> Iterator[pl.DataFrame]:
    """Yield keys and depths of a collection's rows; count them in `states`."""
    for frame in frames:
        own = frame.filter(pl.col("collection") == collection)
        states.update(dict(own.group_by("state").len().iter_rows()))
        yield own.with_columns(url_key=_row_keys(own))


def _row_keys(frame: pl.DataFrame) -> pl.Series:
    """Return `UrlRow.key` of every row."""
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


def reconsider(crawl: CrawlState, tables: LiveTables, assignment: Assignment) -> None:
    """Apply the current configuration to all rows: admit, exclude, make due."""
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
        elif refusal is None and row.not_before and _postpone(row.reason):
            crawl.urls.make_due(row)
        elif refusal is not None:
            crawl.urls.exclude(row, Exclusion(refusal.value))
    for row in _put_off_by_scope(tables, assignment.name):
        if assignment.gate.refuses(row) is None:
            crawl.urls.make_due(row, requested=False)


def _postpone(reason: str) -> bool:
    """Return whether a budget or trap rule defers a URL.

    The current settings may lift it.
    """
    return reason.endswith("budget") or reason.startswith("trap_")


def stored_rows(tables: LiveTables, collection: str, states: tuple[str, ...]) -> Iterator[UrlRow]:
    """Yield the live rows of a collection in these states, file by file."""
    is_page = pl.col("operation") == ""
    yield from _rows(tables, collection, is_page & pl.col("state").is_in([*map(str, states)]))


def _put_off_by_scope(tables: LiveTables, collection: str) -> Iterator[UrlRow]:
    """Yield fetched pages, sitemaps and feeds that the settings did not admit any more."""
    is_kept = (pl.col("operation") != "") | (pl.col("state") == UrlState.VISITED.value)
    reasons = [*map(str, _RECONSIDERED)]
    yield from _rows(tables, collection, is_kept & pl.col("reason").is_in(reasons))


def _rows(tables: LiveTables, collection: str, condition: pl.Expr) -> Iterator[UrlRow]:
    for frame in tables.batches("urls"):
        yield from url_records(frame.filter((pl.col("collection") == collection) & condition))


_BATCH_KEYS = 50_000


def walk_links(
    crawl: CrawlState, tables: LiveTables, assignment: Assignment, *, every_link: bool
) -> None:
    """Admit the targets of a collection's stored links at their depth.

    Without `every_link`, only links of pages with a decreased depth (`Assignment.depth_decreased`).
    """
    lowered = dict(assignment.depth_decreased)
    sources: Mapping[int, int] | None = None if every_link else dict(assignment.depth_decreased)
    assignment.depth_decreased.clear()
    while sources is None or sources:
        keys = None if sources is None else _key_frame(sources)
        for links in followed_links(tables, assignment.collection, keys):
            once = links.unique(["source", "target", "kind"], maintain_order=True)
            _walk(crawl, assignment, once)
        sources = dict(assignment.depth_decreased)
        lowered.update(sources)
        assignment.depth_decreased.clear()
    store_depths(crawl, tables, assignment, list(lowered))


def followed_links(
    tables: LiveTables, collection: Collection, sources: pl.DataFrame | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the stored links that a crawl follows.

    Columns: url_key, source, target, kind, rel. `sources`: only links of the URLs with these keys
    (`url_key`); its other columns are added.
    """
    closed = tables.scan("pages").filter(~pl.col("may_follow")).select("url_key").collect()
    for frame in tables.batches("links", ("url_key", "source", "target", "kind", "rel")):
        links = frame.filter(pl.col("kind").is_in([kind.value for kind in FOLLOWED_KINDS]))
        if collection.respect_nofollow:
            links = links.filter(~pl.col("rel").str.contains("nofollow", literal=True))
        if sources is not None:
            links = links.join(sources, on="url_key")
        links = links.join(closed, on="url_key", how="anti")
        if links.height:
            yield links


def _walk(crawl: CrawlState, assignment: Assignment, links: pl.DataFrame) -> None:
    sources = links.select("source").unique()["source"].to_list()
    depths = {source: assignment.depth_of(crawl.identifier.identify(source)) for source in sources}
    source_depths = [(source, depth) for source, depth in depths.items() if depth is not None]
    frame = pl.DataFrame(
        source_depths, schema={"source": pl.String, "depth": pl.Int64}, orient="row"
    )
    best_depths = (
        links.join(frame, on="source")
        .with_columns(
            reached=pl.col("depth") + (pl.col("kind") != LinkKind.REDIRECT).cast(pl.Int64)
        )
        .group_by("target")
        .agg(pl.col("reached").min(), pl.col("source").sort_by("reached", "source").first())
        .sort("reached", "target")
    )
    now_ms = crawl.clock.now_ms()
    for target, reached, source in best_depths.iter_rows():
        assignment.gate.admit(target, reached, now_ms, Provenance(source))


def _key_frame(keys: Iterable[int]) -> pl.DataFrame:
    return pl.DataFrame({"url_key": list(keys)}, schema={"url_key": pl.UInt64})


class DepthWriter(CrawlListener):
    """Stores decreased depths in the commit of their cause: a killed worker would lose them."""

    def __init__(self, crawl: CrawlState, tables: LiveTables) -> None:
        self._crawl = crawl
        self._tables = tables

    def before_commit(self) -> None:
        for assignment in self._crawl.assignments.values():
            if assignment.unstored_depths:
                keys, assignment.unstored_depths = assignment.unstored_depths, set()
                store_depths(self._crawl, self._tables, assignment, list(keys))


def store_depths(
    crawl: CrawlState, tables: LiveTables, assignment: Assignment, keys: Sequence[int]
) -> None:
    """Store the decreased depths of the rows with these URL keys, with the next commit."""
    for start in range(0, len(keys), _BATCH_KEYS):
        part = _key_frame(keys[start : start + _BATCH_KEYS]).lazy()
        rows = tables.scan("urls").filter(
            (pl.col("collection") == assignment.name) & (pl.col("operation") == "")
        )
        for record in url_records(rows.join(part, on="url_key", how="semi").collect()):
            depth_before = record.depth
            here = crawl.urls.find(assignment.name, record.id) or record
            depth = assignment.seen.depth(record.id)
            if depth is not None:
                here.reduce_depth(depth)
            if here is not record or record.depth != depth_before:
                crawl.urls.change(here)
