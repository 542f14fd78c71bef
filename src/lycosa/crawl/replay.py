"""Replay: what an earlier worker had archived but not committed is understood again, without fetching.

Exchanges come in the order in which they were made, so every page is known (found by a page before it, or committed) when
its exchange is read. Their records are copied into this worker's own WARC with their record ids; today's scope and robots
apply; the commit names the orphans used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

from lycosa.archive.reader import StoredExchange, read_exchanges
from lycosa.core.records import VisitKind
from lycosa.crawl.ledger import Ledger, Task
from lycosa.store.claim import Orphan
from lycosa.store.live import LiveTables
from lycosa.url.scope import url_origin


@dataclass(slots=True)
class Replayed:
    """How many exchanges were found in orphaned WARCs, and what became of them."""

    exchanges: int = 0
    absorbed: int = 0
    already_committed: int = 0
    not_admitted: int = 0  # out of today's scope, or no longer known


def replay(
    ledger: Ledger,
    orphans: Iterable[Orphan],
    locate: Callable[[str], str],
    committed_ids: frozenset[str],
    commit_if_due: Callable[[], None],
) -> Replayed:
    """Absorb what orphaned WARCs hold. A torn tail is ignored; ids that were seen already are skipped.

    `locate` gives the absolute path of a workspace-relative one; `commit_if_due` is called after each exchange, so that memory
    stays bounded.

    Raises:
        ArchiveError: an orphan is not a WARC, or is damaged before its end.
    """
    report = Replayed()
    seen = set(committed_ids)
    for orphan in orphans:
        foreign = False
        for stored in read_exchanges(locate(orphan.path), relative_path=orphan.path):
            report.exchanges += 1
            if stored.visit.collection != ledger.collection.name:
                foreign = True  # stays in the orphan until a crawl of its own collection takes it up
                continue
            if stored.visit.record_id in seen:
                report.already_committed += 1
                continue
            seen.add(stored.visit.record_id)
            if _absorb(ledger, stored):
                report.absorbed += 1
                commit_if_due()
            else:
                report.not_admitted += 1
        if not foreign:
            ledger.used(orphan.path)
    ledger.progress.replayed += report.absorbed
    return report


def committed_records(tables: LiveTables, orphans: Iterable[Orphan], locate: Callable[[str], str]) -> frozenset[str]:
    """Which record ids in the orphans stand in `visits` already (an earlier replay was itself killed after a commit)."""
    ids = [stored.visit.record_id for orphan in orphans for stored in read_exchanges(locate(orphan.path))]
    if not ids:
        return frozenset()
    wanted = pl.LazyFrame({"record_id": ids}, schema={"record_id": pl.String})
    return frozenset(tables.scan("visits").join(wanted, on="record_id", how="semi").select("record_id").collect()["record_id"])


def _absorb(ledger: Ledger, stored: StoredExchange) -> bool:
    exchange, visit = stored.exchange, stored.visit
    identity = ledger.identifier.identify(exchange.url)
    if visit.kind == VisitKind.ROBOTS:
        origin = visit.referrer or url_origin(exchange.url)
        ledger.open_host(identity)
        ledger.replayed(exchange, Task(identity, None, origin, VisitKind.ROBOTS, visit.attempt, visit.depth), visit)
        return True
    row = ledger.frontier.remove(identity.url_key)
    if row is None:
        return False
    ledger.replayed(exchange, Task(identity, row, url_origin(exchange.url), VisitKind(visit.kind), visit.attempt), visit)
    return True
