"""The measuring helpers measure: known work costs what it must, children count, what hangs is
killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from bench.harness import (
    CommandTimeout,
    append_results,
    cpu_ms,
    measure,
    median_ratio,
    quantile,
    table,
)

BURN = "import time\nwhile time.process_time() < {seconds}: pass"


def test_measures_a_command_and_its_children(tmp_path: Path) -> None:
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


def test_memory_is_that_of_the_largest_process_and_of_the_tree(tmp_path: Path) -> None:
    hold = "import time; block = bytearray(b'x') * 60_000_000; time.sleep(0.8)"
    program = (
        f"import subprocess, sys\nhold = {hold!r}\nchildren = "
        "[subprocess.Popen([sys.executable, '-c', hold]) for _ in range(2)]\n"
    )
    program += "for child in children: child.wait()"
    usage = measure([sys.executable, "-c", program], output=tmp_path / "output")
    assert 60 < usage.peak_rss_mb < 100
    assert 120 < usage.tree_rss_mb < 200


def test_memory_of_the_measuring_process_does_not_count(tmp_path: Path) -> None:
    ours = bytearray(b"x") * 200_000_000
    usage = measure(["sleep", "0.3"], output=tmp_path / "output")
    assert len(ours) == 200_000_000
    assert 0 < usage.peak_rss_mb < 20


def test_reports_how_a_command_ended(tmp_path: Path) -> None:
    assert (
        measure([sys.executable, "-c", "raise SystemExit(3)"], output=tmp_path / "output").exit_code
        == 3
    )


def test_kills_what_runs_too_long(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(CommandTimeout):
        measure(["sleep", "30"], output=tmp_path / "output", limit_s=0.3)
    assert time.monotonic() - start < 10


def test_cpu_ms_counts_work_and_not_sleep() -> None:
    assert cpu_ms(lambda: time.sleep(0.05), repeat=3) < 20
    assert cpu_ms(lambda: sum(range(1_000_000)), repeat=3) > 1


def test_statistics() -> None:
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
