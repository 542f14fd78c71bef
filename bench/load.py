"""Readers and writers during a crawl: errors, latency, and the loss of crawl speed.

    python -m bench.load [--readers 200] [--writers 20] [--every 4] [--seconds 60] [--runs 2]
    [--hosts 60] [--processes 1] [--warm-up 60]

`lycosa run --serve` crawls a synthetic web as fast as politeness allows. Times with and without
load alternate. Each reader requests the search page or the API, then waits `--every` seconds on
average. Each writer submits URLs, adds and removes watches and monitors, pauses and resumes a
collection, and sometimes excludes a host. Everything runs on this machine, the web and the clients
too. Exit code 1: an error, a 99th percentile above half a second, a crawl below four fifths of its
rate, or a rate without load that varies too much.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.web import Web

from bench.daemon import Daemon, Reader, Response, family, random_request, sample, synthetic_web
from bench.harness import arguments, lycosa, quantile, quantiles, report, table

MAX_MS = 500.0
MIN_SHARE = 0.8
MIN_STEADY = 0.8  # slowest to fastest time without load
_PROFILE = (
    "courtesy_factor = 0\nconnections = 100\ndomain_connections = 64\naddress_connections "
    "= 0\ntraps = false\n"
)
"""Of both collections: a worker applies the strictest settings of its collections."""
_SUCCESS = frozenset({200, 201, 202, 204})
_READS = frozenset({"suggest", "page", "api", "facets"})


@dataclass(slots=True)
class Time:
    """An interval with or without load; CPU seconds by role; `pages`: responses of the web."""

    name: str
    seconds: float = 0.0
    pages: int = 0
    cpu_s: dict[str, float] = field(default_factory=dict)
    responses: list[Response] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.pages / self.seconds

    def by_kind(self) -> dict[str, list[Response]]:
        """Return the responses to reads and to writes."""
        groups: defaultdict[str, list[Response]] = defaultdict(list)
        for each in self.responses:
            groups["read" if each.kind in _READS else "write"].append(each)
        return groups

    @property
    def crawl_cpu_ms(self) -> float:
        """CPU of worker and indexer per page."""
        crawl_s = self.cpu_s.get("worker", 0.0) + self.cpu_s.get("index", 0.0)
        return crawl_s * 1000 / max(self.pages, 1)


class Writer:
    """A client that changes watches, monitors and collections."""

    def __init__(self, reader: Reader, token: str, hosts: list[str], number: int) -> None:
        self._reader, self._hosts, self._number = reader, hosts, number
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._watch = self._monitor = ""

    def write(self, generator: random.Random) -> tuple[str, int]:
        """Send one change; return its kind and the status."""
        draw = generator.random()
        if draw < 0.6:
            hosts = generator.choices(self._hosts, k=generator.randint(1, 3))
            body = {"urls": [f"http://{host}/" for host in hosts], "collection": "load"}
            return "submit", self._send("POST", "urls", body)[0]
        if draw < 0.75:
            if self._watch:
                removed, self._watch = self._watch, ""
                return "unwatch", self._send("DELETE", f"watches/{removed}")[0]
            body = {"texts": [f"word {generator.random()}"], "name": f"w{self._number}"}
            status, watch = self._send("POST", "watches", body)
            self._watch = watch.get("id", "")
            return "watch", status
        if draw < 0.85:
            if self._monitor:
                removed, self._monitor = self._monitor, ""
                return "unmonitor", self._send("DELETE", f"uptime?url={removed}")[0]
            host = self._hosts[self._number % len(self._hosts)]
            self._monitor = f"http://{host}/?monitor={generator.random()}"
            body = {"url": self._monitor, "every": "10m"}
            return "monitor", self._send("POST", "uptime", body)[0]
        if draw < 0.99:
            action = generator.choice(("pause", "resume"))
            return action, self._send("POST", f"collections/aside/{action}")[0]
        body = {"rules": [f"host:gone-{self._number}.test"]}
        return "exclude", self._send("POST", "exclusions", body)[0]

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        data = json.dumps(body).encode() if body is not None else None
        status, response = self._reader.send(f"/api/v1/{path}", method, data, self._headers)
        with contextlib.suppress(ValueError):
            document = json.loads(response)
            return status, document if isinstance(document, dict) else {}
        return status, {}


class Clients:
    """Threads that send a request and wait, periodically; a context manager."""

    def __init__(self, every_s: float, record: Callable[[Response], None]) -> None:
        self._every_s, self._record = every_s, record
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, seed: int, send: Callable[[random.Random], tuple[str, int]]) -> None:
        run = partial(self._run, random.Random(seed), send)
        self._threads.append(threading.Thread(target=run, daemon=True))

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _run(
        self, generator: random.Random, send: Callable[[random.Random], tuple[str, int]]
    ) -> None:
        wait_s = generator.uniform(0, self._every_s)
        while not self._ending.wait(wait_s):
            start = time.time()
            kind, status = send(generator)
            self._record(Response(round(start * 1000), (time.time() - start) * 1000, status, kind))
            wait_s = generator.expovariate(1 / self._every_s) if self._every_s else 0.0


@dataclass(slots=True, frozen=True)
class Load:
    """The number of clients, and their mean pause in seconds."""

    readers: int
    writers: int
    every_s: float


class Bench:
    """Measures a daemon and the web that it crawls."""

    def __init__(self, daemon: Daemon, log: Path, token: str, hosts: list[str]) -> None:
        self._daemon, self._log, self._token, self._hosts = daemon, log, token, hosts

    def measure(self, name: str, seconds: float, load: Load | None, seed: int) -> Time:
        responses: list[Response] = []
        clients = Clients(load.every_s if load else 1.0, responses.append)
        if load is not None:
            for number in range(load.readers):
                clients.add(seed + number, partial(_read, Reader(self._daemon.port)))
            for number in range(load.writers):
                reader = Reader(self._daemon.port)
                writer = Writer(reader, self._token, self._hosts, number)
                clients.add(seed + 10_000 + number, writer.write)
        before, mark, start = self._cpu(), self._requests(), time.monotonic()
        with clients:
            time.sleep(seconds)
            after, pages = self._cpu(), self._requests() - mark
            elapsed_s = time.monotonic() - start
        cpu_s: defaultdict[str, float] = defaultdict(float)
        for pid, (role, total_s) in after.items():
            cpu_s[role] += total_s - before.get(pid, (role, 0.0))[1]
        return Time(name, elapsed_s, pages, dict(cpu_s), responses)

    def _cpu(self) -> dict[int, tuple[str, float]]:
        times = {}
        for pid, role in family(self._daemon.pid).items():
            with contextlib.suppress(psutil.Error, OSError):
                times[pid] = role, sample(pid, role, 0).cpu_s
        return times

    def _requests(self) -> int:
        with self._log.open("rb") as lines:
            return sum(1 for _ in lines)


def _read(reader: Reader, generator: random.Random) -> tuple[str, int]:
    kind, path = random_request(generator)
    return kind, reader.send(path)[0]


@contextlib.contextmanager
def crawled_web(folder: Path, hosts: int, pages: int, processes: int) -> Iterator[Bench]:
    """Serve a web without errors, and run a daemon that crawls it and serves."""
    log = folder / "requests.log"
    options = ["--calm", "--hosts", str(hosts), "--pages", str(pages), "--log", str(log)]
    options += ["--set", "static=1.0", "--set", "size_exponent=0", "--set", "latency_ms=20"]
    names = [
        host.name for host in Web(read_plan(options_parser().parse_args(options))).open_hosts()
    ]
    with synthetic_web(options) as web:
        daemon = Daemon(folder, workers=1)
        daemon.workspace.mkdir()
        seeds = json.dumps([f"http://{name}/" for name in names])
        (daemon.workspace / "lycosa.toml").write_text(
            f"[fetch]\nconnect_to = {json.dumps(web['connect_to'])}\n"
            f"[serve]\nprocesses = {processes}\nwrites = 100000\n"
            f'[[collection]]\nname = "load"\nseeds = {seeds}\nscope = "any"\n{_PROFILE}'
            f'[[collection]]\nname = "aside"\nseeds = ["http://aside.test/"]\n{_PROFILE}'
        )
        daemon.start()
        try:
            daemon.wait()
            command = lycosa(daemon.workspace, "token", "add", "load")
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            yield Bench(daemon, log, output.split()[-1], names)
        finally:
            daemon.stop()


def main() -> int:
    options = arguments(
        __doc__,
        runs=2,
        readers=200,
        writers=20,
        every=(4.0, "mean pause of each client, in seconds"),
        seconds=(60.0, "length of each interval with or without load"),
        hosts=60,
        processes=(1, "number of server processes"),
        warm_up=(60.0, "seconds of crawling before the first interval"),
    ).parse_args()
    load = Load(options.readers, options.writers, options.every)
    total_s = options.warm_up + (2 * options.runs + 1) * options.seconds
    # more than the crawl can fetch in that time
    pages = round(min(options.hosts, 400) * total_s * 1.5)
    times = []
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-load-") as folder,
        crawled_web(Path(folder), options.hosts, pages, options.processes) as bench,
    ):
        time.sleep(options.warm_up)
        for number in range(options.runs):
            times.append(bench.measure("crawl alone", options.seconds, None, 0))
            times.append(bench.measure("with load", options.seconds, load, number * 100_000))
    text, errors = evaluate(times)
    report(options, "Load", text, errors)
    return 1 if errors else 0


def evaluate(times: list[Time]) -> tuple[str, list[str]]:
    """Return the tables and the errors."""
    rows, latencies, errors = [], [], []
    for each in times:
        cores = " ".join(
            f"{role} {cpu_s / each.seconds:.2f}"
            for role, cpu_s in sorted(each.cpu_s.items())
            if cpu_s / each.seconds >= 0.005
        )
        pages_ms = each.cpu_s.get("pages", 0.0) * 1000
        serving = f"{pages_ms / len(each.responses):.1f}" if each.responses else ""
        rows.append((each.name, f"{each.rate:.1f}", f"{each.crawl_cpu_ms:.1f}", serving, cores))
        for kind, responses in each.by_kind().items():
            durations = [response.duration_ms for response in responses]
            failed = Counter(
                f"{response.kind} {response.status or 'no response'}"
                for response in responses
                if response.status not in _SUCCESS
            )
            per_second = f"{len(responses) / each.seconds:.1f}"
            figures = quantiles(durations, 0.5, 0.95, 0.99, 1)
            latencies.append((each.name, kind, per_second, *figures, dict(failed) or 0))
            if failed:
                errors.append(f"{each.name}, errors: {dict(failed)}")
            if (p99 := quantile(durations, 0.99)) > MAX_MS:
                errors.append(f"{each.name}, {kind}: p99 {p99:.0f} ms, the limit is {MAX_MS:.0f}")
    alone, loaded = (
        [each.rate for each in times if each.name == name] for name in ("crawl alone", "with load")
    )
    share = sum(loaded) / max(sum(alone), 1e-9)
    if min(alone, default=0.0) < MIN_STEADY * max(alone, default=0.0):
        errors.append(
            f"the crawl alone sent {min(alone):.1f} to {max(alone):.1f} requests "
            "per second: too variable to compare"
        )
    if share < MIN_SHARE:
        errors.append(f"the crawl keeps {share:.0%} of its rate, the limit is {MIN_SHARE:.0%}")
    columns = ("time", "crawl, requests/s", "CPU ms each", "CPU ms per response", "cores")
    text = table(columns, rows) + "\n\n"
    headings = ("time", "kind", "per second", "p50 ms", "p95", "p99", "max", "errors")
    text += table(headings, latencies) + f"\n\nThe crawl keeps {share:.0%} of its rate.\n\n"
    return text + "\n".join(f"- {error}" for error in errors or ["No errors."]), errors


if __name__ == "__main__":
    sys.exit(main())
