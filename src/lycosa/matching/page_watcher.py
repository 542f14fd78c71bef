"""Match new and changed pages against all watches during a crawl.

Pages fetched after a watch was added are matched; a page with the text of its last visit is not.
Hot path: guarded by bench/watch.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lycosa.core.clock import Clock, Interval
from lycosa.core.records import Visit
from lycosa.crawl.state.events import PatternMatch
from lycosa.matching.normalise import Folding
from lycosa.matching.orders import SearchOrder, read_orders
from lycosa.matching.patterns import PatternSet
from lycosa.store.storage.storage import Storage

MAX_POSITIONS = 1_000
"""Maximum number of positions in a row of `matches`; `count` is their total number."""

_PAGES_AT_ONCE, _CHARACTERS_AT_ONCE = 256, 2_000_000
"""Pages are matched in batches, which keeps the automaton in the caches of the processor."""

_CONTEXT = 60  # characters on each side
# interval of listing the orders: local and remote storage
_HERE_MS, _ELSEWHERE_MS = 2_000, 15_000


class PatternGroup:
    """The texts of several orders under one folding."""

    def __init__(self, orders: Sequence[SearchOrder], folding: Folding) -> None:
        self._owners = [(order, text) for order in orders for text in order.texts]
        self._patterns = PatternSet([text for _, text in self._owners], folding)

    def match(self, text: str) -> Iterator[tuple[SearchOrder, str, list[int]]]:
        """Return (order, its text, start positions) for each text in a page."""
        for number, places in self._patterns.find(text).items():
            order, pattern = self._owners[number]
            yield order, pattern, places


class Watcher:
    """Matches pages against the watches of a workspace. Not thread-safe."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._interval = Interval(clock, _HERE_MS if storage.on_disk else _ELSEWHERE_MS)
        self._orders: dict[str, SearchOrder] = {}
        self._groups: list[PatternGroup] = []
        self._pages: list[tuple[Visit, str]] = []
        self._characters = 0
        self._exchange = ""
        self._matched: set[str] = set()  # watches that have matched this exchange
        self.refresh()

    def refresh(self) -> None:
        """Load added and removed watches when due; if storage fails, try again later."""
        if not self._interval.is_due():
            return
        try:
            orders = {
                id: order
                for id, order in read_orders(self._storage, self._orders).items()
                if order.kind == "watch"
            }
        except OSError:
            return
        if orders.keys() != self._orders.keys():
            self._orders = orders
            by_folding: dict[Folding, list[SearchOrder]] = defaultdict(list)
            for order in orders.values():
                by_folding[order.folding].append(order)
            self._groups = [
                PatternGroup(chosen, folding) for folding, chosen in sorted(by_folding.items())
            ]

    def match_page(self, visit: Visit, text: str) -> bool:
        """Add a page to the batch; return whether the batch is full."""
        if not self._groups:
            return False
        self._pages.append((visit, text))
        self._characters += len(text)
        return len(self._pages) >= _PAGES_AT_ONCE or self._characters >= _CHARACTERS_AT_ONCE

    def take_matches(self) -> list[tuple[Visit, PatternMatch]]:
        """Match the batch; each watch matches an exchange once, not once for each collection."""
        pages, self._pages, self._characters = self._pages, [], 0
        matches: list[list[tuple[SearchOrder, PatternMatch]]] = [[] for _ in pages]
        for group in self._groups:  # one group after the other: caches
            for (visit, text), of_page in zip(pages, matches, strict=True):
                of_page.extend(
                    (order, match_of(order, pattern, places, text))
                    for order, pattern, places in group.match(text)
                    if order.created_at <= visit.fetched_at
                    and (not order.collections or visit.collection in order.collections)
                )
        results: list[tuple[Visit, PatternMatch]] = []
        for (visit, _), of_page in zip(pages, matches, strict=True):
            if visit.record_id != self._exchange:
                self._exchange, self._matched = visit.record_id, set()
            results += [(visit, match) for order, match in of_page if order.id not in self._matched]
            self._matched.update(order.id for order, _ in of_page)
        return results


def match_of(order: SearchOrder, pattern: str, places: list[int], text: str) -> PatternMatch:
    """Return the match of a text of an order in a page."""
    return PatternMatch(
        order.id,
        pattern,
        places[:MAX_POSITIONS],
        len(places),
        context_of(text, places[0], len(pattern)),
    )


def context_of(text: str, start: int, length: int) -> str:
    """Return the text around a position on one line, cut between words."""
    low, high = max(0, start - _CONTEXT), min(len(text), start + length + _CONTEXT)
    before, after = text[low:start], text[start + length : high]
    if low:
        _, gap, rest = before.partition(" ")
        before = "…" + (rest if gap else before)
    if high < len(text):
        rest, gap, _ = after.rpartition(" ")
        after = (rest if gap else after) + "…"
    return " ".join((before + text[start : start + length] + after).split())
