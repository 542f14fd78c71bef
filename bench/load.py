"""Many readers and writers beside a crawl: does anybody get an error, how long do they wait, and
what does the crawl lose?

    python -m bench.load [--readers 200] [--writers 20] [--every 4] [--seconds 60] [--rounds 2]
    [--hosts 60] [--processes 1] [--hunts]

`lycosa run --serve` crawls a synthetic web, as fast as politeness lets it (`--hosts` times one page
a second; 2,000 is as fast as it can). Times with and without load alternate. Each reader asks the
search page or the API, then waits `--every` seconds on average (0: not at all), and so does each
writer: URLs submitted, watches and monitors made and removed, a collection paused and resumed, now
and then a host excluded. With `--hunts` a further time follows in which somebody hunts besides, for
which the daemon pauses its crawl. Everything runs on this machine, the web and the clients too.
Exit code 1: an error, an answer that took longer than half a second in more than one of 100, a
crawl that keeps less than four fifths of its rate, or one whose rate without load changes so much
that nothing can be said of that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from bench.harness import append_results, quantile, table
from bench.soak import Daemon
from bench.soak_readers import Asked, Reader, question
from bench.soak_samples import family, sample

MOST_MS = 500.0
MIN_KEPT = 0.8
# of the fastest time without load, that the slowest reaches: else something else slows the crawl
# down
MIN_STEADY = 0.8
DEADLINE_S = 120.0
_MANNERS = (
    "courtesy_factor = 0\nconnections = 100\ndomain_connections = 64\naddress_connections "
    "= 0\ntraps = false\n"
)
"""Of both collections: a worker keeps to the strictest of those that it works, so one with the
defaults would slow the other down.
"""
_GOOD = frozenset({200, 201, 202, 204})


@dataclass(slots=True)
class Time:
    """A time with or without load. `pages`: requests that the web answered; CPU in seconds, by
    role.
    """

    name: str
    seconds: float = 0.0
    pages: int = 0
    cpu_s: dict[str, float] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.pages / self.seconds

    @property
    def crawl_cpu_ms(self) -> float:
        """CPU of worker and indexer a page."""
        return (
            (self.cpu_s.get("worker", 0.0) + self.cpu_s.get("index", 0.0))
            * 1000
            / max(self.pages, 1)
        )


class Writer:
    """Changes what the API lets be changed, one after the other."""

    def __init__(self, reader: Reader, token: str, hosts: list[str], number: int) -> None:
        self._reader, self._hosts, self._number = reader, hosts, number
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._watch = ""
        self._monitor = ""

    def write(self, chance: random.Random) -> tuple[str, int]:
        """What was written, and the status of the answer."""
        draw = chance.random()
        if draw < 0.6:
            urls = [f"http://{chance.choice(self._hosts)}/" for _ in range(chance.randint(1, 3))]
            return "submit", self._send(
                "POST", "/api/v1/urls", {"urls": urls, "collection": "load"}
            )[0]
        if draw < 0.75:
            if not self._watch:
                status, made = self._send(
                    "POST",
                    "/api/v1/watches",
                    {"texts": [f"word {chance.random()}"], "name": f"w{self._number}"},
                )
                self._watch = made.get("id", "")
                return "watch", status
            gone, self._watch = self._watch, ""
            return "unwatch", self._send("DELETE", f"/api/v1/watches/{gone}")[0]
        if draw < 0.85:
            if not self._monitor:
                self._monitor = f"http://{self._hosts[self._number % len(self._hosts)]}/?monitor={chance.random()}"
                return "monitor", self._send(
                    "POST", "/api/v1/uptime", {"url": self._monitor, "every": "10m"}
                )[0]
            gone, self._monitor = self._monitor, ""
            return "unmonitor", self._send("DELETE", f"/api/v1/uptime?url={gone}")[0]
        if draw < 0.99:
            what = chance.choice(("pause", "resume"))
            return what, self._send("POST", f"/api/v1/collections/aside/{what}")[0]
        return "exclude", self._send(
            "POST", "/api/v1/exclusions", {"rules": [f"host:gone-{self._number}.test"]}
        )[0]

    def hunt(self, question: str, seed: str) -> tuple[str, int]:
        """A short hunt, to its end."""
        body = {"query": question, "seeds": [seed], "time": "3s", "pages": 10, "collection": "load"}
        status, told = self._reader.ask(
            "/api/v1/hunts", "POST", json.dumps(body).encode(), self._headers
        )
        return "hunt", status if b'"ended"' in told or b"event: ended" in told else -1

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        status, answer = self._reader.ask(
            path, method, json.dumps(body).encode() if body is not None else None, self._headers
        )
        with contextlib.suppress(ValueError):
            found = json.loads(answer)
            return status, found if isinstance(found, dict) else {}
        return status, {}


class Crowd:
    """Threads that do something, wait, and do it again, until told to stop; a context manager."""

    def __init__(self, every_s: float, record: Callable[[Asked], None]) -> None:
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
        self, chance: random.Random, act: Callable[[random.Random], tuple[str, int]], every_s: float
    ) -> None:
        wait = chance.uniform(0, every_s)
        while not self._ending.wait(wait):
            begun = time.time()
            what, status = act(chance)
            self._record(Asked(round(begun * 1000), (time.time() - begun) * 1000, status, what))
            wait = chance.expovariate(1 / every_s) if every_s else 0.0


@dataclass(slots=True, frozen=True)
class Load:
    """Who asks and writes."""

    readers: int
    writers: int
    every_s: float
    hunts: bool = False


class Bench:
    """A daemon at work on a web, and what is measured of both."""

    def __init__(self, daemon: Daemon, log: Path, token: str, hosts: list[str]) -> None:
        self._daemon, self._log, self._token, self._hosts = daemon, log, token, hosts

    def measure(self, name: str, seconds: float, load: Load | None, seed: int) -> Time:
        found = Time(name)
        crowd = Crowd(load.every_s if load else 1.0, found.asked.append)
        if load is not None:
            for number in range(load.readers):
                crowd.add(seed + number, _reads(Reader(self._daemon.port)))
            for number in range(load.writers):
                writer = Writer(Reader(self._daemon.port), self._token, self._hosts, number)
                crowd.add(seed + 10_000 + number, writer.write)
            if load.hunts:
                hunter = Writer(Reader(self._daemon.port), self._token, self._hosts, load.writers)
                crowd.add(
                    seed + 20_000,
                    lambda chance: hunter.hunt("water", f"http://{chance.choice(self._hosts)}/"),
                    5.0,
                )
        before, mark, begun = self._cpu(), self._requests(), time.monotonic()
        with crowd:
            time.sleep(seconds)
            after, found.pages, found.seconds = (
                self._cpu(),
                self._requests() - mark,
                time.monotonic() - begun,
            )
        for pid, (role, used) in after.items():
            found.cpu_s[role] = found.cpu_s.get(role, 0.0) + used - before.get(pid, (role, 0.0))[1]
        return found

    def _cpu(self) -> dict[int, tuple[str, float]]:
        found = {}
        for pid, role in family(self._daemon.pid).items():
            with contextlib.suppress(psutil.Error, OSError):
                found[pid] = role, sample(pid, role, 0).cpu_s
        return found

    def _requests(self) -> int:
        with self._log.open("rb") as lines:
            return sum(1 for _ in lines)


def _reads(reader: Reader) -> Callable[[random.Random], tuple[str, int]]:
    def read(chance: random.Random) -> tuple[str, int]:
        what, path = question(chance)
        return what, reader.ask(path)[0]

    return read


@contextlib.contextmanager
def crawled_web(folder: Path, hosts: int, pages: int, processes: int) -> Iterator[Bench]:
    """A daemon that crawls a calm web and serves."""
    log = folder / "requests.log"
    command = [
        sys.executable,
        "-m",
        "tests.servers.synthetic",
        "--calm",
        "--hosts",
        str(hosts),
        "--pages",
        str(pages),
        "--log",
        str(log),
    ]
    command += ["--set", "static=1.0", "--set", "size_exponent=0", "--set", "latency_ms=20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as web:
        daemon = Daemon(folder, workers=1)
        try:
            assert web.stdout is not None
            said = json.loads(web.stdout.readline())
            names = _hosts(command)
            daemon.workspace.mkdir()
            seeds = json.dumps([f"http://{name}/" for name in names])
            (daemon.workspace / "lycosa.toml").write_text(
                f"[fetch]\nconnect_to = {json.dumps(said['connect_to'])}\n[serve]\nprocesses = "
                f"{processes}\nwrites = 100000\n"
                f'[[collection]]\nname = "load"\nseeds = {seeds}\nscope = "any"\n{_MANNERS}'
                f'[[collection]]\nname = "aside"\nseeds = ["http://aside.test/"]\n{_MANNERS}'
            )
            daemon.start()
            end = time.monotonic() + DEADLINE_S
            while not daemon.answers():
                if time.monotonic() > end or daemon.ended() is not None:
                    raise RuntimeError(
                        f"the daemon does not serve: {(folder / 'said.txt').read_text()[-2000:]}"
                    )
                time.sleep(0.2)
            token = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "lycosa.cli.main",
                    "-w",
                    str(daemon.workspace),
                    "token",
                    "add",
                    "load",
                ],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()[-1]
            yield Bench(daemon, log, token, names)
        finally:
            if daemon.pid:
                daemon.stop()
            web.terminate()


def _hosts(command: list[str]) -> list[str]:
    from tests.servers.synthetic.__main__ import options_parser, read_plan
    from tests.servers.synthetic.web import Web

    web = Web(read_plan(options_parser().parse_args(command[3:])))
    return [host.name for host in web.open_hosts()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--writers", type=int, default=20)
    parser.add_argument(
        "--every", type=float, default=4.0, help="seconds that each of them waits on average"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of each time with or without load"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--processes", type=int, default=1, help="that serve")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds of crawling before")
    parser.add_argument("--hunts", action="store_true")
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    chosen = parser.parse_args()
    load = Load(chosen.readers, chosen.writers, chosen.every)
    total_s = chosen.warm_up + (2 * chosen.rounds + 1) * chosen.seconds
    pages = round(min(chosen.hosts, 400) * total_s * 1.5)  # there is always something left to fetch
    times = []
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-load-") as folder,
        crawled_web(Path(folder), chosen.hosts, pages, chosen.processes) as bench,
    ):
        time.sleep(chosen.warm_up)
        for number in range(chosen.rounds):
            times.append(bench.measure("crawl alone", chosen.seconds, None, 0))
            times.append(bench.measure("with load", chosen.seconds, load, number * 100_000))
        if chosen.hunts:
            times.append(
                bench.measure("with load and hunts", chosen.seconds, replace(load, hunts=True), 7)
            )
    text, faults = report(times)
    print(text)
    if chosen.results:
        append_results(
            chosen.results, "Load", "python -m bench.load " + " ".join(sys.argv[1:]), text
        )
    return 1 if faults else 0


def report(times: list[Time]) -> tuple[str, list[str]]:
    """Tables, and what is wrong."""
    rows, waits = [], []
    faults = []
    for each in times:
        cpu = " ".join(
            f"{role} {used / each.seconds:.2f}"
            for role, used in sorted(each.cpu_s.items())
            if used / each.seconds >= 0.005
        )
        serving = (
            f"{each.cpu_s.get('pages', 0.0) * 1000 / len(each.asked):.1f}" if each.asked else ""
        )
        rows.append((each.name, f"{each.rate:.1f}", f"{each.crawl_cpu_ms:.1f}", serving, cpu))
        for what, chosen in (
            ("read", _reading(each, reads=True)),
            ("write", _reading(each, reads=False)),
        ):
            if not chosen:
                continue
            took = [one.took_ms for one in chosen]
            wrong = Counter(
                f"{one.what} {one.status or 'no answer'}"
                for one in chosen
                if one.status not in _GOOD
            )
            figures = [f"{quantile(took, share):.0f}" for share in (0.5, 0.95, 0.99, 1)]
            waits.append(
                (each.name, what, f"{len(chosen) / each.seconds:.1f}", *figures, dict(wrong) or 0)
            )
            if wrong:
                faults.append(f"errors: {dict(wrong)}")
            if quantile(took, 0.99) > MOST_MS:
                faults.append(
                    f"{each.name}, {what}: p99 {quantile(took, 0.99):.0f} ms, the bar "
                    f"is {MOST_MS:.0f}"
                )
        hunts = [one for one in each.asked if one.what == "hunt"]
        if hunts:
            wrong = Counter(str(one.status) for one in hunts if one.status not in _GOOD)
            usual = quantile([one.took_ms for one in hunts], 0.5)
            waits.append(
                (
                    each.name,
                    "hunt",
                    f"{len(hunts) / each.seconds:.1f}",
                    f"{usual:.0f}",
                    "",
                    "",
                    "",
                    dict(wrong) or 0,
                )
            )
            if wrong:
                faults.append(f"{each.name}: hunts ended with {dict(wrong)}")
    alone, loaded = (
        [each.rate for each in times if each.name == name] for name in ("crawl alone", "with load")
    )
    kept = sum(loaded) / max(sum(alone), 1e-9)
    if min(alone, default=0.0) < MIN_STEADY * max(alone, default=0.0):
        faults.append(
            f"alone the crawl did {min(alone):.1f} to {max(alone):.1f} requests "
            "per second: too variable to compare"
        )
    if kept < MIN_KEPT:
        faults.append(f"the crawl keeps {kept:.0%} of its rate, the bar is {MIN_KEPT:.0%}")
    text = table(
        (
            "time",
            "requests/s of the crawl",
            "CPU ms each (worker + index)",
            "CPU ms a question or change",
            "cores used",
        ),
        rows,
    )
    text += "\n\n" + table(
        ("time", "what", "a second", "p50 ms", "p95", "p99", "most", "errors"), waits
    )
    text += (
        f"\n\nThe crawl keeps {kept:.0%} of its rate; load of the machine "
        f"{os.getloadavg()[0]:.1f}.\n\n"
    )
    return text + "\n".join(f"- {fault}" for fault in faults or ["Nothing is wrong."]), faults


def _reading(time_: Time, *, reads: bool) -> list[Asked]:
    reading = ("suggest", "page", "api", "facets")
    return [one for one in time_.asked if one.what != "hunt" and (one.what in reading) == reads]


if __name__ == "__main__":
    sys.exit(main())
