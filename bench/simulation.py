"""The coordinator of a very large cluster in simulated time.

    python -m bench.simulation [--workers 1000 --hosts 100000000 --urls 10000000000]
    python -m bench.simulation --whole [--largest-domain 0.001]

Real: coordinator, placement, page quotas, leadership, leases, pings (pickled) and the log. Modelled:
a worker fetches `PAGES_PER_S`, releases and claims partitions within seconds, loads a million URLs in
`LOAD_MS`, and commits every two minutes. Each log entry occupies the log for `LOG_MS`. Hosts have 10
to 250,000 pages (Pareto, exponent 1) and deliver a page every three seconds. Workers and coordinator
address hosts by partition only, so hosts are counts by size and partition.

The first form starts the cluster, then removes workers, a machine, a rack and the coordinator. It
reports messages, CPU, memory, and the time until living workers have loaded every partition.
`--whole` simulates a crawl of days, with pings once per minute and commits without files twice per
hour, and reports how evenly the work was shared.
`--largest-domain`: share of the hosts that are subdomains of one domain, thus in one partition.
`--quota`: with a page quota, as for `--max-pages`.
"""

from __future__ import annotations

import gc
import heapq
import pickle
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.cluster.simulated_cluster import lead
from tests.waiting import ManualClock

from bench.harness import arguments, report, table
from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.cluster.quota_leases import PageBudget
from lycosa.config.settings import ClusterSettings
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.log.entry import CLAIM, COMMIT, FOLDER, RELEASE, Entry, new_attempt
from lycosa.store.log.transaction import append
from lycosa.store.storage.files import DataFile
from lycosa.store.workspace import MAX_PARTITIONS, Workspace

PAGES_PER_S = 105  # docs/explanation/scaling.md: 420 per machine of four cores
RELEASE_MS = 2_000
LOAD_MS = 1_000  # per million URLs, as measured with 10 million
COMMIT_MS, WHOLE_COMMIT_MS = 120_000, 1_800_000
LOG_MS = 50  # a conditional PUT on S3 takes 20 to 60 ms
HOST_DELAY_S = 3.0
STATUSES = 7  # per ping interval: the driver reads the status every 500 ms, the service every 2 s
TABLES = ("urls", "pages", "visits", "links", "found", "hosts", "texts", "metadata")
MACHINE, RACK = 4, 100  # workers
SMALLEST, CLASSES = 10, 15  # pages of the smallest hosts; each class has hosts of twice the size

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class Web:
    """Hosts as counts by partition and size class. All hosts of a partition are visited in turn."""

    def __init__(self, hosts: int, urls: int, partitions: int, largest: float) -> None:
        random = np.random.default_rng(1)
        shares = np.full(partitions, (1 - largest) / partitions)
        shares[0] += largest
        sizes = 0.5 ** np.arange(1, CLASSES + 1)
        self.sizes = SMALLEST * 2.0 ** np.arange(CLASSES)
        self.hosts: Floats = random.poisson(hosts * shares[:, None] * sizes / sizes.sum()).astype(
            float
        )
        self.hosts *= urls / float((self.hosts @ self.sizes).sum())
        self.total: Floats = self.hosts @ self.sizes
        self.fetched: Floats = np.zeros(partitions)
        self._level: Floats = np.zeros(partitions)

    @property
    def waiting(self) -> Floats:
        return self.total - self.fetched

    def fetch(self, owners: Indices, workers: int, seconds: float) -> Floats:
        """Fetch by all workers; return the pages of each.

        Args:
            owners: the worker of each partition, -1 without one.
        """
        owned = owners >= 0
        alive = (self.hosts * (self.sizes > self._level[:, None])).sum(axis=1)
        offer = np.where(owned, alive / HOST_DELAY_S, 0.0)
        offers = np.bincount(owners[owned], offer[owned], minlength=workers)
        used = np.minimum(1.0, PAGES_PER_S / np.maximum(offers, 1e-9))
        pages = np.minimum(offer * np.append(used, 0.0)[owners] * seconds, self.waiting)
        self.fetched += pages
        self._level += pages / np.maximum(alive, 1.0)
        return np.bincount(owners[owned], pages[owned], minlength=workers).astype(float)


@dataclass
class Meter:
    """CPU of the coordinator and its messages."""

    calls: Counter[str] = field(default_factory=Counter)
    cpu_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    bytes: Counter[str] = field(default_factory=Counter)

    def measure(self, name: str, call: Callable[..., Any], *values: Any) -> Any:
        start = time.thread_time()
        result = call(*values)
        self.cpu_s[name] += time.thread_time() - start
        self.calls[name] += 1
        return result


class Worker:
    """Follows the replies to its pings, like `lycosa.cluster.member`."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name, self._cluster = name, cluster
        self.lease = Lease(cluster.clock, cluster.settings.hold)
        self.intent: frozenset[int] = frozenset()
        self.claim = 0
        self.ready = self.busy = self.dead = False
        self.pages = self.added = 0.0
        self.uncommitted = 0.0

    def ping(self) -> None:
        if self.dead:
            return
        cluster, sent = self._cluster, self.lease.sending()
        waiting = {}
        if self.ready:
            waiting = {each: cluster.waiting[each] for each in self.intent}
        ping = Ping(
            self.name,
            f"node-{int(self.name.split('-')[1]) // MACHINE}",
            self.claim,
            self.intent,
            cluster.log.head,
            self.ready and not any(waiting.values()),
            dict(self.lease.granted(self.claim)),
            {"web": int(self.added)},
            waiting,
            {"pages": int(self.pages), "rate": PAGES_PER_S, "errors": {}, "queue": 1_000},
            acknowledged=self.lease.acknowledged,
            ready=self.ready,
            committed={"web": int(self.added - self.uncommitted)} if self.claim else {},
            fetched=int(self.pages),
        )
        answer = cluster.send(ping)
        self.lease.answered(sent, answer)
        self.act()
        interval = cluster.settings.ping_interval
        cluster.after(interval // 10 if answer.soon else interval, self.ping)

    def act(self) -> None:
        assigned = self.lease.assigned_partitions
        if self.busy or self.dead or assigned is None:
            return
        if self.claim and assigned != self.intent:
            self.busy, self.ready = True, False
            self._cluster.after(RELEASE_MS, self._release)
        elif not self.claim and assigned:
            self.busy, self.intent = True, assigned
            self._cluster.write(CLAIM, self, self._load, partitions=tuple(sorted(assigned)))

    def commit(self) -> None:
        if self.dead:
            return
        if self.ready and self.uncommitted:
            self.uncommitted = 0.0
            self._cluster.write(COMMIT, self, lambda entry: None)
        self._cluster.after(self._cluster.commit_ms, self.commit)

    def _release(self) -> None:
        self.uncommitted = 0.0
        self._cluster.write(RELEASE, self, self._released)

    def _released(self, entry: int) -> None:
        self.claim, self.intent, self.busy = 0, frozenset(), False
        self.act()

    def _load(self, entry: int) -> None:
        self.claim, self.added = entry, 0.0
        urls = float(self._cluster.web.total[list(self.intent)].sum())
        self._cluster.after(int(LOAD_MS * urls / 1e6), self._loaded)

    def _loaded(self) -> None:
        self.busy, self.ready = False, True
        self.act()


class Cluster:
    """Workers, the coordinator and the log; a discrete event simulation."""

    def __init__(
        self,
        workspace: Workspace,
        web: Web,
        settings: ClusterSettings,
        expected: int,
        *,
        quota: bool,
        whole: bool,
    ) -> None:
        self.web, self.settings, self.clock = web, settings, ManualClock(0)
        self.commit_ms = WHOLE_COMMIT_MS if whole else COMMIT_MS
        # nothing is compacted, so snapshots of the log with the files of days would take hours
        self._with_files = not whole
        self.meter = Meter()
        self.workers: list[Worker] = []
        workspace.storage.make_folder(FOLDER)
        self.log = workspace.state()
        self._workspace = workspace
        self._numbers = count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._log_free = 0
        self._fetched_at = self.entries = 0
        self.waiting: list[int] = []
        budgets = (PageBudget("web", 10 * int(web.total.sum())),) if quota else ()
        self._plan = CoordinatorPlan(expected, budgets, ends=True)
        self.restart_coordinator()
        self._tick()
        self._status()

    def restart_coordinator(self) -> None:
        self.leadership, self.coordinator = lead(
            self._workspace, self.clock, self._plan, self.settings
        )

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        at = self.clock.monotonic_ms() + delay_ms
        heapq.heappush(self._events, (at, next(self._numbers), action))

    def write(self, kind: str, worker: Worker, done: Callable[[int], None], **fields: Any) -> None:
        """Append an entry once the log is free."""
        now = self.clock.monotonic_ms()
        self._log_free = max(now, self._log_free) + LOG_MS

        def append_entry() -> None:
            if worker.dead:
                return
            self.entries += 1
            claim = 0 if kind == CLAIM else worker.claim
            name = f"data/{claim:08d}-{self.entries}"
            if kind == COMMIT:
                fields["counters"] = {"pages.web": 12_000}
            if kind == COMMIT and self._with_files:
                fields["files"] = {
                    each: (DataFile(f"{name}/{each}.parquet", 12_000, 1_000_000, "0" * 32),)
                    for each in TABLES
                }
                fields["warcs"] = (DataFile(f"{name}/archive.warc.gz", 0, 100_000_000, "0" * 32),)
            draft = Entry(
                kind,
                new_attempt(),
                "2026-01-01T00:00:00Z",
                claim=claim,
                worker=worker.name,
                **fields,
            )
            done(append(self.log, draft).number)

        self.after(self._log_free - now, append_entry)

    def send(self, ping: Ping) -> Any:
        message = pickle.dumps(ping)
        answer = self.meter.measure("ping", self.coordinator.ping, pickle.loads(message))
        self.meter.bytes["ping"] += len(message)
        self.meter.bytes["reply"] += len(pickle.dumps(answer))
        return answer

    def join(self, number: int, within_ms: int) -> None:
        """Start workers, spread over a time."""
        for place in range(number):
            worker = Worker(f"worker-{len(self.workers)}", self)
            self.workers.append(worker)
            self.after(within_ms * place // number, worker.ping)
            self.after(self.commit_ms * place // number, worker.commit)

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> float:
        """Process the events of a time; return the seconds until the condition is true, else all."""
        begin = self.clock.monotonic_ms()
        end = begin + int(seconds * 1000)
        while self._events[0][0] <= end:
            at, _, action = heapq.heappop(self._events)
            self.clock.advance(at - self.clock.monotonic_ms())
            action()
            if action == self._tick and until is not None and until():
                return (at - begin) / 1000
        return seconds

    def recovered(self) -> bool:
        """Return whether living workers have loaded all partitions, and none is busy."""
        living = [worker for worker in self.workers if not worker.dead]
        loaded = sum(len(worker.intent) for worker in living if worker.ready)
        return loaded == len(self.web.total) and not any(worker.busy for worker in living)

    @property
    def loaded(self) -> int:
        return sum(len(each.intent) for each in self.workers if each.ready and not each.dead)

    def _tick(self) -> None:
        self.leadership.touch()
        self.meter.measure("tick", self.coordinator.tick)
        self._fetch()
        self.after(self.settings.ping_interval // 6, self._tick)

    def _status(self) -> None:
        self.meter.measure("status", self.coordinator.status)
        self.after(self.settings.ping_interval // STATUSES, self._status)

    def _fetch(self) -> None:
        now = self.clock.monotonic_ms()
        working = [
            (worker, list(worker.intent & worker.lease.answer.partitions))
            for worker in self.workers
            if worker.ready and not worker.dead and worker.lease.holds
        ]
        owners = np.full(len(self.web.total), -1)
        for number, (_, partitions) in enumerate(working):
            assert np.all(owners[partitions] < 0), "two workers may fetch from one partition"
            owners[partitions] = number
        fetched = self.web.fetch(owners, len(working), (now - self._fetched_at) / 1000)
        self._fetched_at = now
        self.waiting = self.web.waiting.astype(int).tolist()
        for (worker, _), pages in zip(working, fetched.tolist(), strict=True):
            worker.pages += pages
            worker.added += pages
            worker.uncommitted += pages


@dataclass(slots=True, frozen=True)
class Phase:
    """Figures from an event until the cluster has recovered, and of a time after that."""

    event: str
    recovered_s: float
    partitions_without_owner: int  # maximum after the event
    pages_again: int
    claims: int
    coordinator_cpu: float  # share of one core
    pings_per_s: float
    entries_per_s: float


def phase(cluster: Cluster, event: str, action: Callable[[], None], settled_s: float) -> Phase:
    """Cause an event, wait until the cluster has recovered and for `settled_s` more, and measure."""
    meter = cluster.meter = Meter()
    entries, head, begin = cluster.entries, cluster.log.head, cluster.clock.monotonic_ms()
    lost = sum(worker.uncommitted for worker in cluster.workers if not worker.dead)
    action()
    lost -= sum(worker.uncommitted for worker in cluster.workers if not worker.dead)
    lowest = cluster.loaded

    def has_recovered() -> bool:
        nonlocal lowest
        lowest = min(lowest, cluster.loaded)
        return cluster.clock.monotonic_ms() - begin > 1_000 and cluster.recovered()

    recovered = cluster.run(900, has_recovered)
    cluster.run(settled_s)
    seconds = (cluster.clock.monotonic_ms() - begin) / 1000
    claims = sum(number > head for number in cluster.log.claims)
    result = Phase(
        event,
        recovered,
        len(cluster.web.total) - lowest,
        round(lost),
        claims,
        sum(meter.cpu_s.values()) / seconds,
        meter.calls["ping"] / seconds,
        (cluster.entries - entries) / seconds,
    )
    print(result, file=sys.stderr, flush=True)
    return result


def kill(cluster: Cluster, number: int, *, reported: bool) -> None:
    """Kill the first living workers. `reported`: the engine reports it."""
    living = [worker for worker in cluster.workers if not worker.dead]
    for worker in living[:number]:
        worker.dead = True
        if reported:
            cluster.coordinator.worker_died(worker.name)


def size_of(root: object) -> int:
    """Return the bytes of an object and of all objects that it refers to, without code."""
    seen, waiting, total = set[int](), [root], 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | Callable):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        waiting += gc.get_referents(each)
    return total


def failures(cluster: Cluster, workers: int) -> tuple[list[Phase], str]:
    """Start the cluster, then remove and add parts of it."""
    rack, machine = min(RACK, workers // 4), min(MACHINE, workers // 4)
    phases = [
        phase(cluster, f"{workers} workers start", lambda: cluster.join(workers, 10_000), 0),
        phase(cluster, "nothing", lambda: None, 60),
    ]
    quiet = cluster.meter
    costs = ", ".join(
        f"{name} {quiet.cpu_s[name] / quiet.calls[name] * 1e3:.2f} ms" for name in quiet.cpu_s
    )
    sizes = ", ".join(
        f"{name} {quiet.bytes[name] / quiet.calls['ping']:,.0f} bytes" for name in quiet.bytes
    )
    memory = size_of([cluster.coordinator.members, cluster.coordinator._quotas])
    state = size_of(cluster.coordinator._state)
    phases += [
        phase(cluster, "a worker dies", lambda: kill(cluster, 1, reported=False), 30),
        phase(cluster, "its replacement joins", lambda: cluster.join(1, 1), 30),
        phase(cluster, "a machine dies", lambda: kill(cluster, machine, reported=True), 30),
        phase(cluster, f"{rack} workers die", lambda: kill(cluster, rack, reported=True), 30),
        phase(cluster, f"{rack} workers join", lambda: cluster.join(rack, 10_000), 30),
        phase(cluster, "the coordinator restarts", cluster.restart_coordinator, 30),
    ]
    text = (
        f"CPU per call, undisturbed: {costs}. Messages: {sizes}. Memory of the coordinator: "
        f"{memory / 1e6:.1f} MB for members and quotas, {state / 1e6:.1f} MB for the log after "
        f"{cluster.log.head:,} entries."
    )
    return phases, text


def crawl_all(cluster: Cluster, workers: int) -> list[dict[str, float]]:
    """Crawl for days; return how evenly the work was shared at some shares of the URLs."""
    cluster.join(workers, 60_000)
    rows = []
    total = float(cluster.web.total.sum())
    for share in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99):
        cluster.run(10 * 86_400, lambda: float(cluster.web.fetched.sum()) >= share * total)  # noqa: B023
        pages = [worker.pages for worker in cluster.workers]
        mean = sum(pages) / len(pages)
        idle = sum(
            cluster.web.waiting[list(worker.intent)].sum() <= 1 for worker in cluster.workers
        )
        rows.append(
            {
                "share of URLs": share,
                "hours": cluster.clock.monotonic_ms() / 3_600_000,
                "most loaded worker to mean": max(pages) / mean,
                "least loaded worker to mean": min(pages) / mean,
                "workers without URLs": idle,
                "claims": sum(1 for _ in cluster.log.claims),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = arguments(
        __doc__,
        workers=1_000,
        partitions=MAX_PARTITIONS,
        hosts=100_000_000,
        urls=10_000_000_000,
        largest_domain=(0.0, "share of the hosts in one domain"),
        quota=(False, "with a page quota, as for --max-pages"),
        whole=(False, "crawl for days instead of causing failures"),
    )
    options = parser.parse_args()
    web = Web(options.hosts, options.urls, options.partitions, options.largest_domain)
    settings = ClusterSettings()
    if options.whole:
        settings = ClusterSettings.model_validate(
            {"ping_interval": "60s", "hold": "5m", "reassign": "10m"}
        )
    with tempfile.TemporaryDirectory(prefix="lycosa-simulation-") as folder:
        workspace = Workspace.create(f"{folder}/w", partitions=options.partitions)
        cluster = Cluster(
            workspace, web, settings, options.workers, quota=options.quota, whole=options.whole
        )
        if options.whole:
            rows, text = crawl_all(cluster, options.workers), ""
        else:
            phases, text = failures(cluster, options.workers)
            rows = [asdict(each) for each in phases]
    cells = [[_cell(value) for value in row.values()] for row in rows]
    report(options, "Simulation of a cluster", table(list(rows[0]), cells) + f"\n\n{text}", rows)


def _cell(value: object) -> str:
    return f"{value:,.3g}" if isinstance(value, float) else f"{value}"


if __name__ == "__main__":
    main()
