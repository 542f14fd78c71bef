"""The list of a hunt: URLs seen and not yet fetched, by score, with the best of each host at hand.

Politeness makes a hunt wait for hosts, so what comes next is not the best URL of all but the best
of those whose hosts may be asked.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

MAX_LISTED = 50_000
"""URLs that are held; beyond it the worst are dropped, and counted."""

_STALE = 3  # entries of a heap for each URL that it holds, before it is made anew


class HuntList:
    """URL -> score. Not for several threads. `gave_up` is told of each URL that is dropped."""

    def __init__(
        self, most: int = MAX_LISTED, gave_up: Callable[[str], None] = lambda url: None
    ) -> None:
        self._gave_up = gave_up
        self._most = most
        self._entries: dict[str, tuple[float, str]] = {}
        # heaps of (-score, number, URL); an entry of another score is stale
        self._hosts: dict[str, list[tuple[float, int, str]]] = {}
        self._sizes: dict[str, int] = {}
        self._numbers = count()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, url: str) -> bool:
        return url in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def score(self, url: str) -> float | None:
        entry = self._entries.get(url)
        return entry[0] if entry is not None else None

    def put(self, url: str, host: str, score: float) -> None:
        """List a URL, or move it to where it now belongs. Of equal scores the one that came first
        is first.
        """
        before = self._entries.get(url)
        if before is not None and before[0] == score:
            return
        heap = self._hosts.setdefault(host, [])
        if before is None:
            self._sizes[host] = self._sizes.get(host, 0) + 1
        self._entries[url] = (score, host)
        heapq.heappush(heap, (-score, next(self._numbers), url))
        if len(heap) > 16 + _STALE * self._sizes[host]:
            self._renew(host)
        if len(self._entries) > self._most:
            self._shorten()

    def remove(self, url: str) -> None:
        """Take a URL off the list; one that is not there is none."""
        entry = self._entries.pop(url, None)
        if entry is not None:
            self._forget(entry[1])

    def best(self, host: str) -> tuple[float, str] | None:
        """The score and URL of a host's best."""
        heap = self._hosts.get(host)
        while heap:
            score, _, url = heap[0]
            entry = self._entries.get(url)
            if entry is not None and entry[0] == -score:
                return -score, url
            heapq.heappop(heap)
        return None

    def best_of_hosts(self, most: int) -> list[tuple[float, str, str]]:
        """(score, URL, host) of the best of each host, the best first; at most so many."""
        bests = ((*found, host) for host in self._hosts if (found := self.best(host)) is not None)
        return heapq.nlargest(most, bests)

    def _forget(self, host: str) -> None:
        self._sizes[host] -= 1
        if not self._sizes[host]:
            del self._sizes[host], self._hosts[host]

    def _renew(self, host: str) -> None:
        valid: dict[str, tuple[float, int, str]] = {}
        for entry in self._hosts[host]:
            known = self._entries.get(entry[2])
            if (
                known is not None
                and known[0] == -entry[0]
                and (entry[2] not in valid or entry < valid[entry[2]])
            ):
                valid[entry[2]] = entry
        self._hosts[host] = list(valid.values())
        heapq.heapify(self._hosts[host])

    def _shorten(self) -> None:
        """Drop the worst tenth."""
        worst = heapq.nsmallest(
            self._most // 10 or 1, self._entries.items(), key=lambda item: item[1][0]
        )
        for url, _ in worst:
            self.remove(url)
            self._gave_up(url)
        self.dropped += len(worst)
