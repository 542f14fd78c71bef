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
from lycosa.frontier.politeness.waiting_lines import AddressLines, DomainLines
from lycosa.frontier.scheduler.frontier import Frontier
from tests.frontier.test_frontier import host_row, url_row

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
                frontier.put_back(rows)
                break
            heapq.heappush(under_way, (now + fetch_ms + chance.randrange(5), host))
            assert len(under_way) <= connections
        now += 1
    most = min(connections / (fetch_ms + 2), hosts / (fetch_ms + 2 + pause_ms)) * time_ms
    assert sum(fetched.values()) > 0.85 * most
    mean = sum(fetched.values()) / hosts
    assert min(fetched[host] for host in range(1, hosts + 1)) >= 0.6 * mean - 1
    assert max(fetched.values()) <= 1.6 * mean + 1


@given(st.lists(st.tuples(st.sampled_from("sl"), st.integers(1, 5), st.sampled_from("ab"))))
def test_lines_are_in_the_order_of_coming(steps: list[tuple[str, int, str]]) -> None:
    lines = AddressLines()
    model: dict[str, list[int]] = {"a": [], "b": []}
    for step, host, address in steps:
        if step == "l":
            lines.leave(host)
            for line in model.values():
                line[:] = [each for each in line if each != host]
        else:
            lines.join(host, address)
            other = model["b" if address == "a" else "a"]
            other[:] = [each for each in other if each != host]
            if host not in model[address]:
                model[address].append(host)
        assert [lines.first(each) for each in "ab"] == [
            next(iter(model[each]), None) for each in "ab"
        ]
        assert len(lines) == sum(map(len, model.values()))


def test_the_line_of_a_domain_is_first_come_first_served() -> None:
    lines = DomainLines()
    assert lines.pop("a.test") is None
    for host in (5, 3, 4):
        lines.join(host, "a.test")
    assert [lines.pop("a.test") for _ in range(4)] == [5, 3, 4, None]
    assert "a.test" not in lines


def test_a_long_line_is_cut_and_goes_on_in_its_order() -> None:
    lines = DomainLines()
    for host in range(6):
        lines.join(host, "a.test")
    assert lines.cut("a.test", 4) == [4, 5]
    assert lines.cut("a.test", 4) == lines.cut("b.test", 0) == []
    lines.join(5, "a.test")
    assert [lines.pop("a.test") for _ in range(6)] == [0, 1, 2, 3, 5, None]
    lines.join(1, "a.test")
    assert (lines.cut("a.test", 0), "a.test" in lines) == ([1], False)
