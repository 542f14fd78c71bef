"""The host directory: lookup by key, and selection by urgency."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.frontier.hosts import directory as module
from lycosa.frontier.hosts.directory import NEVER, HostDirectory, HostOrder

KEYS = st.one_of(
    st.integers(0, 5), st.integers((1 << 64) - 5, (1 << 64) - 1), st.integers(0, (1 << 64) - 1)
)


def summaries(rows: list[tuple[int, int, int, int, int | None]]) -> pl.DataFrame:
    schema = {
        "partition": pl.UInt16,
        "host_key": pl.UInt64,
        "waiting": pl.UInt32,
        "visited": pl.UInt32,
        "due_at": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def resident(folder: Path) -> int:
    """Return the resident bytes of the mapped files of a folder."""
    parts = re.split(
        r"^[0-9a-f]+-[0-9a-f]+ ", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE
    )
    return sum(
        1024 * int(size[1])
        for part in parts
        if str(folder) in part and (size := re.search(r"^Rss:\s+(\d+) kB", part, re.MULTILINE))
    )


def directory(due: list[int | None], partition: int = 0) -> HostDirectory:
    """Create one host per due time.

    The keys are far apart, so that no two hosts share a position.
    """
    hosts = HostDirectory()
    hosts.extend(
        summaries([(partition, (number + 1) << 40, 1, 0, at) for number, at in enumerate(due)])
    )
    return hosts


@given(st.sets(KEYS, max_size=30), st.lists(KEYS, max_size=60), st.integers(1, 8))
def test_host_keeps_its_slot_and_is_looked_up_by_key(
    loaded: set[int], added: list[int], merge_at: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MERGE_AT", merge_at)
        hosts = HostDirectory()
        hosts.extend(summaries([(3, key, 1, 0, 5) for key in loaded]))
        hosts.extend(summaries([]))
        slots = {key: number for number, key in enumerate(loaded)}
        for key in added:
            slot = hosts.add(key, 9)
            assert slots.setdefault(key, slot) == slot
        assert sorted(slots.values()) == list(range(len(hosts)))
        looked_up = [*slots, 77, 1 << 63]
        assert [hosts.slot(key) for key in looked_up] == [slots.get(key) for key in looked_up]
        assert hosts.slots(np.array(looked_up, np.uint64)).tolist() == [
            slots.get(key, -1) for key in looked_up
        ]


@pytest.mark.parametrize("mapped", [False, True])
def test_columns_keep_their_values_when_they_grow(mapped: bool, tmp_path: Path) -> None:
    hosts = HostDirectory(str(tmp_path) if mapped else None)
    for number in range(3_000):
        hosts.set(
            hosts.add(number << 50 | number, number % 4_096),
            waiting=number,
            next_at=number,
        )
    assert all(hosts.slot(number << 50 | number) == number for number in range(3_000))
    assert (hosts.waiting[:3_000] == np.arange(3_000)).all()
    assert (hosts.next_at[:3_000] == np.arange(3_000)).all()
    assert hosts.nbytes / 3_000 < 50 + (1 << 18) / 3_000 + 1


def test_new_host_is_inactive_and_has_nothing_due() -> None:
    hosts = HostDirectory()
    slot = hosts.add(5, 1)
    assert hosts.next_time() is None
    assert hosts.pick(NEVER - 1, 0, 10).size == 0
    for at in (90, 70, 80):
        hosts.wake(slot, at)
    hosts.change(slot, waiting=3, visited=1)
    assert hosts.next_time() == 70
    sums = [int(column.sum()) for column in (hosts.active, hosts.waiting, hosts.visited)]
    assert (len(hosts), sums) == (1, [0, 3, 1])


def test_slots_of_loaded_and_added_hosts_are_looked_up_together() -> None:
    hosts = directory([0, 0, 0])
    added = [hosts.add(key, 0) for key in (5, 2 << 40 | 1, (1 << 64) - 1)]
    keys = np.array([5, 2 << 40, 7, (1 << 64) - 1, 2 << 40 | 1], np.uint64)
    assert hosts.slots(keys).tolist() == [added[0], hosts.slot(2 << 40), -1, added[2], added[1]]


def test_negative_counts_and_unknown_fields_are_refused() -> None:
    hosts = HostDirectory()
    slot = hosts.add(5, 1)
    hosts.set(slot, waiting=1)
    with pytest.raises(OverflowError):
        hosts.change(slot, waiting=-2, visited=1)
    assert (int(hosts.waiting[slot]), int(hosts.visited[slot])) == (1, 0)
    with pytest.raises(KeyError):
        hosts.set(slot, host_key=1)


def test_only_inactive_hosts_that_are_due_are_picked() -> None:
    hosts = directory([5, 100, None, 200, 50])
    hosts.activate(0)
    assert hosts.pick(100, 0, 10).tolist() == [1, 4]
    assert (hosts.pick(100, 100, 10).tolist(), hosts.next_time()) == ([1, 3, 4], 50)
    hosts.activate(np.array([1, 3, 4]))
    assert hosts.next_time() is None
    assert int(hosts.active.sum()) == 4
    hosts.activate(np.array([3, 4]), active=False)
    assert (hosts.next_time(), hosts.pick(100, 0, 0).size) == (50, 0)


def test_hosts_due_earlier_come_first_and_overdue_hosts_are_equal() -> None:
    hosts = directory([1_090_000, 1_050_000, 400, 1_000_000, 1_020_000])
    assert hosts.pick(1_000_000, 90_000, 3).tolist() == [2, 3, 4]
    assert hosts.pick(1_000_000, 90_000, 4).tolist() == [1, 2, 3, 4]


def test_server_order_is_unvisited_hosts_then_by_last_visit() -> None:
    hosts = directory([0] * 5)
    for slot, (seen, visited) in enumerate(
        [(3, 50_000), (1, 20_000), (0, 90_000), (9, 70_000), (0, 0)]
    ):
        hosts.set(slot, visited=seen, last_visit_at=visited)
    assert [hosts.pick(0, 0, limit, HostOrder.SERVERS).tolist() for limit in (2, 3, 4)] == [
        [2, 4],
        [1, 2, 4],
        [0, 1, 2, 4],
    ]


def test_inactive_unvisited_host_is_reported_when_due() -> None:
    hosts = directory([5, 50])
    hosts.set(0, visited=1)
    assert [hosts.has_unvisited_due(now) for now in (5, 49, 50)] == [False, False, True]
    hosts.activate(1)
    assert not hosts.has_unvisited_due(50)


@pytest.mark.parametrize("block", [7, 1_000])
def test_equally_urgent_hosts_are_picked_round_robin(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    hosts = directory([0] * 100)
    turns = [hosts.pick(10, 0, 30).tolist() for _ in range(7)]
    assert (turns[0], turns[1]) == (list(range(30)), list(range(30, 60)))
    assert sorted(turns[3]) == [*range(20), *range(90, 100)]
    assert min(np.bincount(np.concatenate(turns))) == 2


def test_hosts_are_ordered_by_partition_then_key() -> None:
    hosts = HostDirectory()
    order = [(2, 1 << 40), (1, 9 << 40), (2, 5 << 50), (1, 2 << 40)]
    hosts.extend(summaries([(partition, key, 1, 0, 0) for partition, key in order]))
    assert hosts.pick(0, 0, 4).tolist() == [3, 1, 0, 2]


@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(0, 2), st.integers(0, 60_000), st.booleans()),
        max_size=60,
    ),
    st.integers(1, 70),
    st.sampled_from(HostOrder),
    st.integers(1, 20),
)
def test_pick_returns_the_most_urgent_hosts(
    rows: list[tuple[int, int, int, bool]], limit: int, order: HostOrder, block: int
) -> None:
    hosts = directory([row[0] for row in rows])
    for slot, (_, seen, visited, active) in enumerate(rows):
        hosts.set(slot, visited=seen, last_visit_at=visited)
        if active:
            hosts.activate(slot)

    def urgency(slot: int) -> float:
        next_at, seen, visited, _ = rows[slot]
        return (
            max(next_at - 20_000, 0) // 10_000
            if order is HostOrder.TIME
            else -1
            if seen == 0
            else visited // 10_000
        )

    due = [slot for slot, row in enumerate(rows) if row[0] <= 50_000 and not row[3]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        picked = hosts.pick(20_000, 30_000, limit, order).tolist()
    assert set(picked) <= set(due)
    assert sorted(map(urgency, picked)) == sorted(map(urgency, due))[:limit]
    assert len(set(picked)) == len(picked)


def test_update_applies_rows_of_the_hosts_table() -> None:
    hosts = directory([10, None, 30])
    schema = {
        "host_key": pl.UInt64,
        "last_visit_at": pl.Int64,
        "next_at": pl.Int64,
        "known": pl.Int64,
    }
    rows = [(1 << 40, 99, 5), (99, 1, 1), (2 << 40, None, 40), (3 << 40, 7, 70)]
    hosts.update([pl.DataFrame([(*row, 3) for row in rows], schema=schema, orient="row")])
    assert hosts.last_visit_at[:3].tolist() == [99, 0, 7]
    assert (hosts.next_at[:3].tolist(), len(hosts)) == ([10, NEVER, 70], 3)


def test_mapped_columns_are_paged_out_and_keep_their_values(tmp_path: Path) -> None:
    hosts = HostDirectory(str(tmp_path))
    count = 200_000
    for first in range(0, count, 50_000):
        hosts.extend(
            summaries(
                [
                    (number % 7, number << 40, number, 0, number)
                    for number in range(first, first + 50_000)
                ]
            )
        )
    assert (hosts.slot(9 << 40), int(hosts.waiting[:count].sum())) == (9, count * (count - 1) // 2)
    assert hosts.next_at[:count].tolist() == list(range(count))
    assert resident(tmp_path) > 1_000_000
    assert hosts.pick(99, 0, 1_000).size == 100
    assert resident(tmp_path) < 100_000
    hosts.set(5, next_at=7)
    hosts.pick(99, 0, 1_000)
    assert ((int(hosts.next_at[5]), hosts.next_time()), list(tmp_path.iterdir())) == ((7, 0), [])


def test_columns_stay_in_memory_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = HostDirectory(str(tmp_path))
    hosts.set(hosts.add(1, 1), waiting=5)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    for key in range(2, 3_000):
        hosts.set(hosts.add(key, 1), waiting=1)
    assert (int(hosts.waiting.sum()), hosts.slot(1)) == (5 + 2_998, 0)
