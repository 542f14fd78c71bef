"""What `bench.soak` measures beside the readers: memory, handles and CPU of each process of a
daemon, by role, and the workspace's size.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from lycosa.core.errors import LycosaError
from lycosa.store.log.entry import MERGE
from lycosa.store.log.state import LogState
from lycosa.store.workspace import Workspace

DAEMON = "daemon"
_PREFIX = "lycosa "
_MEMORY = re.compile(r"^(RssAnon|RssFile):\s+(\d+) kB$", re.MULTILINE)
_DISK_EVERY = 6  # samples


@dataclass(slots=True, frozen=True)
class Sample:
    """One process at one moment. Memory in MB (10^6 bytes): `anon_mb` is its own, `file_mb` what it
    has mapped of files.
    """

    at_ms: int
    role: str
    pid: int
    anon_mb: float
    file_mb: float
    handles: int
    threads: int
    cpu_s: float


@dataclass(slots=True, frozen=True)
class Held:
    """The workspace at one moment; `disk_mb` and `files` are counted once a minute, 0 between."""

    at_ms: int
    disk_mb: float
    files: int
    pages: int
    visits: int
    log_head: int
    merges: int
    urls: int
    load: float  # of the machine


def role_of(process: psutil.Process, daemon: int) -> str:
    """daemon, pages, index, coordinator, worker-1 …, upkeep and so on; "" for helpers of the
    standard library.
    """
    if process.pid == daemon:
        return DAEMON
    name = Path(f"/proc/{process.pid}/comm").read_text().strip()
    if name.startswith(_PREFIX):
        found = name.removeprefix(_PREFIX)
        return "coordinator" if "coordinator".startswith(found) and len(found) > 4 else found
    return "" if any("resource_tracker" in part for part in process.cmdline()) else "starting"


def family(daemon: int) -> dict[int, str]:
    """The living processes of a daemon with their roles."""
    found = {}
    with suppress(psutil.Error, OSError):
        top = psutil.Process(daemon)
        for process in (top, *top.children(recursive=True)):
            with suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE and (role := role_of(process, daemon)):
                    found[process.pid] = role
    return found


def sample(pid: int, role: str, at_ms: int) -> Sample:
    """Raises psutil.Error, OSError: it is gone."""
    process = psutil.Process(pid)
    memory = dict(_MEMORY.findall(Path(f"/proc/{pid}/status").read_text()))
    used = process.cpu_times()
    sizes = [round(int(memory.get(name, 0)) * 1024 / 1e6, 2) for name in ("RssAnon", "RssFile")]
    return Sample(
        at_ms,
        role,
        pid,
        sizes[0],
        sizes[1],
        process.num_fds(),
        process.num_threads(),
        round(used.user + used.system, 2),
    )


def disk_use(root: str) -> tuple[float, int]:
    """MB and number of all files below a folder that changes meanwhile."""
    total = count = 0
    waiting = [root]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
                        count += 1
    return round(total / 1e6, 2), count


class Sampler:
    """Samples every `every_s` seconds in a thread of its own, into `samples.jsonl` and
    `held.jsonl`; a context manager.
    """

    def __init__(
        self, folder: Path, root: Path, daemon: Callable[[], int], every_s: float = 10.0
    ) -> None:
        self._folder, self._root, self._daemon, self._every_s = folder, root, daemon, every_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._state: LogState | None = None
        self._merges = 0

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        with (
            (self._folder / "samples.jsonl").open("a") as samples,
            (self._folder / "held.jsonl").open("a") as held,
        ):
            while not self._ending.wait(self._every_s):
                now = time.time_ns() // 1_000_000
                for pid, role in family(self._daemon()).items():
                    with suppress(psutil.Error, OSError):
                        samples.write(json.dumps(asdict(sample(pid, role, now))) + "\n")
                with suppress(LycosaError, OSError):
                    held.write(
                        json.dumps(asdict(self._held(now, disk=number % _DISK_EVERY == 0))) + "\n"
                    )
                samples.flush()
                held.flush()
                number += 1

    def _held(self, now: int, *, disk: bool) -> Held:
        size, files = disk_use(str(self._root)) if disk else (0.0, 0)
        if self._state is None:
            self._state = LogState(Workspace.open(str(self._root)).log)
        self._merges += sum(entry.kind == MERGE for entry in self._state.refresh())
        counters = self._state.counters
        rows = sum(file.rows for file in self._state.files.get("urls", []))
        pages, visits = counters.get("pages", 0), counters.get("visits", 0)
        return Held(
            now,
            size,
            files,
            pages,
            visits,
            self._state.head,
            self._merges,
            rows,
            round(os.getloadavg()[0], 2),
        )
