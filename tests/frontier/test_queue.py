"""A head's lines take turns, and the first rows that the tables give are those that come first by
that.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.records import UrlId, UrlRow
from lycosa.frontier.rows.row_reader import RowChoice
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
from tests.frontier.test_row_reader import opened


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
