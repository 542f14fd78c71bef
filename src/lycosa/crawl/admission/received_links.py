"""Applies the URLs that other workers discovered in held partitions.

These are `found` rows in the log's files. Applying is an upsert (least depth, highest priority,
earliest first_seen_at), so a row applied twice changes nothing. A commit records up to which entry
each partition has applied all rows. A read without new rows does not cause a commit: otherwise
idle workers would cause each other to commit forever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import polars as pl
import polars.selectors as cs

from lycosa.core.records import UrlId
from lycosa.crawl.admission.discovery import Discovery
from lycosa.crawl.admission.inbox import Inbox
from lycosa.crawl.admission.remote_links import INBOX_LINK, Provenance
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener
from lycosa.store.log.claim import DATA, Claim
from lycosa.store.storage.files import DataFile
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.files import scan_file
from lycosa.store.tables.precedence import unapplied
from lycosa.store.tables.rows import Row
from lycosa.store.tables.schema import TABLES
from lycosa.url.scope import hostname

RECORD_INTERVAL_MS = 300_000
"""Time after a compaction at which read positions without new rows are recorded: a vacuum may
wait for them to delete the compacted files.
"""

_BATCH_ROWS = 200_000
_TABLE = TABLES["found"]


class ReceivedLinks(CrawlListener):
    """Applies found rows by the claim's view of the log.

    Do not call it while a commit is being written, because a commit changes that view.
    """

    def __init__(
        self, crawl: CrawlState, discovery: Discovery, inbox: Inbox, claim: Claim, storage: Storage
    ) -> None:
        self._crawl = crawl
        self._discovery = discovery
        self._inbox = inbox
        self._claim = claim
        self._storage = storage
        self._own = f"{DATA}/{claim.entry:08d}-"
        self._cursor = {
            partition: claim.state.applied.get(partition, 0) for partition in claim.partitions
        }
        # every entry up to this one is read, and its rows are applied (committed or not)
        self.read_to = min(self._cursor.values())
        # partition -> the first entry with rows of a collection that is not crawled here
        self._left: dict[int, int] = {}
        self._paths: set[str] = set()
        self._replaced = False  # since a commit last recorded the read positions
        self._recorded_ms = crawl.clock.monotonic_ms()
        self.rows = 0

    def apply(self, between: Callable[[], None] | None = None) -> int:
        """Apply new rows, and return their number. `between` is called after each batch."""
        state = self._claim.state
        head, files = state.head, list(state.files.get("found", []))
        if head == self.read_to:
            return 0
        paths = {file.path for file in files}
        self._replaced |= bool(self._paths - paths)
        self._paths = paths
        rows = 0
        for file in files:
            if file.entry <= self.read_to or file.path.startswith(self._own):
                continue
            for frame in self._frames(file):
                rows += frame.height
                self._take(frame)
                if between is not None:
                    between()
        self.read_to = head
        for partition in self._cursor:
            self._cursor[partition] = min(head, self._left.get(partition, head + 1) - 1)
        if rows:
            self._crawl.buffer.batch.require_applied()
            self.rows += rows
        return rows

    def record_positions(self) -> None:
        """Let the next commit record the read positions if a vacuum may need them.

        Call it periodically.
        """
        if (
            self._replaced
            and self._crawl.clock.monotonic_ms() - self._recorded_ms >= RECORD_INTERVAL_MS
        ):
            self._crawl.buffer.batch.require_applied()

    def applied_entries(self) -> dict[int, int]:
        """Return partition -> read position for the commit that is cut now.

        Only positions beyond those in the log are included.
        """
        if not self._paths and not self.rows:
            return {}  # no worker sends URLs
        self._replaced, self._recorded_ms = False, self._crawl.clock.monotonic_ms()
        applied = self._claim.state.applied
        return {
            partition: entry
            for partition, entry in self._cursor.items()
            if entry > applied.get(partition, 0)
        }

    def _frames(self, file: DataFile) -> Iterator[pl.DataFrame]:
        """Yield the unread rows of a file, by depth; a large file by groups of partitions."""
        held = sorted(self._claim.partitions)
        step = max(1, len(held) * _BATCH_ROWS // max(file.rows, _BATCH_ROWS))
        scan = scan_file(self._storage, _TABLE, file)
        for start in range(0, len(held), step):
            part = held[start : start + step]
            mine = pl.col("partition").is_between(part[0], part[-1]) & pl.col("partition").is_in(
                part
            )
            frame = scan.filter(
                mine & unapplied({each: self._cursor[each] for each in part})
            ).collect()
            if frame.height:
                yield frame.sort("depth", "url").with_columns(cs.datetime().dt.epoch("ms"))

    def _take(self, frame: pl.DataFrame) -> None:
        claims: dict[str, dict[UrlId, int]] = defaultdict(dict)
        for row in frame.iter_rows():
            self._take_row(row, claims)
        for collection, changed in claims.items():
            self._crawl.urls.apply_claims(collection, changed)

    def _take_row(self, row: Row, claims: dict[str, dict[UrlId, int]]) -> None:
        partition, host_key, url_key, collection, operation, url, source, anchor, kind, depth = row[
            :10
        ]
        priority, redirects, redirect_from, first_seen_at, modified_at, entry = row[10:]
        assignment = self._crawl.assignments.get(collection)
        if assignment is None:
            self._left[partition] = min(entry, self._left.get(partition, entry))
            return
        identity = UrlId(url, hostname(url), host_key, url_key, partition)
        provenance = Provenance(
            source,
            redirects,
            redirect_from or "",
            anchor,
            kind,
            modified_at or 0,
            first_seen_at or 0,
            priority,
        )
        if operation:
            self._discovery.admit(
                collection, identity, operation, provenance.referrer, depth, provenance.redirects
            )
            return
        is_recorded = assignment.knows(identity)
        if assignment.gate.receive(identity, depth, self._crawl.clock.now_ms(), provenance):
            return
        if kind == INBOX_LINK and is_recorded:
            self._inbox.renew(collection, identity, provenance.first_seen_at)
        self._improve(collection, identity, provenance)
        if modified_at:
            claims[collection][identity] = max(modified_at, claims[collection].get(identity, 0))

    def _improve(self, collection: str, identity: UrlId, provenance: Provenance) -> None:
        """Finish the upsert for a row in memory.

        Rows that are only in the tables are older and do not change.
        """
        row = self._crawl.urls.find(collection, identity)
        if row is None:
            return
        if provenance.priority > row.priority or 0 < provenance.first_seen_at < row.first_seen_at:
            row.priority, row.first_seen_at = (
                max(row.priority, provenance.priority),
                min(row.first_seen_at, provenance.first_seen_at),
            )
            self._crawl.urls.change(row)
        if provenance.redirects:
            self._crawl.urls.stop_redirects(row)
