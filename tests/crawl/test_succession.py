"""What a worker knows of politeness when it takes over from another: from the tables alone, before
it asks anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import polars as pl

from lycosa.config.settings import Collection, Config
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.crawl.polite import BACKOFF_MS, SimulatedRobot, simulated_robot
from tests.crawl.polite import DELAY_MS as POLITE_MS
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.simulated import SimulatedFetcher
from tests.servers.synthetic.web import Web

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


def test_a_host_that_is_new_to_a_successor_may_have_been_asked(tmp_path: Path) -> None:
    robot = simulated_robot(Web(WebPlan.calm(hosts=2, pages=4)), tmp_path / "workspace")
    for expected in (0, DELAY_MS):
        now = robot.clock.monotonic_ms()
        with successor(robot) as session:
            identity = session.crawl.identifier.identify("http://new.test/")
            session.crawl.hosts.queue(identity)
            assert max(session.crawl.frontier.ready_at(identity.host_key) - now, 0) == expected


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
