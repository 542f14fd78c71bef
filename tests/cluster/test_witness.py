"""The witness sees what it is there to see: logs and tables that were tampered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.webs import options
from tests.cluster.witness import Truth, facts, judge
from tests.crawl.polite import simulated_robot
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.web import Web

Log = list[Logged]


def _later(request: Logged, by_ms: int) -> Logged:
    return request._replace(
        arrived_at_ms=request.arrived_at_ms + by_ms, answered_at_ms=request.answered_at_ms + by_ms
    )


def _again_at_once(log: Log) -> Log:
    return [*log, _later(log[20], 30)]


def _again_much_later(log: Log) -> Log:
    return [*log, _later(log[20], 3_600_000)]


def _without_robots(log: Log) -> Log:
    return [request for request in log if request.path != "/robots.txt"]


def _closer(log: Log) -> Log:
    """The second page of a host comes right after the first."""
    host = log[0].host
    first, second = [
        request for request in log if request.host == host and request.path != "/robots.txt"
    ][:2]
    at = first.answered_at_ms - second.arrived_at_ms + 50
    return [_later(request, at) if request is second else request for request in log]


@pytest.mark.parametrize(
    ("tampered", "complaint"),
    [
        (_again_at_once, "delay|two requests|no visit"),
        (_again_much_later, "no visit"),
        (_without_robots, "robots_unknown"),
        (_closer, "delay|no visit"),
    ],
)
def test_it_sees(tmp_path: Path, tampered: Callable[[Log], Log], complaint: str) -> None:
    web = Web(
        read_plan(options_parser().parse_args([*options(3, 6, 60), "--epoch-ms", "1790000000000"]))
    )
    chosen = {"delay": "200ms", "courtesy_factor": 0.0, "backoff": "1s", "domain_connections": 4}
    robot = simulated_robot(web, tmp_path / "w", **chosen, traps=False)
    robot.crawl()
    result = facts(tmp_path / "w")
    right = Truth(result.states, result.pages)
    assert judge(tmp_path / "w", web, robot.log, right, []).lost == 0
    with pytest.raises(AssertionError, match=complaint):
        judge(
            tmp_path / "w",
            web,
            tampered(sorted(robot.log, key=lambda request: request.arrived_at_ms)),
            right,
            [],
        )
    short = replace(right, pages=right.pages - {sorted(right.pages)[0]})
    with pytest.raises(AssertionError, match="http://"):
        judge(tmp_path / "w", web, robot.log, short, [])
