"""The index of a sorted file covers every row of a host."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.frontier.rows.row_positions import FileIndex, cuts, places, spans

ROWS = st.lists(st.integers(0, 40), max_size=200).map(
    lambda values: np.sort(np.array(values, np.uint64))
)


@given(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, (1 << 64) - 1)), min_size=2))
def test_positions_sort_like_files(hosts: list[tuple[int, int]]) -> None:
    hosts.sort()
    result = places(
        np.array([host[0] for host in hosts], np.uint16),
        np.array([host[1] for host in hosts], np.uint64),
    ).tolist()
    assert result == sorted(result)
    assert all(
        place >> 52 == host[0] and place & (1 << 52) - 1 == host[1] >> 12
        for place, host in zip(result, hosts, strict=True)
    )


@given(ROWS, st.integers(1, 30), st.lists(st.integers(0, 45), min_size=1))
def test_run_contains_all_rows_of_a_position(
    rows: np.ndarray, step: int, positions: list[int]
) -> None:
    index = FileIndex.of_parts([rows], step)
    first, end = index.runs(np.array(positions, np.uint64))
    for place, begin, stop in zip(positions, first.tolist(), end.tolist(), strict=True):
        inside = np.flatnonzero(rows == place)
        assert all(begin <= row < stop for row in inside)
        if step == 1:
            assert stop - begin == inside.size
    for low in range(0, 44, 3):
        begin, stop = index.between(low, low + 3)
        assert all(begin <= row < stop for row in np.flatnonzero((rows >= low) & (rows < low + 3)))


@given(ROWS, st.integers(1, 30), st.lists(st.integers(0, 200), max_size=6))
def test_index_of_a_file_in_parts_is_the_same(
    rows: np.ndarray, step: int, edges: list[int]
) -> None:
    whole, in_parts = (
        FileIndex.of_parts([rows], step),
        FileIndex.of_parts(np.split(rows, sorted(edges)), step),
    )
    assert (whole.first.tolist(), whole.start.tolist(), whole.last, whole.exact) == (
        in_parts.first.tolist(),
        in_parts.start.tolist(),
        in_parts.last,
        in_parts.exact,
    )


@pytest.mark.parametrize("parts", [[[1, 5], [4]], [[2, 1]]])
def test_unsorted_rows_are_refused(parts: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="not sorted"):
        FileIndex.of_parts([np.array(part, np.uint64) for part in parts], 1)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 30))), st.integers(0, 20))
def test_spans_cover_the_rows_and_no_gap_larger_than_near(
    positions: list[tuple[int, int]], near: int
) -> None:
    first = np.array([begin for begin, _ in positions], np.int64)
    result = spans(first, first + np.array([size for _, size in positions], np.int64), near)
    rows = {row for begin, size in positions for row in range(begin, begin + size)}
    covered = {row for begin, end in result for row in range(begin, end)}
    assert rows <= covered
    assert all(later[0] - earlier[1] > near for earlier, later in pairwise(result))
    assert not rows or (min(covered), max(covered)) == (min(rows), max(rows))
    for row in covered - rows:
        assert min(row - other for other in rows if other < row) <= near + 1


@given(st.lists(ROWS, max_size=4), st.integers(1, 60), st.integers(1, 10))
def test_ranges_cover_everything_with_bounded_size(
    files: list[np.ndarray], size: int, step: int
) -> None:
    ranges = cuts([FileIndex.of_parts([rows], step) for rows in files], size)
    assert not files or (ranges[0][0], ranges[-1][1]) == (0, 1 << 64)
    assert all(
        earlier[1] == later[0] and later[0] < later[1] for earlier, later in pairwise(ranges)
    )
    rows = np.concatenate(files) if files else np.zeros(0, np.uint64)
    largest = max(np.bincount(rows.astype(np.int64)).tolist(), default=0)
    for low, high in ranges:
        assert sum(low <= place < high for place in rows.tolist()) <= size + len(files) * (
            largest + step
        )
