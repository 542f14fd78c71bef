"""Run `lycosa crawl` with an engine, and inspect, kill and pause its processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from lycosa.cluster.status import cluster_status
from tests.cluster.webs import overrides
from tests.crawl.synthetic_crawls import ServedWeb
from tests.engines.clusters import RayCluster
from tests.waiting import until

START_LIMIT_S = 120.0
END_LIMIT_S = 600.0
_PID = re.compile(r"-(\d+)(?:-[0-9a-z]+)?$")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class ClusterCrawl:
    """`lycosa crawl` with an engine, from start to end. Times are ms since 1970."""

    workspace: Path | str
    served: ServedWeb
    engine: Sequence[str]  # command-line options of the engine
    settings: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)  # added to that of this process
    python: Sequence[str] = (sys.executable,)  # command that starts Python
    process: subprocess.Popen[str] = field(init=False)

    def __enter__(self) -> ClusterCrawl:
        command = [
            *self.python,
            "-m",
            "lycosa.cli.main",
            "-w",
            str(self.workspace),
            *overrides(self.served),
            *self.settings,
        ]
        command += ["crawl", self.served.seeds[0], "--quiet", "--json", "--no-index", *self.engine]
        self._errors = tempfile.NamedTemporaryFile("w+", prefix="lycosa-errors-")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **self.environment},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._errors:
            descendants = self.descendants()
            self.process.kill()
            self.process.communicate()
            for process in descendants:  # a suspended process does not notice that its parent ended
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def descendants(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.process.pid).children(recursive=True))
        return []

    def status(self) -> dict[str, Any]:
        """Return the last status of the coordinator, or an empty one."""
        return cluster_status(str(self.workspace)) or {}

    def coordinator(self) -> int:
        """Return the process ID of the last known leader, or 0 if it is not running."""
        pid = process_id(str(self.status().get("leader", "")))
        return pid if psutil.pid_exists(pid) else 0

    def workers(self) -> list[int]:
        """Return the process IDs of running workers that hold partitions."""
        pids = [
            process_id(str(each["worker"]))
            for each in self.status().get("workers", [])
            if each["claim"]
        ]
        return [pid for pid in pids if psutil.pid_exists(pid)]

    def await_requests(self, number: int, limit_s: float = START_LIMIT_S) -> None:
        """Wait until the server has received this many requests, or the crawl has ended."""
        self.until(lambda: len(self.served.requests()) >= number, limit_s)

    def until(self, condition: Callable[[], object], limit_s: float) -> None:
        """Wait until a condition holds, or the crawl has ended."""
        until(lambda: condition() or self.ended, limit_s, messages=self.last_errors)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def finish(self, limit_s: float = END_LIMIT_S) -> dict[str, Any]:
        """Wait for the end of the crawl. Return the JSON document that it printed."""
        try:
            output, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"the crawl did not end: {self.status()}; {self.last_errors()}"
            ) from None
        assert self.process.returncode == 0, self.last_errors()
        time.sleep(0.4)  # the server writes its log ten times per second
        try:
            printed: dict[str, Any] = json.loads(output)
        except json.JSONDecodeError:
            raise AssertionError(
                f"the output is not a JSON document: {output[:2_000]!r}; {self.last_errors()}"
            ) from None
        return printed

    def last_errors(self) -> str:
        """Return the end of the standard error output."""
        return Path(self._errors.name).read_text()[-3_000:]


def process_id(name: str) -> int:
    """Return the process ID in a name such as `worker-1-host-123-9f3a`, or 0."""
    match = _PID.search(name)
    return int(match[1]) if match else 0


def kill(pid: int) -> int:
    """Send SIGKILL to a process if it exists. Return the time."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).kill()
    return now_ms()


def pause(pid: int, for_s: float) -> tuple[int, int]:
    """Suspend a process and resume it. Return the times of both."""
    suspended_at = now_ms()
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.suspend()
        time.sleep(for_s)
        process.resume()
    return suspended_at, now_ms()


def kill_node(cluster: RayCluster, node: Any) -> int:
    """Kill all processes of a node. Return the time."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    for process in [raylet, *raylet.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    at = now_ms()
    cluster.kill(node)
    return at
