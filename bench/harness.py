"""Measure commands and functions, compare contenders and report the figures.

`measure` runs a command; `alternate` and `comparison` compare functions in alternating rounds;
`arguments` and `report` are the command line and the output that all benchmarks share. CPU seconds of a command include its descendants. They vary far less than wall time on a shared machine, but a
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

SAMPLE_INTERVAL_S = 0.05
MEGABYTE = 1e6

_SIZE = re.compile(r"^(VmRSS|VmHWM|RssAnon):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Usage:
    """Resources used by a command. Memory in MB (10^6 bytes)."""

    user_s: float
    system_s: float
    wall_s: float
    peak_rss_mb: float  # the largest process of the tree: its high-water mark
    # the largest sum over the tree at one moment; pages that processes share count in each
    tree_rss_mb: float
    tree_anonymous_mb: float  # the same without mapped files, which the kernel can drop
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
    stop: Callable[[int], object] = lambda _: False,
) -> Usage:
    """Run a command to its end; its standard output and error go to `output`.

    It is killed with all its descendants once `stop`, given the resident bytes of the tree, is true.

    Memory is read from /proc twenty times a second, not taken from `wait4`, whose maximum includes
    this process's own memory at the moment of the fork.

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
        sampler = _Sampler(process.pid, start + limit_s, stop)
        sampler.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    # `wait4` has reaped it: Popen must not wait again
    process.returncode = os.waitstatus_to_exitcode(status)
    sampler.stop()
    if sampler.timed_out:
        raise CommandTimeout(
            f"{command[0]} was killed after {limit_s:.0f} s; its output is in {output}"
        )
    return Usage(
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        wall_s=wall,
        peak_rss_mb=sampler.peak / MEGABYTE,
        tree_rss_mb=max(sampler.tree_peak, sampler.peak) / MEGABYTE,
        tree_anonymous_mb=sampler.anonymous_peak / MEGABYTE,
        exit_code=process.returncode,
    )


class _Sampler(threading.Thread):
    """Reads the resident memory of a process tree, in bytes, and kills the tree at the deadline or
    when it is told to stop.
    """

    def __init__(self, pid: int, deadline: float, stop: Callable[[int], object]) -> None:
        super().__init__(daemon=True)
        self._pid, self._deadline, self._until = pid, deadline, stop
        self._stopped = threading.Event()
        self.peak = self.tree_peak = self.anonymous_peak = 0
        self.timed_out = False

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_INTERVAL_S):
            try:
                tree = _tree(self._pid)
            except psutil.NoSuchProcess:
                return
            sizes = [_resident(process.pid) for process in tree]
            self.peak = max(self.peak, *(high for _, high, _ in sizes))
            size = sum(now for now, _, _ in sizes)
            self.tree_peak = max(self.tree_peak, size)
            self.anonymous_peak = max(self.anonymous_peak, sum(each[2] for each in sizes))
            self.timed_out = self.timed_out or time.perf_counter() > self._deadline
            if self.timed_out or self._until(size):
                with suppress(psutil.NoSuchProcess):
                    tree = _tree(self._pid)  # as it is by now
                for process in tree:  # not its process group: browsers have groups of their own
                    with suppress(psutil.NoSuchProcess):
                        process.kill()

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _tree(pid: int) -> list[psutil.Process]:
    """Return a process and then its descendants, which must not be killed before it.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _resident(pid: int) -> tuple[int, int, int]:
    """Resident bytes of a process now, at their highest since it executed its program, and those
    of now that are not of a file; zeros when it has ended.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0, 0
    sizes = {name: int(size) * 1024 for name, size in _SIZE.findall(status)}
    return sizes.get("VmRSS", 0), sizes.get("VmHWM", 0), sizes.get("RssAnon", 0)


def cpu_ms(function: Callable[[], object], repeat: int = 5) -> float:
    """Median CPU milliseconds of a call in this process, all its threads included."""
    readings = []
    for _ in range(repeat):
        start = time.process_time_ns()
        function()
        readings.append((time.process_time_ns() - start) / 1e6)
    return statistics.median(readings)


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median of the ratios pair by pair: what disturbs one round of alternating runs disturbs both
    of its halves.
    """
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def quantile(values: Iterable[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, by the nearest rank; the values
    must not be empty.
    """
    ordered = sorted(values)
    rank = math.ceil(round(share * len(ordered), 9))  # rounded: 0.07 * 100 is a little over 7
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call, all threads of this process included."""
    start = time.process_time()
    work()
    return time.process_time() - start


def alternate(contenders: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """Call all contenders `runs` times, every second round in reverse; return their readings."""
    readings: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(runs):
        names = list(contenders)
        for name in reversed(names) if number % 2 else names:
            readings[name].append(contenders[name]())
    return readings


def comparison(readings: Mapping[str, Sequence[float]], baseline: str, unit: str) -> str:
    """Return a Markdown table: median, lowest, highest, and the median ratio to the baseline."""
    rows = [
        (
            name,
            f"{statistics.median(values):,.4g}",
            f"{min(values):,.4g}",
            f"{max(values):,.4g}",
            f"{median_ratio(values, readings[baseline]):.2f}",
        )
        for name, values in readings.items()
    ]
    return table((unit, "median", "lowest", "highest", f"ratio to {baseline}"), rows)


def arguments(description: str | None, runs: int = 3, **options: object) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark: --runs, --json, --results.

    `options`: more options by name, each with its default, or with (default, help). False makes
    it a flag; the type of other defaults is the type of the option.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=runs, help=f"rounds (default {runs})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append the report to it")
    for name, option in options.items():
        default, text = option if isinstance(option, tuple) else (option, None)
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true", help=text)
        else:
            parser.add_argument(flag, type=type(default), default=default, help=text)
    return parser


def report(options: argparse.Namespace, title: str, body: str, figures: object = None) -> None:
    """Print the report, and write it where `--results` and `--json` say."""
    print(f"{machine()}; load {load_average():.1f}\n\n{body}")
    if options.results:
        append_results(options.results, title, command_line(), body)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def command_line() -> str:
    """Return the command of this process as a user types it."""
    spec = sys.modules["__main__"].__spec__
    return " ".join(["python -m", spec.name if spec else Path(sys.argv[0]).stem, *sys.argv[1:]])


def machine() -> str:
    """One line: processor, cores, memory, kernel, Python."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def load_average() -> float:
    """Return the load over one minute; above the number of cores, figures are unreliable."""
    return os.getloadavg()[0]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def append_results(path: Path, title: str, command: str, body: str) -> None:
    """Add a dated section to a results file: title, machine, command, then `body`."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    section = (
        f"## {title}, {date}\n\n{machine()}; load {load_average():.1f}\n\n`{command}`\n\n{body}\n"
    )
    before = (
        path.read_text()
        if path.exists()
        else "# Results\n\nNewest last; each section names its machine and its command.\n"
    )
    path.write_text(f"{before.rstrip()}\n\n{section}")
