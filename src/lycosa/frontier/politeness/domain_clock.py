"""The clock of a registrable domain: a number of slots.

A fetch occupies a slot until its pause has ended. So a site with a thousand subdomains, often one
machine, gets at most that many concurrent fetches, whatever the pauses of its hosts are.

In a server log: at the start of any fetch, fewer than `places` others of the domain are in flight
or ended less than their pause ago. Domains with public registration of names, such as blogspot.com
or github.io, are public suffixes: each name below them is a separate domain.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import field

from lycosa.core.dataclass import dataclass

BUSY = 2**62
"""Instead of a time: until a fetch that is under way has ended."""


@dataclass(slots=True)
class DomainClock:
    """Times are milliseconds of the monotonic clock.

    `not_before`: no place is free before. `pausing_places`: when each pausing place is free again,
    ascending.
    """

    not_before: int = 0
    in_flight: int = 0
    pausing_places: list[int] = field(default_factory=list)

    def ready_at(self, places: int) -> int:
        """Return the earliest time of a free slot."""
        spare = places - 1 - self.in_flight
        if spare < 0:
            return BUSY
        used = len(self.pausing_places) - spare
        return max(self.not_before, self.pausing_places[used - 1]) if used > 0 else self.not_before

    def started(self) -> None:
        """Start a fetch."""
        self.in_flight += 1

    def ended(self) -> None:
        """End a fetch that was made or skipped."""
        self.in_flight -= 1

    def delay_until(self, at: int) -> None:
        """Request nothing of the domain before that time."""
        self.not_before = max(self.not_before, at)

    def paused_until(self) -> int:
        """Return the end of the last pause."""
        return max(self.not_before, self.pausing_places[-1] if self.pausing_places else 0)

    def pause_place(self, until: int, places: int) -> None:
        """Occupy a place during a pause.

        Beyond the limit, the first to be free is dropped.
        """
        insort(self.pausing_places, until)
        if len(self.pausing_places) > places:
            del self.pausing_places[0]

    def in_use(self, now: int) -> bool:
        """Return whether the clock still restricts anything."""
        return bool(self.in_flight or self.paused_until() > now)
