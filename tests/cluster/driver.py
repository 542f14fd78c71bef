"""A crawl on several workers by the command line, and hands on its processes: who is alive, kill,
stop, let go on.
"""

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
from tests.crawl.polite import ServedWeb
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
    engine: Sequence[str]  # the options that choose it
    settings: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)  # beside this process's own
    python: Sequence[str] = (sys.executable,)  # the words that start it
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
            below = self.descendants()
            self.process.kill()
            self.process.communicate()
            for each in below:  # one that a test has stopped does not see its parent's end
                with suppress(psutil.NoSuchProcess):
                    each.kill()

    def descendants(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.process.pid).children(recursive=True))
        return []

    def status(self) -> dict[str, Any]:
        """What the coordinator wrote last; empty before."""
        return cluster_status(str(self.workspace)) or {}

    def coordinator(self) -> int:
        """The process that leads, as far as is known; 0 if it is no more, or there was none yet."""
        pid = process_id(str(self.status().get("leader", "")))
        return pid if psutil.pid_exists(pid) else 0

    def workers(self) -> list[int]:
        """The living processes of the workers that hold partitions."""
        pids = [
            process_id(str(each["worker"]))
            for each in self.status().get("workers", [])
            if each["claim"]
        ]
        return [pid for pid in pids if psutil.pid_exists(pid)]

    def await_work(self, enough: int, limit_s: float = START_LIMIT_S) -> None:
        """Until the server was asked so many times."""
        self.until(lambda: len(self.served.requests()) >= enough, limit_s)

    def until(self, true: Callable[[], object], limit_s: float) -> None:
        """Until something is true, or the crawl has ended."""
        until(lambda: true() or self.over, limit_s, messages=self.last_errors)

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def finish(self, limit_s: float = END_LIMIT_S) -> dict[str, Any]:
        """Wait for the end; what it printed."""
        try:
            output, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"the crawl does not end: {self.status()}; {self.last_errors()}"
            ) from None
        assert self.process.returncode == 0, self.last_errors()
        time.sleep(0.4)  # the server writes its log ten times a second
        try:
            printed: dict[str, Any] = json.loads(output)
        except json.JSONDecodeError:
            raise AssertionError(
                f"its output is no JSON document: {output[:2_000]!r}; {self.last_errors()}"
            ) from None
        return printed

    def last_errors(self) -> str:
        """The last of what it wrote to stderr."""
        return Path(self._errors.name).read_text()[-3_000:]


def process_id(name: str) -> int:
    """The process in a name as `local-host-123` or `worker-1-host-123-9f3a`."""
    match = _PID.search(name)
    return int(match[1]) if match else 0


def kill(pid: int) -> int:
    """SIGKILL, if it is still there; the time at which it was sent."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).kill()
    return now_ms()


def pause(pid: int, for_s: float) -> tuple[int, int]:
    """SIGSTOP, a sleep, SIGCONT: whoever it is, is cut off. The times of both."""
    begun = now_ms()
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.suspend()
        time.sleep(for_s)
        process.resume()
    return begun, now_ms()


def die(cluster: RayCluster, node: Any) -> int:
    """Kill a node and everything on it; when, in ms since 1970."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    for process in [raylet, *raylet.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    at = now_ms()
    cluster.kill(node)
    return at
