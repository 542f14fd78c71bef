"""The frontier returns every URL once, and never before its time.

Hosts are crawled breadth-first and within their connection limits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlId, UrlRow
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.queue import CollectionOrder, HostQueue
from lycosa.frontier.scheduler.turnover import Turnover


def url_row(host: int, number: int, depth: int = 0) -> UrlRow:
    return UrlRow(
        UrlId(f"http://h{host}/{number}", f"h{host}", host, host * 1_000_000 + number, 0),
        "default",
        depth,
    )


def host_row(host: int) -> HostRow:
    return HostRow(f"h{host}", 0, host, f"h{host}", 0)


def take(frontier: Frontier, now: int) -> UrlRow | None:
    """Return the single row that is due, or None."""
    rows = frontier.next(now)
    assert len(rows) < 2
    return rows[0] if rows else None


def put_back(frontier: Frontier, rows: tuple[UrlRow, ...]) -> None:
    """Undo `next`: the URL is queued again and no fetch is made."""
    for row in rows:
        frontier.add(row)
    frontier.undo(rows[0].id.host_key)


def test_order_within_a_host_is_breadth_first() -> None:
    frontier = Frontier()
    frontier.open_host(host_row(1))
    for number, depth in enumerate([2, 0, 1, 0, 2]):
        frontier.add(url_row(1, number, depth))
    order = []
    now = 1
    while (row := take(frontier, now)) is not None:
        order.append((row.depth, row.id.url_key - 1_000_000))
        frontier.finished(1, now, 10)
        now += 10
    assert order == [(0, 1), (0, 3), (1, 2), (2, 0), (2, 4)]


def test_host_pauses_while_others_continue() -> None:
    frontier = Frontier()
    for host in (1, 2):
        frontier.open_host(host_row(host))
        frontier.add(url_row(host, 1))
        frontier.add(url_row(host, 2))
    first, second = take(frontier, 0), take(frontier, 0)
    assert {first.id.host_key, second.id.host_key} == {1, 2}  # type: ignore[union-attr]
    assert take(frontier, 0) is None
    frontier.finished(1, 0, 500)
    frontier.finished(2, 0, 100)
    assert take(frontier, 99) is None
    assert frontier.next_time() == 100
    row = take(frontier, 100)
    assert row is not None
    assert row.id.host_key == 2
    assert take(frontier, 499) is None
    assert take(frontier, 500) is not None


def test_retry_is_deferred_without_blocking_its_host() -> None:
    frontier = Frontier()
    frontier.open_host(host_row(1))
    failing = url_row(1, 1)
    frontier.add(failing)
    frontier.add(url_row(1, 2, depth=3))
    assert take(frontier, 0) is failing
    frontier.add(failing, not_before=1000)
    frontier.finished(1, 0, 10)
    other = take(frontier, 10)
    assert other is not None
    assert other.id.url_key == 1_000_002
    frontier.finished(1, 10, 10)
    assert take(frontier, 999) is None
    assert frontier.next_time() == 1000
    assert take(frontier, 1000) is failing


def test_decreased_depth_moves_a_queued_url_forward_without_a_copy() -> None:
    frontier = Frontier()
    frontier.open_host(host_row(1))
    deep, shallow = url_row(1, 1, depth=5), url_row(1, 2, depth=3)
    frontier.add(deep)
    frontier.add(shallow)
    deep.depth = 1
    frontier.add(deep)
    assert len(frontier) == 2
    assert take(frontier, 0) is deep
    # it failed: the old entry of depth 5 must not make it due early
    frontier.add(deep, not_before=50)
    frontier.finished(1, 0, 1)
    assert take(frontier, 1) is shallow
    frontier.finished(1, 1, 1)
    assert take(frontier, 49) is None
    assert take(frontier, 50) is deep


def test_held_host_is_not_due_until_released() -> None:
    frontier = Frontier()
    frontier.open_host(host_row(1))
    frontier.add(url_row(1, 1))
    row = take(frontier, 0)
    assert row is not None
    frontier.hold(1)
    put_back(frontier, (row,))
    assert take(frontier, 10) is None
    assert frontier.next_time() is None
    frontier.start(1, 10)
    frontier.finished(1, 10, 5)
    frontier.release(1)
    assert take(frontier, 14) is None
    assert take(frontier, 15) is row


def test_removed_urls_are_not_returned() -> None:
    frontier = Frontier()
    frontier.open_host(host_row(1))
    frontier.add(url_row(1, 1))
    assert frontier.active.remove("default", 1, 1_000_001) is not None
    assert frontier.active.remove("default", 1, 1_000_001) is None
    assert take(frontier, 0) is None
    assert len(frontier) == 0


@pytest.mark.proves("politeness-pause", "politeness-connections", "consistency-once")
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from([0, 0, 40])), max_size=60
    ),
    st.integers(1, 3),
    st.integers(1, 20),
)
def test_every_url_is_returned_once_and_pauses_are_observed(
    urls: list[tuple[int, int, int]], per_host: int, pause: int
) -> None:
    frontier = Frontier(Clocks(ClockRules(per_host, per_host)))
    for number, (host, depth, not_before) in enumerate(urls):
        frontier.open_host(host_row(host))
        frontier.add(url_row(host, number, depth), not_before)
    seen: list[int] = []
    busy: list[tuple[int, int]] = []  # (ends, host)
    free_at: dict[int, int] = {}
    now = 0
    while len(seen) < len(urls):
        for end, host in [entry for entry in busy if entry[0] <= now]:
            busy.remove((end, host))
            frontier.finished(host, now, pause)
            free_at[host] = now + pause
        while (row := take(frontier, now)) is not None:
            host = row.id.host_key
            assert now >= free_at.get(host, 0)
            assert sum(entry[1] == host for entry in busy) < per_host
            assert now >= urls[row.id.url_key - host * 1_000_000][2]
            seen.append(row.id.url_key)
            busy.append((now + 3, host))
        now += 1
        assert now < 10_000
    assert (len(set(seen)), len(frontier)) == (len(urls), 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("open", "add", "remove", "next", "finish", "close")),
            st.integers(1, 4),
            st.integers(0, 2),
        ),
        max_size=60,
    )
)
def test_idle_hosts_are_those_without_urls_and_fetches(
    steps: list[tuple[str, int, int]],
) -> None:
    frontier = Frontier()
    for now, (step, host, number) in enumerate(steps):
        queue = frontier.hosts.get(host)
        if step == "open":
            frontier.open_host(host_row(host))
        elif step == "next":
            frontier.next(now)
        elif queue is not None and step == "add":
            frontier.add(url_row(host, number))
        elif queue is not None and step == "remove":
            frontier.active.remove("default", host, url_row(host, number).key)
        elif queue is not None and step == "finish" and queue.in_flight:
            frontier.finished(host, now, 1)
        elif queue is not None and step == "close" and not queue.in_flight:
            frontier.close_host(host)
        if number:
            idle = {key for key, each in frontier.hosts.items() if each.idle}
            assert set(frontier.active.idle()) == idle


def test_hosts_of_a_paused_collection_are_skipped_until_it_may_fetch() -> None:
    """Each is considered once, not at every call.

    URLs of other collections that are added to such a host are returned at once.
    """
    frontier = Frontier(orders={"paused": CollectionOrder(), "running": CollectionOrder()})
    for host in range(1, 201):
        frontier.open_host(host_row(host))
        frontier.add(replace(url_row(host, 1), collection="paused" if host <= 150 else "running"))
    considered: list[int] = []
    pop = frontier.active.pop

    def counted(queue: HostQueue, now: int, closed: Collection[str]) -> tuple[UrlRow, ...]:
        considered.append(queue.row.host_key)
        return pop(queue, now, closed)

    frontier.active.pop = counted  # type: ignore[method-assign]
    host_keys = [rows[0].id.host_key for _ in range(50) if (rows := frontier.next(1, {"paused"}))]
    assert (sorted(host_keys), frontier.next(1, {"paused"})) == (list(range(151, 201)), ())
    assert len(considered) <= 150 + 50
    assert frontier.next_time() is not None, "skipped hosts are still due"
    frontier.add(replace(url_row(7, 2), collection="running"))
    assert [row.id.url_key for row in frontier.next(2, {"paused"})] == [7_000_002]
    frontier.close_host(8)
    frontier.finished(7, 2, 0)
    host_keys = [rows[0].id.host_key for _ in range(200) if (rows := frontier.next(3))]
    assert sorted(host_keys) == [host for host in range(1, 151) if host != 8]
    assert frontier.next_time() is None


def test_next_returns_a_url_for_all_collections_from_heads_and_tables() -> None:
    stored_row = replace(url_row(1, 1), collection="b")
    frontier = Frontier(
        orders={"a": CollectionOrder(priority=1), "b": CollectionOrder()},
        row_of_collection=lambda row, collection: stored_row if collection == "b" else None,
    )
    frontier.open_host(host_row(1))
    frontier.add(replace(url_row(1, 1), collection="a"))
    frontier.active.close_line(1, "b", ())
    assert [row.collection for row in frontier.next(1)] == ["a", "b"]


def test_host_with_an_availability_check_in_flight_is_not_parked() -> None:
    frontier = Frontier()
    parked: list[int] = []

    def park(host_key: int, parked_ms: int = 0, *, away_ms: int = 0) -> None:
        frontier.close_host(host_key)
        frontier.clocks.remove(host_key)  # raises while a request is in flight
        parked.append(host_key)

    turnover = Turnover(frontier, park, active_hosts=1, least_pause_ms=0, unvisited_first=False)
    # an availability check, while the host is parked in the tables
    queued = frontier.start_unqueued(1, "h1", 0)
    frontier.open_host(host_row(1))
    frontier.delay(1, 0, 10**9)
    turnover.free_capacity(1, 0, ())
    assert parked == []
    frontier.finish_unqueued(1, "h1", 5, 0, queued=queued)
    turnover.free_capacity(1, 10, ())
    assert parked == [1]
