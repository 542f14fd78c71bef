"""What has to be fetched before the pages of its host (robots.txt, log-ins, what a browser asks
for), and when it may be.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.frontier.politeness.domain_clock import BUSY

_AGAIN_MS = 10  # one that waits for the end of a fetch has no time yet


class Prerequisites:
    """Looks through `CrawlState.prerequisites`. While none came and none can be due, it looks at
    none of them: a crawl may know thousands of hosts that do not answer. Times are monotonic
    milliseconds.
    """

    def __init__(self, crawl: CrawlState) -> None:
        self._crawl = crawl
        self._at = 0  # none that was there at the last look may start before
        self._left = 0

    @property
    def next_time(self) -> int | None:
        """When one may start at the earliest; None: there are none."""
        waiting = len(self._crawl.prerequisites)
        if not waiting:
            return None
        return 0 if waiting > self._left else self._at

    def look_again(self) -> None:
        """Some came, or went, beside the turn of the worker's loop."""
        self._at = 0

    def start(self, now: int, room: int, begin: Callable[[Task], None]) -> int:
        """Begin those whose hosts may be asked, at most `room`; gives back the room that is
        left.
        """
        waiting = self._crawl.prerequisites
        if room <= 0 or (len(waiting) <= self._left and now < self._at):
            return room
        frontier = self._crawl.frontier
        self._at = BUSY
        for _ in range(len(waiting)):
            task = waiting.popleft()
            # it may have been sent back since: nothing else was to be asked of it
            self._crawl.hosts.queue(task.identity)
            ready_at = frontier.ready_at(task.identity.host_key)
            if room > 0 and ready_at <= now:
                frontier.start(task.identity.host_key, now)
                begin(task)
                room -= 1
                continue
            waiting.append(task)
            # One that waits for the end of a fetch, its own host's or another's of its domain, has
            # no time yet.
            self._at = min(self._at, now + _AGAIN_MS if ready_at == BUSY else ready_at)
        self._left = len(waiting)
        return room
