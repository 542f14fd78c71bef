"""The links of a page with their context, and the queue of a hunt."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from lycosa.core.errors import UrlError
from lycosa.core.records import FOLLOWED_KINDS, Page
from lycosa.url.scope import hostname

CONTEXT_LENGTH = 120
"""Characters of its own line on each side of a link that are its context."""

MAX_LEADS = 2_000
"""Maximum number of links of a page."""

MAX_QUEUED = 50_000
"""Maximum number of queued URLs. Beyond it the worst are dropped and counted."""

_FOLLOWED = frozenset(kind.value for kind in FOLLOWED_KINDS)
_MAX_ANCHOR = 300
# characters after a link within which the next one is searched, and is not another occurrence
_SEARCHED, _NEAR = 20_000, 4_000
_MAX_STALE = 3  # heap entries per queued URL before a heap is rebuilt


@dataclass(slots=True, frozen=True)
class Lead:
    """A link of a page. `foreign`: it leads to another host."""

    url: str
    host: str
    anchor: str = ""
    context: str = ""
    foreign: bool = False


def leads_of(url: str, page: Page, *, respect_nofollow: bool = True) -> list[Lead]:
    """Return the links of a page that a crawl follows, one per target, in order.

    A lead has all anchors of its target and the first context. The anchor of a link is searched in
    the text after that of the link before it.
    """
    if not page.may_follow:
        return []
    text = page.text
    own = hostname(url)
    leads: dict[str, Lead] = {}
    position = 0
    for link in page.links:
        if (
            link.kind not in _FOLLOWED
            or link.target == url
            or (respect_nofollow and "nofollow" in link.rel)
        ):
            continue
        anchor = link.anchor[:_MAX_ANCHOR]
        start = text.find(anchor, position, position + _SEARCHED) if anchor else -1
        context = ""
        if start >= 0:
            end = start + len(anchor)
            context = _context(text, start, end)
            if start - position <= _NEAR:
                position = end
        existing = leads.get(link.target)
        if existing is not None:
            if anchor and anchor not in existing.anchor:
                anchors = f"{existing.anchor}\n{anchor}" if existing.anchor else anchor
                leads[link.target] = replace(
                    existing, anchor=anchors[:_MAX_ANCHOR], context=existing.context or context
                )
        elif len(leads) < MAX_LEADS:
            try:
                host = hostname(link.target)
            except UrlError:
                continue
            leads[link.target] = Lead(link.target, host, anchor, context, host != own)
    return list(leads.values())


def _context(text: str, start: int, end: int) -> str:
    """Return the text around a link in its line, else the end of the line before it."""
    line = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    before = text[max(line, start - CONTEXT_LENGTH) : start]
    context = f"{before} {text[end : min(line_end, end + CONTEXT_LENGTH)]}".strip()
    if not context and line > 1:
        previous = text.rfind("\n", 0, line - 1) + 1
        context = text[max(previous, line - 1 - CONTEXT_LENGTH) : line - 1]
    return context


class HuntQueue:
    """Queued URLs by score, with the best of each host. Not thread-safe.

    `on_drop` is called with each URL that is dropped because the queue is full.
    """

    def __init__(
        self, maximum: int = MAX_QUEUED, on_drop: Callable[[str], None] = lambda url: None
    ) -> None:
        self._maximum, self._on_drop = maximum, on_drop
        self._entries: dict[str, tuple[float, str]] = {}
        # heaps of (-score, number, URL); an entry with another score is stale
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

    def score(self, url: str) -> float:
        return self._entries.get(url, (0.0, ""))[0]

    def put(self, url: str, host: str, score: float) -> None:
        """Add a URL or change its score. Of equal scores the first added is first."""
        before = self._entries.get(url)
        if before is not None and before[0] == score:
            return
        if before is None:
            self._sizes[host] = self._sizes.get(host, 0) + 1
        self._entries[url] = (score, host)
        heap = self._hosts.setdefault(host, [])
        heapq.heappush(heap, (-score, next(self._numbers), url))
        if len(heap) > 16 + _MAX_STALE * self._sizes[host]:
            first = {entry[2]: entry for entry in sorted(heap, reverse=True) if self._valid(entry)}
            self._hosts[host] = sorted(first.values())
        if len(self._entries) > self._maximum:
            self._drop_worst()

    def remove(self, url: str) -> None:
        """Remove a URL if it is queued."""
        entry = self._entries.pop(url, None)
        if entry is not None:
            host = entry[1]
            self._sizes[host] -= 1
            if not self._sizes[host]:
                del self._sizes[host], self._hosts[host]

    def best(self, host: str) -> tuple[float, str] | None:
        """Return the best (score, URL) of a host."""
        heap = self._hosts.get(host)
        while heap:
            if self._valid(heap[0]):
                return -heap[0][0], heap[0][2]
            heapq.heappop(heap)
        return None

    def best_of_hosts(self, maximum: int) -> list[tuple[float, str, str]]:
        """Return the best (score, URL, host) of each host, the best first."""
        bests = ((*best, host) for host in self._hosts if (best := self.best(host)) is not None)
        return heapq.nlargest(maximum, bests)

    def _valid(self, entry: tuple[float, int, str]) -> bool:
        existing = self._entries.get(entry[2])
        return existing is not None and existing[0] == -entry[0]

    def _drop_worst(self) -> None:
        """Drop a tenth of the queue."""
        worst = heapq.nsmallest(
            self._maximum // 10 or 1, self._entries.items(), key=lambda item: item[1][0]
        )
        for url, _ in worst:
            self.remove(url)
            self._on_drop(url)
        self.dropped += len(worst)
