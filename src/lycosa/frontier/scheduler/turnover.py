"""Selects active hosts to be parked while other hosts wait.

In this order: hosts with a long pause; hosts in the waiting line of their domain, so that a large
domain does not use all slots; for `server-first`, visited hosts; and hosts that were active for
`PLACE_MS`, which always have due URLs (decision 19).
"""

from __future__ import annotations

import heapq
from collections.abc import Container
from typing import Protocol

from lycosa.frontier.hosts.directory import BEHIND_MS
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.heads import HORIZON_MS
from lycosa.frontier.scheduler.queue import HostQueue

_MAX_ROBOTS_TEXT = 32 * 2**20
"""Approximate limit of the robots.txt text of active hosts; beyond it those with the longest are
parked.
"""

_COMMON_ROBOTS_TEXT = 4_000  # assumed for a parked host: twice the median
_WEIGH_EVERY_MS = 10_000
_LINE = 16
"""Hosts of a domain line that stay active while other hosts wait: enough for some seconds."""

PLACE_MS = HORIZON_MS
"""Maximum time that a host stays active while others wait."""

_SCANNED_PER_MS = 20
"""Active hosts that are looked through for those to be parked, at most: 2 % of the time."""


class SendBack(Protocol):
    """Parks an active host.

    `parked_ms`: how long it stays parked if it waits for its domain; `away_ms`: in any case.
    """

    def __call__(self, host_key: int, parked_ms: int = HORIZON_MS, *, away_ms: int = 0) -> None: ...


class Turnover:
    """Parks active hosts to free places.

    `now` is monotonic; `protected` hosts stay active, unless their time is over.
    """

    def __init__(
        self,
        frontier: Frontier,
        send_back: SendBack,
        *,
        active_hosts: int,
        least_pause_ms: int,
        unvisited_first: bool,
    ) -> None:
        self._frontier = frontier
        self._send_back = send_back
        self._active_hosts = active_hosts
        self._least_pause_ms = least_pause_ms
        self._unvisited_first = unvisited_first
        self._next_weighing = 0
        self._next_scan = 0
        self._robots_text = 0  # of the active hosts, when they were weighed last

    def free_capacity(self, count: int, now: int, protected: Container[int]) -> int:
        """Park hosts until `count` more fit, if possible. Return how many fit."""
        hosts = self._frontier.hosts
        self._weigh(now, protected)
        count = min(count, max(0, _MAX_ROBOTS_TEXT - self._robots_text) // _COMMON_ROBOTS_TEXT)
        free = self._active_hosts - len(hosts)
        if free < count and now >= self._next_scan:
            self._next_scan = now + len(hosts) // _SCANNED_PER_MS
            quiet = [
                (key, queue)
                for key, queue in hosts.items()
                if self._is_quiet(key, queue) and key not in protected
            ]
            paused = [
                key
                for key, _ in quiet
                if self._frontier.clocks.host_ready_at(key) > now + HORIZON_MS
            ]
            parked = [key for key, queue in quiet if queue.parked]
            visited = (
                [key for key, queue in quiet if queue.row.visited] if self._unvisited_first else []
            )
            for key in dict.fromkeys([*paused, *parked, *visited]):
                if free >= count:
                    break
                # one that waits for its domain is back when the fetches there have paused
                self._send_back(key, self._pause_ms(hosts[key]))
                free += 1
            if free < count:
                free += self._rotate(count - free, now)
        return max(0, min(free, count))

    def _is_quiet(self, host_key: int, queue: HostQueue) -> bool:
        return not (queue.in_flight or queue.held or self._frontier.clocks.is_fetching(host_key))

    def _rotate(self, count: int, now: int) -> int:
        """Park hosts that were active for `PLACE_MS`, the longest first. Return how many.

        They become active again after those that wait now.
        """
        held = [
            (queue.opened_at, key)
            for key, queue in self._frontier.hosts.items()
            if now - queue.opened_at >= PLACE_MS and self._is_quiet(key, queue)
        ]
        chosen = heapq.nsmallest(count, held)
        for _, key in chosen:
            self._send_back(key, away_ms=BEHIND_MS)
        return len(chosen)

    def shorten_lines(self, protected: Container[int]) -> None:
        """Park all but the first hosts of each domain's line until it is their turn. Otherwise the
        hosts of large domains, which are fetched from two at a time, would take all places.
        """
        hosts, lines = self._frontier.hosts, self._frontier.domain_lines
        for domain, keys in lines.cut(_LINE).items():
            for place, key in enumerate(keys, _LINE):
                queue = hosts.get(key)
                if queue is None or not queue.parked:
                    continue
                if not self._is_quiet(key, queue) or key in protected:
                    lines.join(key, domain)
                else:
                    # each host before it in the line is fetched from once and then pauses
                    turn_ms = place * self._pause_ms(queue) // self._frontier.clocks.places
                    self._send_back(key, turn_ms)

    def _pause_ms(self, queue: HostQueue) -> int:
        return max(self._least_pause_ms, queue.row.delay_ms)

    def _weigh(self, now: int, protected: Container[int]) -> None:
        """Park hosts until the robots.txt text of the others is within its limit."""
        if now < self._next_weighing:
            return
        self._next_weighing = now + _WEIGH_EVERY_MS
        sizes = {
            key: sum(len(entry.body) for entry in queue.row.robots)
            for key, queue in self._frontier.hosts.items()
        }
        self._robots_text = sum(sizes.values())
        if self._robots_text <= _MAX_ROBOTS_TEXT:
            return
        for key in sorted(sizes, key=sizes.__getitem__, reverse=True):
            queue = self._frontier.hosts[key]
            if self._is_quiet(key, queue) and key not in protected:
                self._send_back(key)
                self._robots_text -= sizes[key]
                if self._robots_text <= _MAX_ROBOTS_TEXT:
                    break
