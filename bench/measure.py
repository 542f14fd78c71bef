"""Measuring helpers that the benchmarks share: CPU, wall time and memory of a process tree, medians, the machine.

CPU seconds are user + system of the process and of every descendant it waited for, from `wait4`. They vary far less than
wall time on a shared machine, but a busy sibling core still costs 10 to 15 %: compare only runs that alternate.
"""

from __future__ import annotations

import os
import platform
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

SAMPLE_INTERVAL_S = 0.1
MEGABYTE = 1e6


@dataclass(frozen=True)
class Usage:
    """What a command cost. Memory in MB (10^6 bytes)."""

    user_s: float
    system_s: float
    wall_s: float
    peak_rss_mb: float  # the largest process of the tree, exact, from the kernel
    tree_rss_mb: float  # the sum over the tree, sampled ten times a second; pages that processes share count in each
    exit_code: int  # negative: the signal that ended it

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


class CommandTimeout(Exception):
    """A measured command ran over its limit and was killed."""


def measure(
    command: Sequence[str | os.PathLike[str]],
    *,
    output: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 1800.0,
) -> Usage:
    """Run a command to its end; its standard output and error go to `output`.

    The measuring process should be small: a child counts its parent's resident memory until it executes the program.

    Raises:
        CommandTimeout: it ran longer than `limit_s`.
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
        sampler = _Sampler(process.pid, start + limit_s)
        sampler.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)  # `wait4` has reaped it: Popen must not wait again
    sampler.stop()
    if sampler.timed_out:
        raise CommandTimeout(f"{command[0]} was killed after {limit_s:.0f} s; its output is in {output}")
    return Usage(
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        wall_s=wall,
        peak_rss_mb=usage.ru_maxrss * 1024 / MEGABYTE,
        tree_rss_mb=max(sampler.peak, usage.ru_maxrss * 1024) / MEGABYTE,
        exit_code=process.returncode,
    )


class _Sampler(threading.Thread):
    """Sums the resident memory of a process tree, and kills its session at the deadline."""

    def __init__(self, pid: int, deadline: float) -> None:
        super().__init__(daemon=True)
        self._pid, self._deadline = pid, deadline
        self._stopped = threading.Event()
        self.peak = 0
        self.timed_out = False

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_INTERVAL_S):
            try:
                root = psutil.Process(self._pid)
                self.peak = max(self.peak, sum(_rss(process) for process in (root, *root.children(recursive=True))))
            except psutil.NoSuchProcess:
                return
            if time.perf_counter() > self._deadline and not self.timed_out:
                self.timed_out = True
                os.killpg(self._pid, signal.SIGKILL)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _rss(process: psutil.Process) -> int:
    try:
        size: int = process.memory_info().rss
    except psutil.Error:  # it ended between the listing and the reading
        return 0
    return size


def cpu_ms(function: Callable[[], object], repeat: int = 5) -> float:
    """Median CPU milliseconds of a call in this process, all its threads included."""
    readings = []
    for _ in range(repeat):
        start = time.process_time_ns()
        function()
        readings.append((time.process_time_ns() - start) / 1e6)
    return statistics.median(readings)


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median of the ratios pair by pair: what disturbs one round of alternating runs disturbs both of its halves."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def quantile(values: Iterable[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, by the nearest rank; the values must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]


def machine() -> str:
    """One line: processor, cores, memory, kernel, Python."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, Python {platform.python_version()}"


def load_average() -> float:
    """Processes that wanted to run over the last minute: above the number of cores, figures suffer."""
    return os.getloadavg()[0]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def append_results(path: Path, title: str, command: str, body: str) -> None:
    """Add a dated section to a results file: title, machine, command, then `body` as it stands."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    section = f"## {title}, {date}\n\n{machine()}; load {load_average():.1f}\n\n`{command}`\n\n{body}\n"
    before = path.read_text() if path.exists() else "# Results\n\nNewest last; each section names its machine and its command.\n"
    path.write_text(f"{before.rstrip()}\n\n{section}")
