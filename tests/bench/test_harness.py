"""Tests of the benchmark harness, and of the evaluations of the load test and the soak test."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
from bench.daemon import Response, Sample
from bench.harness import (
    CommandTimeout,
    append_results,
    cpu_ms,
    measure,
    median_ratio,
    quantile,
    table,
)
from bench.load import Time, evaluate
from bench.soak import Plan, Verdict, early_requests, judge, judge_measured, soak, trend

from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.web import Web

BURN = "import time\nwhile time.process_time() < {seconds}: pass"


def test_usage_includes_child_processes(tmp_path: Path) -> None:
    burn = BURN.format(seconds=0.3)
    program = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}], "
        "check=True)\nprint('done')"
    )
    usage = measure([sys.executable, "-c", program], output=tmp_path / "output")
    assert usage.exit_code == 0
    assert 0.3 <= usage.cpu_s < 1.5
    assert usage.wall_s >= 0.3
    assert (tmp_path / "output").read_text() == "done\n"


def test_stopping_a_command_kills_processes_in_other_sessions(tmp_path: Path) -> None:
    start, pids = time.monotonic(), tmp_path / "pids"
    program = f"setsid sleep 60 & echo $! > {pids}; wait"

    def stop(resident: int) -> bool:
        return resident > 0 and pids.exists() and pids.read_text().endswith("\n")

    assert measure(["sh", "-c", program], output=tmp_path / "output", stop=stop).exit_code == -9
    assert time.monotonic() - start < 30
    with suppress(psutil.NoSuchProcess):
        orphan = psutil.Process(int(pids.read_text()))
        while orphan.status() != psutil.STATUS_ZOMBIE:  # containers may not reap orphans
            assert time.monotonic() - start < 40, "the process still runs"
            time.sleep(0.05)


def test_memory_is_measured_of_the_largest_process_and_of_the_tree(tmp_path: Path) -> None:
    child = "import time; block = bytearray(b'x') * 60_000_000; time.sleep(0.8)"
    program = (
        f"import subprocess, sys\ncommand = [sys.executable, '-c', {child!r}]\n"
        "children = [subprocess.Popen(command) for _ in range(2)]\n"
        "for child in children: child.wait()"
    )
    usage = measure([sys.executable, "-c", program], output=tmp_path / "output")
    assert 60 < usage.peak_rss_mb < 100
    assert 120 < usage.tree_rss_mb < 200
    assert 100 < usage.tree_anonymous_mb < usage.tree_rss_mb


def test_memory_excludes_the_measuring_process(tmp_path: Path) -> None:
    block = bytearray(b"x") * 200_000_000
    usage = measure(["sleep", "0.3"], output=tmp_path / "output")
    assert len(block) == 200_000_000
    assert 0 < usage.peak_rss_mb < 20


def test_exit_code_of_a_command_is_reported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    assert measure(command, output=tmp_path / "output").exit_code == 3


def test_command_is_killed_after_the_time_limit(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(CommandTimeout):
        measure(["sleep", "30"], output=tmp_path / "output", limit_s=0.3)
    assert time.monotonic() - start < 10


def test_cpu_ms_excludes_sleep() -> None:
    assert cpu_ms(lambda: time.sleep(0.05), repeat=3) < 20
    assert cpu_ms(lambda: sum(range(1_000_000)), repeat=3) > 1


def test_ratios_quantiles_and_tables() -> None:
    assert (median_ratio([2, 9, 40], [1, 3, 10]), quantile(range(1, 101), 0.95)) == (3, 95)
    assert quantile([7], 0.95) == 7
    assert table(("a", "b"), [(1, "x")]) == "| a | b |\n|---|---|\n| 1 | x |"


def test_results_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    append_results(path, "First", "make first", "one")
    append_results(path, "Second", "make second", "two")
    text = path.read_text()
    assert text.startswith("# Results\n")
    assert (
        text.index("## First")
        < text.index("`make first`")
        < text.index("one")
        < text.index("## Second")
        < text.index("two")
    )


def load_rounds(
    alone: tuple[int, int] = (600, 600), loaded: int = 550, slow: int = 0, status: int = 200
) -> list[Time]:
    """Return two load_rounds of 10 s.

    Args:
        alone: pages of each crawl without load. `loaded`: pages of each crawl with load.
        slow: number of 100 responses that take 1 s.
        status: of one response.
    """
    responses = [
        Response(0, 1_000.0 if number < slow else 20.0, 200, "api") for number in range(99)
    ]
    times = []
    for pages in alone:
        times.append(Time("crawl alone", 10.0, pages, {"worker": 1.0}))
        times.append(
            Time(
                "with load",
                10.0,
                loaded,
                {"worker": 1.0, "pages": 2.0},
                [*responses, Response(0, 20.0, status, "page")],
            )
        )
    return times


def test_a_good_load_test_has_no_faults() -> None:
    text, faults = evaluate(load_rounds())
    assert faults == []
    assert "The crawl keeps 92% of its rate" in text


def test_slow_responses_errors_and_low_crawl_rates_are_faults() -> None:
    assert "p99 1000 ms" in evaluate(load_rounds(slow=3))[1][0]
    assert "page 503" in evaluate(load_rounds(status=503))[1][0]
    assert "keeps 75%" in evaluate(load_rounds(loaded=450))[1][0]


def test_variable_crawl_rates_are_a_fault() -> None:
    assert "too variable to compare" in evaluate(load_rounds(alone=(600, 200), loaded=400))[1][0]


HOUR_MS = 3_600_000


def test_outliers_do_not_change_a_trend() -> None:
    generator = random.Random(1)
    points = [
        (number / 360, 100 + 10 * number / 360 + generator.uniform(-2, 2)) for number in range(720)
    ]
    points[::40] = [(at, 20.0) for at, _ in points[::40]]  # as of processes that just started
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
    """Evaluate two hours of measurements with one killed daemon."""
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


def test_constant_measurements_have_no_faults(tmp_path: Path) -> None:
    verdict = _measured(tmp_path)
    assert verdict.faults == []
    # requests during the downtime and for 2 s after it
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


def test_repeated_requests_are_early_unless_the_first_was_lost_or_failed() -> None:
    web = Web(WebPlan.calm(hosts=3, pages=6, feeds=0.0))
    host = web.layout.hosts.get(0).name
    url = f"http://{host}/"
    first, early, late = (LogEntry(host, "/", at, at + 5, 200, 1) for at in (0, 50_000, 400_000))
    log = [first, early, late]
    assert early_requests([first, late], frozenset(), {}, web, 300_000) == []
    assert early_requests(log, frozenset(), {}, web, 300_000) == [(url, 50_000)]
    # the worker was killed before it stored the response
    assert early_requests(log, frozenset({first}), {}, web, 300_000) == []
    # the exchange failed
    assert early_requests(log, frozenset(), {url: [(0, 5)]}, web, 300_000) == []


@pytest.mark.prove
def test_soak_test_of_a_minute_has_no_faults(tmp_path: Path) -> None:
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
