"""The coordinator's process in real time: it leads, answers, writes its state and has a successor. And
checks of the models that judge clusters: shares of workers, witness, polling.
"""

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
from lycosa.core.clock import ManualClock, SystemClock
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.coordination.leadership import leader_of
from lycosa.store.workspace import DEFAULT_PARTITIONS, Workspace
from tests.cluster.sharing import Crawl, apart, sites
from tests.cluster.webs import options
from tests.cluster.witness import Truth, facts, judge
from tests.crawl.polite import simulated_robot
from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.web import Web
from tests.waiting import until

SETTINGS = ClusterSettings.model_validate(
    {"ping_interval": "100ms", "hold": "500ms", "reassign": "1s"}
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "w"), partitions=8)


def test_it_leads_answers_and_is_followed(workspace: Workspace) -> None:
    order: CoordinatorOrder = pickle.loads(
        pickle.dumps(
            CoordinatorOrder(
                workspace.root, SETTINGS, "mine", "local", plan=CoordinatorPlan(ends=True)
            )
        )
    )
    lease = Lease(SystemClock(), SETTINGS.hold)
    held = frozenset(range(8))

    def ask(
        service: CoordinatorService, partitions: frozenset[int] = frozenset(), claim: int = 0
    ) -> bool:
        sent = lease.sending()
        lease.answered(
            sent,
            service.ping(
                Ping(
                    "w",
                    "here",
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
        until(lambda: ask(first) and lease.answer.partitions == held)
        claim = workspace.claim("w", held)
        ask(first, held, claim.entry)
        second = CoordinatorService(order)
        try:
            until(lambda: not first.status()["leads"] and second.status()["leads"])
            assert first.ping(Ping("w", "here")).lost
            numbered = lease.answer.number
            until(lambda: ask(second, held, claim.entry) and lease.answer.number > numbered)
            # nobody has anything to do
            until(lambda: ask(second, held, claim.entry) and lease.answer.stop)
            assert second.status()["why"] == "finished"
            claim.release()
            until(lambda: ask(second) and second.status()["done"])
            second.nodes([{"name": "here", "address": "127.0.0.1", "cpus": 2, "alive": True}])
            time.sleep(SETTINGS.reassign / 1000)  # the first one's word has run out
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
    assert document["nodes"][0]["name"] == "here"
    assert leader_of(workspace.storage) is None


def test_a_poll_whose_threads_are_shut_down_raises_nothing() -> None:
    """A daemon that stopped while its cluster still answered ended with a traceback."""
    threads, clock, answered = ThreadPoolExecutor(1), ManualClock(), Event()
    blocked = threads.submit(answered.wait, 10)
    poll = Poll(lambda: 1, 100, threads, clock)
    poll.look()  # waits behind the other task
    threads.shutdown(wait=False, cancel_futures=True)
    answered.set()
    blocked.result()
    for _ in range(3):
        poll.look()
        clock.advance(1_000)
    assert poll.answer is None


BAR = 0.15
SITES = 164


def crawled(
    folder: Path,
    seed: int,
    pages: int,
    *,
    exponent: float = 1.0,
    number: int = SITES,
    all_known: bool = False,
) -> tuple[float, Crawl]:
    """How far from the mean the worst worker is."""
    web = sites(seed, number, pages, DEFAULT_PARTITIONS, exponent)
    crawl = Crawl(
        Workspace.create(str(folder / f"w{seed}"), DEFAULT_PARTITIONS), web, all_known=all_known
    )
    pages_by_worker = crawl.run()
    assert sum(pages_by_worker) == sum(site.size for site in web)
    print(
        f"seed {seed}: {pages_by_worker}, {apart(pages_by_worker):.1%}, {crawl.hand_overs} hand-overs, "
        f"{crawl.second} s; the largest site {web[0].size}"
    )
    return apart(pages_by_worker), crawl


@pytest.mark.parametrize("all_known", [False, True])
def test_pages_a_worker_come_out_even(tmp_path: Path, all_known: bool) -> None:
    worst, crawl = crawled(tmp_path, 1, 4_000, all_known=all_known)
    assert worst <= BAR
    assert crawl.hand_overs <= 40


@pytest.mark.prove
@pytest.mark.parametrize(
    ("exponent", "number", "pages"), [(1.0, SITES, 4_000), (1.2, SITES, 4_000), (0.7, 400, 20_000)]
)
def test_pages_a_worker_come_out_even_whatever_the_web(
    tmp_path: Path, exponent: float, number: int, pages: int
) -> None:
    """Seeds that nothing was chosen by."""
    every = [
        crawled(tmp_path, seed, pages, exponent=exponent, number=number) for seed in range(301, 321)
    ]
    assert max(worst for worst, _ in every) <= BAR
    assert max(crawl.hand_overs for _, crawl in every) <= 60


Log = list[Logged]


def _later(request: Logged, by_ms: int) -> Logged:
    return request._replace(
        arrived_at_ms=request.arrived_at_ms + by_ms, answered_at_ms=request.answered_at_ms + by_ms
    )


def _again_at_once(log: Log) -> Log:
    return [*log, _later(log[20], 30)]


def _again_much_later(log: Log) -> Log:
    return [*log, _later(log[20], 3_600_000)]


def _without_robots(log: Log) -> Log:
    return [request for request in log if request.path != "/robots.txt"]


def _closer(log: Log) -> Log:
    """The second page of a host comes right after the first."""
    host = log[0].host
    first, second = [
        request for request in log if request.host == host and request.path != "/robots.txt"
    ][:2]
    at = first.answered_at_ms - second.arrived_at_ms + 50
    return [_later(request, at) if request is second else request for request in log]


@pytest.mark.parametrize(
    ("tampered", "complaint"),
    [
        (_again_at_once, "delay|two requests|no visit"),
        (_again_much_later, "no visit"),
        (_without_robots, "robots_unknown"),
        (_closer, "delay|no visit"),
    ],
)
def test_it_sees(tmp_path: Path, tampered: Callable[[Log], Log], complaint: str) -> None:
    web = Web(
        read_plan(options_parser().parse_args([*options(3, 6, 60), "--epoch-ms", "1790000000000"]))
    )
    chosen = {"delay": "200ms", "courtesy_factor": 0.0, "backoff": "1s", "domain_connections": 4}
    robot = simulated_robot(web, tmp_path / "w", **chosen, traps=False)
    robot.crawl()
    result = facts(tmp_path / "w")
    right = Truth(result.states, result.pages)
    assert judge(tmp_path / "w", web, robot.log, right, []).lost == 0
    with pytest.raises(AssertionError, match=complaint):
        judge(
            tmp_path / "w",
            web,
            tampered(sorted(robot.log, key=lambda request: request.arrived_at_ms)),
            right,
            [],
        )
    short = replace(right, pages=right.pages - {sorted(right.pages)[0]})
    with pytest.raises(AssertionError, match="http://"):
        judge(tmp_path / "w", web, robot.log, short, [])
