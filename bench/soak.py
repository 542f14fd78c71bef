"""Soak test: `lycosa run --serve` for hours on a changing web, with readers and random kills.

    python -m bench.soak [--seconds S] [--hosts N] [--queries Q] [--seed S] [--folder DIR]
    python -m bench.soak --judge DIR

The daemon crawls the synthetic web of the tests: pages change, hosts answer 429, 500 and 503, hang
or close. Readers send 20 queries per second. Every one to five minutes a process gets SIGKILL: in
the first half any process, in the second half one worker, so that the other processes live long
enough for a leak to show.

At the end `lycosa check --deep` runs, and the tables are compared with the request log of the web:
lost URLs, impolite requests and early refetches are errors. So are growing memory, growing numbers
of handles and slower responses after the first half hour. Exit code 1: there are errors. `--judge`
evaluates the measurements of an earlier run again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
from tests.cluster.verification import claim_intervals, facts, without_late_visits
from tests.crawl.synthetic_crawls import CLOCKS_MS, without_visit
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.politeness import Rules, violations
from tests.servers.synthetic.request_log import LogEntry, read_log
from tests.servers.synthetic.web import Web

from bench.daemon import (
    DAEMON,
    POLL_S,
    START_S,
    Daemon,
    Reader,
    Response,
    Sample,
    family,
    random_request,
    sample,
    synthetic_web,
)
from bench.harness import arguments, lycosa, quantile, quantiles, report, table
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

KILLED_ROLES = ("worker", "worker", "worker", DAEMON, "pages", "coordinator", "index")
"""Roles to kill in the first half, with their weights."""

JUDGED_ROLES = (DAEMON, "pages", "worker", "coordinator", "index", "all")
SETTLE_S, SAMPLE_S, KNOWN_URLS_S = 0.5, 10.0, 600.0
JUDGED_FROM_S = 1_800.0  # trends of shorter runs are not evaluated
MAX_GROWTH_PER_HOUR, MAX_GROWTH, MAX_SLOWDOWN = 0.05, 0.10, 1.25
LOST_MS, BUSY_MS = 6_000, 5_000
"""Time before a death in which responses may be lost; delay until a busy machine detects it."""

ADOPTED_MS = 120_000  # until the worker of a remote host receives a link
EARLY_MS = 2_000  # difference between the clocks of the web's log and of the crawler
AFTER_MS = 2_000  # after a restart, waiting requests still count as around a death
_CONTENT = (Kind.PAGE, Kind.TRANSLATION, Kind.DUPLICATE, Kind.NEAR_DUPLICATE)
FEATURES = [
    "subdomains=0.2",
    "size_exponent=0.3",
    "traps=0",
    "static=0.2",
    "changes_per_day=24",
    "news=0.15",
    "births_per_day=24",
    "deaths_per_day=1.5",
    "failing=0.05",
    "limiting=0.05",
    "resetting=0.03",
    "closing=0.02",
    "hanging=0.02",
    "stalling=0.02",
]


@dataclass(slots=True, frozen=True)
class Plan:
    """The web, the settings of the crawl, the readers and the kills."""

    seconds: float = 7_200.0
    hosts: int = 2_000
    pages: int = 8_000
    queries: float = 20.0  # per second
    workers: int = 2
    seed: int = 1
    delay_s: float = 20.0  # between two requests to a host
    max_age_s: float = 300.0  # of a page until it is fetched again
    min_pause_s: float = 60.0  # between two kills
    max_pause_s: float = 300.0
    hold_s: float = 5.0
    epoch_ms: int = 0  # start of the web's time; 0: start of the test

    def web_options(self, log: Path) -> list[str]:
        """Return the options of `python -m tests.servers.synthetic`."""
        size = ["--seed", str(self.seed), "--hosts", str(self.hosts), "--pages", str(self.pages)]
        features = [part for feature in FEATURES for part in ("--set", feature)]
        return [*size, *features, "--epoch-ms", str(self.epoch_ms), "--log", str(log)]

    def web(self, log: Path) -> Web:
        """Return the same web in this process."""
        return Web(read_plan(options_parser().parse_args(self.web_options(log))))

    def settings(self, connect_to: list[str], seeds: Path) -> str:
        """Return the lycosa.toml; replaced files are deleted after ten minutes."""
        return f"""
[fetch]
first_byte_timeout = "5s"
total_timeout = "20s"
slow_time = "4s"
retry_later = "10m"
connect_to = {json.dumps(connect_to)}
[store]
keep_replaced = "10m"
[run]
restarts = 1000
[cluster]
ping_interval = "500ms"
hold = "{self.hold_s:g}s"
reassign = "{2 * self.hold_s:g}s"
[[collection]]
name = "soak"
seed_file = {json.dumps(str(seeds))}
scope = "any"
delay = "{round(self.delay_s * 1000)}ms"
backoff = "60s"
connections = 100
address_connections = 256
traps = false
recrawl = "age"
max_age = "{round(self.max_age_s)}s"
"""


# -- readers


@contextmanager
def readers(
    port: int, rate: float, seed: int, record: Callable[[Response], None], clients: int = 20
) -> Iterator[None]:
    """Send `rate` requests per second; `record` is called from many threads."""
    stopped = threading.Event()
    start = time.time()

    def run(number: int) -> None:
        generator = random.Random(seed * 1_000 + number)
        reader = Reader(port)
        due = start + number / rate
        while not stopped.wait(max(due - time.time(), 0)):
            kind, path = random_request(generator)
            status, _ = reader.send(path)
            record(Response(round(due * 1000), (time.time() - due) * 1000, status, kind))
            due += clients / rate
        reader.close()

    threads = [threading.Thread(target=run, args=(each,), daemon=True) for each in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


class Killer:
    """Kills random processes, and records when the server did not answer."""

    def __init__(self, plan: Plan, daemon: Daemon, record: Callable[[object], None]) -> None:
        self._plan, self._daemon, self._record = plan, daemon, record
        self._generator = random.Random(plan.seed)
        self._start = time.monotonic()
        self._next = self._start + self._pause()
        self._protected = 0

    def tick(self) -> None:
        """Kill a process when it is due; start the daemon again after its death."""
        if (code := self._daemon.exit_code()) is not None:
            self._down(DAEMON, f"exited with {code}")
        elapsed_s = time.monotonic() - self._start
        # the partitions of a killed worker must be assigned again before the end
        if (
            time.monotonic() >= self._next
            and elapsed_s < self._plan.seconds - 6 * self._plan.hold_s
        ):
            self._kill(late=elapsed_s > self._plan.seconds / 2)
            self._next = time.monotonic() + self._pause()

    def _pause(self) -> float:
        return self._generator.uniform(self._plan.min_pause_s, self._plan.max_pause_s)

    def _kill(self, *, late: bool) -> None:
        processes = family(self._daemon.pid)
        target = "worker" if late else self._generator.choice(KILLED_ROLES)
        workers = [pid for pid, role in processes.items() if role.startswith("worker")]
        if late and self._plan.workers > 1 and self._protected not in processes:
            self._protected = min(workers, default=0)
        pids = [pid for pid, role in processes.items() if role.startswith(target)]
        if pids := [pid for pid in pids if pid != self._protected]:
            pid = self._generator.choice(pids)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._down(processes[pid], "killed")

    def _down(self, role: str, cause: str) -> None:
        at_ms = back_ms = time.time_ns() // 1_000_000
        if role in (DAEMON, "pages"):
            end = time.monotonic() + START_S
            while role == DAEMON and self._daemon.exit_code() is None and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(SETTLE_S)
            if role == DAEMON:
                self._daemon.start()
            while time.monotonic() < end and not self._daemon.responds():
                time.sleep(0.1)
            back_ms = time.time_ns() // 1_000_000
        self._record({"at_ms": at_ms, "role": role, "cause": cause, "back_ms": back_ms})


# -- run


def known_urls(root: Path) -> set[str]:
    """Return all URLs of a workspace."""
    return set(LiveTables(Workspace.open(str(root))).scan("urls").select("url").collect()["url"])


def soak(plan: Plan, folder: Path) -> None:
    """Run, and write the measurements that `judge` reads to the folder."""
    plan = plan if plan.epoch_ms else replace(plan, epoch_ms=time.time_ns() // 1_000_000)
    log = folder / "requests.log"
    (folder / "plan.json").write_text(json.dumps(asdict(plan)))
    (folder / "seeds.txt").write_text("\n".join(plan.web(log).seeds(max(plan.hosts // 10, 1))))
    daemon = Daemon(folder, plan.workers)
    daemon.workspace.mkdir()
    known: set[str] = set()
    with ExitStack() as stack:
        web = stack.enter_context(synthetic_web(plan.web_options(log)))
        settings = plan.settings(web["connect_to"], folder / "seeds.txt")
        (daemon.workspace / "lycosa.toml").write_text(settings)
        files = {
            name: stack.enter_context((folder / f"{name}.jsonl").open("w"))
            for name in ("responses", "samples", "kills")
        }
        lock = threading.Lock()

        def record(name: str, row: object) -> None:
            with lock:
                files[name].write(json.dumps(row) + "\n")

        daemon.start()
        daemon.wait()
        end = time.monotonic() + plan.seconds
        next_sample = next_known = 0.0
        killer = Killer(plan, daemon, partial(record, "kills"))

        def record_response(response: Response) -> None:
            record("responses", response._asdict())

        try:
            with readers(daemon.port, plan.queries, plan.seed, record_response):
                while (now := time.monotonic()) < end:
                    killer.tick()
                    if now >= next_sample:
                        next_sample = now + SAMPLE_S
                        _record_samples(daemon, record)
                    if now >= next_known:
                        next_known = now + KNOWN_URLS_S
                        known |= known_urls(daemon.workspace)
                    time.sleep(POLL_S)
        finally:
            (folder / "known.txt").write_text("\n".join(sorted(known)))
            ended_ms = time.time_ns() // 1_000_000
            (folder / "end.json").write_text(json.dumps({"at_ms": ended_ms, "code": daemon.stop()}))
        time.sleep(SETTLE_S)  # the web writes its log ten times per second


def _record_samples(daemon: Daemon, record: Callable[[str, object], None]) -> None:
    at_ms = time.time_ns() // 1_000_000
    for pid, role in family(daemon.pid).items():
        with suppress(psutil.Error, OSError):
            record("samples", asdict(sample(pid, role, at_ms)))


# -- verdict


@dataclass(slots=True)
class Verdict:
    """Tables, and the errors found."""

    parts: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        faults = [f"- {fault}" for fault in self.faults] or ["No errors."]
        return "\n\n".join([*self.parts, "\n".join(faults)])

    def add(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Add a table."""
        self.parts.append(table(header, rows))

    def require_none(self, examples: Sequence[object], message: str) -> None:
        """Add an error with the first three examples, if there are any."""
        if examples:
            self.faults.append(f"{len(examples)} {message}, for example {list(examples)[:3]}")


@dataclass(slots=True, frozen=True)
class Trend:
    """A line through measurements; slope and total growth as shares of its start."""

    start: float
    per_hour: float
    growth: float

    def flat(self) -> bool:
        return self.per_hour < MAX_GROWTH_PER_HOUR and self.growth <= MAX_GROWTH


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Return the Theil-Sen line of (hours, value), which is robust against outliers."""
    times, values = np.array(points).T
    if len(times) > 720:
        chosen = np.linspace(0, len(times) - 1, 720).astype(int)
        times, values = times[chosen], values[chosen]
    left, right = np.triu_indices(len(times), 1)
    hours = times[right] - times[left]
    slopes = (values[right] - values[left])[hours > 0] / hours[hours > 0]
    slope = float(np.median(slopes)) if len(slopes) else 0.0
    start = float(np.median(values - slope * times)) + slope * float(times[0])
    if start <= 0:
        return Trend(0.0, 0.0, 0.0)
    return Trend(start, slope / start, slope * float(times[-1] - times[0]) / start)


def judge(folder: Path) -> Verdict:
    """Evaluate a run: the measurements, the tables and the log of the web."""
    plan = Plan(**json.loads((folder / "plan.json").read_text()))
    verdict = judge_measured(folder, plan)
    _judge_crawl(verdict, plan, folder)
    return verdict


def judge_measured(folder: Path, plan: Plan) -> Verdict:
    """Evaluate the kills, responses, memory and handles."""
    verdict = Verdict()
    kills = _rows(folder, "kills")
    end = json.loads((folder / "end.json").read_text())
    downtimes: defaultdict[str, list[float]] = defaultdict(list)
    for kill in kills:
        downtimes[kill["role"]].append((kill["back_ms"] - kill["at_ms"]) / 1000)
        if kill["cause"] != "killed":
            verdict.faults.append(f"the {kill['role']} {kill['cause']} at {kill['at_ms']}")
    if end["code"] != 0:
        verdict.faults.append(f"on SIGTERM the daemon ended with {end['code']}")
    rows = [
        (role, len(times), f"{quantile(times, 0.5):.1f}", f"{max(times):.1f}")
        for role, times in sorted(downtimes.items())
    ]
    verdict.add(("killed", "times", "downtime of the pages, median s", "max"), rows)
    _judge_responses(verdict, plan, [Response(**row) for row in _rows(folder, "responses")], kills)
    _judge_processes(verdict, plan, [Sample(**row) for row in _rows(folder, "samples")])
    return verdict


def _rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def _judge_responses(
    verdict: Verdict, plan: Plan, responses: list[Response], kills: list[dict[str, Any]]
) -> None:
    """Compare the quarters of the time; responses around a death of the server are separate."""
    down = [
        (kill["at_ms"], kill["back_ms"] + AFTER_MS)
        for kill in kills
        if kill["role"] in (DAEMON, "pages")
    ]
    start_ms = min(each.due_ms for each in responses)
    groups: defaultdict[str, list[Response]] = defaultdict(list)
    for each in responses:
        ended_ms = each.due_ms + each.duration_ms
        if any(start <= ended_ms and each.due_ms <= end for start, end in down):
            groups["around deaths"].append(each)
        else:
            quarter = min(int((each.due_ms - start_ms) / (plan.seconds * 250)), 3) + 1
            groups[f"quarter {quarter}"].append(each)
    rows, p95 = [], {}
    for name, group in sorted(groups.items()):
        times = [each.duration_ms for each in group if each.status == 200] or [0.0]
        errors = Counter(str(each.status or "none") for each in group if each.status != 200)
        figures = quantiles(times, 0.5, 0.95, 0.99, 1)
        rows.append((name, f"{len(group):,}", *figures, _counts(errors)))
        if name != "around deaths":
            p95[name] = quantile(times, 0.95)
            if errors:
                verdict.faults.append(f"{name}: requests without a good answer: {_counts(errors)}")
    verdict.add(("responses, ms", "number", "p50", "p95", "p99", "max", "errors"), rows)
    if plan.seconds >= JUDGED_FROM_S and len(p95) == 4:
        early, late = p95["quarter 2"], p95["quarter 4"]
        if late > MAX_SLOWDOWN * early:
            verdict.faults.append(f"answers slow down: p95 {early:.0f} ms, later {late:.0f} ms")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counter.most_common()) or "0"


def _judge_processes(verdict: Verdict, plan: Plan, samples: list[Sample]) -> None:
    """Fit lines to memory and handles of each role over the last three quarters of the time."""
    start_ms = min(each.at_ms for each in samples)
    by_role: defaultdict[str, list[Sample]] = defaultdict(list)
    totals: dict[int, Sample] = {}
    for each in samples:
        if each.at_ms >= start_ms + plan.seconds * 250:
            by_role["worker" if each.role.startswith("worker") else each.role].append(each)
            total = totals.get(each.at_ms, Sample(each.at_ms, "all", 0, 0.0, 0, 0.0))
            totals[each.at_ms] = replace(
                total,
                memory_mb=total.memory_mb + each.memory_mb,
                handles=total.handles + each.handles,
            )
    by_role["all"] = list(totals.values())
    rows = []
    for role, group in sorted(by_role.items()):
        if len(group) <= 5:
            continue
        hours = [(each.at_ms - start_ms) / 3_600_000 for each in group]
        memory = trend(list(zip(hours, [each.memory_mb for each in group], strict=True)))
        handles = trend(list(zip(hours, [float(each.handles) for each in group], strict=True)))
        peak = max(each.memory_mb for each in group)
        row = [role, f"{memory.start:.0f}", f"{peak:.0f}"]
        for name, line in (("memory", memory), ("open handles", handles)):
            row += [f"{line.per_hour:+.1%}", f"{line.growth:+.1%}"]
            if plan.seconds >= JUDGED_FROM_S and role in JUDGED_ROLES and not line.flat():
                verdict.faults.append(f"{name} of {role}: {line.per_hour:+.1%} per hour")
        rows.append(row)
    header = ("role", "memory, MB", "max", "per hour", "growth", "handles per hour", "growth")
    verdict.add(header, rows)


def _judge_crawl(verdict: Verdict, plan: Plan, folder: Path) -> None:
    """Compare the tables with the log of the web."""
    root = folder / "workspace"
    command = lycosa(root, "check", "--deep")
    check = subprocess.run(command, capture_output=True, text=True, check=False)
    if check.returncode:
        verdict.faults.append(f"lycosa check --deep: {(check.stdout + check.stderr)[-600:]}")
    end_ms = json.loads((folder / "end.json").read_text())["at_ms"]
    web = plan.web(folder / "requests.log")
    log = list(read_log(folder / "requests.log"))
    unseen, repeated = without_visit(root, log)
    unseen = without_late_visits(unseen, log, facts(root))
    verdict.require_none(list(repeated.items()), "URLs were requested twice within one visit")
    deaths = [
        kill["at_ms"]
        for kill in _rows(folder, "kills")
        if kill["role"].startswith((DAEMON, "worker", "coordinator"))
    ]
    late_ms = round(plan.hold_s * 1000) + BUSY_MS
    excused = [*((at - LOST_MS, at + late_ms) for at in (*deaths, end_ms)), *claim_intervals(root)]
    unexplained = [
        each
        for each in unseen
        if not any(a <= each.answered_at_ms and each.arrived_at_ms <= b for a, b in excused)
    ]
    verdict.require_none(unexplained, "requests have no visit although no process died")
    rules = Rules(
        web,
        delay_ms=round(plan.delay_s * 1000),
        courtesy_factor=10.0,
        backoff_ms=60_000,
        backoff_statuses=frozenset({429, 502, 503, 504}),
        domain_slots=2,
        domain_pause=True,
        unseen=unseen,
        left_slack_ms=2_000,
    )
    verdict.require_none(list(violations(log, rules)), "requests were impolite")
    early = early_requests(log, unseen, failed_visits(root), web, round(plan.max_age_s * 1000))
    verdict.require_none(early, "pages were fetched again before their age")
    urls = known_urls(root)
    earlier = set((folder / "known.txt").read_text().split("\n")) - {""}
    verdict.require_none(sorted(earlier - urls), "URLs were known earlier and are lost")
    targets = _followed_links(root, end_ms - ADOPTED_MS)
    missing = sorted(url for url in targets - urls if web.kind(url) in _CONTENT)
    verdict.require_none(missing, "links of stored pages lead to URLs that are not known")
    rows = [
        ("requests to the web", f"{len(log):,} to {len({each.host for each in log}):,} hosts"),
        ("status codes", _counts(Counter(str(each.status or "none") for each in log))),
        ("responses lost by killed processes", f"{len(unseen):,}"),
        ("known URLs", f"{len(urls):,}"),
        ("lycosa check --deep", f"exit code {check.returncode}"),
    ]
    verdict.add(("crawl", ""), rows)


def failed_visits(root: Path) -> dict[str, list[tuple[int, int]]]:
    """Return the times of failed exchanges by URL; such pages are fetched again soon."""
    visits = LiveTables(Workspace.open(str(root))).scan("visits").filter(pl.col("error") != "")
    columns = visits.select("url", pl.col("fetched_at").cast(pl.Int64), "duration_ms")
    failures: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for url, at_ms, duration_ms in columns.collect().iter_rows():
        failures[url].append((at_ms - CLOCKS_MS, at_ms + duration_ms + CLOCKS_MS))
    return failures


def early_requests(
    log: Sequence[LogEntry],
    unseen: frozenset[LogEntry],
    failed: Mapping[str, list[tuple[int, int]]],
    web: Web,
    max_age_ms: int,
) -> list[tuple[str, int]]:
    """Return pages that were requested again too early: URL, and ms after the last response.

    A page may be requested early if a sitemap or feed of its host was read in between.
    """
    requests: dict[str, list[LogEntry]] = defaultdict(list)
    lists: dict[str, list[int]] = defaultdict(list)
    for request in log:
        url = f"http://{request.host}{request.path}"
        requests[url].append(request)
        if web.kind(url) in (Kind.SITEMAP, Kind.FEED):
            lists[request.host].append(request.answered_at_ms)
    early = []
    for url, of_url in requests.items():
        if len(of_url) < 2 or web.kind(url) not in _CONTENT:
            continue
        for first, second in pairwise(sorted(of_url, key=lambda each: each.arrived_at_ms)):
            at_ms, next_ms = first.arrived_at_ms, second.arrived_at_ms
            succeeded = first.status in (200, 304) and first not in unseen
            failed_here = any(start <= at_ms <= end for start, end in failed.get(url, ()))
            listed = any(at_ms <= read_ms <= next_ms for read_ms in lists[first.host])
            too_early = next_ms - at_ms < max_age_ms - EARLY_MS
            if succeeded and too_early and not failed_here and not listed:
                early.append((url, next_ms - at_ms))
    return early


def _followed_links(root: Path, before_ms: int) -> set[str]:
    links = LiveTables(Workspace.open(str(root))).scan("links")
    followed = links.filter(
        pl.col("kind").is_in(["a", "area"])
        & ~pl.col("rel").str.contains("nofollow")
        & (pl.col("found_at").cast(pl.Int64) < before_ms)
    )
    return set(followed.select("target").unique().collect()["target"])


def main() -> int:
    plan = {each.name: each.default for each in fields(Plan)}
    parser = arguments(__doc__, runs=1, **plan, folder=(Path, "where to keep the measurements"))
    parser.add_argument("--judge", type=Path, metavar="DIR", help="evaluate an earlier run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-soak-") as temporary:
        folder = options.judge or options.folder or Path(temporary)
        if not options.judge:
            folder.mkdir(parents=True, exist_ok=True)
            soak(Plan(**{name: getattr(options, name) for name in plan}), folder)
        verdict = judge(folder)
    report(options, "Soak", verdict.text(), verdict.faults)
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
