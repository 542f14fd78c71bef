"""The coordinator's process in real time: it leads, answers, writes how it stands, and is followed
by another life.
"""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import pytest

from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.cluster.coordinator_service import FILE, CoordinatorOrder, CoordinatorService
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import SystemClock
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.coordination.leadership import leader_of
from lycosa.store.workspace import Workspace
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
