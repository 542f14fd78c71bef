"""The state of a worker in the coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field

from lycosa.crawl.membership import Ping


@dataclass(slots=True)
class MemberState:
    """A worker of which this coordinator has received a ping."""

    worker: str
    node: str
    ping: Ping
    answered_at: int
    assigned: set[int] = field(default_factory=set)  # partitions in the replies to it
    # partition that it might hold -> number of the last reply that named it
    exposed: dict[int, int] = field(default_factory=dict)
    dead: bool = False  # the engine reports that its process is dead
    # pages that it had fetched when the last worker joined or left; load is balanced from then on
    fetched_before: int = 0

    def answer(self, now: int) -> None:
        """Record the time of an answered ping: the worker is alive."""
        self.answered_at = now
        self.dead = False

    def assign(self, partitions: set[int]) -> None:
        """Set the partitions of the next reply."""
        self.assigned = partitions

    def record(self, ping: Ping) -> None:
        """Store the newest ping."""
        self.ping = ping

    def mark_dead(self) -> None:
        """Record that the process is dead."""
        self.dead = True

    def mark_fetched(self) -> None:
        """Count fetches from now on."""
        self.fetched_before = self.ping.fetched

    @property
    def working(self) -> bool:
        """Whether it has something to fetch."""
        return bool(self.ping.claim) and not (self.ping.idle or self.dead)

    @property
    def settled(self) -> bool:
        """Whether the worker holds exactly its assigned partitions."""
        return self.ping.partitions == self.assigned and (
            bool(self.ping.claim) or not self.assigned
        )
