"""A worker that loses the connection to its coordinator but not to the web.

It stops before its lease expires, and its partitions are reassigned.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lycosa.cluster import member
from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.cluster.coordinator_service import CoordinatorOrder, CoordinatorService
from lycosa.cluster.engine import Node, Remote, Unreachable
from lycosa.cluster.engines.local import LocalEngine
from lycosa.cluster.member import ClusterWorker, MemberOrder, MemberStatus
from lycosa.cluster.worker_supervision import WorkerSupervision
from lycosa.config.reading import parse_config
from lycosa.core.errors import StorageError
from lycosa.crawl.membership import Ping
from lycosa.crawl.session.session import CrawlSession, open_session
from lycosa.crawl.state.task import Job
from lycosa.store.log.entry import COMMIT, RELEASE
from lycosa.store.log.state import ClaimInfo
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from tests.cluster.driver import now_ms
from tests.cluster.test_cluster import Sites, daemon_config, sites, table_rows
from tests.daemon.daemons import LIMIT_S
from tests.daemon.test_daemon import check
from tests.waiting import ManualClock, until

HOLD_MS, REASSIGN_MS = 3_000, 8_000
SETTINGS = (
    *("crawl.patience=500ms", "crawl.commit_interval=30s"),
    *(
        "cluster.ping_interval=300ms",
        f"cluster.hold={HOLD_MS}ms",
        f"cluster.reassign={REASSIGN_MS}ms",
    ),
)
IN_FLIGHT_MS = 2_500
"""Delay of the request log of the server on a busy machine, after the lease expired."""


@dataclass
class BreakableRemote:
    """A remote of the coordinator that is unreachable while `cut_file` exists."""

    remote: Remote
    cut_file: str

    @property
    def name(self) -> str:
        return self.remote.name

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        if Path(self.cut_file).exists():
            time.sleep(timeout_s / 4)
            raise Unreachable("the connection is cut")
        answer = self.remote.ask(method, *arguments, timeout_s=timeout_s)
        if Path(self.cut_file).exists():  # it was cut before the reply arrived
            raise Unreachable("the connection is cut")
        return answer

    def send(self, method: str, *arguments: Any) -> None:
        self.remote.send(method, *arguments)

    def alive(self) -> bool:
        return self.remote.alive()

    def has_ended(self) -> bool:
        return self.remote.has_ended()

    def kill(self) -> None:
        self.remote.kill()


class CountingWorker(ClusterWorker):
    """A worker that reports the number of sessions in its memory."""

    def sessions(self) -> int:
        return sum(isinstance(each, CrawlSession) for each in gc.get_objects())


def status(member: Remote) -> MemberStatus:
    answer: MemberStatus = member.ask("status", timeout_s=LIMIT_S)
    return answer


def hosts_of(workspace: Workspace, web: Sites, partitions: frozenset[int]) -> set[str]:
    identifier = Identifier(workspace.domains, workspace.partitions)
    return {
        host
        for host in web.hosts
        if identifier.identify(normalise(f"http://{host}/")).partition in partitions
    }


def later_claims(workspace: Workspace, lost: ClaimInfo) -> list[ClaimInfo]:
    """Return later claims of lost partitions by other workers."""
    claims = workspace.state().claims.values()
    return [
        each
        for each in claims
        if each.number > lost.number
        and each.worker != lost.worker
        and each.partitions & lost.partitions
    ]


def holders(workspace: Workspace) -> set[str]:
    """Return the names of the workers that hold partitions, if all partitions are held."""
    state = workspace.state()
    names = {
        state.claims[number].worker.partition("-")[0] for number in set(state.holders.values())
    }
    return names if len(state.holders) == workspace.partitions else set()


@pytest.mark.proves("cluster-one-worker", "cluster-lease", "cluster-reassign")
def test_disconnected_worker_stops_in_time_and_cannot_commit_after_reconnection(
    tmp_path: Path,
) -> None:
    with sites(tmp_path / "sites", "127.0.45", 8, 60) as web, LocalEngine() as engine:
        config = parse_config(daemon_config(web, delay="100ms") + "\n", overrides=SETTINGS)
        workspace = Workspace.create(str(tmp_path / "w"))
        homes = tuple(f"http://{host}/" for host in web.hosts)
        order = CoordinatorOrder(
            workspace.root, config.cluster, "test", "local", plan=CoordinatorPlan(2, ends=True)
        )
        coordinator = engine.start("coordinator", CoordinatorService, order, restarts=9)
        members = {}
        for name in ("near", "far"):
            remote = BreakableRemote(coordinator, str(tmp_path / f"cut-{name}"))
            job = Job(config.collection[0], homes)
            members[name] = engine.start(
                name,
                CountingWorker,
                MemberOrder(workspace.root, config, (job,), remote, name, "local", "crawl", True),
            )
        until(
            lambda: all(
                status(member).worker_status.progress.pages >= 3 for member in members.values()
            )
        )
        # Wait for the end of reassignments.
        until(lambda: holders(workspace) == {"near", "far"})

        (tmp_path / "cut-far").touch()
        cut_at = now_ms()
        state = workspace.state()
        lost = next(
            state.claims[number]
            for number in set(state.holders.values())
            if state.claims[number].worker.startswith("far")
        )
        lost_hosts = hosts_of(workspace, web, lost.partitions)
        assert lost_hosts
        assert lost_hosts != set(web.hosts)
        until(lambda: not status(members["far"]).holds)
        until(lambda: later_claims(workspace, lost))
        taken_over_at = later_claims(workspace, lost)[0].at_ms
        # The last reply may have arrived just before the cut.
        assert taken_over_at - cut_at >= REASSIGN_MS - HOLD_MS

        (tmp_path / "cut-far").unlink()
        until(lambda: status(members["far"]).holds)
        until(lambda: all(status(member).ended for member in members.values()))
        assert coordinator.ask("status", timeout_s=LIMIT_S)["why"] == "finished"
        sessions = [member.ask("sessions", timeout_s=LIMIT_S) for member in members.values()]
        assert sessions == [0, 0], "ended sessions stay in memory"
        requests = [
            request
            for request in web.server.requests()
            if request.host.partition(":")[0] in lost_hosts
        ]
        late = [
            request.at - cut_at
            for request in requests
            if cut_at + HOLD_MS + IN_FLIGHT_MS < request.at < taken_over_at
        ]
        assert not late, f"requests after the lease of {HOLD_MS} ms had expired: {late}"
        assert any(cut_at < request.at <= cut_at + HOLD_MS for request in requests), (
            "the worker had nothing to fetch, so the test proves nothing"
        )
        assert any(request.at > taken_over_at for request in requests)
        counts = Counter(
            (request.host, request.uri) for request in requests if request.uri != "/robots.txt"
        )
        # At most the request in flight of each host is repeated.
        assert sum(count - 1 for count in counts.values()) <= len(lost_hosts)

    entries = workspace.log.entries(0)
    fenced_at = later_claims(workspace, lost)[0].number
    assert not [
        each
        for each in entries
        if each.kind in (COMMIT, RELEASE) and each.claim == lost.number and each.number > fenced_at
    ]
    assert len(table_rows(tmp_path / "w", "pages", "url")) == 8 * 61
    visits = table_rows(tmp_path / "w", "visits", "url", "kind")
    assert len([each for each in visits if each[1] == "page"]) == 8 * 61

    check(tmp_path / "w")


class _ManyCpus(LocalEngine):
    def nodes(self) -> list[Node]:
        return [Node("a", "127.0.0.1", 200), Node("b", "127.0.0.1", 56)]


@pytest.mark.parametrize(("size", "workers"), [(2, 2), (100, 4), (None, 4)])
def test_there_are_no_more_workers_than_partitions(size: int | None, workers: int) -> None:
    order: Any = None
    settings = parse_config("").run
    supervision = WorkerSupervision(
        _ManyCpus(), order, size, 4, settings, lambda *_: None, print, ManualClock()
    )
    assert len(supervision.places) == workers


@dataclass
class DirectRemote:
    """A remote of an object in this process."""

    service: CoordinatorService
    name: str = "coordinator"
    pings: list[Ping] = field(default_factory=list)

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        self.pings += arguments
        return getattr(self.service, method)(*arguments)

    def send(self, method: str, *arguments: Any) -> None:
        self.ask(method, *arguments, timeout_s=0)

    def alive(self) -> bool:
        return True

    def has_ended(self) -> bool:
        return False

    def kill(self) -> None:
        pass


def test_worker_continues_after_a_failure_of_storage_and_reports_its_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter(["s3://b/p: no answer"])

    def open_or_fail(*arguments: Any, **options: Any) -> CrawlSession:
        for failure in failures:
            raise StorageError(failure)
        return open_session(*arguments, **options)

    monkeypatch.setattr(member, "open_session", open_or_fail)
    monkeypatch.setattr(member, "_STORAGE_PAUSE_S", 1.0)
    with sites(tmp_path / "sites", "127.0.46", 1, 3) as web:
        config = parse_config(daemon_config(web, delay="0s") + "\n", overrides=SETTINGS)
        root = Workspace.create(str(tmp_path / "w")).root
        plan = CoordinatorPlan(1, ends=True)
        service = CoordinatorService(
            CoordinatorOrder(root, config.cluster, "test", "local", plan=plan)
        )
        try:
            job = Job(config.collection[0], tuple(f"http://{host}/" for host in web.hosts))
            remote = DirectRemote(service)
            order = MemberOrder(root, config, (job,), remote, "w", "local", "crawl", True)
            worker = ClusterWorker(order)
            until(lambda: worker.status().worker_status.message == "s3://b/p: no answer")
            until(lambda: worker.status().ended)
        finally:
            service.close()
    assert worker.status().failure is None
    assert len(table_rows(tmp_path / "w", "pages", "url")) == 4
    assert max(ping.committed.get(job.collection.name, 0) for ping in remote.pings) == 4
