"""A crawl of the synthetic web by the command line, killed again and again, and what it looked like to the servers.

The web runs in a process of its own, so its log goes on over every kill. An answer that the robot did not live to take note of
is in the log and not in the tables; all others have exactly one visit.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from lycosa.store.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.kills import LYCOSA
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.politeness import Rules
from tests.servers.synthetic.request_log import Logged, read_log
from tests.servers.synthetic.web import Web

DELAY_MS, COURTESY, BACKOFF_MS, PLACES = 300, 2.0, 1_000, 2
SETTINGS = f"""
[crawl]
patience = "2s"
commit_pages = 400
commit_interval = "1s"

[fetch]
connections = 200
first_byte_timeout = "5s"
total_timeout = "20s"
slow_time = "4s"
retry_wait = "1s"
connect_to = CONNECT_TO

[[collection]]
name = "default"
scope = "any"
delay = "{DELAY_MS}ms"
courtesy_factor = {COURTESY}
backoff = "{BACKOFF_MS}ms"
connections = 200
domain_connections = {PLACES}
address_connections = 256
"""

_STARTS_S = 60.0
_LOG_SETTLES_S = 0.5  # the server writes its log ten times a second


@dataclass
class ServedWeb:
    """A synthetic web that a process of its own serves."""

    web: Web
    log: Path
    connect_to: list[str]
    seeds: list[str]

    def requests(self) -> list[Logged]:
        return list(read_log(self.log))


@contextmanager
def served_web(folder: Path, *arguments: str) -> Iterator[ServedWeb]:
    """`arguments` as for `python -m tests.servers.synthetic`."""
    options = [*arguments, "--epoch-ms", str(time.time_ns() // 1_000_000), "--log", str(folder / "requests.log")]
    process = subprocess.Popen([sys.executable, "-m", "tests.servers.synthetic", *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield ServedWeb(Web(read_plan(options_parser().parse_args(options))), folder / "requests.log", ready["connect_to"], ready["seeds"])
    finally:
        process.terminate()
        process.communicate(timeout=20)


@dataclass
class KilledRobot:
    """A crawl in a workspace that was started as often as it was killed, and once more. Times are ms since 1970."""

    served: ServedWeb
    workspace: Path
    kills: list[int] = field(default_factory=list)

    def start(self, *more: str) -> subprocess.Popen[str]:
        self.workspace.mkdir(exist_ok=True)
        settings = SETTINGS.replace("CONNECT_TO", json.dumps(self.served.connect_to))
        (self.workspace / "lycosa.toml").write_text(settings, encoding="utf-8")
        command = [str(LYCOSA), "-w", str(self.workspace), "crawl", self.served.seeds[0], "--quiet", "--json", "--no-index", *more]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill_in_work(self, chance: random.Random, longest_s: float) -> bool:
        """Start, let it fetch for a while, kill. False: it ended by itself."""
        size = self.served.log.stat().st_size
        process = self.start()
        deadline = time.monotonic() + _STARTS_S
        while self.served.log.stat().st_size == size and process.poll() is None:
            assert time.monotonic() < deadline, "the robot fetches nothing"
            time.sleep(0.02)
        try:
            _, errors = process.communicate(timeout=chance.uniform(0.1, longest_s))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            self.kills.append(time.time_ns() // 1_000_000)
            process.communicate()
            return True
        assert process.returncode == 0, errors
        return False

    def finish(self, max_time: str) -> dict[str, object]:
        """Let it fetch to its end, or for some time."""
        output, errors = self.start("--max-time", max_time).communicate()
        time.sleep(_LOG_SETTLES_S)
        progress: dict[str, object] = json.loads(output) if output else {}
        assert progress, errors
        return progress

    def rules(self, unseen: frozenset[Logged]) -> Rules:
        """What this robot promises."""
        return Rules(
            self.served.web,
            delay_ms=DELAY_MS,
            courtesy_factor=COURTESY,
            backoff_ms=BACKOFF_MS,
            backoff_statuses=frozenset({429, 502, 503, 504}),
            domain_places=PLACES,
            domain_rest=True,
            unseen=unseen,
        )

    def unseen(self, log: Sequence[Logged]) -> tuple[frozenset[Logged], dict[str, int]]:
        """The requests that no visit tells of; and by URL how many requests too many fell into the time of one visit."""
        frame = (
            LiveTables(Workspace.open(str(self.workspace))).scan("visits").select("url", pl.col("fetched_at").cast(pl.Int64), "duration_ms")
        )
        visits: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for url, at_ms, duration_ms in frame.collect().sort("fetched_at").iter_rows():
            visits[url].append((at_ms - CLOCKS_MS, at_ms + duration_ms + CLOCKS_MS))
        lost = []
        used: dict[str, set[int]] = defaultdict(set)
        repeated: dict[str, int] = defaultdict(int)
        for request in log:
            url = f"http://{request.host}{request.path}"
            place = bisect_left(visits[url], (request.arrived_at_ms + 1,)) - 1
            if place < 0 or visits[url][place][1] < request.arrived_at_ms:
                lost.append(request)
            elif place in used[url]:
                repeated[url] += 1
            used[url].add(place)
        return frozenset(lost), dict(repeated)


CLOCKS_MS = 5
"""How far the robot's and the server's dates of the same moment may lie apart: both are whole milliseconds of one clock."""
