"""Order tantivy's matches: freshness, duplicates, diversity of hosts.

This works on windows of `WINDOW` pages and blocks of `BLOCK`, from the first match on. The order is
therefore the same for every offset and page size.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

BLOCK = 40
"""Pages among which hosts are mixed, and matches of shards are ordered by exact scores."""
WINDOW = 8 * BLOCK
"""Pages among which freshness changes the order."""
MAX_WINDOWS = 16
"""Windows that are read: nothing is shown after five thousand copies of a page."""

RANK_OFFSET = 60  # of reciprocal rank fusion
FRESHNESS = 0.5  # bonus of a page that was published now, relative to its score
HALF_LIFE_MS = 7 * 86_400_000  # of the bonus

Place = TypeVar("Place")
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Ranked(NamedTuple, Generic[Place]):
    """A match: score, place, host key, group of near duplicates (0: none).

    `copies` and `from_host` as in `Hit`.
    """

    score: float
    place: Place
    host: int
    group: int
    copies: int = 0
    from_host: int = 1


class PageListing(NamedTuple, Generic[Place]):
    """Number of matches, and the best of them or the requested ones.

    From `listing`, the number is without copies if all matches were read. Of more, copies count:
    how many are among those that were read depends on the last of them, which may differ between
    shards and one index.
    """

    total: int
    pages: list[Ranked[Place]]


Fetch = Callable[[int], PageListing[Place]]
"""Return the number of matches, and the best ones up to a limit. A larger limit adds to the end."""
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
    """Return `count` pages from `offset` on. `exactly` orders the pages of a block."""
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
        shown += diversify_hosts(block, attrgetter("host"), per_host)
    first = offset % BLOCK
    return PageListing(
        total - copies if len(ranked) >= total else total,
        [page._replace(from_host=hosts[page.host]) for page in shown[first : first + count]],
    )


def diversify_hosts(
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
    """Remove copies of earlier pages, which count them. Also return the number removed."""
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
    """Return the factor of a score; 1 for a page without publication date."""
    if published_at is None:
        return 1.0
    return 1.0 + FRESHNESS * math.exp2(-max(0, now_ms - published_at) / HALF_LIFE_MS)


def _copies_by_host(ordered: Sequence[Ranked[Place]]) -> list[Ranked[Place]]:
    """Sort copies with equal scores by host, at the place of the first one.

    The same copy is then shown, regardless of the order of indexing.
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


def reciprocal_ranks(*rankings: Iterable[Key]) -> dict[Key, float]:
    """Merge rankings by reciprocal rank fusion: the sum of 1 / (60 + rank) (Cormack, Clarke,
    Büttcher, SIGIR 2009).
    """
    scores: dict[Key, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_OFFSET + rank)
    return scores


def in_windows(ranked: Sequence[Ranked[Place]]) -> list[Ranked[Place]]:
    """Sort each window by score, at most the lowest of the window before.

    Further pages then do not change the order of the first ones.
    """
    ordered: list[Ranked[Place]] = []
    for start in range(0, len(ranked), WINDOW):
        # stable for equal scores
        window = sorted(ranked[start : start + WINDOW], key=lambda page: -page.score)
        if any(one.score == two.score for one, two in itertools.pairwise(window)):
            window = _copies_by_host(window)
        if ordered and window[0].score > (least := ordered[-1].score):
            window = [page._replace(score=min(page.score, least)) for page in window]
        ordered += window
    return ordered
