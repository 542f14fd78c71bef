"""Nobody can fault the robot: no host and no registrable domain is asked too soon, whoever is
killed when.

What the servers saw is judged, by rules that know nothing of the robot's code
(tests/servers/synthetic/politeness.py). A worker that takes over knows the pauses from the tables.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from lycosa.config.settings import Collection, Config
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.polite import BACKOFF_MS, KilledRobot, SimulatedRobot, served_web, simulated_robot
from tests.crawl.polite import DELAY_MS as POLITE_MS
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.politeness import violations
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.simulated import SimulatedFetcher
from tests.servers.synthetic.web import Web

SEED = int(os.environ.get("LYCOSA_POLITE_SEED", "20261121"))
HARSH = (
    "window_ms=15000",
    "fault_window_ms=5000",
    "size_exponent=0.5",
    "subdomains=0.4",
    "closing=0.06",
    "resetting=0.06",
    "failing=0.1",
    "limiting=0.1",
)
LOST_MS = 5_000
"""How long before a kill an answer may have come that the robot took no note of: it reads them in
the order of their ends.
"""

BUSY_MS = 2_000
"""How much later a busy server may read a request that was on its way when the robot died."""


@pytest.mark.proves(
    "politeness-robots-first",
    "politeness-robots",
    "politeness-pause",
    "politeness-retry-after",
    "politeness-back-off",
    "politeness-connections",
    "politeness-domain",
    "politeness-restart",
)
@pytest.mark.parametrize(
    ("hosts", "pages", "kills", "longest_s", "finish"),
    [
        (150, 900, 3, 2.5, "8s"),
        pytest.param(2_400, 12_000, 12, 9.0, "240s", marks=pytest.mark.prove),
    ],
)
def test_polite_over_kills(
    tmp_path: Path, hosts: int, pages: int, kills: int, longest_s: float, finish: str
) -> None:
    chance = random.Random(SEED)
    features = [part for feature in HARSH for part in ("--set", feature)]
    with served_web(
        tmp_path, "--seed", str(SEED), "--hosts", str(hosts), "--pages", str(pages), *features
    ) as served:
        robot = KilledRobot(served, tmp_path / "workspace")
        while len(robot.kills) < kills and robot.kill_in_work(chance, longest_s):
            pass
        progress = robot.finish(finish)
        log = served.requests()
    log = robot.noticed(log)
    unseen, repeated = robot.unseen(log)
    assert repeated == {}  # each exchange is one request to the server
    for request in unseen:
        assert any(
            request.arrived_at_ms <= end + BUSY_MS and request.answered_at_ms >= end - LOST_MS
            for end in robot.ends
        ), request
    results = violations(log, robot.rules(unseen))
    log_of_requests = {request.host for request in log}
    statuses = Counter(request.status for request in log)
    print(
        f"{len(log):,} requests to {len(log_of_requests):,} hosts of "
        f"{len({served.web.registrable(host) for host in log_of_requests}):,} domains, "
        f"{len(robot.kills)} kills, {len(unseen)} answers lost by them, {len(results)} violations; "
        f"{dict(statuses)}; {progress['ended']}"
    )
    assert Counter(violation.rule.value for violation in results) == {}, results[:5]
    assert len(robot.kills) == kills
    assert {200, 302, 304, 404, 429, 503} - {304} <= statuses.keys()


@pytest.mark.proves("politeness-pause", "politeness-restart")
@pytest.mark.parametrize(
    ("hosts", "kills", "seed"),
    [(60, 5, 1), *(pytest.param(150, 25, seed, marks=pytest.mark.prove) for seed in (0, 2, 3, 4))],
)
def test_polite_over_kills_that_take_no_time(
    tmp_path: Path, hosts: int, kills: int, seed: int
) -> None:
    """In simulated time the next robot begins at the very moment at which the last one died, with
    answers in its hands.
    """
    chance = random.Random(seed)
    web = Web(
        WebPlan(
            seed=seed,
            hosts=hosts,
            pages=6 * hosts,
            window_ms=15_000,
            fault_window_ms=5_000,
            size_exponent=0.5,
            subdomains=0.6,
            slow=0.1,
            failing=0.1,
            limiting=0.1,
            closing=0.05,
            resetting=0.05,
            crawl_delay=0.2,
            robots_foreign=0.1,
            traps=0.0,
        )
    )
    robot = simulated_robot(web, tmp_path / "workspace")
    for _ in range(kills):
        robot.crawl(die_after_ms=chance.randrange(200, 6_000))
    robot.crawl(max_time_ms=10_000)
    unseen, repeated = robot.unseen(robot.log)
    results = violations(robot.log, robot.rules(unseen))
    print(
        f"{len(robot.log):,} requests, {len(unseen)} answers lost, {len(results)} violations, "
        f"{Counter(each.status for each in robot.log)}"
    )
    assert repeated == {}
    assert Counter(violation.rule.value for violation in results) == {}, results[:5]
    assert {200, 302, 404, 503} <= {request.status for request in robot.log}
    assert len(unseen) >= kills // 2


@pytest.mark.parametrize(
    ("pages", "seconds"), [(2_000, 30), pytest.param(8_000, 120, marks=pytest.mark.prove)]
)
def test_no_host_waits_for_another(tmp_path: Path, pages: int, seconds: int) -> None:
    """500 hosts, from some hundred pages down to one: each is asked as often as its own pause
    allows, and at once.
    """
    delay_ms, courtesy = 1_000, 10.0
    web = Web(WebPlan.calm(seed=5, hosts=500, pages=pages, static=1.0))
    robot = simulated_robot(
        web,
        tmp_path / "workspace",
        "fetch.connections=600",
        delay="1s",
        courtesy_factor=courtesy,
        connections=600,
        domain_connections=1,
    )
    robot.collection |= {"seeds": tuple(web.seeds(500)), "scope": "host", "traps": False}
    start = robot.clock.now_ms()
    robot.crawl(max_time_ms=seconds * 1_000)
    end = start + seconds * 1_000
    by_host: dict[str, list[Logged]] = defaultdict(list)
    for request in sorted(robot.log, key=lambda each: each.arrived_at_ms):
        by_host[request.host].append(request)
    bound = log_of_requests = 0.0
    waits = []
    for host in web.open_hosts():
        requests = [request for request in by_host[host.name] if request.arrived_at_ms < end]
        took = sum(request.answered_at_ms - request.arrived_at_ms for request in requests) / len(
            requests
        )
        cycle = took + max(delay_ms, courtesy * took)
        bound += min(host.size + 1, seconds * 1_000 / cycle)  # its robots.txt too
        log_of_requests += len(requests)
        for before, after in pairwise(requests):
            pause = max(delay_ms, courtesy * (before.answered_at_ms - before.arrived_at_ms))
            waits.append(after.arrived_at_ms - before.answered_at_ms - pause)
    waits.sort()
    print(
        f"{log_of_requests:,.0f} requests in {seconds} s to {len(by_host)} hosts of 1 to "
        f"{web.layout.hosts.size(0)} pages: {log_of_requests / bound:.3f} "
        f"of what politeness allows; beyond its pause a host waits {waits[len(waits) // 2]:.0f} "
        f"ms (median), {waits[-1]:.0f} ms at most"
    )
    assert len(by_host) == 500
    assert log_of_requests >= 0.9 * bound
    assert waits[len(waits) * 99 // 100] <= 20


def test_few_hosts_at_hand_and_many_files_to_wait_for(tmp_path: Path) -> None:
    """Hosts are sent back while other hosts' robots.txt files wait for them; the crawl ends, asks
    everybody, and does not spin.
    """
    web = Web(
        WebPlan(
            seed=9,
            hosts=50,
            pages=150,
            robots_foreign=0.4,
            robots_redirecting=0.2,
            failing=0.2,
            window_ms=4_000,
            traps=0.0,
        )
    )
    # The domain of many hosts rests now and then: patience beyond that.
    robot = simulated_robot(
        web,
        tmp_path / "workspace",
        "crawl.active_hosts=4",
        "crawl.waiting_urls=100",
        "crawl.patience=900s",
    )
    progress = robot.crawl(max_time_ms=6_000_000)
    assert progress is not None
    assert progress.ended == "finished"
    assert {host.name for host in web.open_hosts()} <= {request.host for request in robot.log}
    assert violations(robot.log, robot.rules(frozenset())) == []
    print(
        f"{len(robot.log):,} requests, {robot.turns:,} turns, "
        f"{progress.ended_ms - progress.started_ms:,} ms"
    )
    assert robot.turns < 8 * len(robot.log)


DELAY_MS = 1_000


@contextmanager
def successor(robot: SimulatedRobot) -> Iterator[CrawlSession]:
    """The next worker, which has taken up what is stored, at the moment of its claim."""
    job = Job(Collection.model_validate({"delay": "1s", "scope": "any"}), tuple(robot.web.seeds()))
    fetcher = SimulatedFetcher(robot.web, robot.clock)
    workspace = Workspace.open_or_create(str(robot.workspace))
    session = open_session(
        workspace,
        Config(),
        [job],
        SessionOptions(fetcher=fetcher),
        command="test",
        clock=robot.clock,
    )
    try:
        session.take_up()
        yield session
    finally:
        session.close()


def hosts(robot: SimulatedRobot) -> pl.DataFrame:
    return LiveTables(Workspace.open(str(robot.workspace))).scan("hosts").collect()


@pytest.mark.proves("politeness-domain", "politeness-restart")
def test_a_domain_that_asked_for_a_rest_still_rests(tmp_path: Path) -> None:
    web = Web(
        WebPlan.calm(seed=4, hosts=30, pages=60, subdomains=1.0, limiting=0.3, failing_share=1.0)
    )
    robot = simulated_robot(web, tmp_path / "workspace", courtesy_factor=0.0)
    robot.crawl(max_time_ms=20_000)
    stored = hosts(robot).filter(pl.col("host") == "")
    assert stored.height > 0
    failing = hosts(robot).filter(pl.col("fails") > 0)
    # what it wants always; until when it backs off stands in not_before
    assert set(failing["delay"]) == {POLITE_MS}
    pause = (failing["not_before"] - failing["last_visit_at"]).min()
    assert isinstance(pause, timedelta)
    assert pause >= timedelta(milliseconds=BACKOFF_MS)
    now_ms, now = robot.clock.now_ms(), robot.clock.monotonic_ms()
    with successor(robot) as session:
        clocks = session.crawl.frontier.clocks
        for domain, until in stored.select(
            "registrable_domain", pl.col("not_before").cast(pl.Int64)
        ).iter_rows():
            assert until > now_ms  # the windows in which hosts fail are ten minutes long
            assert clocks.domain_ready_at(domain) >= now + until - now_ms
        request_log = {request.host for request in robot.log if request.status == 429}
        assert {web.registrable(host) for host in request_log} == set(stored["registrable_domain"])


@pytest.mark.proves("politeness-restart")
def test_a_domain_rests_as_its_slowest_host_wants_even_before_that_is_at_hand(
    tmp_path: Path,
) -> None:
    web = Web(WebPlan.calm(seed=4, hosts=40, pages=80, subdomains=1.0, crawl_delay=0.3))
    robot = simulated_robot(web, tmp_path / "workspace", courtesy_factor=0.0)
    robot.crawl(max_time_ms=20_000)
    rows = hosts(robot)
    slow = rows.filter(pl.col("delay") > DELAY_MS)
    assert slow.height >= 2
    with successor(robot) as session:
        now = robot.clock.monotonic_ms()
        assert len(session.crawl.frontier.hosts) < rows.height  # most have not even been looked at
        for domain, delay in (
            slow.group_by("registrable_domain").agg(pl.col("delay").max()).iter_rows()
        ):
            assert session.crawl.frontier.clocks.domain_ready_at(domain) == now + delay


@pytest.mark.proves("politeness-workers")
def test_a_host_that_is_new_to_a_successor_may_have_been_asked(tmp_path: Path) -> None:
    robot = simulated_robot(Web(WebPlan.calm(hosts=2, pages=4)), tmp_path / "workspace")
    for expected in (0, DELAY_MS):
        now = robot.clock.monotonic_ms()
        with successor(robot) as session:
            identity = session.crawl.identifier.identify("http://new.test/")
            session.crawl.hosts.queue(identity)
            assert max(session.crawl.frontier.ready_at(identity.host_key) - now, 0) == expected


@pytest.mark.proves("politeness-crawl-delay", "politeness-restart")
def test_crawl_delay_is_known_though_robots_txt_was_not_fetched_again(tmp_path: Path) -> None:
    web = Web(WebPlan.calm(seed=4, hosts=20, pages=40, crawl_delay=0.9))
    robot = simulated_robot(web, tmp_path / "workspace", courtesy_factor=0.0)
    robot.crawl(max_time_ms=5_000)
    request_log = {
        request.host
        for request in robot.log
        if request.path == "/robots.txt" and web.crawl_delay(request.host)
    }
    assert len(request_log) > 3
    with successor(robot) as session:
        crawl = session.crawl
        for name in request_log:
            host = crawl.hosts.queue(crawl.identifier.identify(f"http://{name}/")).row
            assert not crawl.robots.holds(f"http://{name}")
            assert (
                crawl.hosts.crawl_delay_ms(f"http://{name}", host)
                == web.crawl_delay(name)
                == host.delay_ms
            )
