"""A small cluster in simulated time that a test runs step by step.

Store, coordinator and leadership are the real classes. Every process has its own clock, which may
drift, and a thread that stops before each storage operation until the test continues it; there it
can be delayed or killed. Pings and replies are messages that can be late, reordered or lost.
Workers fetch an imaginary web, but write real files and rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import polars as pl

from lycosa.cluster.coordinator import Coordinator, CoordinatorPlan
from lycosa.cluster.quota_leases import PageBudget
from lycosa.config.settings import ClusterSettings
from lycosa.core.errors import ClaimLost
from lycosa.core.records import UrlId, UrlState
from lycosa.crawl.membership import Lease, Ping, PingReply
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.coordination.leadership import LeaderCandidate, Leadership, Timing
from lycosa.store.log.claim import Claim, DataFolder
from lycosa.store.log.entry import COMMIT, FOLDER, Entry, decode_entry
from lycosa.store.log.log import Log
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import CommitContents
from lycosa.store.storage.local import LocalStorage
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import found_row
from lycosa.store.workspace import Workspace
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.keys import Identifier
from tests.store.builders import url_row

SETTINGS = ClusterSettings.model_validate(
    {"ping_interval": "200ms", "hold": "1500ms", "reassign": "3s"}
)
PARTITIONS = 4
PAGES = 24
TURN_MS = 200
COMMIT_PAGES = 5


class Killed(BaseException):
    """The process was killed."""


class Violation(AssertionError):
    """The protocol violated one of its guarantees."""


def links(page: int) -> list[int]:
    """Return the links of a page. All pages are reachable from page 0."""
    return sorted({(2 * page + 1) % PAGES, (2 * page + 2) % PAGES, (7 * page + 3) % PAGES} - {page})


class DriftingClock:
    """The clock of a process, with its own offset and speed."""

    def __init__(self, world: World, percent: int, offset: int) -> None:
        self._world, self._percent, self._offset = world, percent, offset

    def monotonic_ms(self) -> int:
        return self._world.now * (100 + self._percent) // 100 + self._offset

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.monotonic_ms()


class Process:
    """Runs one action at a time in a thread that the test advances."""

    def __init__(self, world: World, name: str, percent: int) -> None:
        self.world, self.name = world, name
        self.clock = DriftingClock(world, percent, 10_000 * len(world.processes))
        self.storage = SteppedStorage(world, self)
        self.workspace = replace(world.workspace, storage=self.storage)
        self.alive, self.stalled = True, False
        self.cut_off = False  # it continues, but its pings are lost
        self._thread: threading.Thread | None = None
        self._resumed, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._failure: BaseException | None = None
        world.processes.append(self)

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def begin(self, action: Callable[[], None]) -> None:
        """Start an action and run it to its first storage operation or its end."""
        assert self.alive
        assert not self.busy

        def run() -> None:
            try:
                self._resumed.acquire()
                action()
            except Killed:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again in `step`
                self._failure = error
            self._thread = None
            self._paused.release()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self.step()

    def step(self) -> None:
        if self._thread is not None:
            self._resumed.release()
            self._paused.acquire()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure

    def finish(self) -> None:
        while self.busy:
            self.step()

    def do(self, action: Callable[[], None]) -> None:
        self.begin(action)
        self.finish()

    def kill(self) -> None:
        self.alive = False
        self.finish()

    def pause(self) -> None:
        """Wait until the test continues the thread of this process."""
        if self._thread is not threading.current_thread():
            return
        if self.alive:
            self._paused.release()
            self._resumed.acquire()
        if not self.alive:
            raise Killed


class SteppedStorage(LocalStorage):
    """Real storage with a pause before each operation of a process.

    The world keeps a copy of each log entry, because vacuum deletes them.
    """

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world.workspace.root)
        self._world, self._process = world, process

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        self._process.pause()
        created = super().create(relative, content, mode=mode)
        if created and relative.startswith(FOLDER) and relative.endswith(".json"):
            self._world.record_entry(relative, content)
        return created

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        self._process.pause()
        super().replace(relative, content, mode=mode, sync=sync)

    def size(self, relative: str) -> int | None:
        if relative.startswith("run/"):
            self._process.pause()
        return super().size(relative)

    def sync(self, relative: str) -> None:
        pass  # power cuts are not simulated here

    def sync_folder(self, relative: str) -> None:
        pass


@dataclass
class Message:
    """A ping in transit, or its reply."""

    worker: WorkerProcess
    sent: int
    to: CoordinatorProcess
    ping: Ping
    answer: PingReply | None = None


class CoordinatorProcess(Process):
    """Like `lycosa.cluster.coordinator_service`, but advanced by the test."""

    def __init__(self, world: World, name: str, cluster: str, percent: int) -> None:
        super().__init__(world, name, percent)
        self._candidate = LeaderCandidate(
            self.storage, name, cluster, Timing(SETTINGS.hold, SETTINGS.reassign), self.clock
        )
        self.leadership: Leadership | None = None
        self.coordinator: Coordinator | None = None

    def turn(self) -> None:
        """Run one iteration of the coordinator thread."""
        if self.leadership is None:
            self.leadership = self._candidate.try_to_lead()
            if self.leadership is None:
                return
            self.coordinator = Coordinator(
                self.workspace.state(),
                PARTITIONS,
                SETTINGS,
                self.clock,
                self.leadership,
                CoordinatorPlan(
                    self.world.expected,
                    [PageBudget("default", self.world.budget)] if self.world.budget else [],
                    ends=True,
                ),
            )
        if not self.leadership.lost:
            self.leadership.touch()
            assert self.coordinator is not None
            before = self.coordinator.ended
            self.coordinator.tick()
            if self.coordinator.ended == "finished" and not before:
                self.world.check_finished()

    def answer(self, ping: Ping) -> PingReply:
        return self.coordinator.ping(ping) if self.coordinator is not None else PingReply(lost=True)


class WorkerProcess(Process):
    """Like a cluster member with a crawl session, over an imaginary web."""

    def __init__(self, world: World, name: str, percent: int) -> None:
        super().__init__(world, name, percent)
        self.lease = Lease(self.clock, SETTINGS.hold)
        self.claim: Claim | None = None
        self.intent: frozenset[int] = frozenset()
        self.ended = False
        self._open()

    def _open(self) -> None:
        self.ready = False
        self.known: set[int] = set()
        self.visited: set[int] = set()
        self.in_flight: set[int] = set()
        self.added = 0
        self.read_to = 0
        self._begin_batch()

    def _begin_batch(self) -> None:
        self.folder: DataFolder | None = None
        self.pages: list[int] = []
        self.uncommitted: set[int] = set()  # known pages that no commit contains
        self.remote_links: set[tuple[int, int]] = set()
        self.replayed: list[str] = []
        self.applied_rows = False  # found rows were applied since the last commit

    def ping(self) -> Ping:
        received, granted = (
            self.lease.acknowledged,
            dict(self.lease.granted(self.claim.entry if self.claim else 0)),
        )
        head, idle = 0, False
        if self.claim is not None and self.ready and not self.busy:
            self.read_log()
        if self.claim is not None and self.ready:
            idle = not (
                self.in_flight
                or self.known - self.visited
                or self.pages
                or self.uncommitted
                or self.remote_links
                or self.replayed
                or self.applied_rows
                or self.busy
            )
            head = self.read_to
        return Ping(
            self.name,
            "node",
            self.claim.entry if self.claim else 0,
            self.intent,
            head,
            idle,
            granted,
            {"default": self.added + len(self.in_flight)},
            {
                p: sum(world_partition(self.world, page) == p for page in self.known - self.visited)
                for p in self.intent
            },
            acknowledged=received,
            ready=self.ready,
            committed={"default": self.claim.counted["pages.default"] if self.claim else 0},
        )

    def apply_assignment(self) -> None:
        """Claim or release partitions according to the current reply."""
        assigned = self.lease.assigned_partitions
        if assigned is None:
            self.in_flight.clear()
            return
        if assigned != self.intent or (assigned and self.claim is None):
            self.hand_over()
            self.claim_partitions(assigned)
        self.ended = self.ended or (self.lease.answer.stop and not self.intent)

    def hand_over(self) -> None:
        if self.claim is None:
            self.intent = frozenset()
            return
        self.in_flight.clear()
        claim = self.claim
        try:
            if self.ready:
                self.commit()
            claim.release()
        except ClaimLost:
            pass
        self.drop_claim()

    def drop_claim(self) -> None:
        self.claim, self.intent = None, frozenset()
        self._open()

    def claim_partitions(self, assigned: frozenset[int]) -> None:
        if not assigned:
            return
        self.intent = assigned
        self.pause()
        if self.lease.assigned_partitions != assigned:
            self.intent = frozenset()
            return
        claim = self.workspace.claim(self.name, assigned, clock=self.clock)
        self._open()
        self.claim = claim
        if self.lease.assigned_partitions != assigned:  # the assignment changed meanwhile
            claim.release()
            self.drop_claim()
            return
        try:
            self.resume(claim)
        except ClaimLost:
            self.drop_claim()

    def resume(self, claim: Claim) -> None:
        """Load the committed rows, then replay uncommitted archives."""
        self.load(LiveTables(self.workspace, claim.state))
        self.apply(LiveTables(self.workspace, claim.state))
        if self.owns(0) and 0 not in self.known:
            self.known.add(0)
            self.uncommitted.add(0)
        for orphan in claim.orphans():
            for line in Path(self.workspace.path(orphan.path)).read_text().splitlines():
                page = int(line)
                if self.owns(page) and page not in self.visited:
                    self.known.add(page)
                    self.archive(page)
                    if len(self.pages) >= 3:
                        self.commit()
            self.replayed.append(orphan.path)
        if self.replayed:
            self.commit()
        self.ready = True

    def load(self, tables: LiveTables) -> None:
        rows = (
            tables.scan("urls")
            .filter(pl.col("partition").is_in(list(self.intent)))
            .select("url", "state")
            .collect()
        )
        for url, state in rows.iter_rows():
            page = int(url.rpartition("/")[2])
            self.known.add(page)
            if state == UrlState.VISITED:
                self.visited.add(page)

    def apply(self, tables: LiveTables) -> None:
        """Apply the unapplied found rows of the claimed partitions."""
        for page in self.unapplied(tables):
            self.applied_rows = True
            if page not in self.known:
                self.known.add(page)
                self.uncommitted.add(page)
        self.read_to = tables.state.head

    def unapplied(self, tables: LiveTables) -> list[int]:
        if not tables.state.files.get("found"):
            return []
        rows = tables.scan("found").filter(pl.col("partition").is_in(list(self.intent))).collect()
        return [int(url.rpartition("/")[2]) for url in rows["url"]]

    def read_log(self) -> None:
        assert self.claim is not None
        try:
            self.claim.check()
        except ClaimLost:
            self.drop_claim()
            return
        state = self.claim.state
        if state.head > self.read_to:
            if any(file.entry > self.read_to for file in state.files.get("found", ())):
                self.apply(LiveTables(self.workspace, state))
            self.read_to = state.head

    def fetch(self, count: int) -> None:
        """Start up to `count` fetches within quota and lease."""
        for page in sorted(self.known - self.visited - self.in_flight)[:count]:
            partition = world_partition(self.world, page)
            within_quota = (
                not self.world.budget
                or self.added + len(self.in_flight)
                < self.lease.granted(self.claim.entry)["default"]  # type: ignore[union-attr]
            )
            if self.ready and within_quota and may_fetch(self.lease, partition):
                self.world.check_start(self, partition)
                self.in_flight.add(page)

    def receive(self) -> None:
        """Finish the fetches in flight, or abort them without a lease."""
        received, self.in_flight = self.in_flight, set()
        for page in sorted(received) if self.lease.holds else ():
            self.archive(page)

    def archive(self, page: int) -> None:
        assert self.claim is not None
        if self.folder is None:
            self.folder = self.claim.next_folder()
        with Path(self.folder.absolute, "archive.warc.gz").open("a") as warc:
            warc.write(f"{page}\n")
        self.visited.add(page)
        self.pages.append(page)
        self.added += 1
        for target in links(page):
            if not self.owns(target):
                self.remote_links.add((page, target))
            elif target not in self.known:
                self.known.add(target)
                self.uncommitted.add(target)

    def commit(self) -> None:
        claim = self.claim
        assert claim is not None
        if not (
            self.pages
            or self.uncommitted
            or self.remote_links
            or self.replayed
            or self.applied_rows
        ):
            return
        folder = self.folder or claim.next_folder()
        buffers = Buffers()
        for page in sorted({*self.pages, *self.uncommitted}):
            buffers.add_url(
                url_row(
                    self.world.url(page),
                    UrlState.VISITED if page in self.visited else UrlState.KNOWN,
                )
            )
        for source, target in sorted(self.remote_links):
            row = found_row(
                url_row(self.world.url(target)),
                source=self.world.url(source).url,
                anchor="",
                kind="a",
            )
            buffers.found.add(row)
        number = claim.commit(
            folder,
            buffers.mapping(),
            CommitContents(
                warc=folder.warc if self.pages else None,
                orphans_used=self.replayed,
                applied=dict.fromkeys(claim.partitions, self.read_to) if self.applied_rows else {},
                counters={"pages.default": len(self.pages)},
            ),
        )
        self.world.committed(
            folder.attempt,
            number,
            claim.entry,
            self.pages,
            {target for _, target in self.remote_links},
        )
        self._begin_batch()

    def owns(self, page: int) -> bool:
        return world_partition(self.world, page) in self.intent

    def turn(self) -> None:
        """Run one iteration of the worker loop, without pings."""
        if self.ended:
            return
        try:
            self.apply_assignment()
            if self.claim is not None and self.ready:
                self.read_log()
            if self.claim is not None and self.ready:
                self.receive()
                self.fetch(2)
                if len(self.pages) >= COMMIT_PAGES or not self.in_flight:
                    self.commit()
        except ClaimLost:
            self.drop_claim()


def may_fetch(lease: Lease, partition: int) -> bool:
    return lease.holds and partition in lease.answer.partitions


def world_partition(world: World, page: int) -> int:
    return world.url(page).partition


@cache
def _urls() -> list[UrlId]:
    identifier = Identifier(Domains(bundled_suffix_list()), PARTITIONS)
    return [
        identifier.identify(f"http://site{page % 9}.example{page % 9}.org/{page}")
        for page in range(PAGES)
    ]


@dataclass
class Acknowledged:
    attempt: str
    number: int
    claim: int
    pages: list[int]
    results: set[int]


class World:
    """All processes, messages and log entries.

    `budget`: maximum number of pages of the crawl; 0: unlimited.
    """

    def __init__(self, root: str, *, budget: int = 0, expected: int = 2) -> None:
        self.workspace = Workspace.create(root, partitions=PARTITIONS)
        self.budget, self.expected = budget, expected
        self.now = 0
        self.processes: list[Process] = []
        self.messages: list[Message] = []
        self.entries: dict[int, Entry] = {}
        self.acknowledged: list[Acknowledged] = []
        self.starts = 0

    def url(self, page: int) -> UrlId:
        return _urls()[page]

    @property
    def workers(self) -> list[WorkerProcess]:
        return [each for each in self.processes if isinstance(each, WorkerProcess) and each.alive]

    @property
    def coordinators(self) -> list[CoordinatorProcess]:
        return [
            each for each in self.processes if isinstance(each, CoordinatorProcess) and each.alive
        ]

    def send(self, worker: WorkerProcess, to: CoordinatorProcess) -> Message:
        message = Message(worker, worker.lease.sending(), to, worker.ping())
        self.messages.append(message)
        return message

    def deliver(self, message: Message) -> None:
        """Deliver a ping to its coordinator, or a reply to its worker."""
        if message.answer is None:
            if message.to.alive:
                message.answer = message.to.answer(message.ping)
            else:
                self.messages.remove(message)
        else:
            self.messages.remove(message)
            if message.worker.alive:
                message.worker.lease.answered(message.sent, message.answer)

    def turn(self) -> None:
        """Advance the time and run all processes that are not stalled."""
        self.now += TURN_MS
        for coordinator in self.coordinators:
            if not coordinator.stalled:
                coordinator.finish()
                coordinator.do(coordinator.turn)
        for worker in self.workers:
            if not worker.stalled and not worker.ended:
                for coordinator in self.coordinators if not worker.cut_off else ():
                    message = self.send(worker, coordinator)
                    self.deliver(message)
                    self.deliver(message)
                worker.finish()
                worker.do(worker.turn)
        self.check()

    def compact(self) -> None:
        compact(self.workspace, CompactionSettings(gather=2), clock=DriftingClock(self, 0, 0))
        self._record_merges()

    def vacuum(self) -> None:
        self._record_merges()
        now = 1_700_000_000_000 + self.now + 10**12
        vacuum(
            self.workspace,
            keep_replaced_ms=10**13 if any(worker.claim for worker in self.workers) else 0,
            keep_entries_ms=0,
            now_ms=now,
        )

    # -- checks
    # ------------------------------------------------------------

    def record_entry(self, relative: str, content: bytes) -> None:
        number = int(relative[len(FOLDER) + 1 : -5])
        if number in self.entries:
            raise Violation(f"entry {number} was written twice")
        self.entries[number] = decode_entry(content, number)
        pages = sum(entry.counters.get("pages.default", 0) for entry in self.entries.values())
        if self.budget and pages > self.budget:
            raise Violation(f"{pages} pages are committed, the budget is {self.budget}")

    def committed(
        self, attempt: str, number: int, claim: int, pages: list[int], results: set[int]
    ) -> None:
        self.acknowledged.append(Acknowledged(attempt, number, claim, list(pages), set(results)))

    def check(self) -> None:
        """Check that at most one worker may fetch from each partition."""
        for partition in range(PARTITIONS):
            allowed = [worker.name for worker in self.workers if may_fetch(worker.lease, partition)]
            if len(allowed) > 1:
                raise Violation(
                    f"{' and '.join(allowed)} may both fetch from partition {partition}"
                )

    def check_start(self, worker: WorkerProcess, partition: int) -> None:
        self.starts += 1
        for other in self.workers:
            if other is not worker and (
                may_fetch(other.lease, partition)
                or any(
                    world_partition(self, page) == partition
                    for page in other.in_flight
                    if other.lease.holds
                )
            ):
                raise Violation(
                    f"{worker.name} fetches from partition {partition}, which "
                    f"{other.name} may fetch from"
                )

    def check_finished(self) -> None:
        """Check that no found row is unapplied and all pages are visited."""
        tables = LiveTables(self.workspace)
        if tables.state.files.get("found") and tables.scan("found").collect().height:
            raise Violation("the crawl ended while found rows were unapplied")
        missing = set(range(PAGES)) - self.visited()
        if missing:
            raise Violation(f"the crawl ended without {sorted(missing)}")

    def visited(self) -> set[int]:
        rows = (
            LiveTables(self.workspace).scan("urls").filter(pl.col("state") == "visited").collect()
        )
        return {int(url.rpartition("/")[2]) for url in rows["url"]}

    def check_log(self) -> None:
        """Check that each acknowledged commit is in log and tables once.

        Also checks that the replay of all entries equals the state from the last snapshot.
        """
        self._record_merges()
        by_attempt: dict[str, list[Entry]] = {}
        for entry in self.entries.values():
            by_attempt.setdefault(entry.attempt, []).append(entry)
        visited = self.visited()
        rows = set(LiveTables(self.workspace).scan("urls").collect()["url"])
        rows |= set(LiveTables(self.workspace).scan("found").collect()["url"])
        for commit in self.acknowledged:
            entries = by_attempt.get(commit.attempt, [])
            if (
                len(entries) != 1
                or entries[0].number != commit.number
                or entries[0].claim != commit.claim
            ):
                raise Violation(
                    f"a commit that was acknowledged as {commit.number} is in the log "
                    f"{len(entries)} times"
                )
            if not set(commit.pages) <= visited:
                raise Violation(f"pages of commit {commit.number} are not in the tables")
            if not {self.url(target).url for target in commit.results} <= rows:
                raise Violation(
                    f"found rows of commit {commit.number} are neither applied nor pending"
                )
        state = self.workspace.state()
        counted = sum(
            entry.counters.get("pages.default", 0)
            for entry in self.entries.values()
            if entry.kind == COMMIT
        )
        if not state.counters["pages.default"] == counted == len(visited):
            raise Violation(
                f"{len(visited)} pages are in the tables, {counted} were committed: "
                "one was committed twice, or is lost"
            )
        replayed = LogState(Log(self.workspace.storage))
        replayed.settings = {}
        for number in range(1, state.head + 1):
            replayed.apply(self.entries[number])
        if replayed.document() != state.document():
            raise Violation("the log from entry 1 and from a snapshot differ")

    def _record_merges(self) -> None:
        """Record the log entries that merges wrote."""
        number = max(self.entries, default=0)
        while (entry := self.workspace.log.read(number + 1)) is not None:
            number += 1
            self.entries[number] = entry

    def close(self) -> None:
        for process in self.processes:
            process.kill()
