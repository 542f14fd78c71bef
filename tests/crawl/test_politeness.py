"""Politeness of hosts and registrable domains, also across kills.

The requests that the servers saw are checked by rules independent of the crawler's code
(tests/servers/synthetic/politeness.py). A new worker loads the delays from the tables.
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
from tests.crawl.synthetic_crawls import (
    BACKOFF_MS,
    KilledCrawler,
    SimulatedCrawler,
    politeness_rules,
    served_web,
    simulated_crawler,
    without_visit,
)
from tests.crawl.synthetic_crawls import DELAY_MS as POLITE_MS
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.politeness import violations
from tests.servers.synthetic.request_log import LogEntry
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
"""Maximum time between a lost response and the kill: exchanges are processed in completion order.
"""

BUSY_MS = 2_000
"""Maximum time until a busy server reads a request that was sent before the kill."""


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
def test_crawl_is_polite_over_kills(
    tmp_path: Path, hosts: int, pages: int, kills: int, longest_s: float, finish: str
) -> None:
    chance = random.Random(SEED)
    features = [part for feature in HARSH for part in ("--set", feature)]
    with served_web(
        tmp_path, "--seed", str(SEED), "--hosts", str(hosts), "--pages", str(pages), *features
    ) as served:
        robot = KilledCrawler(served, tmp_path / "workspace")
        while len(robot.kills) < kills and robot.run_and_kill(chance, longest_s):
            pass
        progress = robot.finish(finish)
        log = served.requests()
    log = robot.mark_timeouts(log)
    unseen, repeated = without_visit(robot.workspace, log)
    assert repeated == {}  # each exchange is one request to the server
    for request in unseen:
        assert any(
            request.arrived_at_ms <= end + BUSY_MS and request.answered_at_ms >= end - LOST_MS
            for end in robot.ends
        ), request
    results = violations(log, politeness_rules(served.web, unseen))
    requested_hosts = {request.host for request in log}
    statuses = Counter(request.status for request in log)
    print(
        f"{len(log):,} requests to {len(requested_hosts):,} hosts of "
        f"{len({served.web.registrable(host) for host in requested_hosts}):,} domains, "
        f"{len(robot.kills)} kills, {len(unseen)} responses lost, {len(results)} violations; "
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
def test_crawl_is_polite_over_kills_in_simulated_time(
    tmp_path: Path, hosts: int, kills: int, seed: int
) -> None:
    """In simulated time each crawler starts at the time of the previous kill.

    Each kill happens while responses are unprocessed.
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
    robot = simulated_crawler(web, tmp_path / "workspace")
    for _ in range(kills):
        robot.crawl(die_after_ms=chance.randrange(200, 6_000))
    robot.crawl(max_time_ms=10_000)
    unseen, repeated = without_visit(robot.workspace, robot.log)
    results = violations(robot.log, politeness_rules(web, unseen))
    print(
        f"{len(robot.log):,} requests, {len(unseen)} responses lost, {len(results)} violations, "
        f"{Counter(each.status for each in robot.log)}"
    )
    assert repeated == {}
    assert Counter(violation.rule.value for violation in results) == {}, results[:5]
    assert {200, 302, 404, 503} <= {request.status for request in robot.log}
    assert len(unseen) >= kills // 2


@pytest.mark.parametrize(
    ("pages", "seconds"), [(2_000, 30), pytest.param(8_000, 120, marks=pytest.mark.prove)]
)
def test_hosts_do_not_delay_each_other(tmp_path: Path, pages: int, seconds: int) -> None:
    """500 hosts are requested as often as their own delays allow.

    They have between one and a few hundred pages.
    """
    delay_ms, courtesy = 1_000, 10.0
    web = Web(WebPlan.calm(seed=5, hosts=500, pages=pages, static=1.0))
    robot = simulated_crawler(
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
    by_host: dict[str, list[LogEntry]] = defaultdict(list)
    for request in sorted(robot.log, key=lambda each: each.arrived_at_ms):
        by_host[request.host].append(request)
    bound = request_count = 0.0
    waits = []
    for host in web.open_hosts():
        requests = [request for request in by_host[host.name] if request.arrived_at_ms < end]
        took = sum(request.answered_at_ms - request.arrived_at_ms for request in requests) / len(
            requests
        )
        cycle = took + max(delay_ms, courtesy * took)
        bound += min(host.size + 1, seconds * 1_000 / cycle)  # its robots.txt too
        request_count += len(requests)
        for before, after in pairwise(requests):
            pause = max(delay_ms, courtesy * (before.answered_at_ms - before.arrived_at_ms))
            waits.append(after.arrived_at_ms - before.answered_at_ms - pause)
    waits.sort()
    print(
        f"{request_count:,.0f} requests in {seconds} s to {len(by_host)} hosts of 1 to "
        f"{web.layout.hosts.size(0)} pages: {request_count / bound:.3f} "
        f"of the politeness limit; wait beyond the delay: median {waits[len(waits) // 2]:.0f} "
        f"ms, maximum {waits[-1]:.0f} ms"
    )
    assert len(by_host) == 500
    assert request_count >= 0.9 * bound
    assert waits[len(waits) * 99 // 100] <= 20


def test_few_active_hosts_and_many_pending_robots_files(tmp_path: Path) -> None:
    """Hosts are parked while the robots.txt of other hosts wait for them.

    The crawl ends, requests every host, and has no busy loop.
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
    # Domains with many hosts are paused at times: the patience is longer than their pauses.
    robot = simulated_crawler(
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
    assert violations(robot.log, politeness_rules(web, frozenset())) == []
    print(
        f"{len(robot.log):,} requests, {robot.turns:,} turns, "
        f"{progress.ended_ms - progress.started_ms:,} ms"
    )
    assert robot.turns < 8 * len(robot.log)


DELAY_MS = 1_000


@contextmanager
def successor(robot: SimulatedCrawler) -> Iterator[CrawlSession]:
    """Open a session and load the stored state."""
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
        session.load()
        yield session
    finally:
        session.close()


def hosts(robot: SimulatedCrawler) -> pl.DataFrame:
    return LiveTables(Workspace.open(str(robot.workspace))).scan("hosts").collect()


@pytest.mark.proves("politeness-domain", "politeness-restart")
def test_domain_pause_after_429_survives_a_restart(tmp_path: Path) -> None:
    web = Web(
        WebPlan.calm(seed=4, hosts=30, pages=60, subdomains=1.0, limiting=0.3, failing_share=1.0)
    )
    robot = simulated_crawler(web, tmp_path / "workspace", courtesy_factor=0.0)
    robot.crawl(max_time_ms=20_000)
    stored = hosts(robot).filter(pl.col("host") == "")
    assert stored.height > 0
    failing = hosts(robot).filter(pl.col("fails") > 0)
    # the regular delay; the back-off is in not_before
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
        limiting = {request.host for request in robot.log if request.status == 429}
        assert {web.registrable(host) for host in limiting} == set(stored["registrable_domain"])


@pytest.mark.proves("politeness-restart")
def test_domain_pause_includes_crawl_delay_of_inactive_hosts(
    tmp_path: Path,
) -> None:
    web = Web(WebPlan.calm(seed=4, hosts=40, pages=80, subdomains=1.0, crawl_delay=0.3))
    robot = simulated_crawler(web, tmp_path / "workspace", courtesy_factor=0.0)
    robot.crawl(max_time_ms=20_000)
    rows = hosts(robot)
    slow = rows.filter(pl.col("delay") > DELAY_MS)
    assert slow.height >= 2
    with successor(robot) as session:
        now = robot.clock.monotonic_ms()
        assert len(session.crawl.frontier.hosts) < rows.height  # most hosts are not loaded
        for domain, delay in (
            slow.group_by("registrable_domain").agg(pl.col("delay").max()).iter_rows()
        ):
            assert session.crawl.frontier.clocks.domain_ready_at(domain) == now + delay


@pytest.mark.proves("politeness-workers")
def test_new_host_is_delayed_after_a_restart(tmp_path: Path) -> None:
    robot = simulated_crawler(Web(WebPlan.calm(hosts=2, pages=4)), tmp_path / "workspace")
    for expected in (0, DELAY_MS):
        now = robot.clock.monotonic_ms()
        with successor(robot) as session:
            identity = session.crawl.identifier.identify("http://new.test/")
            session.crawl.hosts.queue(identity)
            assert max(session.crawl.frontier.ready_at(identity.host_key) - now, 0) == expected


@pytest.mark.proves("politeness-crawl-delay", "politeness-restart")
def test_crawl_delay_is_known_before_robots_txt_is_fetched_again(tmp_path: Path) -> None:
    web = Web(WebPlan.calm(seed=4, hosts=20, pages=40, crawl_delay=0.9))
    robot = simulated_crawler(web, tmp_path / "workspace", courtesy_factor=0.0)
    robot.crawl(max_time_ms=5_000)
    requested_hosts = {
        request.host
        for request in robot.log
        if request.path == "/robots.txt" and web.crawl_delay(request.host)
    }
    assert len(requested_hosts) > 3
    with successor(robot) as session:
        crawl = session.crawl
        for name in requested_hosts:
            host = crawl.hosts.queue(crawl.identifier.identify(f"http://{name}/")).row
            assert not crawl.robots.holds(f"http://{name}")
            assert (
                crawl.hosts.crawl_delay_ms(f"http://{name}", host)
                == web.crawl_delay(name)
                == host.delay_ms
            )
