"""Limits of a worker: lease, page quotas, share of the connections."""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.crawl.membership import Lease, PingReply
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState


class WorkerLimits:
    """Applies the coordinator's replies to one worker.

    Without a lease, only the collections' own budgets apply.
    """

    def __init__(self, crawl: CrawlState, lease: Lease | None) -> None:
        self._crawl = crawl
        self._lease = lease
        self._reply: PingReply | None = None
        self._covers_claim = False
        self.active_workers = 1
        """Workers that share the connections of a collection and of an address."""

    @property
    def holds(self) -> bool:
        """Whether the lease has not expired."""
        return self._lease is None or self._lease.holds

    def may_fetch(self) -> bool:
        """Return whether a fetch may start: the lease is valid for all partitions of the claim."""
        if self._lease is None:
            return True
        reply = self._lease.answer
        if reply is not self._reply:
            self._reply = reply
            self._covers_claim = self._crawl.buffer.claimed_partitions <= reply.partitions
        return self._covers_claim and self._lease.holds

    def renew(self) -> None:
        """Apply the valid reply.

        A new claim has no quota before a reply for that claim.
        """
        if self._lease is None:
            return
        self.grant(self._lease.granted(self._crawl.buffer.claim_number))
        if self.active_workers != self._lease.answer.among:
            self.active_workers = self._lease.answer.among
            self._crawl.frontier.clocks.share(self.active_workers)

    def grant(self, granted: Mapping[str, int]) -> None:
        """Set how many pages this claim may add, by collection. Thread-safe.

        A collection without a number has no budget.
        """
        for name, assignment in self._crawl.assignments.items():
            assignment.set_quota(granted.get(name))

    def added(self) -> dict[str, int]:
        """Return collection -> pages that this claim has added. Thread-safe.

        Uncommitted pages and those in flight are included.
        """
        return {
            name: assignment.in_flight + assignment.added
            for name, assignment in self._crawl.assignments.items()
        }

    def is_spent(self, assignment: Assignment) -> bool:
        """Return whether the quota lets a collection fetch nothing more.

        A collection that refetches its pages continues to do so.
        """
        collection, in_flight = assignment.collection, assignment.in_flight
        if collection.recrawl != "never":
            return False
        if assignment.grant is not None:
            return assignment.added + in_flight >= assignment.grant
        budget = collection.max_pages
        return budget is not None and assignment.pages + in_flight >= budget

    def all_spent(self) -> bool:
        return all(map(self.is_spent, self._crawl.assignments.values()))
