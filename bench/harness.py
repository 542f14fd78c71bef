"""Measure commands and functions, compare contenders and report the figures.

`measure` runs a command; `alternate` and `comparison` compare functions in alternating rounds;
`arguments` and `report` are the command line and the output that all benchmarks share. CPU seconds
of a command include its descendants. They vary far less than wall time on a shared machine, but a
busy sibling core still costs 10 to 15 %: compare only runs that alternate.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import psutil

DATA = Path(
    os.environ.get("LYCOSA_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)
FLOORS = Path(__file__).with_name("floors.toml")
SAMPLE_INTERVAL_S = 0.05
MEGABYTE = 1e6

_SIZE = re.compile(r"^(VmRSS|VmHWM|RssAnon):\s+(\d+) kB$", re.MULTILINE)

T = TypeVar("T")


@dataclass(frozen=True)
class Usage:
    """Resources used by a command and its descendants. Memory in MB (10^6 bytes)."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float  # high-water mark of the largest process
    tree_rss_mb: float  # largest sum over the tree; counts shared pages once per process
    tree_anonymous_mb: float  # the same without mapped files, which the kernel can drop
    exit_code: int  # negative: the signal that ended it


class CommandTimeout(Exception):
    """A measured command exceeded its time limit and was killed."""


def measure(
    command: Sequence[str | os.PathLike[str]],
    *,
    output: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 1800.0,
    stop: Callable[[int], object] = lambda _: False,
) -> Usage:
    """Run a command to its end; write its standard output and error to a file.

    Memory is read from /proc twenty times per second, because the maximum of `wait4` includes this
    process's own memory at the moment of the fork.

    Args:
        stop: receives the resident bytes of the process tree; the tree is killed once it is true.

    Raises:
        CommandTimeout: the command ran longer than `limit_s`.
    """
    with output.open("wb") as sink:
        start = time.perf_counter()
        process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        sampler = _Sampler(process.pid, start + limit_s, stop)
        sampler.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
    # `wait4` has reaped it: Popen must not wait again
    process.returncode = os.waitstatus_to_exitcode(status)
    sampler.ended.set()
    sampler.join()
    if sampler.timed_out:
        raise CommandTimeout(
            f"{command[0]} was killed after {limit_s:.0f} s; its output is in {output}"
        )
    return Usage(
        usage.ru_utime + usage.ru_stime,
        wall_s,
        sampler.peak / MEGABYTE,
        max(sampler.tree_peak, sampler.peak) / MEGABYTE,
        sampler.anonymous_peak / MEGABYTE,
        process.returncode,
    )


class _Sampler(threading.Thread):
    """Samples the resident bytes of a process tree; kills it at the deadline or on `stop`."""

    def __init__(self, pid: int, deadline: float, stop: Callable[[int], object]) -> None:
        super().__init__(daemon=True)
        self._pid, self._deadline, self._stop_requested = pid, deadline, stop
        self.ended = threading.Event()
        self.peak = self.tree_peak = self.anonymous_peak = 0
        self.timed_out = False

    def run(self) -> None:
        while not self.ended.wait(SAMPLE_INTERVAL_S):
            try:
                tree = process_tree(self._pid)
            except psutil.NoSuchProcess:
                return
            sizes = [_resident(process.pid) for process in tree]
            resident, anonymous = sum(each[0] for each in sizes), sum(each[2] for each in sizes)
            self.peak = max(self.peak, *(each[1] for each in sizes))
            self.tree_peak = max(self.tree_peak, resident)
            self.anonymous_peak = max(self.anonymous_peak, anonymous)
            self.timed_out = self.timed_out or time.perf_counter() > self._deadline
            if self.timed_out or self._stop_requested(resident):
                with suppress(psutil.NoSuchProcess):
                    tree = process_tree(self._pid)  # processes that started meanwhile
                for process in tree:  # not its process group: browsers have groups of their own
                    with suppress(psutil.NoSuchProcess):
                        process.kill()


def process_tree(pid: int) -> list[psutil.Process]:
    """Return a process, then its descendants. Raises psutil.NoSuchProcess: it has ended."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants."""
    return float(sum(sum(process.cpu_times()[:4]) for process in process_tree(pid)))


def _resident(pid: int) -> tuple[int, int, int]:
    """Return resident bytes, their high-water mark and anonymous bytes; zeros after its end."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0, 0
    sizes = {name: int(size) * 1024 for name, size in _SIZE.findall(status)}
    return sizes.get("VmRSS", 0), sizes.get("VmHWM", 0), sizes.get("RssAnon", 0)


def lycosa(workspace: object, *words: object) -> list[str]:
    """Return a command of Lycosa in a workspace."""
    return [sys.executable, "-m", "lycosa.cli.main", "-w", str(workspace), *map(str, words)]


@contextmanager
def server_process(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server; yield its process and its first line of output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.terminate()
            process.wait(timeout=30)


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """Return the result of a call, its wall and its CPU milliseconds, all threads included."""
    start, start_cpu = time.perf_counter(), time.process_time()
    result = work()
    cpu_s = time.process_time() - start_cpu
    return result, (time.perf_counter() - start) * 1000, cpu_s * 1000


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call, all threads of this process included."""
    return timed(work)[2] / 1000


def cpu_ms(function: Callable[[], object], repeat: int = 5) -> float:
    """Return the median CPU milliseconds of a call, all threads of this process included."""
    return statistics.median(timed(function)[2] for _ in range(repeat))


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median ratio of readings of the same round, which share its disturbances."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def quantile(values: Iterable[float], share: float) -> float:
    """Return the quantile (`share`: 0 to 1) by the nearest rank; values must not be empty."""
    ordered = sorted(values)
    rank = math.ceil(round(share * len(ordered), 9))  # rounded: 0.07 * 100 is a little over 7
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def quantiles(values: Sequence[float], *shares: float, digits: int = 0) -> list[str]:
    """Return quantiles as cells of a table."""
    return [f"{quantile(values, share):.{digits}f}" for share in shares]


def reciprocal_rank(ranking: Sequence[T], relevant: set[T]) -> float:
    """Return 1 / rank of the first relevant result, 0 without one."""
    return next((1 / rank for rank, each in enumerate(ranking, 1) if each in relevant), 0.0)


def alternate(contenders: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """Call all contenders `runs` times, every second round in reverse; return their readings."""
    readings: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(runs):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            readings[name].append(contenders[name]())
    return readings


def comparison(readings: Mapping[str, Sequence[float]], baseline: str, unit: str) -> str:
    """Return a Markdown table: median, lowest, highest, and the median ratio to the baseline."""
    rows = [
        (
            name,
            *(f"{figure:,.4g}" for figure in (statistics.median(values), min(values), max(values))),
            f"{median_ratio(values, readings[baseline]):.2f}",
        )
        for name, values in readings.items()
    ]
    return table((unit, "median", "lowest", "highest", f"ratio to {baseline}"), rows)


def read_floors(section: str) -> dict[str, float]:
    """Return a section of `floors.toml`."""
    floors: dict[str, float] = tomllib.loads(FLOORS.read_text(encoding="utf-8"))[section]
    return floors


def arguments(description: str | None, runs: int = 3, **options: object) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark: --runs, --json, --results.

    Args:
        options: more options by name, each with its default, or with (default, help). False makes
            a flag, a type an option without a default, a list an option with several values.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=runs, help=f"rounds (default {runs})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append the report to it")
    for name, option in options.items():
        default, text = option if isinstance(option, tuple) else (option, None)
        parser.add_argument(f"--{name.replace('_', '-')}", help=text, **_option(default))
    return parser


def _option(default: Any) -> dict[str, Any]:
    if default is False:
        return {"action": "store_true"}
    if isinstance(default, type):
        return {"type": default}
    if isinstance(default, list):
        return {"type": type(default[0]), "default": default, "nargs": "+"}
    return {"type": type(default), "default": default}


def report(options: argparse.Namespace, title: str, body: str, figures: object = None) -> None:
    """Print the report, and write it to the files of `--results` and `--json`."""
    print(f"{machine()}; load {load_average():.1f}\n\n{body}")
    if options.results:
        spec = sys.modules["__main__"].__spec__
        program = spec.name if spec else Path(sys.argv[0]).stem
        append_results(
            options.results, title, " ".join(["python -m", program, *sys.argv[1:]]), body
        )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def machine() -> str:
    """Return the processor, cores, memory, kernel and Python version."""
    model = re.search(r"^model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return (
        f"{model[1] if model else 'unknown processor'}, {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def load_average() -> float:
    """Return the load over one minute; above the number of cores, figures are unreliable."""
    return os.getloadavg()[0]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def append_results(path: Path, title: str, command: str, body: str) -> None:
    """Append a dated section to a results file: title, machine, command, body."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    header = "# Results\n\nNewest last; each section has its machine and its command.\n"
    before = path.read_text() if path.exists() else header
    path.write_text(
        f"{before.rstrip()}\n\n## {title}, {date}\n\n{machine()}; load {load_average():.1f}\n\n"
        f"`{command}`\n\n{body}\n"
    )
