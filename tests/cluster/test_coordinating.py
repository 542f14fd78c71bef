"""The coordinator service in real time, polling, the balance model and the crawl verification."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.cluster.coordinator_service import FILE, CoordinatorOrder, CoordinatorService
from lycosa.cluster.polling import Poll
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import SystemClock
from lycosa.core.errors import StorageError
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.coordination.leadership import LeaderCandidate, leader_of
from lycosa.store.workspace import DEFAULT_PARTITIONS, Workspace
from tests.cluster.balance import max_deviation
from tests.cluster.simulated_cluster import Crawl, sites
from tests.cluster.verification import ExpectedResult, facts, verify_crawl
from tests.cluster.webs import options
from tests.crawl.synthetic_crawls import simulated_crawler
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.web import Web
from tests.waiting import ManualClock, until

SETTINGS = ClusterSettings.model_validate(
    {"ping_interval": "100ms", "hold": "500ms", "reassign": "1s"}
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "w"), partitions=8)


def test_coordinator_service_becomes_leader_replies_and_is_replaced(workspace: Workspace) -> None:
    order: CoordinatorOrder = pickle.loads(
        pickle.dumps(
            CoordinatorOrder(
                workspace.root, SETTINGS, "cluster", "local", plan=CoordinatorPlan(ends=True)
            )
        )
    )
    lease = Lease(SystemClock(), SETTINGS.hold)
    held = frozenset(range(8))

    def ping(
        service: CoordinatorService, partitions: frozenset[int] = frozenset(), claim: int = 0
    ) -> bool:
        sent = lease.sending()
        lease.answered(
            sent,
            service.ping(
                Ping(
                    "w",
                    "node",
                    claim,
                    partitions,
                    acknowledged=lease.acknowledged,
                    head=claim,
                    idle=True,
                    ready=True,
                )
            ),
        )
        return lease.holds

    first = CoordinatorService(order)
    try:
        until(lambda: ping(first) and lease.answer.partitions == held)
        claim = workspace.claim("w", held)
        ping(first, held, claim.entry)
        second = CoordinatorService(order)
        try:
            until(lambda: not first.status()["leads"] and second.status()["leads"])
            assert first.ping(Ping("w", "node")).lost
            numbered = lease.answer.number
            until(lambda: ping(second, held, claim.entry) and lease.answer.number > numbered)
            # The only worker is idle, so the crawl ends.
            until(lambda: ping(second, held, claim.entry) and lease.answer.stop)
            assert second.status()["why"] == "finished"
            claim.release()
            until(lambda: ping(second) and second.status()["done"])
            second.nodes([{"name": "node", "address": "127.0.0.1", "cpus": 2}])
            time.sleep(SETTINGS.reassign / 1000)  # until assignments of the first one have expired
        finally:
            second.close()
    finally:
        first.close()
    document = json.loads(Path(workspace.path(FILE)).read_text())
    assert (
        document["engine"],
        document["ended"],
        document["partitions"],
        document["log_head"],
    ) == ("local", True, 8, 2)
    assert document["nodes"][0]["name"] == "node"
    assert leader_of(workspace.storage) is None


def test_coordinator_reports_why_storage_failed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: LeaderCandidate) -> None:
        raise StorageError("s3://crawls/news: access is denied")

    monkeypatch.setattr(LeaderCandidate, "try_to_lead", fail)
    service = CoordinatorService(CoordinatorOrder(workspace.root, SETTINGS, "cluster"))
    try:
        until(lambda: service.status()["failure"] == "s3://crawls/news: access is denied")
    finally:
        service.close()


def test_coordinator_reports_that_storage_is_too_slow_for_its_lease(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaderCandidate, "try_to_lead", lambda _: time.sleep(0.45))
    service = CoordinatorService(CoordinatorOrder(workspace.root, SETTINGS, "cluster"))
    try:
        until(lambda: service.status()["failure"])
        assert "within cluster.hold (500ms); set cluster.hold to" in service.status()["failure"]
    finally:
        service.close()


def test_poll_after_shutdown_of_its_threads_does_not_raise() -> None:
    """A daemon may stop while its cluster still answers."""
    threads, clock, answered = ThreadPoolExecutor(1), ManualClock(), Event()
    blocked = threads.submit(answered.wait, 10)
    poll = Poll(lambda: 1, 100, threads, clock)
    poll.tick()  # queued behind the blocked task
    threads.shutdown(wait=False, cancel_futures=True)
    answered.set()
    blocked.result()
    for _ in range(3):
        poll.tick()
        clock.advance(1_000)
    assert poll.answer is None


MAX_DEVIATION = 0.15
SITES = 164


def simulate(
    folder: Path,
    seed: int,
    pages: int,
    *,
    exponent: float = 1.0,
    number: int = SITES,
    all_known: bool = False,
) -> tuple[float, Crawl]:
    """Simulate a crawl. Return the largest deviation of a worker from the mean, and the crawl."""
    web = sites(seed, number, pages, DEFAULT_PARTITIONS, exponent)
    crawl = Crawl(
        Workspace.create(str(folder / f"w{seed}"), DEFAULT_PARTITIONS), web, all_known=all_known
    )
    pages_by_worker = crawl.run()
    assert sum(pages_by_worker) == sum(site.size for site in web)
    deviation = max_deviation(pages_by_worker)
    print(
        f"seed {seed}: {pages_by_worker}, {deviation:.1%}, {crawl.reassignments} reassignments, "
        f"{crawl.second} s; the largest site has {web[0].size} pages"
    )
    return deviation, crawl


@pytest.mark.parametrize("all_known", [False, True])
def test_pages_are_balanced_in_the_model(tmp_path: Path, all_known: bool) -> None:
    deviation, crawl = simulate(tmp_path, 1, 4_000, all_known=all_known)
    assert deviation <= MAX_DEVIATION
    assert crawl.reassignments <= 40


@pytest.mark.prove
@pytest.mark.parametrize(
    ("exponent", "number", "pages"), [(1.0, SITES, 4_000), (1.2, SITES, 4_000), (0.7, 400, 20_000)]
)
def test_pages_are_balanced_in_the_model_of_many_webs(
    tmp_path: Path, exponent: float, number: int, pages: int
) -> None:
    """These seeds were not used to tune the coordinator."""
    results = [
        simulate(tmp_path, seed, pages, exponent=exponent, number=number)
        for seed in range(301, 321)
    ]
    assert max(deviation for deviation, _ in results) <= MAX_DEVIATION
    assert max(crawl.reassignments for _, crawl in results) <= 60


Log = list[LogEntry]


def _later(request: LogEntry, by_ms: int) -> LogEntry:
    return request._replace(
        arrived_at_ms=request.arrived_at_ms + by_ms, answered_at_ms=request.answered_at_ms + by_ms
    )


def _repeated_at_once(log: Log) -> Log:
    return [*log, _later(log[20], 30)]


def _repeated_later(log: Log) -> Log:
    return [*log, _later(log[20], 3_600_000)]


def _without_robots(log: Log) -> Log:
    return [request for request in log if request.path != "/robots.txt"]


def _without_delay(log: Log) -> Log:
    """Request the second page of a host right after the first."""
    host = log[0].host
    first, second = [
        request for request in log if request.host == host and request.path != "/robots.txt"
    ][:2]
    at = first.answered_at_ms - second.arrived_at_ms + 50
    return [_later(request, at) if request is second else request for request in log]


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (_repeated_at_once, "delay|two requests|no visit"),
        (_repeated_later, "no visit"),
        (_without_robots, "robots_unknown"),
        (_without_delay, "delay|no visit"),
    ],
)
def test_tampered_request_log_or_results_are_detected(
    tmp_path: Path, tamper: Callable[[Log], Log], message: str
) -> None:
    web = Web(
        read_plan(options_parser().parse_args([*options(3, 6, 60), "--epoch-ms", "1790000000000"]))
    )
    settings = {"delay": "200ms", "courtesy_factor": 0.0, "backoff": "1s", "domain_connections": 4}
    robot = simulated_crawler(web, tmp_path / "w", **settings, traps=False)
    robot.crawl()
    result = facts(tmp_path / "w")
    expected = ExpectedResult(result.states, result.pages)
    assert verify_crawl(tmp_path / "w", web, robot.log, expected, []).lost == 0
    with pytest.raises(AssertionError, match=message):
        verify_crawl(
            tmp_path / "w",
            web,
            tamper(sorted(robot.log, key=lambda request: request.arrived_at_ms)),
            expected,
            [],
        )
    fewer = replace(expected, pages=expected.pages - {sorted(expected.pages)[0]})
    with pytest.raises(AssertionError, match="http://"):
        verify_crawl(tmp_path / "w", web, robot.log, fewer, [])
