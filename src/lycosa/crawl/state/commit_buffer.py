"""Changed rows between two commits: the batch being filled, and the one being written."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.core.records import HostRow, UrlRow
from lycosa.crawl.recovery.unparsed import UnparsedDocuments
from lycosa.crawl.state.batch import Batch
from lycosa.crawl.state.events import CrawlEvents
from lycosa.store.log.claim import Claim


class CommitBuffer:
    """`batch` is what the next commit will hold, `cut` what the commit that is being written
    holds. Rows here override what the tables return.
    """

    def __init__(self, claim: Claim, info: dict[str, str], events: CrawlEvents) -> None:
        self._claim = claim
        self._info = info
        self._events = events
        self.claim_number, self.claimed_partitions = claim.entry, claim.partitions
        self.batch = Batch(claim, info)
        self.cut: Batch | None = None
        self.cuts = 0  # how many batches were cut
        self.unparsed = UnparsedDocuments(claim, info)

    def next_batch(self) -> Batch:
        """Close the books of the current batch, rows as they are now, and begin another. Returns
        the one that was cut.

        Call `committed` when its commit is written.
        """
        self._events.before_commit()
        batch = self.batch
        if not batch.empty:
            self.batch = Batch(self._claim, self._info)
            self.cut = batch
            self.cuts += 1
            self.unparsed.seal()
            batch.cut(self._events.applied_entries())
        return batch

    def committed(self) -> None:
        """The batch that was cut last stands in the tables: they show it from now on."""
        self.cut = None
        self.unparsed.committed(self.cuts)
        self._events.log_advanced(self._claim.state)

    def follow_log(self) -> None:
        """Read on in the log, while no commit is being written: an idle worker must know of merges
        before what they replaced is deleted.

        Raises:
            ClaimLost: somebody else holds the partitions.
        """
        before = self._claim.state.head
        self._claim.check()
        if self._claim.state.head != before:
            self._events.log_advanced(self._claim.state)

    def pending_urls(self, host_key: int) -> Iterator[UrlRow]:
        """The rows of a host's URLs that the tables do not show yet; of two versions the newer
        comes last.
        """
        if self.cut is not None:
            yield from self.cut.urls_of(host_key)
        yield from self.batch.urls_of(host_key)

    def pending_in_collection(self, row: UrlRow, collection: str) -> UrlRow | None:
        """The row that a URL has in another collection, if the tables do not show it yet."""
        for batch in (self.batch, self.cut):
            other = (
                batch.url(row.id.host_key, collection, row.operation, row.id.url_key)
                if batch is not None
                else None
            )
            if other is not None:
                return other
        return None

    def pending_host(self, host_key: int) -> HostRow | None:
        """The row of a host, if the tables do not show it yet."""
        row = self.batch.host(host_key)
        return row if row is not None or self.cut is None else self.cut.host(host_key)

    def used(self, orphan: str) -> None:
        """The next commit names an orphaned WARC whose exchanges have all been absorbed."""
        self.batch.orphans_used.append(orphan)
