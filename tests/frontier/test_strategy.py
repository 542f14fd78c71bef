"""Strategies: what is picked from the tables comes in the order in which a head gives it out."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.records import HostRow, UrlId, UrlRow
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.queue import CollectionOrder
from lycosa.frontier.scheduler.strategy import STRATEGIES, Strategy


def row(
    number: int, depth: int = 0, priority: float = 0.0, first_seen_at: int = 0, host_key: int = 1
) -> UrlRow:
    identity = UrlId(f"http://h{host_key}/{number}", f"h{host_key}", host_key, number, 0)
    return UrlRow(identity, "default", depth, priority=priority, first_seen_at=first_seen_at)


def host(host_key: int = 1, visited: int = 0, last_visit_at: int = 0) -> HostRow:
    return HostRow(
        f"h{host_key}", 0, host_key, f"h{host_key}", 0, visited=visited, last_visit_at=last_visit_at
    )


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0, 2.5])), min_size=1, max_size=30
).map(
    lambda drawn: [
        row(number, depth, priority, first_seen_at=number)
        for number, (depth, priority) in enumerate(drawn, 1)
    ]
)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@given(rows=ROWS)
def test_the_columns_say_the_same_as_the_rank(strategy: Strategy, rows: list[UrlRow]) -> None:
    """A head that is filled in the order of arrival gives what the tables' order gives."""
    frontier = Frontier(orders={"default": CollectionOrder(strategy)})
    frontier.open_host(host())
    for each in rows:
        frontier.add(each)
    given_out = []
    now = 0
    while result := frontier.next(now):
        given_out.append(result[0].id.url_key)
        frontier.finished(1, now, 0)
        now += 1
    frame = pl.DataFrame(
        {
            "url_key": [each.id.url_key for each in rows],
            "depth": [each.depth for each in rows],
            "priority": [each.priority for each in rows],
            "first_seen_at": [each.first_seen_at for each in rows],
        }
    )
    columns = [name for name, _ in strategy.columns]
    assert (
        given_out
        == frame.sort(columns, descending=[down for _, down in strategy.columns])[
            "url_key"
        ].to_list()
    )


def test_names_are_those_of_the_configuration() -> None:
    from typing import get_args

    from lycosa.config import collection as config

    assert set(STRATEGIES) == set(get_args(config.Strategy))
    assert all(strategy.name == name for name, strategy in STRATEGIES.items())


def order_of_hosts(strategy: str, hosts: list[tuple[HostRow, UrlRow]]) -> list[int]:
    """Which hosts are asked, one after the other, when all may be asked at the same moment."""
    frontier = Frontier(orders={"default": CollectionOrder(STRATEGIES[strategy])})
    for record, first in hosts:
        frontier.open_host(record)
        frontier.add(first)
    sequence = []
    while result := frontier.next(0):
        sequence.append(result[0].id.host_key)
    return sequence


def test_server_first_asks_new_hosts_then_those_that_wait_longest() -> None:
    hosts = [
        (host(1, visited=3, last_visit_at=50), row(1, host_key=1)),
        (host(2, visited=9, last_visit_at=20), row(2, host_key=2)),
    ]
    hosts += [(host(3), row(3, depth=7, host_key=3))]
    assert order_of_hosts("server-first", hosts) == [3, 2, 1]
    assert order_of_hosts("breadth-first", hosts) == [1, 2, 3]


def test_best_first_asks_the_host_with_the_best_url() -> None:
    hosts = [
        (host(number), row(number, priority=priority, host_key=number))
        for number, priority in ((1, 0.2), (2, 0.9), (3, 0.5))
    ]
    assert order_of_hosts("best-first", hosts) == [2, 3, 1]


def test_a_collections_priority_comes_before_the_strategy() -> None:
    frontier = Frontier(
        orders={
            "default": CollectionOrder(STRATEGIES["best-first"]),
            "urgent": CollectionOrder(STRATEGIES["best-first"], 1.0),
        }
    )
    for number in (1, 2):
        frontier.open_host(host(number))
    frontier.add(row(1, priority=9.0, host_key=1))
    other = row(2, priority=0.1, host_key=2)
    other.collection = "urgent"
    frontier.add(other)
    assert [frontier.next(0)[0].id.host_key for _ in range(2)] == [2, 1]


def test_a_head_that_is_emptied_from_outside_is_dry() -> None:
    """Replay, exclusion and another collection's fetch take URLs out: what the tables hold beyond
    them must be asked for.
    """
    frontier = Frontier()
    frontier.open_host(host())
    first = row(1)
    frontier.add(first)
    frontier.active.close_line(1, "default", (0,))
    assert not frontier.active.dry
    frontier.active.remove("default", 1, first.key)
    assert frontier.active.dry == {1}


def test_a_head_that_another_collection_emptied_is_dry() -> None:
    frontier = Frontier()
    frontier.open_host(host())
    mine, other = row(1), row(1)
    other.collection = "other"
    frontier.add(mine)
    frontier.add(other)
    frontier.active.close_line(1, "other", (0,))
    assert len(frontier.next(0)) == 2
    assert frontier.active.dry == {1}
