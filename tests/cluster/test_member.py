"""A worker that is cut off from its coordinator while it can reach the web: it stops in time, and
what it held is another's.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.cluster.coordinator_service import CoordinatorOrder, CoordinatorService
from lycosa.cluster.engine import Remote, Unreachable
from lycosa.cluster.engines.local import LocalEngine
from lycosa.cluster.member import ClusterWorker, MemberOrder, MemberStatus
from lycosa.config.reading import parse_config
from lycosa.crawl.session.session import CrawlSession
from lycosa.crawl.state.task import Job
from lycosa.store.log.entry import COMMIT, RELEASE
from lycosa.store.log.state import ClaimInfo
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from tests.cluster.test_cluster import Sites, configured, facts, sites
from tests.daemon.daemons import LIMIT_S
from tests.daemon.test_daemon import check
from tests.waiting import until

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
"""How much later than its lease ran out a server on a busy machine may write down a request."""


@dataclass
class Wire:
    """The way to a coordinator, which is cut while a file is there."""

    remote: Remote
    cut: str

    @property
    def name(self) -> str:
        return self.remote.name

    @property
    def node(self) -> str:
        return self.remote.node

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        if Path(self.cut).exists():
            time.sleep(timeout_s / 4)
            raise Unreachable("the wire is cut")
        answer = self.remote.ask(method, *arguments, timeout_s=timeout_s)
        if Path(self.cut).exists():  # it was cut while the answer was on its way
            raise Unreachable("the wire is cut")
        return answer

    def send(self, method: str, *arguments: Any) -> None:
        self.remote.send(method, *arguments)

    def alive(self) -> bool:
        return self.remote.alive()

    def has_ended(self) -> bool:
        return self.remote.has_ended()

    def kill(self) -> None:
        self.remote.kill()


class Counted(ClusterWorker):
    """Says how many sessions its process has in memory."""

    def sessions(self) -> int:
        return sum(isinstance(each, CrawlSession) for each in gc.get_objects())


def status(member: Remote) -> MemberStatus:
    answer: MemberStatus = member.ask("status", timeout_s=LIMIT_S)
    return answer


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def hosts_of(workspace: Workspace, web: Sites, partitions: frozenset[int]) -> set[str]:
    identifier = Identifier(workspace.domains, workspace.partitions)
    names = {detour.partition(":")[0] for detour in web.detours}
    return {
        name
        for name in names
        if identifier.identify(normalise(f"http://{name}/")).partition in partitions
    }


def takers(workspace: Workspace, lost: ClaimInfo) -> list[ClaimInfo]:
    """Later claims of what was lost, by others."""
    claims = workspace.state().claims.values()
    return [
        each
        for each in claims
        if each.number > lost.number
        and each.worker != lost.worker
        and each.partitions & lost.partitions
    ]


def shared_out(workspace: Workspace) -> set[str]:
    """Who holds partitions, by name, if all are held."""
    state = workspace.state()
    holders = {
        state.claims[number].worker.partition("-")[0] for number in set(state.holders.values())
    }
    return holders if len(state.holders) == workspace.partitions else set()


@pytest.mark.proves("cluster-one-worker", "cluster-lease", "cluster-reassign")
def test_a_worker_that_is_cut_off_stops_in_time_and_cannot_commit_when_it_comes_back(
    tmp_path: Path,
) -> None:
    with sites(tmp_path / "sites", "127.0.45", 8, 60) as web, LocalEngine() as engine:
        config = parse_config(configured(web, delay="100ms") + "\n", overrides=SETTINGS)
        workspace = Workspace.create(str(tmp_path / "w"))
        homes = tuple(f"http://{detour.partition(':')[0]}/" for detour in web.detours)
        order = CoordinatorOrder(
            workspace.root, config.cluster, "test", "local", plan=CoordinatorPlan(2, ends=True)
        )
        coordinator = engine.start("coordinator", CoordinatorService, order, restarts=9)
        members = {}
        for name in ("near", "far"):
            wire = Wire(coordinator, str(tmp_path / f"cut-{name}"))
            job = Job(config.collection[0], homes)
            members[name] = engine.start(
                name,
                Counted,
                MemberOrder(workspace.root, config, (job,), wire, name, "local", "crawl", True),
            )
        until(lambda: all(status(member).vitals.progress.pages >= 3 for member in members.values()))
        # not between a claim and the next, when partitions change hands
        until(lambda: shared_out(workspace) == {"near", "far"})

        (tmp_path / "cut-far").touch()
        cut_at = now_ms()
        state = workspace.state()
        lost = next(
            state.claims[number]
            for number in set(state.holders.values())
            if state.claims[number].worker.startswith("far")
        )
        mine = hosts_of(workspace, web, lost.partitions)
        assert mine
        assert mine != {detour.partition(":")[0] for detour in web.detours}
        until(lambda: not status(members["far"]).holds)
        until(lambda: takers(workspace, lost))
        taken_over_at = takers(workspace, lost)[0].at_ms
        # the last answer may have come just before the cut
        assert taken_over_at - cut_at >= REASSIGN_MS - HOLD_MS

        (tmp_path / "cut-far").unlink()
        until(lambda: status(members["far"]).holds)
        until(lambda: all(status(member).ended for member in members.values()))
        assert coordinator.ask("status", timeout_s=LIMIT_S)["why"] == "finished"
        assert [member.ask("sessions", timeout_s=LIMIT_S) for member in members.values()] == [
            0,
            0,
        ], "sessions that are over stay in memory"
        requests = [
            request for request in web.server.requests() if request.host.partition(":")[0] in mine
        ]
        late = [
            request.at - cut_at
            for request in requests
            if cut_at + HOLD_MS + IN_FLIGHT_MS < request.at < taken_over_at
        ]
        assert not late, f"the lease of {HOLD_MS} ms was out, and it fetched on: {late}"
        assert any(cut_at < request.at <= cut_at + HOLD_MS for request in requests), (
            "it had nothing to fetch: the test shows nothing"
        )
        assert any(request.at > taken_over_at for request in requests)
        again = {
            path: times
            for path, times in Counter((request.host, request.uri) for request in requests).items()
            if times > 1
        }
        pages = {path: times for path, times in again.items() if path[1] != "/robots.txt"}
        # what was in flight when the lease ran out, one a host
        assert sum(times - 1 for times in pages.values()) <= len(mine)

    entries = workspace.log.entries(0)
    outranked = takers(workspace, lost)[0].number
    assert not [
        each
        for each in entries
        if each.kind in (COMMIT, RELEASE) and each.claim == lost.number and each.number > outranked
    ]
    assert len(facts(tmp_path / "w", "pages", "url")) == 8 * 61
    visits = facts(tmp_path / "w", "visits", "url", "kind")
    assert len([each for each in visits if each[1] == "page"]) == 8 * 61

    check(tmp_path / "w")
