"""Many hosts behind one address: what the address is given is used, and every host gets its share
of it.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.politeness.waiting_lines import WaitingLines
from lycosa.frontier.scheduler.frontier import Frontier
from tests.frontier.test_frontier import host_row, put_back, url_row

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
