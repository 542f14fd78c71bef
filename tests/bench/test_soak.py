"""The verdict of the soak test: growth, errors and early requests; and a run of a minute."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from bench.daemon import Response, Sample
from bench.soak import Plan, Verdict, early_requests, judge, judge_measured, soak, trend

from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.web import Web

HOUR_MS = 3_600_000


def test_a_trend_is_not_moved_by_single_values() -> None:
    generator = random.Random(1)
    points = [
        (number / 360, 100 + 10 * number / 360 + generator.uniform(-2, 2)) for number in range(720)
    ]
    points[::40] = [(at, 20.0) for at, _ in points[::40]]  # processes that have just started
    line = trend(points)
    assert line.per_hour == pytest.approx(0.1, abs=0.01)
    assert line.growth == pytest.approx(0.2, abs=0.02)
    assert not line.flat()
    assert trend([(at, 100 + (at * 1_000) % 3) for at, _ in points]).flat()


def _measured(
    folder: Path,
    change: Callable[[Sample], Sample] = lambda each: each,
    slow_ms: float = 20.0,
    status: int = 200,
) -> Verdict:
    """Evaluate two hours of measurements with one death."""
    times = range(0, 2 * HOUR_MS, 10_000)
    kill = {"at_ms": HOUR_MS, "role": "daemon", "cause": "killed", "back_ms": HOUR_MS + 5_000}
    (folder / "kills.jsonl").write_text(json.dumps(kill) + "\n")
    samples = [change(Sample(at, "pages", 7, 100 + at % 7, 30, at / 1e5)) for at in times]
    (folder / "samples.jsonl").write_text("\n".join(json.dumps(asdict(each)) for each in samples))
    responses = [
        Response(at, slow_ms if at > 1.5 * HOUR_MS else 20.0, 200, "api")
        for at in range(0, 2 * HOUR_MS, 1_000)
    ]
    responses += [
        Response(HOUR_MS + 2_000, 5.0, 0, "api"),
        Response(HOUR_MS // 2, 5.0, status, "page"),
    ]
    rows = [json.dumps(each._asdict()) for each in responses]
    (folder / "responses.jsonl").write_text("\n".join(rows))
    (folder / "end.json").write_text('{"at_ms": 7200000, "code": 0}')
    return judge_measured(folder, Plan())


def test_flat_measurements_are_no_fault(tmp_path: Path) -> None:
    verdict = _measured(tmp_path)
    assert verdict.faults == []
    # requests during the downtime, and in two seconds after it
    assert "| around deaths | 9 |" in verdict.text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"change": lambda each: replace(each, memory_mb=100 + 30 * each.at_ms / HOUR_MS)},
            "memory of pages",
        ),
        (
            {"change": lambda each: replace(each, handles=30 + each.at_ms // 400_000)},
            "open handles of pages",
        ),
        ({"slow_ms": 40.0}, "answers slow down"),
        ({"status": 503}, "without a good answer: 503: 1"),
    ],
)
def test_growth_and_errors_are_faults(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    faults = _measured(tmp_path, **change).faults  # type: ignore[arg-type]
    assert faults
    assert all(message in fault or "of all" in fault for fault in faults), faults


def test_early_requests() -> None:
    web = Web(WebPlan.calm(hosts=3, pages=6, feeds=0.0))
    host = web.layout.hosts.get(0).name
    first, soon, late = (Logged(host, "/", at, at + 5, 200, 1) for at in (0, 50_000, 400_000))
    assert early_requests([first, late], frozenset(), {}, web, 300_000) == []
    assert early_requests([first, soon, late], frozenset(), {}, web, 300_000) == [
        (f"http://{host}/", 50_000)
    ]
    # the worker died before it stored the response
    assert early_requests([first, soon, late], frozenset({first}), {}, web, 300_000) == []
    # the exchange failed
    assert (
        early_requests(
            [first, soon, late], frozenset(), {f"http://{host}/": [(0, 5)]}, web, 300_000
        )
        == []
    )


@pytest.mark.prove
def test_a_minute(tmp_path: Path) -> None:
    plan = Plan(
        seconds=60,
        hosts=100,
        pages=400,
        queries=10,
        seed=3,
        delay_s=2,
        max_age_s=20,
        min_pause_s=10,
        max_pause_s=20,
        hold_s=2,
    )
    soak(plan, tmp_path)
    verdict = judge(tmp_path)
    print(verdict.text())
    assert verdict.faults == []
    assert len((tmp_path / "kills.jsonl").read_text().splitlines()) >= 2
