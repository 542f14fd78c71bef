"""Strategies: the order of the URLs that may be fetched now. A strategy is data and small pure
functions.

URLs of a host are ordered by `rank` (lowest first, then by arrival); hosts that may be requested
now by `host_rank`. Rows are read from the tables in the same order, as an expression over the
columns of `urls`, so only the head of each host's queue is in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.config.collection import Strategy as StrategyName
from lycosa.core.dataclass import dataclass
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlRow

Rank = tuple[float, ...]


@dataclass(slots=True, frozen=True)
class Strategy:
    """An order.

    `columns`: (column of `urls`, descending), the order of `rank`. `last_first`: of equal ranks the
    one that came last is first. `unvisited_first`: parked hosts without a page are activated before
    all others, then those visited longest ago.
    """

    name: StrategyName
    rank: Callable[[UrlRow], Rank]
    columns: tuple[tuple[str, bool], ...]
    host_rank: Callable[[HostRow, UrlRow], Rank]
    last_first: bool = False
    unvisited_first: bool = False


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(
            "breadth-first",
            rank=lambda row: (row.depth,),
            columns=(("depth", False), ("first_seen_at", False)),
            host_rank=lambda host, best: (),
        ),
        Strategy(
            "depth-first",
            rank=lambda row: (-row.depth,),
            columns=(("depth", True), ("first_seen_at", True)),
            host_rank=lambda host, best: (),
            last_first=True,
        ),
        Strategy(
            "server-first",
            rank=lambda row: (row.depth,),
            columns=(("depth", False), ("first_seen_at", False)),
            host_rank=lambda host, best: (host.visited > 0, host.last_visit_at),
            unvisited_first=True,
        ),
        Strategy(
            "best-first",
            rank=lambda row: (-row.priority, row.depth),
            columns=(("priority", True), ("depth", False), ("first_seen_at", False)),
            host_rank=lambda host, best: (-best.priority,),
        ),
    )
}
"""By name. server-first is WebCrawler's index mode (Pinkerton 1994): a page of every server before
a second of any.
"""
