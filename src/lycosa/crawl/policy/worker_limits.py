"""Whether a worker may fetch at all: its lease, its page quotas, its share of the connections."""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.crawl.membership import Lease, PingReply
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState


class WorkerLimits:
    """Applies the coordinator's answers to one worker. Without a lease nothing is restricted but
    by the collections' own budgets.
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
        """Whether the lease has not run out."""
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
        """Apply the reply in force. A new claim has no quota before a reply names that claim."""
        if self._lease is None:
            return
        self.grant(self._lease.granted(self._crawl.buffer.claim_number))
        if self.active_workers != self._lease.answer.among:
            self.active_workers = self._lease.answer.among
            self._crawl.frontier.clocks.share(self.active_workers)

    def grant(self, granted: Mapping[str, int]) -> None:
        """Set how many pages this claim may add in all, by collection; one that is missing has no
        budget. From any thread.
        """
        for name, assignment in self._crawl.assignments.items():
            assignment.set_quota(granted.get(name))

    def added(self) -> dict[str, int]:
        """Return how many pages this claim has added by collection, uncommitted ones and those in
        flight too. From any thread.
        """
        return {
            name: assignment.in_flight + assignment.added
            for name, assignment in self._crawl.assignments.items()
        }

    def is_spent(self, assignment: Assignment) -> bool:
        """Return whether a collection may fetch nothing more. One that refetches its pages goes on
        with those.
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
