"""Readers and writers during a crawl: errors, latency, and the loss of crawl speed.

    python -m bench.load [--readers 200] [--writers 20] [--every 4] [--seconds 60] [--runs 2]
    [--hosts 60] [--processes 1] [--hunts]

`lycosa run --serve` crawls a synthetic web as fast as politeness allows. Times with and without
load alternate. Each reader requests the search page or the API, then waits `--every` seconds on
average. Each writer submits URLs, adds and removes watches and monitors, pauses and resumes a
collection, and sometimes excludes a host. `--hunts` adds a time with hunts, for which the daemon
pauses its crawl. Everything runs on this machine, the web and the clients too. Exit code 1: an
error, a 99th percentile above half a second, a crawl below four fifths of its rate, or a rate
without load that varies too much.
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.web import Web

from bench.daemon import Daemon, Reader, Response, family, random_request, sample, synthetic_web
from bench.harness import arguments, quantile, report, table

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
    """A time with or without load; CPU seconds by role; `pages`: responses of the web."""

    name: str
    seconds: float = 0.0
    pages: int = 0
    cpu_s: dict[str, float] = field(default_factory=dict)
    responses: list[Response] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.pages / self.seconds

    def by_kind(self) -> dict[str, list[Response]]:
        """Return the responses to reads, writes and hunts."""
        groups: dict[str, list[Response]] = {}
        for each in self.responses:
            kind = "read" if each.kind in _READS else "hunt" if each.kind == "hunt" else "write"
            groups.setdefault(kind, []).append(each)
        return groups

    @property
    def crawl_cpu_ms(self) -> float:
        """CPU of worker and indexer a page."""
        return (
            (self.cpu_s.get("worker", 0.0) + self.cpu_s.get("index", 0.0))
            * 1000
            / max(self.pages, 1)
        )


class Writer:
    """A client that changes watches, monitors and collections."""

    def __init__(self, reader: Reader, token: str, hosts: list[str], number: int) -> None:
        self._reader, self._hosts, self._number = reader, hosts, number
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._watch = ""
        self._monitor = ""

    def write(self, generator: random.Random) -> tuple[str, int]:
        """Send one change; return its kind and the status."""
        draw = generator.random()
        if draw < 0.6:
            urls = [
                f"http://{generator.choice(self._hosts)}/" for _ in range(generator.randint(1, 3))
            ]
            return "submit", self._send(
                "POST", "/api/v1/urls", {"urls": urls, "collection": "load"}
            )[0]
        if draw < 0.75:
            if not self._watch:
                status, made = self._send(
                    "POST",
                    "/api/v1/watches",
                    {"texts": [f"word {generator.random()}"], "name": f"w{self._number}"},
                )
                self._watch = made.get("id", "")
                return "watch", status
            gone, self._watch = self._watch, ""
            return "unwatch", self._send("DELETE", f"/api/v1/watches/{gone}")[0]
        if draw < 0.85:
            if not self._monitor:
                self._monitor = f"http://{self._hosts[self._number % len(self._hosts)]}/?monitor={generator.random()}"
                return "monitor", self._send(
                    "POST", "/api/v1/uptime", {"url": self._monitor, "every": "10m"}
                )[0]
            gone, self._monitor = self._monitor, ""
            return "unmonitor", self._send("DELETE", f"/api/v1/uptime?url={gone}")[0]
        if draw < 0.99:
            what = generator.choice(("pause", "resume"))
            return what, self._send("POST", f"/api/v1/collections/aside/{what}")[0]
        return "exclude", self._send(
            "POST", "/api/v1/exclusions", {"rules": [f"host:gone-{self._number}.test"]}
        )[0]

    def hunt(self, question: str, seed: str) -> tuple[str, int]:
        """Run a short hunt."""
        body = {"query": question, "seeds": [seed], "time": "3s", "pages": 10, "collection": "load"}
        status, output = self._reader.send(
            "/api/v1/hunts", "POST", json.dumps(body).encode(), self._headers
        )
        return "hunt", status if b'"ended"' in output or b"event: ended" in output else -1

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        status, answer = self._reader.send(
            path, method, json.dumps(body).encode() if body is not None else None, self._headers
        )
        with contextlib.suppress(ValueError):
            document = json.loads(answer)
            return status, document if isinstance(document, dict) else {}
        return status, {}


class Crowd:
    """Threads that act and wait in turn; a context manager."""

    def __init__(self, every_s: float, record: Callable[[Response], None]) -> None:
        self._every_s, self._record = every_s, record
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(
        self,
        seed: int,
        act: Callable[[random.Random], tuple[str, int]],
        every_s: float | None = None,
    ) -> None:
        every = self._every_s if every_s is None else every_s
        self._threads.append(
            threading.Thread(target=self._live, args=(random.Random(seed), act, every), daemon=True)
        )

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _live(
        self,
        generator: random.Random,
        act: Callable[[random.Random], tuple[str, int]],
        every_s: float,
    ) -> None:
        wait = generator.uniform(0, every_s)
        while not self._ending.wait(wait):
            begun = time.time()
            what, status = act(generator)
            self._record(Response(round(begun * 1000), (time.time() - begun) * 1000, status, what))
            wait = generator.expovariate(1 / every_s) if every_s else 0.0


@dataclass(slots=True, frozen=True)
class Load:
    """The number of clients, and their mean pause in seconds."""

    readers: int
    writers: int
    every_s: float
    hunts: bool = False


class Bench:
    """Measures a daemon and the web that it crawls."""

    def __init__(self, daemon: Daemon, log: Path, token: str, hosts: list[str]) -> None:
        self._daemon, self._log, self._token, self._hosts = daemon, log, token, hosts

    def measure(self, name: str, seconds: float, load: Load | None, seed: int) -> Time:
        responses: list[Response] = []
        crowd = Crowd(load.every_s if load else 1.0, responses.append)
        if load is not None:
            for number in range(load.readers):
                crowd.add(seed + number, _reads(Reader(self._daemon.port)))
            for number in range(load.writers):
                crowd.add(seed + 10_000 + number, self._writer(number).write)
            if load.hunts:
                hunter = self._writer(load.writers)
                crowd.add(
                    seed + 20_000,
                    lambda generator: hunter.hunt(
                        "water", f"http://{generator.choice(self._hosts)}/"
                    ),
                    5.0,
                )
        before, mark, start = self._cpu(), self._requests(), time.monotonic()
        with crowd:
            time.sleep(seconds)
            after, pages = self._cpu(), self._requests() - mark
            elapsed_s = time.monotonic() - start
        cpu_s: defaultdict[str, float] = defaultdict(float)
        for pid, (role, total_s) in after.items():
            cpu_s[role] += total_s - before.get(pid, (role, 0.0))[1]
        return Time(name, elapsed_s, pages, dict(cpu_s), responses)

    def _writer(self, number: int) -> Writer:
        return Writer(Reader(self._daemon.port), self._token, self._hosts, number)

    def _cpu(self) -> dict[int, tuple[str, float]]:
        times = {}
        for pid, role in family(self._daemon.pid).items():
            with contextlib.suppress(psutil.Error, OSError):
                times[pid] = role, sample(pid, role, 0).cpu_s
        return times

    def _requests(self) -> int:
        with self._log.open("rb") as lines:
            return sum(1 for _ in lines)


def _reads(reader: Reader) -> Callable[[random.Random], tuple[str, int]]:
    def read(generator: random.Random) -> tuple[str, int]:
        what, path = random_request(generator)
        return what, reader.send(path)[0]

    return read


@contextlib.contextmanager
def crawled_web(folder: Path, hosts: int, pages: int, processes: int) -> Iterator[Bench]:
    """Serve a calm web, and run a daemon that crawls it and serves."""
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
            command = [sys.executable, "-m", "lycosa.cli.main", "-w", str(daemon.workspace)]
            command += ["token", "add", "load"]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            yield Bench(daemon, log, output.split()[-1], names)
        finally:
            daemon.stop()


def main() -> int:
    parser = arguments(__doc__, runs=2)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--writers", type=int, default=20)
    parser.add_argument(
        "--every", type=float, default=4.0, help="seconds that each of them waits on average"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of each time with or without load"
    )
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--processes", type=int, default=1, help="that serve")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds of crawling before")
    parser.add_argument("--hunts", action="store_true")
    options = parser.parse_args()
    load = Load(options.readers, options.writers, options.every)
    total_s = options.warm_up + (2 * options.runs + 1) * options.seconds
    pages = round(
        min(options.hosts, 400) * total_s * 1.5
    )  # there is always something left to fetch
    times = []
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-load-") as folder,
        crawled_web(Path(folder), options.hosts, pages, options.processes) as bench,
    ):
        time.sleep(options.warm_up)
        for number in range(options.runs):
            times.append(bench.measure("crawl alone", options.seconds, None, 0))
            times.append(bench.measure("with load", options.seconds, load, number * 100_000))
        if options.hunts:
            times.append(
                bench.measure("with load and hunts", options.seconds, replace(load, hunts=True), 7)
            )
    text, faults = evaluate(times)
    report(options, "Load", text, faults)
    return 1 if faults else 0


def evaluate(times: list[Time]) -> tuple[str, list[str]]:
    """Return the tables and the errors."""
    rows, waits, faults = [], [], []
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
            durations = [one.duration_ms for one in responses]
            errors = Counter(
                f"{one.kind} {one.status or 'no response'}"
                for one in responses
                if one.status not in _SUCCESS
            )
            figures = [f"{quantile(durations, share):.0f}" for share in (0.5, 0.95, 0.99, 1)]
            per_second = f"{len(responses) / each.seconds:.1f}"
            waits.append((each.name, kind, per_second, *figures, dict(errors) or 0))
            if errors:
                faults.append(f"{each.name}, errors: {dict(errors)}")
            if kind != "hunt" and quantile(durations, 0.99) > MAX_MS:
                p99 = quantile(durations, 0.99)
                faults.append(f"{each.name}, {kind}: p99 {p99:.0f} ms, the limit is {MAX_MS:.0f}")
    alone, loaded = (
        [each.rate for each in times if each.name == name] for name in ("crawl alone", "with load")
    )
    share = sum(loaded) / max(sum(alone), 1e-9)
    if min(alone, default=0.0) < MIN_STEADY * max(alone, default=0.0):
        faults.append(
            f"alone the crawl did {min(alone):.1f} to {max(alone):.1f} requests "
            "per second: too variable to compare"
        )
    if share < MIN_SHARE:
        faults.append(f"the crawl keeps {share:.0%} of its rate, the limit is {MIN_SHARE:.0%}")
    columns = ("time", "crawl, requests/s", "CPU ms each", "CPU ms per response", "cores")
    text = table(columns, rows) + "\n\n"
    headings = ("time", "kind", "per second", "p50 ms", "p95", "p99", "max", "errors")
    text += table(headings, waits) + f"\n\nThe crawl keeps {share:.0%} of its rate.\n\n"
    return text + "\n".join(f"- {fault}" for fault in faults or ["No errors."]), faults


if __name__ == "__main__":
    sys.exit(main())
