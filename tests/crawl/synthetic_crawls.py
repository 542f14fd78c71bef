"""Killed crawls of the synthetic web, and the requests its servers saw.

The web runs in its own process, so its log continues over every kill. A response that arrived
shortly before a kill may be in the log but not in the tables. All others have exactly one visit.
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

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.records import Exchange
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.worker import Limits
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.kills import LYCOSA
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.politeness import Rules
from tests.servers.synthetic.request_log import LogEntry, read_log
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web
from tests.waiting import until

DELAY_MS, COURTESY, BACKOFF_MS, DOMAIN_CONNECTIONS = 300, 2.0, 1_000, 2
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
domain_connections = {DOMAIN_CONNECTIONS}
address_connections = 256
"""

_STARTS_S = 60.0
_LOG_SETTLES_S = 0.4  # the server writes its log ten times a second


@dataclass
class ServedWeb:
    """A synthetic web that a separate process serves."""

    web: Web
    log: Path
    connect_to: list[str]
    seeds: list[str]

    def requests(self) -> list[LogEntry]:
        return list(read_log(self.log))


@contextmanager
def served_web(folder: Path, *arguments: str) -> Iterator[ServedWeb]:
    """Serve a web; arguments as for `python -m tests.servers.synthetic`."""
    options = [
        *arguments,
        "--epoch-ms",
        str(time.time_ns() // 1_000_000),
        "--log",
        str(folder / "requests.log"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.synthetic", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield ServedWeb(
            Web(read_plan(options_parser().parse_args(options))),
            folder / "requests.log",
            ready["connect_to"],
            ready["seeds"],
        )
    finally:
        process.terminate()
        process.communicate(timeout=20)


@dataclass
class KilledCrawler:
    """A crawler process that is killed and restarted in one workspace.

    Times are in milliseconds since 1970.
    """

    served: ServedWeb
    workspace: Path
    kills: list[int] = field(default_factory=list)
    # ends of all runs: a regular stop aborts slow requests too
    ends: list[int] = field(default_factory=list)

    def start(self, *more: str) -> subprocess.Popen[str]:
        self.workspace.mkdir(exist_ok=True)
        settings = SETTINGS.replace("CONNECT_TO", json.dumps(self.served.connect_to))
        (self.workspace / "lycosa.toml").write_text(settings, encoding="utf-8")
        command = [
            str(LYCOSA),
            "-w",
            str(self.workspace),
            "crawl",
            self.served.seeds[0],
            "--quiet",
            "--json",
            "--no-index",
            *more,
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_and_kill(self, chance: random.Random, longest_s: float) -> bool:
        """Start, let it fetch for a random time, then kill.

        Returns False if the crawl finished before.
        """
        time.sleep(_LOG_SETTLES_S)
        size = self.served.log.stat().st_size
        process = self.start()
        until(
            lambda: self.served.log.stat().st_size != size or process.poll() is not None,
            _STARTS_S,
            messages=lambda: "the crawler sends no request",
        )
        try:
            _, errors = process.communicate(timeout=chance.uniform(0.1, longest_s))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            self.kills.append(time.time_ns() // 1_000_000)
            self.ends.append(self.kills[-1])
            process.communicate()
            return True
        assert process.returncode == 0, errors
        return False

    def finish(self, max_time: str) -> dict[str, object]:
        """Crawl until the end or for `max_time`; return the progress."""
        output, errors = self.start("--max-time", max_time).communicate()
        self.ends.append(time.time_ns() // 1_000_000)
        time.sleep(_LOG_SETTLES_S)
        progress: dict[str, object] = json.loads(output) if output else {}
        assert progress, errors
        return progress

    def mark_timeouts(self, log: Sequence[LogEntry]) -> list[LogEntry]:
        """Mark requests that ended by a first-byte timeout as `left`.

        The crawler closed these connections before a busy server wrote its response.
        """
        visited = (
            LiveTables(Workspace.open(str(self.workspace)))
            .scan("visits")
            .filter(pl.col("error") == "first_byte_timeout")
        )
        given_up: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for url, at_ms, duration_ms in (
            visited.select("url", pl.col("fetched_at").cast(pl.Int64), "duration_ms")
            .collect()
            .iter_rows()
        ):
            given_up[url].append((at_ms - CLOCKS_MS, at_ms + duration_ms + CLOCKS_MS))
        return [
            request._replace(left=True)
            if any(
                start <= request.arrived_at_ms <= end
                for start, end in given_up.get(f"http://{request.host}{request.path}", ())
            )
            else request
            for request in log
        ]


CLOCKS_MS = 5
"""Maximum difference between the crawler's and the server's times of an event, in milliseconds."""


def politeness_rules(
    web: Web,
    unseen: frozenset[LogEntry],
    *,
    delay_ms: int = DELAY_MS,
    courtesy_factor: float = COURTESY,
    domain_slots: int = DOMAIN_CONNECTIONS,
) -> Rules:
    """Return the politeness rules that the crawls of these tests obey."""
    return Rules(
        web,
        delay_ms=delay_ms,
        courtesy_factor=courtesy_factor,
        backoff_ms=BACKOFF_MS,
        backoff_statuses=frozenset({429, 502, 503, 504}),
        domain_slots=domain_slots,
        domain_pause=True,
        unseen=unseen,
        left_slack_ms=1_000,  # the machine may be busy with other tests
    )


def without_visit(
    workspace: Path | str, log: Sequence[LogEntry]
) -> tuple[frozenset[LogEntry], dict[str, int]]:
    """Return the requests without a visit, and repeated requests.

    The second value counts, by URL, the requests beyond the first during one visit.
    """
    visited = LiveTables(Workspace.open(str(workspace))).scan("visits")
    frame = (
        visited.select("url", pl.col("fetched_at").cast(pl.Int64), "duration_ms")
        .collect()
        .sort("fetched_at")
    )
    visits: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for url, at_ms, duration_ms in frame.iter_rows():
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


class _Killed(Exception):
    """The simulated crawler is killed."""


class _DyingFetcher(SimulatedFetcher):
    """Raise `_Killed` at `dies_at`; the finished exchanges are lost.

    `turns` counts the calls of `wait`.
    """

    dies_at = 0
    turns = 0

    def wait(self, timeout_ms: int) -> list[Exchange]:
        self.turns += 1
        finished = super().wait(timeout_ms)
        if self.dies_at and self._clock.now_ms() >= self.dies_at:
            raise _Killed
        return finished


@dataclass
class SimulatedCrawler:
    """Consecutive crawls of a simulated web in one workspace.

    The clock continues from one crawl to the next.
    """

    web: Web
    workspace: Path
    clock: SimulatedClock
    log: list[LogEntry] = field(default_factory=list)
    turns: int = 0  # iterations of the worker loop with requests in flight
    settings: tuple[str, ...] = ()
    collection: dict[str, object] = field(default_factory=dict)

    def crawl(self, *, die_after_ms: int = 0, max_time_ms: int | None = None) -> Progress | None:
        """Crawl until the end or a limit; return None if killed."""
        quick = (
            "crawl.patience=2s",
            "crawl.commit_pages=400",
            "crawl.commit_interval=1s",
            "fetch.connections=200",
            "fetch.retry_wait=1s",
        )
        # No merges: they run in a process with the real clock, for which all files are years old.
        config = parse_config(
            "",
            overrides=(
                *quick,
                "store.merge_commits=1000",
                "fetch.first_byte_timeout=5s",
                "fetch.slow_time=4s",
                *self.settings,
            ),
        )
        chosen = {
            "scope": "any",
            "delay": f"{DELAY_MS}ms",
            "courtesy_factor": COURTESY,
            "backoff": f"{BACKOFF_MS}ms",
            "connections": 200,
            "domain_connections": DOMAIN_CONNECTIONS,
            "address_connections": 256,
            **self.collection,
        }
        fetcher = _DyingFetcher(self.web, self.clock, config.fetch, record=self.log.append)
        fetcher.dies_at = self.clock.now_ms() + die_after_ms if die_after_ms else 0
        limits = Limits(max_time_ms=max_time_ms)
        order = CrawlOrder(
            str(self.workspace),
            config,
            Collection.model_validate(chosen),
            tuple(self.web.seeds()),
            limits,
            index=False,
        )
        try:
            return crawl(order, clock=self.clock, fetcher=fetcher)
        except _Killed:
            return None
        finally:
            self.turns += fetcher.turns


def simulated_crawler(
    web: Web, workspace: Path, *settings: str, **collection: object
) -> SimulatedCrawler:
    return SimulatedCrawler(
        web, workspace, SimulatedClock(web.plan.epoch_ms), settings=settings, collection=collection
    )
