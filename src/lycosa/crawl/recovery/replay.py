"""Replay: process archived but uncommitted exchanges of earlier workers, without fetching.

Exchanges are read in the order in which they were made, so the URL of each is known when it is read
(from a link on an earlier page, or committed). If a claim's partitions were reassigned to several
workers, each replays the exchanges in its own partitions. Of the others it only applies links to
its own URLs. Records are copied into this worker's own WARC with their record IDs; current scope
and robots.txt rules apply; the commit has the names of the replayed orphans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import polars as pl

from lycosa.archive.warc.members import Damage
from lycosa.archive.warc.reader import StoredExchange, read_exchanges
from lycosa.core.records import UrlId, UrlRow, UrlState, VisitKind, operation_key
from lycosa.crawl.admission.discovery import KINDS
from lycosa.crawl.processing.response_processor import Replayed, ResponseProcessor
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.store.log.claim import OrphanArchive
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import url_records
from lycosa.url.scope import url_origin

_BESIDE = (VisitKind.LOGIN, VisitKind.REQUISITE)  # exchanges without a row of `urls`
_WAITING = (UrlState.KNOWN, UrlState.VISITED, UrlState.GONE)


def replay(
    processor: ResponseProcessor,
    orphans: Iterable[OrphanArchive],
    tables: LiveTables,
    locate: Callable[[str], str],
    commit_if_due: Callable[[], None],
    every: LiveTables | None = None,
) -> None:
    """Process the exchanges of orphaned WARC files.

    Unreadable records and processed IDs are skipped. `tables` has the rows of held partitions,
    `every` those of all partitions (None: the same). `locate` returns the absolute path of a
    workspace-relative one; `commit_if_due` is called after each exchange, so that memory is
    bounded.

    Raises:
        ArchiveError: the disk fails, or a newer program wrote an orphan.
    """
    crawl = processor.crawl
    every = every or tables
    seen: set[str] = set()
    for orphan in orphans:
        foreign = False
        stored_rows = _Stored(crawl, tables, every, locate(orphan.path))
        seen |= stored_rows.committed
        crawl.scheduler.open_all(stored_rows.host_keys)
        damages: list[Damage] = []
        for stored in read_exchanges(
            locate(orphan.path), relative_path=orphan.path, on_damage=damages.append
        ):
            if (
                stored.visit.collection not in crawl.assignments
                and stored.visit.kind != VisitKind.CHECK
            ):
                # remains in the orphan until a crawl of its collection replays it
                foreign = True
                continue
            if not crawl.held_partitions.holds(_partition(crawl, stored)):
                if stored.visit.kind != VisitKind.CHECK:
                    processor.process_links_only(stored.exchange, stored.visit)
                continue
            if stored.visit.record_id in seen:
                continue
            seen.add(stored.visit.record_id)
            if _absorb(processor, stored, stored_rows):
                crawl.progress.add_replayed(1)
                commit_if_due()
        if damages:
            crawl.progress.damaged[orphan.path] += len(damages)
        if not foreign:
            crawl.buffer.batch.orphans_used.append(orphan.path)


class _Stored:
    """The stored data for the exchanges of one orphan.

    It has the committed record IDs and the rows of the URLs. `host_keys`: their hosts.
    """

    def __init__(self, crawl: CrawlState, tables: LiveTables, every: LiveTables, path: str) -> None:
        ids = []
        keys = set()
        self.host_keys: set[int] = set()
        partitions: set[int] = set()
        for stored in read_exchanges(path, on_damage=lambda _: None):
            if not crawl.held_partitions.holds(_partition(crawl, stored)):
                continue
            ids.append(stored.visit.record_id)
            keys.add(stored.visit.url_key)
            self.host_keys.add(stored.visit.host_key)
            partitions.add(crawl.identifier.identify(stored.exchange.url).partition)
        # a redirected robots.txt has another URL
        visits = every.scan("visits").filter(pl.col("partition").is_in(sorted(partitions)))
        # an earlier replay was itself killed after a commit
        self.committed = committed_ids(visits, ids)
        rows = tables.scan("urls").join(
            pl.LazyFrame({"url_key": list(keys)}, schema={"url_key": pl.UInt64}),
            on="url_key",
            how="semi",
        )
        self._rows = {(row.collection, row.key): row for row in url_records(rows.collect())}
        self._crawl = crawl

    def rows_of(self, identity: UrlId, operation: str) -> Mapping[str, UrlRow]:
        """Return the current rows of a URL by collection."""
        rows = {}
        for name in self._crawl.assignments:
            stored = self._rows.get((name, operation_key(identity.url_key, operation)))
            row = self._crawl.urls.current(name, identity, stored, operation)
            if row is not None:
                rows[name] = row
        return rows


def committed_ids(visits: pl.LazyFrame, record_ids: list[str]) -> frozenset[str]:
    """Return the record IDs that these visits have."""
    own = pl.LazyFrame({"record_id": record_ids}, schema={"record_id": pl.String})
    committed = visits.select("record_id").join(own, on="record_id", how="semi")
    return frozenset(committed.collect()["record_id"])


def _partition(crawl: CrawlState, stored: StoredExchange) -> int:
    """Return the partition of an exchange.

    It is that of its URL; for a robots.txt, also a redirected one, that of its origin.
    """
    visit = stored.visit
    url = (
        f"{visit.referrer}/"
        if visit.kind == VisitKind.ROBOTS and visit.referrer
        else stored.exchange.url
    )
    return crawl.identifier.identify(url).partition


def _absorb(processor: ResponseProcessor, stored: StoredExchange, tables: _Stored) -> bool:
    """Process a stored exchange; return whether a collection has a row for it."""
    crawl = processor.crawl
    exchange, visit = stored.exchange, stored.visit
    identity = crawl.identifier.identify(exchange.url)
    replayed = Replayed(visit, stored.revisit_of)
    kind = VisitKind(visit.kind)
    origin = url_origin(exchange.url)
    if kind == VisitKind.CHECK:
        crawl.buffer.batch.add_check(exchange, visit)
        return True
    if kind == VisitKind.ROBOTS:
        origin = visit.referrer or origin
        crawl.hosts.queue(identity)
        # the origin that requested the robots.txt, before redirects
        crawl.hosts.queue(crawl.identifier.identify(f"{origin}/"))
        task = Task(identity, (), origin, kind, visit.attempt, visit.depth)
    elif kind in _BESIDE:
        crawl.hosts.queue(identity)
        task = Task(
            identity, (), visit.referrer, kind, visit.attempt, visit.depth, visit.collection
        )
    else:
        admitted = _admitted_rows(processor, stored, tables)
        rows = [
            row
            for row in admitted.values()
            if row.visited_at < visit.fetched_at
            # does not apply to a collection without the page
            if exchange.status != 304 or row.record_id
        ]
        if not rows:
            own = admitted.get(visit.collection)
            # a worker continued for a moment after losing its claim, or the clock was set back
            if own is not None:
                task = Task(identity, (own,), origin, kind, visit.attempt)
                processor.record(exchange, task, replayed)
            return own is not None
        # the collection that requested it is first
        rows.sort(key=lambda row: row.collection != visit.collection)
        crawl.hosts.queue(identity)
        for row in rows:
            crawl.frontier.active.remove(row.collection, identity.host_key, row.key)
        task = Task(identity, tuple(rows), origin, kind, visit.attempt)
    processor.replay(exchange, task, replayed)
    return True


def _admitted_rows(
    processor: ResponseProcessor, stored: StoredExchange, tables: _Stored
) -> dict[str, UrlRow]:
    """Return the waiting rows of the exchange's URL, by collection."""
    crawl, kind = processor.crawl, stored.visit.kind
    identity = crawl.identifier.identify(stored.exchange.url)
    operation = kind if kind in KINDS else ""
    return {
        name: row
        for name, row in tables.rows_of(identity, operation).items()
        if row.state in _WAITING
        and (operation or crawl.assignments[name].gate.refuses(row) is None)
    }
