"""Queues: hosts behind one address share it and use it fully; lines of a queue head take turns."""

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
from lycosa.frontier.politeness.waiting_lines import WaitingLines
from lycosa.frontier.rows.row_reader import RowChoice
from lycosa.frontier.scheduler.frontier import Frontier
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
from tests.frontier.test_row_reader import opened

ADDRESS = "192.0.2.1"


@pytest.mark.parametrize(
    ("connections", "pause_ms", "undone"), [(1, 0, 0.0), (4, 0, 0.0), (4, 500, 0.0), (4, 500, 0.3)]
)
def test_an_address_is_used_as_far_as_it_may_be_and_fairly(
    connections: int, pause_ms: int, undone: float
) -> None:
    hosts, fetch_ms, time_ms = 60, 20, 6_000
    chance = random.Random(7)
    frontier = Frontier(Clocks(ClockRules(address_connections=connections)))
    for host in range(1, hosts + 1):
        frontier.open_host(host_row(host)).row.ip = ADDRESS
        for number in range(400):
            frontier.add(url_row(host, number))
    under_way: list[tuple[int, int]] = []
    fetched = Counter[int]()
    now = 0
    while now < time_ms:
        while under_way and under_way[0][0] <= now:
            _, host = heapq.heappop(under_way)
            frontier.finished(host, now, pause_ms)
            fetched[host] += 1
        while rows := frontier.next(now):
            host = rows[0].id.host_key
            if chance.random() < undone:
                put_back(frontier, rows)
                break
            heapq.heappush(under_way, (now + fetch_ms + chance.randrange(5), host))
            assert len(under_way) <= connections
        now += 1
    most = min(connections / (fetch_ms + 2), hosts / (fetch_ms + 2 + pause_ms)) * time_ms
    assert sum(fetched.values()) > 0.85 * most
    mean = sum(fetched.values()) / hosts
    assert min(fetched[host] for host in range(1, hosts + 1)) >= 0.6 * mean - 1
    assert max(fetched.values()) <= 1.6 * mean + 1


@given(st.lists(st.tuples(st.sampled_from("jlpc"), st.integers(1, 5), st.sampled_from("ab"))))
def test_lines_are_first_come_first_served(steps: list[tuple[str, int, str]]) -> None:
    lines = WaitingLines()
    model: dict[str, list[int]] = {"a": [], "b": []}
    for step, number, name in steps:
        if step == "p":
            assert lines.pop(name) == (model[name].pop(0) if model[name] else None)
        elif step == "c":
            assert lines.cut(name, number) == model[name][number:]
            del model[name][number:]
        elif step == "l" or number not in model[name]:
            lines.leave(number)
            for line in model.values():
                line[:] = [each for each in line if each != number]
            if step == "j":
                lines.join(number, name)
                model[name].append(number)
        else:
            lines.join(number, name)  # it keeps its place
        assert [lines.first(each) for each in "ab"] == [
            next(iter(model[each]), None) for each in "ab"
        ]
        assert [each in lines for each in "ab"] == [bool(model[each]) for each in "ab"]
        assert len(lines) == sum(map(len, model.values()))


def row(number: int, kind: int, depth: int = 0, due_at: int = 0) -> UrlRow:
    """A URL that is due from `due_at` on."""
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


def drained(order: CollectionOrder, rows: list[UrlRow]) -> list[int]:
    """The numbers of the URLs, as a head gives them."""
    head = Head(order, lambda row: row.not_before)
    for number, each in enumerate(rows, 1):
        head.add(each, number)
    result = []
    while (popped := head.pop(0)) is not None:
        result.append(popped[0].id.url_key)
    return result


def test_the_kinds_of_urls() -> None:
    rows = [("", 0), ("feed", 0), ("feed", 1), ("watch:7", 1), ("", 1)]
    kinds = [FIRST, FIRST, LIST, FIRST, AGAIN]
    identity = UrlId("http://h/", "h", 1, 1, 0)
    assert [
        kind_of(UrlRow(identity, "a", 0, operation, visited_at=at)) for operation, at in rows
    ] == kinds
    frame = pl.DataFrame(rows, schema=["operation", "visited_at"], orient="row")
    assert frame.select(kind=kind_expr())["kind"].to_list() == kinds


def test_first_visits_lists_and_revisits_take_turns() -> None:
    """What is new by depth, what comes again in the order in which it became due. An empty line
    takes no turn.
    """
    rows = [
        row(1, FIRST, 2),
        row(2, FIRST, 1),
        row(3, FIRST, 3),
        row(4, AGAIN, 1, 900),
        row(5, AGAIN, 9, 100),
        row(6, AGAIN, 5, 500),
    ]
    assert drained(CollectionOrder(revisits=True), rows) == [2, 5, 1, 6, 3, 4]
    assert drained(CollectionOrder(revisits=True), [*rows, row(7, LIST, 9, 700)]) == [
        2,
        5,
        7,
        1,
        6,
        3,
        4,
    ]
    assert drained(CollectionOrder(), rows) == [2, 4, 1, 3, 6, 5], (
        "where nothing is visited again there is one line"
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
def test_the_tables_give_first_what_has_its_turn_first(
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
    result = opened(workspace).rows(
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
    turns = drained(
        CollectionOrder(revisits=True), [each for each in rows if each.not_before <= horizon]
    )[:limit]
    assert set(result["url_key"][: len(turns)]) <= {
        each.id.url_key for each in rows if each.not_before <= horizon
    }
    kinds = {each.id.url_key: kind_of(each) for each in rows}
    for kind in (FIRST, LIST, AGAIN):  # which of several lines begins is not said
        given_out, expected = (
            [key for key in keys if kinds[key] == kind]
            for keys in (result["url_key"][: len(turns)].to_list(), turns)
        )
        shorter = min(len(given_out), len(expected))
        assert given_out[:shorter] == expected[:shorter]
        assert abs(len(given_out) - len(expected)) <= 1
    assert result.height == min(
        limit, len(turns) + min(2, sum(each.not_before > horizon for each in rows))
    )
