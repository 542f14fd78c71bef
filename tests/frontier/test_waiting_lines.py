"""Queues of hosts that share an IP address, and of the URLs of a host."""

from __future__ import annotations

import heapq
import random
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.records import UrlId, UrlRow
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.rows.row_reader import RowChoice
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.host_schedule import WaitingLines
from lycosa.frontier.scheduler.queue import (
    AGAIN,
    FIRST,
    LIST,
    CollectionOrder,
    Head,
    kind_expr,
    kind_of,
)
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from tests.frontier.test_frontier import host_row, put_back, url_row
from tests.frontier.test_row_reader import open_reader

ADDRESS = "192.0.2.1"


@pytest.mark.parametrize(
    ("connections", "pause_ms", "undone"), [(1, 0, 0.0), (4, 0, 0.0), (4, 500, 0.0), (4, 500, 0.3)]
)
def test_connections_of_an_address_are_used_fully_and_fairly(
    connections: int, pause_ms: int, undone: float
) -> None:
    hosts, fetch_ms, time_ms = 60, 20, 6_000
    chance = random.Random(7)
    frontier = Frontier(Clocks(ClockRules(address_connections=connections)))
    for host in range(1, hosts + 1):
        frontier.open_host(host_row(host)).row.ip = ADDRESS
        for number in range(400):
            frontier.add(url_row(host, number))
    in_flight: list[tuple[int, int]] = []
    fetched = Counter[int]()
    now = 0
    while now < time_ms:
        while in_flight and in_flight[0][0] <= now:
            _, host = heapq.heappop(in_flight)
            frontier.finished(host, now, pause_ms)
            fetched[host] += 1
        while rows := frontier.next(now):
            host = rows[0].id.host_key
            if chance.random() < undone:
                put_back(frontier, rows)
                break
            heapq.heappush(in_flight, (now + fetch_ms + chance.randrange(5), host))
            assert len(in_flight) <= connections
        now += 1
    possible = min(connections / (fetch_ms + 2), hosts / (fetch_ms + 2 + pause_ms)) * time_ms
    assert sum(fetched.values()) > 0.85 * possible
    mean = sum(fetched.values()) / hosts
    assert min(fetched[host] for host in range(1, hosts + 1)) >= 0.6 * mean - 1
    assert max(fetched.values()) <= 1.6 * mean + 1


@given(st.lists(st.tuples(st.sampled_from("jlpc"), st.integers(1, 5), st.sampled_from("ab"))))
def test_waiting_lines_are_fifo(steps: list[tuple[str, int, str]]) -> None:
    lines = WaitingLines()
    model: dict[str, list[int]] = {"a": [], "b": []}
    for step, number, name in steps:
        if step == "p":
            assert lines.pop(name) == (model[name].pop(0) if model[name] else None)
        elif step == "c":
            longer = {each: line[number:] for each, line in model.items() if len(line) > number}
            assert lines.cut(number) == longer
            for each in longer:
                del model[each][number:]
        elif step == "l" or number not in model[name]:
            lines.leave(number)
            for line in model.values():
                line[:] = [each for each in line if each != number]
            if step == "j":
                lines.join(number, name)
                model[name].append(number)
        else:
            lines.join(number, name)  # keeps its position
        assert [lines.first(each) for each in "ab"] == [
            next(iter(model[each]), None) for each in "ab"
        ]
        assert [each in lines for each in "ab"] == [bool(model[each]) for each in "ab"]
        assert len(lines) == sum(map(len, model.values()))


def row(number: int, kind: int, depth: int = 0, due_at: int = 0) -> UrlRow:
    """Return a URL that is due from `due_at` on."""
    visited_at = 0 if kind == FIRST else 1
    return UrlRow(
        UrlId(f"http://h/{number}", "h", 1, number, 0),
        "a",
        depth,
        "sitemap" if kind == LIST else "",
        visited_at=visited_at,
        not_before=due_at,
        first_seen_at=number,
    )


def pop_all(order: CollectionOrder, rows: list[UrlRow]) -> list[int]:
    """Return the numbers of the URLs in the order of a head."""
    head = Head(order, lambda row: row.not_before)
    for number, each in enumerate(rows, 1):
        head.add(each, number)
    result = []
    while (popped := head.pop(0)) is not None:
        result.append(popped[0].id.url_key)
    return result


def test_kind_of_a_url_by_operation_and_visit() -> None:
    rows = [("", 0), ("feed", 0), ("feed", 1), ("watch:7", 1), ("", 1)]
    kinds = [FIRST, FIRST, LIST, FIRST, AGAIN]
    identity = UrlId("http://h/", "h", 1, 1, 0)
    assert [
        kind_of(UrlRow(identity, "a", 0, operation, visited_at=at)) for operation, at in rows
    ] == kinds
    frame = pl.DataFrame(rows, schema=["operation", "visited_at"], orient="row")
    assert frame.select(kind=kind_expr())["kind"].to_list() == kinds


def test_first_visits_lists_and_revisits_alternate() -> None:
    """First visits are ordered by depth, revisits by due time; empty queues are skipped."""
    rows = [
        row(1, FIRST, 2),
        row(2, FIRST, 1),
        row(3, FIRST, 3),
        row(4, AGAIN, 1, 900),
        row(5, AGAIN, 9, 100),
        row(6, AGAIN, 5, 500),
    ]
    assert pop_all(CollectionOrder(revisits=True), rows) == [2, 5, 1, 6, 3, 4]
    with_list = [*rows, row(7, LIST, 9, 700)]
    assert pop_all(CollectionOrder(revisits=True), with_list) == [2, 5, 7, 1, 6, 3, 4]
    assert pop_all(CollectionOrder(), rows) == [2, 4, 1, 3, 6, 5], (
        "without revisits there is one queue"
    )


@given(
    st.lists(
        st.tuples(st.sampled_from([FIRST, LIST, AGAIN]), st.integers(0, 3), st.integers(1, 50)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 12),
)
@settings(max_examples=8, deadline=None)
def test_tables_return_urls_in_the_order_of_the_head(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int, int]], limit: int
) -> None:
    rows = [
        row(number, kind, depth, 100 * due_at + number)
        for number, (kind, depth, due_at) in enumerate(drawn, 1)
    ]
    workspace = Workspace.create(str(tmp_path_factory.mktemp("queue") / "w"))
    claim, buffers = workspace.claim("test"), Buffers()
    for each in rows:
        buffers.add_url(each)
    claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    due = pl.col("not_before").cast(pl.Int64)
    order = [
        pl.when(kind_expr() == FIRST).then(0).otherwise(due),
        pl.col("depth"),
        pl.col("first_seen_at"),
    ]
    horizon = 100 * 40
    partitions, hosts = np.zeros(1, np.uint16), np.ones(1, np.uint64)
    result = open_reader(workspace).rows(
        partitions,
        hosts,
        choice=RowChoice(
            [(due > horizon).cast(pl.Int8), *order],
            limit=limit,
            near=due <= horizon,
            far=2,
            kind=kind_expr(),
        ),
    )
    turns = pop_all(
        CollectionOrder(revisits=True), [each for each in rows if each.not_before <= horizon]
    )[:limit]
    assert set(result["url_key"][: len(turns)]) <= {
        each.id.url_key for each in rows if each.not_before <= horizon
    }
    kinds = {each.id.url_key: kind_of(each) for each in rows}
    for kind in (FIRST, LIST, AGAIN):  # which kind comes first is not specified
        returned, expected = (
            [key for key in keys if kinds[key] == kind]
            for keys in (result["url_key"][: len(turns)].to_list(), turns)
        )
        shorter = min(len(returned), len(expected))
        assert returned[:shorter] == expected[:shorter]
        assert abs(len(returned) - len(expected)) <= 1
    assert result.height == min(
        limit, len(turns) + min(2, sum(each.not_before > horizon for each in rows))
    )
