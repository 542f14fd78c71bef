"""Changes of the system date lose no page and shorten no delay."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from lycosa.core.clock import ClockStep, SystemClock
from lycosa.core.host_row import RobotsEntry
from lycosa.core.records import Exchange
from lycosa.crawl.policy.robots_cache import RobotsCache
from lycosa.crawl.worker import Limits
from lycosa.frontier.recrawl.refetch_budget import PERIOD_MS, Budget
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import page
from tests.crawl.kills import LYCOSA
from tests.crawl.sessions import collection, select, work
from tests.crawl.worker_group import PARTITIONS, WorkerGroup, job
from tests.servers.nginx import Nginx, Server, nginx
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web
from tests.servers.system import require_file
from tests.uptime.world import FINE, REFUSED, Answer, World, monitor
from tests.waiting import ManualClock

HOUR = 3_600_000
DAY = 24 * HOUR
YEAR = 365 * DAY
HOSTS, PAGES = 3, 4
PAUSE_MS = 100
LIBRARY = f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketimeMT.so.1"


class SetClock(SystemClock):
    """System clock with a changing date; jumps are (after ms, offset ms)."""

    def __init__(self, jumps: Sequence[tuple[int, int]]) -> None:
        self._jumps = jumps
        self._began = time.monotonic()

    def now_ms(self) -> int:
        past = (time.monotonic() - self._began) * 1000
        return super().now_ms() + next(
            (ahead for after, ahead in reversed(self._jumps) if past >= after), 0
        )


class OffsetClock(ManualClock):
    """Manual clock with an offset of its date."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class AheadClock(OffsetClock, SimulatedClock):
    """Simulated clock with an offset of its date."""


class CorrectClock(SimulatedClock):
    """The same clock with the correct date."""

    def __init__(self, clock: AheadClock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def sleep(self, milliseconds: int) -> None:
        self._clock.sleep(milliseconds)


class AheadFetcher(SimulatedFetcher):
    """Simulated web with the correct date, for a crawler with another one."""

    def __init__(
        self, synthetic: Web, clock: AheadClock, *, record: Callable[[LogEntry], None]
    ) -> None:
        super().__init__(synthetic, CorrectClock(clock), record=record)
        self._ahead = clock

    def wait(self, timeout_ms: int) -> list[Exchange]:
        finished = super().wait(timeout_ms)
        for exchange in finished:
            exchange.started_at += self._ahead.ahead_ms
        return finished


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    servers = []
    for host in range(1, HOSTS + 1):
        root = tmp_path_factory.mktemp(f"host-{host}")
        for number in range(PAGES):
            (root / f"{number}.html").write_text(
                page(
                    f"/{number + 1}.html" if number + 1 < PAGES else "/",
                    text=f"page {number} of {host}",
                )
            )
        (root / "index.html").write_text(page("/0.html", text=f"host {host}"))
        servers.append(Server(f"127.0.3.{host}", root, "index.html", False))
    with nginx(servers) as server:
        yield server


def seeds(web: Nginx) -> list[str]:
    return [f"http://127.0.3.{host}:{web.port}/" for host in range(1, HOSTS + 1)]


def assert_each_page_fetched_once_with_delay(web: Nginx, mark: int, root: Path) -> None:
    requested = web.requests(mark)
    pages = Counter(request.url for request in requested if request.uri != "/robots.txt")
    assert pages == Counter(
        [
            f"{seed}{name}"
            for seed in seeds(web)
            for name in ("", *(f"{number}.html" for number in range(PAGES)))
        ]
    )
    for host in {request.host for request in requested}:
        times = sorted(request.at for request in requested if request.host == host)
        assert min(later - earlier for earlier, later in pairwise(times)) >= PAUSE_MS - 20, (
            host
        )  # tolerance for the resolution of nginx's clock
    assert {row["state"] for row in select(root, "SELECT state FROM urls")} == {"visited"}
    assert all(
        int(str(row["duration_ms"])) >= 0 for row in select(root, "SELECT duration_ms FROM visits")
    )
    assert verify(Workspace.open(str(root)), deep=True).ok


JUMPS = {
    "an hour back": [(400, -HOUR)],
    "a year ahead": [(400, YEAR)],
    "a year ahead, and back again": [(400, YEAR), (1_000, 0)],
    "four jumps": [(300, -DAY), (700, DAY), (1_100, -YEAR), (1_500, HOUR)],
}


@pytest.mark.proves("durability-clock")
@pytest.mark.parametrize(
    "jumps",
    [
        pytest.param(jumps, marks=[pytest.mark.prove] * (name != "an hour back"), id=name)
        for name, jumps in JUMPS.items()
    ],
)
def test_crawl_is_complete_and_polite_despite_clock_jumps(
    web: Nginx, tmp_path: Path, jumps: list[tuple[int, int]]
) -> None:
    """With one active host: the states of inactive hosts contain dates."""
    mark = web.mark()
    settings = ("crawl.active_hosts=1", "crawl.commit_pages=4", "crawl.commit_interval=300ms")
    chosen = collection("c", delay=f"{PAUSE_MS}ms")
    crawled = work(tmp_path / "w", [(chosen, seeds(web))], settings=settings, clock=SetClock(jumps))
    assert crawled.progress.ended == "finished"
    assert_each_page_fetched_once_with_delay(web, mark, tmp_path / "w")


@pytest.mark.prove
def test_next_crawl_ignores_pauses_that_are_a_year_ahead(web: Nginx, tmp_path: Path) -> None:
    """The first crawl has a clock that is a year ahead, and is stopped."""
    mark = web.mark()
    chosen = collection("c", delay=f"{PAUSE_MS}ms")
    first = work(
        tmp_path / "w",
        [(chosen, seeds(web))],
        clock=SetClock([(0, YEAR)]),
        limits=Limits(max_pages=6),
    )
    assert first.progress.ended == "max_pages"
    assert work(tmp_path / "w", [(chosen, seeds(web))]).progress.ended == "finished"
    assert_each_page_fetched_once_with_delay(web, mark, tmp_path / "w")


@pytest.mark.proves("durability-clock")
@pytest.mark.parametrize("restart", [False, True])
def test_pages_visited_at_a_wrong_date_are_refetched_in_time(tmp_path: Path, restart: bool) -> None:
    """A page that was visited a year ahead must not wait a year for its next visit."""
    synthetic = Web(WebPlan.calm(seed=5, hosts=4, pages=20))
    clock = AheadClock(synthetic.plan.epoch_ms)
    requested: list[LogEntry] = []
    group = WorkerGroup(
        tmp_path / "w",
        clock,
        job(synthetic.seeds(), recrawl="age", max_age="1h"),
        settings=("crawl.active_hosts=2",),
        longest_wait_ms=20_000,
    )
    group.fetcher = lambda _: AheadFetcher(synthetic, clock, record=requested.append)

    def fetched(since: int) -> set[tuple[str, str]]:
        return {
            (request.host, request.path)
            for request in requested[since:]
            if request.status in (200, 304)
        }

    try:
        group.join("a", range(PARTITIONS))
        clock.ahead_ms = YEAR
        began = clock.monotonic_ms()
        group.run(lambda: clock.monotonic_ms() > began + 2 * HOUR)
        everything, since = fetched(0), len(requested)
        clock.ahead_ms = 0
        if restart:
            group.leave("a")
            group.join("b", range(PARTITIONS))
        group.run(lambda: clock.monotonic_ms() > began + 4 * HOUR)
    finally:
        group.close()
    assert len(everything) > 20
    assert {
        page for page in everything - fetched(since) if not page[1].startswith("/robots")
    } == set()
    for host in {request.host for request in requested}:
        times = sorted(request.arrived_at_ms for request in requested if request.host == host)
        assert min(later - earlier for earlier, later in pairwise(times)) >= 1_000
    assert verify(group.workspace(), deep=True).ok


@pytest.mark.proves("durability-clock")
@pytest.mark.prove
@pytest.mark.parametrize(
    "dates", [("-1h",), ("+1y",), ("+1y", "+0"), ("-1d", "+1d", "-1y")], ids=",".join
)
def test_command_is_complete_and_polite_despite_clock_jumps(
    web: Nginx, tmp_path: Path, dates: tuple[str, ...]
) -> None:
    """libfaketime changes the date of the whole process."""
    library = require_file(LIBRARY, "libfaketime")
    date = tmp_path / "date"
    date.write_text("+0")
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(date),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    mark = web.mark()
    settings = (
        "crawl.active_hosts=1",
        "crawl.commit_pages=4",
        "collection.courtesy_factor=0",
        "collection.traps=false",
        "fetch.retry_wait=1s",
    )
    overrides = [part for setting in settings for part in ("--set", setting)]
    command = [
        str(LYCOSA),
        "-w",
        str(tmp_path / "w"),
        *overrides,
        "crawl",
        *seeds(web),
        "--delay",
        "300ms",
        "--json",
        "--quiet",
    ]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for step, output in enumerate(dates, 1):
            while len(web.requests(mark)) < 6 * step and process.poll() is None:
                time.sleep(0.02)
            date.write_text(output)
        summary = json.loads(process.communicate()[0])
    assert (process.returncode, summary["ended"], summary["left_for_later"]) == (0, "finished", {})
    assert_each_page_fetched_once_with_delay(web, mark, tmp_path / "w")


def test_clock_step_reports_only_steps_back() -> None:
    clock = OffsetClock()
    step = ClockStep(clock)
    result = []
    for jump in (0, HOUR, -900, -HOUR, 0, -YEAR):
        clock.advance(5_000)
        clock.ahead_ms += jump
        result.append(step.back_ms())
    assert result == [0, 0, 0, HOUR, 0, YEAR]


def test_robots_txt_with_a_date_in_the_future_is_not_current() -> None:
    cache = RobotsCache("lycosa")
    cache.load(RobotsEntry("http://a.test", 200, 10 * DAY, 11 * DAY, "User-agent: *\nDisallow:\n"))
    assert [cache.is_current("http://a.test", at) for at in (0, 10 * DAY - HOUR, 10 * DAY - 1_000, 10 * DAY, 11 * DAY)] == [
        False, False, True, True, False,
    ]  # fmt: skip


def test_refetch_budget_is_refilled_after_the_date_was_set_back() -> None:
    budget = Budget(per_day=144.0, now_ms=YEAR)  # one in ten minutes
    assert budget.take(0, YEAR)
    assert not budget.take(0, YEAR)
    budget.set_back(HOUR)
    assert not budget.take(0, YEAR - HOUR)
    assert budget.take(0, YEAR - HOUR + PERIOD_MS)
    assert budget.allowed(YEAR - HOUR + PERIOD_MS) == pytest.approx(1.0)


# -- availability
# ------------------------------------------------------------


class MonotonicWorld(World):
    """World whose time is that of the monotonic clock."""

    @property
    def now(self) -> int:
        return self.clock.monotonic_ms() - self.start_ms


MINUTE = 60_000
DOWN_AT, UP_AT = 30 * MINUTE, 45 * MINUTE


@pytest.mark.parametrize("jump_ms", [-YEAR, -HOUR, 0, HOUR, YEAR])
@pytest.mark.parametrize(
    "jump_at", [10 * MINUTE, 30 * MINUTE + 33_000, 40 * MINUTE, 45 * MINUTE + 51_000]
)
def test_outage_is_reported_in_time_despite_a_clock_jump(jump_ms: int, jump_at: int) -> None:
    """One of four sites is down for 15 minutes; the date jumps before, during or after that."""
    urls = [f"http://site-{number}.example/" for number in range(4)]
    requested: Counter[int] = Counter()

    def answer(url: str, at: int) -> Answer:
        requested[at // MINUTE] += url == urls[0]
        return REFUSED if url == urls[0] and DOWN_AT <= at < UP_AT else FINE

    clock = OffsetClock()
    world = MonotonicWorld(answer, clock)
    world.checker.watch([monitor(url, every="1m") for url in urls])
    messages: list[tuple[str, int]] = []
    for minute in range(1, 65):
        if minute - 1 <= jump_at / MINUTE < minute:
            world.run(jump_at)
            clock.ahead_ms = jump_ms
        world.run(minute * MINUTE)
        messages += [(notice.kind, minute) for notice in world.notices[len(messages) :]]
    assert [kind for kind, _ in messages] == ["down", "up"]
    assert 30 < messages[0][1] <= 34
    assert 45 < messages[1][1] <= 49
    assert not world.offlines
    assert max(requested.values()) <= 6  # one check per minute, and its confirmations
    ends = [event for _, event in world.events if getattr(event, "until", 0)]
    assert len(ends) == 1
    assert ends[0].until >= ends[0].since


def test_outage_is_reported_after_a_local_outage_and_a_clock_step_back() -> None:
    """Checks that began during the local outage are repeated at once, but not for an hour."""
    urls = [f"http://site-{number}.example/" for number in range(4)]
    requested: Counter[int] = Counter()

    def answer(url: str, at: int) -> Answer:
        requested[at // MINUTE] += url == urls[0]
        return (
            REFUSED
            if 10 * MINUTE <= at < 15 * MINUTE
            or (url == urls[0] and 20 * MINUTE <= at < 30 * MINUTE)
            else FINE
        )

    clock = OffsetClock()
    world = MonotonicWorld(answer, clock)
    world.checker.watch([monitor(url, every="1m") for url in urls])
    world.run(18 * MINUTE)
    clock.ahead_ms = -HOUR
    world.run(26 * MINUTE)
    assert [notice.kind for notice in world.notices] == ["offline", "online", "down"]
    world.run(35 * MINUTE)
    assert [notice.kind for notice in world.notices][3:] == ["up"]
    assert max(requested.values()) <= 8
