"""The daemon's worker: a process that fetches, parses and commits for good, and may die of a page."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.sharedctypes import RawArray, RawValue
from types import FrameType

from lycosa.app.live import write_live
from lycosa.app.memory import tune_memory
from lycosa.app.processes import News
from lycosa.app.room import Room
from lycosa.app.session import Session, open_session
from lycosa.app.uptime_session import Uptime
from lycosa.app.vitals import Rate, Rest, Vitals, cpu_s, figures
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.config import Config
from lycosa.core.errors import ClaimLost, LycosaError, UsageError
from lycosa.core.records import Exchange
from lycosa.core.refused import is_disk_full
from lycosa.core.units import format_time
from lycosa.crawl.ledger import Job
from lycosa.crawl.understand import Reader, ReadsDocuments, Understood
from lycosa.crawl.worker import Worker
from lycosa.fetch.decode import Headers
from lycosa.store.workspace import Workspace

_LIVE_EVERY_MS = 2_000
_WALK_EVERY_MS = 60_000
_MARK_BYTES = 2_048


class PageMark:
    """Which page is being parsed, in memory that parent and child share: what a killed process can still tell."""

    def __init__(self) -> None:
        self._text = RawArray("c", _MARK_BYTES)
        self._number = RawValue("Q")

    def set(self, url: str) -> None:
        self._number.value += 1
        self._text.value = url.encode()[: _MARK_BYTES - 1]

    @property
    def number(self) -> int:
        """Changes with every page that is begun or done."""
        number: int = self._number.value
        return number

    @property
    def url(self) -> str:
        text: bytes = self._text.value
        return text.decode(errors="replace")


class _Unmarked:
    """Reads documents without a mark: that has time limits of its own, and waits for other processes."""

    def __init__(self, documents: ReadsDocuments, mark: PageMark) -> None:
        self._documents = documents
        self._mark = mark

    def wants(self, exchange: Exchange) -> bool:
        return self._documents.wants(exchange)

    def read(self, exchange: Exchange) -> Understood:
        self._mark.set("")
        return self._documents.read(exchange)


class MarkingReader(Reader):
    """Reads as its base does, and leaves a mark while it does so, but for documents. A child process gets the plain reader."""

    __slots__ = ("_mark", "_plain")

    def __init__(self, reader: Reader, mark: PageMark) -> None:
        documents = None if reader.documents is None else _Unmarked(reader.documents, mark)
        super().__init__(reader.max_decoded, reader.product_token, documents)
        object.__setattr__(self, "_mark", mark)
        object.__setattr__(self, "_plain", reader)

    def __call__(self, exchange: Exchange, headers: Headers) -> Understood:
        mark: PageMark = self._mark  # type: ignore[attr-defined]
        mark.set(exchange.url)
        understood = Reader.__call__(self, exchange, headers)
        mark.set("")
        return understood

    def __reduce__(self) -> tuple[type[Reader], tuple[int, str, ReadsDocuments | None]]:
        plain: Reader = self._plain  # type: ignore[attr-defined]
        return Reader, (plain.max_decoded, plain.product_token, plain.documents)


@dataclass(slots=True, frozen=True)
class WorkerOrder:
    """What the daemon tells its worker: picklable. `daemon`: the daemon's process id."""

    root: str
    config: Config
    jobs: tuple[Job, ...]
    bad: Mapping[str, str]
    daemon: int


def work(tell: Callable[..., None], order: WorkerOrder, mark: PageMark) -> None:
    """Work these collections until SIGTERM: then commit, release and return. Runs in a process of its own.

    What goes wrong is told, and ends the process with exit code 1.
    """
    stopping = _Stopping()
    signal.signal(signal.SIGTERM, stopping)
    tune_memory()
    try:
        _work(tell, order, mark, stopping)
    except LycosaError as error:
        tell(_news(error), str(error))
        raise SystemExit(1) from None  # it is no fault of the program: no traceback
    except Exception as error:
        tell(_news(error), f"{type(error).__name__}: {error}")
        raise


class _Stopping:
    """SIGTERM: a worker that fetches ends by itself; one that still takes up what was stored is ended, it has changed nothing."""

    def __init__(self) -> None:
        self.worker: Worker | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.worker is None:
            raise SystemExit(0)
        self.worker.stop()


def _work(tell: Callable[..., None], order: WorkerOrder, mark: PageMark, stopping: _Stopping) -> None:
    clock = SystemClock()
    workspace = Workspace.open(order.root)
    ticks: list[Callable[[], object]] = []
    last: list[tuple[int, str]] = []  # entry and time of the last commit, if there was one

    def committed(entry: int) -> None:
        last[:] = [(entry, format_time(clock.now_ms()))]

    session = open_session(
        workspace,
        order.config,
        order.jobs,
        command="run",
        clock=clock,
        forever=True,
        committed=committed,
        tick=lambda: _call(ticks),
    )
    done = False
    uptime = Uptime(workspace, session.ledger, session.worker, order.config, clock, _say)
    try:
        absorber = session.worker.absorber
        assert isinstance(absorber.understand, Reader)
        absorber.understand = MarkingReader(absorber.understand, mark)
        watch = Watch(session, order, clock, lambda: last[0] if last else None)
        watch.write("loading the stored state")
        session.take_up()
        for path, number in session.worker.progress.damaged.items():
            _say(f"{path}: {number:,} damaged sections skipped, probably after a power failure; their pages are fetched again")
        uptime.tick()
        stopping.worker = session.worker
        tell(News.WORKING)
        ticks += [session.inbox.apply, watch.tick, uptime.tick]
        session.worker.run()
        done = True
    except SystemExit:
        done = True
        raise
    finally:
        uptime.close()
        session.close()  # waits for a commit that is being written
        if done:
            session.claim.release()


class Watch:
    """What the worker looks at once a second: the hours, the disk, its parent, links to walk again; and it says how it fares."""

    def __init__(self, session: Session, order: WorkerOrder, clock: Clock, last_commit: Callable[[], tuple[int, str] | None]) -> None:
        self._session = session
        self._order = order
        self._clock = clock
        self._last_commit = last_commit
        self._parent = os.getppid()
        self._since = format_time(clock.now_ms())
        self._limited = [job.collection.name for job in order.jobs if job.collection.depth is not None]
        here = session.workspace.storage
        room = Room(here.root if here.on_disk else here.scratch(), order.config.run.disk_reserve)
        self._rest = Rest(order.jobs, room, clock)
        self._rate = Rate(clock)
        self._next_live = 0
        self._next_walk = 0

    def tick(self) -> None:
        worker = self._session.worker
        if os.getppid() != self._parent:
            worker.stop()
        self._rest.look(self._session)
        now = self._clock.monotonic_ms()
        if now >= self._next_walk:
            self._next_walk = now + _WALK_EVERY_MS
            self._walk()
        if now >= self._next_live:
            self._next_live = now + _LIVE_EVERY_MS
            self.write(self._rest.message)

    def write(self, message: str) -> None:
        """Say how it goes, and why nothing is fetched if nothing is."""
        progress, ledger = self._session.worker.progress, self._session.ledger
        collections = {name: (each.pages, each.in_flight) for name, each in ledger.assignments.items()}
        rate = self._rate.take(progress.pages)
        vitals = Vitals(progress, collections, self._rest.resting, rate, message, self._last_commit(), cpu_s())
        write_live(
            self._session.workspace.storage,
            {
                "daemon": self._order.daemon,
                "pid": os.getpid(),
                "since": self._since,
                "written_at": format_time(self._clock.now_ms()),
                **figures([vitals]),
                "bad": dict(self._order.bad),
            },
        )

    def _walk(self) -> None:
        """Walk from pages that turned out to lie nearer. Depths matter only where there is a limit."""
        assignments = self._session.ledger.assignments
        for name, assignment in assignments.items():
            if name not in self._limited:
                assignment.fallen.clear()
        if any(assignments[name].fallen for name in self._limited):
            self._session.walk_fallen()


def _say(message: str) -> None:
    """A line for people, with the time, as the daemon writes them."""
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}", file=sys.stderr, flush=True)


def _call(ticks: list[Callable[[], object]]) -> None:
    for tick in ticks:
        tick()


def _news(error: BaseException) -> News:
    if is_disk_full(error):
        return News.DISK
    if isinstance(error, ClaimLost):
        return News.LOST
    return News.USAGE if isinstance(error, UsageError) else News.FAILED
