"""Five machines with networks, files and clocks of their own, and a workspace on S3: a crawl that
comes to what one worker comes to, and a search that goes on, whatever happens to a machine.

The servers, web and S3, are outside of the cluster. See `tests.engines.machines`.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from lycosa.store.log.entry import COMMIT, at_ms
from lycosa.store.workspace import Workspace
from tests.cluster.driver import ClusterCrawl, now_ms, process_id
from tests.cluster.test_chaos import SEED, troubled
from tests.cluster.webs import options, rules
from tests.cluster.witness import is_sound, judge, same_result, truth
from tests.crawl.polite import ServedWeb, served_web
from tests.engines.machines import (
    NETWORK,
    OUTSIDE,
    STORAGE,
    Machine,
    RayMachines,
    ray_machines,
    require_machines,
)
from tests.servers.nginx import free_port
from tests.servers.s3 import BUCKET, s3_server
from tests.servers.synthetic.politeness import violations
from tests.waiting import listens, until

pytestmark = pytest.mark.prove

WRONG_S = (0, 0, 0, 120, -120)
"""Clocks of the machines at first: the last two leave after the trial of the clocks."""

HOLD_MS, REASSIGN_MS = 3_000, 6_000
SLOW = [
    *("--set", f"cluster.hold={HOLD_MS}ms", "--set", f"cluster.reassign={REASSIGN_MS}ms"),
    *("--set", "crawl.commit_interval=4s"),  # the S3 server takes one request at a time
]
"""Five machines and two servers share this one, which may be busy."""

LIMIT_S = 900.0
CUT_S = REASSIGN_MS / 1_000 + 3
SETTLE_S = 10
"""How long replicas that run may take to open their shards."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayMachines]:
    require_machines()
    with ray_machines() as machines, s3_server(STORAGE) as server:
        machines.environment.update(server.environment)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment.items():
                patch.setenv(name, value)
            for clock_s in WRONG_S:
                machines.add(clock_s)
            yield machines


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}"


def crawl(cluster: RayMachines, root: str, served: ServedWeb) -> ClusterCrawl:
    """A crawl with a worker on each machine, started on the head."""
    engine = ("--engine", "ray", "--address", cluster.address, "--workers", "5")
    return ClusterCrawl(root, served, engine, SLOW, python=cluster.python(cluster.machines[0]))


def web(seed: int, pages: int = 400) -> tuple[str, ...]:
    return (*options(seed, hosts=40, pages=pages), "--network", NETWORK)


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-same-result")
def test_two_clocks_are_two_minutes_wrong(tmp_path: Path, cluster: RayMachines, root: str) -> None:
    """What depends on the date ends as with one clock. By the server's log each URL was requested
    once.
    """
    with served_web(tmp_path, *web(SEED)) as served:
        expected = truth(served.web, tmp_path / "truth")
        with crawl(cluster, root, served) as running:
            running.until(lambda: len(running.workers()) == len(WRONG_S), LIMIT_S)
            assert running.finish(LIMIT_S)["ended"] == "finished"
        log = served.requests()
    result = same_result(root, expected)
    assert Counter(f"http://{each.host}{each.path}" for each in log) == result.exchanges
    assert violations(log, rules(served.web, frozenset())) == []
    is_sound(root)


def leave(cluster: RayMachines, machine: Machine) -> AbstractContextManager[object]:
    cluster.leave(machine)
    return nullcontext(cluster.add())


TROUBLES: dict[str, Callable[[RayMachines, Machine], AbstractContextManager[object]]] = {
    "another one joins": lambda cluster, machine: nullcontext(cluster.add()),
    "it leaves, and another one joins": leave,
    "it is unplugged": lambda cluster, machine: machine.unplugged(),
    # the web still answers it: nothing but its lease stops it
    "it reaches the web alone": lambda cluster, machine: machine.parted(
        [STORAGE, *(each.address for each in cluster.machines if each is not machine)]
    ),
    "it is paused": lambda cluster, machine: machine.paused(),
}


def uncommitted_since(root: str, pids: Collection[int], begun_ms: int) -> int:
    """Since when the worker among these processes may have archived what it had not committed at a
    time: it is in its own files. The commit before its last one covers all that was earlier.
    """
    commits = [
        at_ms(entry)
        for entry in Workspace.open(root).log.entries()
        if entry.kind == COMMIT and process_id(entry.worker) in pids and at_ms(entry) < begun_ms
    ]
    return commits[-2] if len(commits) > 1 else 0


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-deaths")
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_machine_is_in_trouble(
    tmp_path: Path, cluster: RayMachines, root: str, trouble: str
) -> None:
    for machine in [each for each in cluster.machines if each.clock_s]:
        cluster.leave(machine)
    while len(cluster.machines) < len(WRONG_S):
        cluster.add()
    with served_web(tmp_path, *web(SEED + 1, pages=800)) as served:
        expected = truth(served.web, tmp_path / "truth")
        with crawl(cluster, root, served) as running:
            running.until(lambda: len(running.workers()) >= 4, LIMIT_S)
            running.await_work(150, LIMIT_S)
            machine = random.Random(SEED).choice(cluster.machines[1:])
            pids = {each.pid for each in machine.processes()}
            begun = now_ms()
            with TROUBLES[trouble](cluster, machine):
                time.sleep(CUT_S)
            span = troubled(uncommitted_since(root, pids, begun), now_ms(), HOLD_MS)
            assert not running.over, "it ended before the trouble was over"
            progress = running.finish(LIMIT_S)
        log = served.requests()
    assert progress["ended"] == "finished"
    report = judge(root, served.web, log, expected, [span], own_files=True)
    print(f"{trouble}: {report}; {progress['seconds']} s")
    is_sound(root)


@pytest.fixture
def indexed(tmp_path: Path, cluster: RayMachines, root: str) -> str:
    """A workspace with an index of two shards."""
    head = cluster.python(cluster.machines[0])
    with served_web(tmp_path, *options(SEED, hosts=8, pages=60), "--network", NETWORK) as served:
        engine = ("--engine", "local", "--workers", "1")
        with ClusterCrawl(root, served, engine, python=head) as running:
            running.finish()
    command = [*head, "-m", "lycosa.cli.main", "-w", root, "--set", "index.shards=2", "index"]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    return root


def test_search_answers_without_a_machine(cluster: RayMachines, indexed: str) -> None:
    """Each shard is on two machines; one of them is unplugged, and no answer lacks a page."""
    head = cluster.machines[0]
    port = free_port([OUTSIDE])
    command = [*cluster.python(head), "-m", "lycosa.cli.main", "-w", indexed, "serve"]
    command += ["--host", head.address, "--port", str(port), "--engine", "ray"]
    command += ["--address", cluster.address, "--replicas", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://{head.address}:{port}/api/v1/search?n=50&q=lang:en"
            until(lambda: listens(head.address, port), LIMIT_S, alive=server)
            until(lambda: len(_replicas(cluster)) == 4, LIMIT_S, alive=server)
            time.sleep(SETTLE_S)
            before = _search(url)
            assert before["total"] > 0
            with next(each for each in _replicas(cluster) if each is not head).unplugged():
                answers = [_search(url) for _ in range(8)]
        finally:
            server.terminate()
            server.communicate()
    assert [each["missing_shards"] for each in answers] == [[]] * len(answers)
    assert {each["total"] for each in answers} == {before["total"]}
    print(f"slowest answer {max(each['took_ms'] for each in answers):,.0f} ms")


def _replicas(cluster: RayMachines) -> list[Machine]:
    """The machine of each replica."""
    return [
        machine
        for machine in cluster.machines
        for process in machine.processes()
        if process.name().startswith("ray::ObjectActor")
    ]


def _search(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=30) as response:
        document: dict[str, Any] = json.load(response)
    return document
