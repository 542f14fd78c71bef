"""A worker's side of watches: every page that is new or says something else is looked through for
all texts at once.

Which pages: those that a crawl takes in from the moment on that a watch was made. A page that comes
back with the text of its last visit says nothing new and is not looked at. Hot path: bench/watch.py
says what 10,000 texts cost a crawl.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lycosa.core.clock import Clock
from lycosa.core.records import Visit
from lycosa.crawl.state.events import PatternMatch
from lycosa.matching.normalise import Folding
from lycosa.matching.orders import SearchOrder, read_orders
from lycosa.matching.patterns import Needles
from lycosa.store.storage.storage import Storage

MAX_POSITIONS = 1_000
"""Positions that one row of `matches` holds; `count` is their number."""

_PAGES_AT_ONCE, _CHARACTERS_AT_ONCE = 256, 2_000_000
"""Pages that are looked through together: one by one, between all else that a crawl does, each
finds the automaton of 10,000 texts pushed out of the processor's caches, and takes three times as
long.
"""

_CONTEXT = 60  # characters on each side
# how often the folder is listed: on this machine, on S3 or HDFS
_HERE_MS, _ELSEWHERE_MS = 2_000, 15_000


class PatternGroup:
    """The texts of several orders under one folding."""

    def __init__(self, orders: Sequence[SearchOrder], folding: Folding) -> None:
        self._owners = [(order, text) for order in orders for text in order.texts]
        self._needles = Needles([text for _, text in self._owners], folding)

    def look(self, text: str) -> Iterator[tuple[SearchOrder, str, list[int]]]:
        """(order, its text, where it begins) for what stands in a page's text."""
        for number, places in self._needles.find(text).items():
            order, needle = self._owners[number]
            yield order, needle, places


class Watcher:
    """Looks for what the workspace's watches say. Not for several threads at once."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._every_ms = _HERE_MS if storage.on_disk else _ELSEWHERE_MS
        self._next = 0
        self._orders: dict[str, SearchOrder] = {}
        self._groups: list[PatternGroup] = []
        self._pages: list[tuple[Visit, str]] = []
        self._characters = 0
        self._exchange = ""
        self._told: set[str] = set()  # watches that have their matches of this exchange
        self.refresh()

    def refresh(self) -> None:
        """Take in what was added and removed, now and then. Storage that fails is asked again
        later: what was known holds on.
        """
        now = self._clock.monotonic_ms()
        if now < self._next:
            return
        self._next = now + self._every_ms
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

    def look(self, visit: Visit, text: str) -> bool:
        """Take a page; True if enough of them have come together."""
        if not self._groups:
            return False
        self._pages.append((visit, text))
        self._characters += len(text)
        return len(self._pages) >= _PAGES_AT_ONCE or self._characters >= _CHARACTERS_AT_ONCE

    def take_matches(self) -> list[tuple[Visit, PatternMatch]]:
        """What the pages hold, in their order: for each watch once an exchange, though several
        collections have it.
        """
        pages, self._pages, self._characters = self._pages, [], 0
        matches: list[list[tuple[SearchOrder, PatternMatch]]] = [[] for _ in pages]
        for group in self._groups:  # one after the other, so that its automaton stays at hand
            for (visit, text), of_page in zip(pages, matches, strict=True):
                of_page.extend(
                    (order, match_of(order, needle, places, text))
                    for order, needle, places in group.look(text)
                    if order.created_at <= visit.fetched_at
                    and (not order.collections or visit.collection in order.collections)
                )
        found: list[tuple[Visit, PatternMatch]] = []
        for (visit, _), of_page in zip(pages, matches, strict=True):
            if visit.record_id != self._exchange:
                self._exchange, self._told = visit.record_id, set()
            found += [(visit, match) for order, match in of_page if order.id not in self._told]
            self._told.update(order.id for order, _ in of_page)
        return found


def match_of(order: SearchOrder, needle: str, places: list[int], text: str) -> PatternMatch:
    """The match of one text of an order in a page's text."""
    return PatternMatch(
        order.id,
        needle,
        places[:MAX_POSITIONS],
        len(places),
        context_of(text, places[0], len(needle)),
    )


def context_of(text: str, start: int, length: int) -> str:
    """What stands around a place in a text, on one line, cut between words where there are any."""
    low, high = max(0, start - _CONTEXT), min(len(text), start + length + _CONTEXT)
    before, after = text[low:start], text[start + length : high]
    if low:
        _, gap, rest = before.partition(" ")
        before = "…" + (rest if gap else before)
    if high < len(text):
        rest, gap, _ = after.rpartition(" ")
        after = (rest if gap else after) + "…"
    return " ".join((before + text[start : start + length] + after).split())
