"""The order of results, once tantivy has found the best: freshness, copies folded, hosts side by
side.

Work is done in windows of `WINDOW` pages and blocks of `BLOCK` within them, always from the first
on, so that the pages of an answer come from one order however they are cut.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

BLOCK = 40
"""Pages whose hosts are put side by side, and of shards those that are put in exact order together
(of 200 queries' ten best 9.9 were among the 40 first by corrected scores).
"""
WINDOW = 8 * BLOCK
"""Pages among which copies are folded, and which freshness may put in another order."""
MAX_WINDOWS = 16
"""That are looked through: behind five thousand copies of one page nothing is looked for."""

FRESHNESS = 0.5  # how much more a page counts that was published now
HALF_LIFE_MS = 7 * 86_400_000  # after which it is half of that

Place = TypeVar("Place")
Item = TypeVar("Item")


class Ranked(NamedTuple, Generic[Place]):
    """A page that was found: where, what it counts, its host and the texts like its own (0: none).
    `copies`, `from_host` as in `Hit`.
    """

    score: float
    place: Place
    host: int
    group: int
    copies: int = 0
    from_host: int = 1


class PageListing(NamedTuple, Generic[Place]):
    """`total` matches but for folded ones, and the pages asked for."""

    total: int
    pages: list[Ranked[Place]]


Fetch = Callable[[int], tuple[int, list[Ranked[Place]]]]
"""Matches in all, and the first so many, the best first. More of them must begin with the same."""
Exactly = Callable[[list[Ranked[Place]]], list[Ranked[Place]]]


def listing(
    fetch: Fetch[Place],
    offset: int,
    count: int,
    *,
    per_host: int,
    folded: bool,
    exactly: Exactly[Place] | None = None,
) -> PageListing[Place]:
    """The pages from `offset` on, so many as `count`. `exactly` puts the pages of a block in
    order.
    """
    needed = offset + count
    windows = max(1, -(-needed // WINDOW))
    while True:
        total, ranked = fetch(windows * WINDOW)
        unique, copies = _folded(ranked) if folded else (ranked, 0)
        whole = len(ranked) >= total or windows >= MAX_WINDOWS
        ready = len(unique) if whole else len(unique) // BLOCK * BLOCK
        if ready >= needed or whole or len(ranked) < windows * WINDOW:
            break
        windows = min(2 * windows, MAX_WINDOWS)
    hosts = Counter(page.host for page in ranked)
    shown: list[Ranked[Place]] = []
    for start in range(offset // BLOCK * BLOCK, min(needed, ready), BLOCK):
        block = unique[start : start + BLOCK]
        if exactly is not None:
            block = exactly(block)
        shown += hosts_apart(block, attrgetter("host"), per_host)
    first = offset % BLOCK
    return PageListing(
        total - copies,
        [page._replace(from_host=hosts[page.host]) for page in shown[first : first + count]],
    )


def hosts_apart(
    items: Sequence[Item], host: Callable[[Item], Hashable], per_host: int
) -> list[Item]:
    """Reorder each block: the first `per_host` items of each host, then the rest.

    With 0, the order stays.
    """
    if not per_host:
        return list(items)
    ordered: list[Item] = []
    for start in range(0, len(items), BLOCK):
        seen = Counter[Hashable]()
        first, rest = list[Item](), list[Item]()
        for item in items[start : start + BLOCK]:
            seen[host(item)] += 1
            (first if seen[host(item)] <= per_host else rest).append(item)
        ordered += first + rest
    return ordered


def _folded(ranked: Iterable[Ranked[Place]]) -> tuple[list[Ranked[Place]], int]:
    """Without pages that are copies of one before them, which counts them; and how many they
    are.
    """
    unique: list[Ranked[Place]] = []
    first: dict[int, int] = {}
    copies = Counter[int]()
    for page in ranked:
        if page.group and page.group in first:
            copies[first[page.group]] += 1
            continue
        first[page.group] = len(unique)
        unique.append(page)
    for place, count in copies.items():
        unique[place] = unique[place]._replace(copies=count)
    return unique, copies.total()


def freshness(published_at: int | None, now_ms: int) -> float:
    """What a score is multiplied by: 1 for a page that does not say when it was published."""
    if published_at is None:
        return 1.0
    return 1.0 + FRESHNESS * math.exp2(-max(0, now_ms - published_at) / HALF_LIFE_MS)


def _copies_by_host(ordered: Sequence[Ranked[Place]]) -> list[Ranked[Place]]:
    """Copies with equal scores by their hosts, where the first of them stood: the same one is
    shown, in whatever order they were indexed. Other pages stay as they came: a host's number says
    nothing.
    """
    first: dict[tuple[float, int], int] = {}
    places = [
        first.setdefault((page.score, page.group), place) if page.group else place
        for place, page in enumerate(ordered)
    ]
    return [
        ordered[number]
        for number in sorted(
            range(len(ordered)), key=lambda number: (places[number], ordered[number].host)
        )
    ]


def in_windows(ranked: Sequence[Ranked[Place]]) -> list[Ranked[Place]]:
    """Each window in order of its scores, none above those of the window before: what began with
    these pages still does when more follow.
    """
    ordered: list[Ranked[Place]] = []
    for start in range(0, len(ranked), WINDOW):
        # stable: equal ones as they came
        window = sorted(ranked[start : start + WINDOW], key=lambda page: -page.score)
        if any(one.score == two.score for one, two in itertools.pairwise(window)):
            window = _copies_by_host(window)
        if ordered and window[0].score > (least := ordered[-1].score):
            window = [page._replace(score=min(page.score, least)) for page in window]
        ordered += window
    return ordered
