"""Five machines in network namespaces, and a workspace on S3.

A crawl has the result of a single worker, and search continues, whatever fails on a machine. The
web and S3 servers are outside of the cluster. See `tests.engines.machines`.
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
from tests.cluster.test_chaos import SEED, loss_window
from tests.cluster.verification import assert_valid, expected_result, same_result, verify_crawl
from tests.cluster.webs import options, rules
from tests.crawl.synthetic_crawls import ServedWeb, served_web
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

CLOCKS_S = (0, 0, 0, 120, -120)
"""Clock errors of the first machines. The last two are removed after the test of clocks."""

HOLD_MS, REASSIGN_MS = 3_000, 6_000
SLOW = [
    *("--set", f"cluster.hold={HOLD_MS}ms", "--set", f"cluster.reassign={REASSIGN_MS}ms"),
    *("--set", "crawl.commit_interval=4s"),  # the S3 server takes one request at a time
]
"""Long intervals: five machines and two servers share this machine, which may be busy."""

LIMIT_S = 900.0
CUT_S = REASSIGN_MS / 1_000 + 3
SETTLE_S = 10
"""Time in which running replicas open their shards."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayMachines]:
    require_machines()
    with ray_machines() as machines, s3_server(STORAGE) as server:
        machines.environment.update(server.environment)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment.items():
                patch.setenv(name, value)
            for clock_s in CLOCKS_S:
                machines.add(clock_s)
            yield machines


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}"


def crawl(cluster: RayMachines, root: str, served: ServedWeb) -> ClusterCrawl:
    """Return a crawl with a worker on each machine, started on the head."""
    engine = ("--engine", "ray", "--address", cluster.address, "--workers", "5")
    return ClusterCrawl(root, served, engine, SLOW, python=cluster.python(cluster.machines[0]))


def web(seed: int, pages: int = 400) -> tuple[str, ...]:
    return (*options(seed, hosts=40, pages=pages), "--network", NETWORK)


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-same-result")
def test_clocks_wrong_by_two_minutes_do_not_change_the_result(
    tmp_path: Path, cluster: RayMachines, root: str
) -> None:
    """The result is that of equal clocks, and the server received one request per URL."""
    with served_web(tmp_path, *web(SEED)) as served:
        expected = expected_result(served.web, tmp_path / "expected")
        with crawl(cluster, root, served) as running:
            running.until(lambda: len(running.workers()) == len(CLOCKS_S), LIMIT_S)
            assert running.finish(LIMIT_S)["ended"] == "finished"
        log = served.requests()
    result = same_result(root, expected)
    assert Counter(f"http://{each.host}{each.path}" for each in log) == result.exchanges
    assert violations(log, rules(served.web, frozenset())) == []
    assert_valid(root)


def replace(cluster: RayMachines, machine: Machine) -> AbstractContextManager[object]:
    cluster.leave(machine)
    return nullcontext(cluster.add())


FAILURES: dict[str, Callable[[RayMachines, Machine], AbstractContextManager[object]]] = {
    "another machine joins": lambda cluster, machine: nullcontext(cluster.add()),
    "it is replaced": replace,
    "it has no network": lambda cluster, machine: machine.unplugged(),
    # Web servers still respond: only the lease stops the worker.
    "it reaches only the web": lambda cluster, machine: machine.partitioned(
        [STORAGE, *(each.address for each in cluster.machines if each is not machine)]
    ),
    "it is paused": lambda cluster, machine: machine.paused(),
}


def uncommitted_since(root: str, pids: Collection[int], begun_ms: int) -> int:
    """Return since when exchanges of a worker may be uncommitted, and thus only in its files.

    The worker is one of these processes. Its last but one commit has all earlier exchanges.
    """
    commits = [
        at_ms(entry)
        for entry in Workspace.open(root).log.entries()
        if entry.kind == COMMIT and process_id(entry.worker) in pids and at_ms(entry) < begun_ms
    ]
    return commits[-2] if len(commits) > 1 else 0


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-deaths")
@pytest.mark.parametrize("failure", FAILURES)
def test_crawl_completes_after_failures_of_a_machine(
    tmp_path: Path, cluster: RayMachines, root: str, failure: str
) -> None:
    for machine in [each for each in cluster.machines if each.clock_s]:
        cluster.leave(machine)
    while len(cluster.machines) < len(CLOCKS_S):
        cluster.add()
    with served_web(tmp_path, *web(SEED + 1, pages=800)) as served:
        expected = expected_result(served.web, tmp_path / "expected")
        with crawl(cluster, root, served) as running:
            running.until(lambda: len(running.workers()) >= 4, LIMIT_S)
            running.await_requests(150, LIMIT_S)
            machine = random.Random(SEED).choice(cluster.machines[1:])
            pids = {each.pid for each in machine.processes()}
            start = now_ms()
            with FAILURES[failure](cluster, machine):
                time.sleep(CUT_S)
            span = loss_window(uncommitted_since(root, pids, start), now_ms(), HOLD_MS)
            assert not running.ended, "the crawl ended before the failure was over"
            progress = running.finish(LIMIT_S)
        log = served.requests()
    assert progress["ended"] == "finished"
    report = verify_crawl(root, served.web, log, expected, [span], own_files=True)
    print(f"{failure}: {report}; {progress['seconds']} s")
    assert_valid(root)


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


def test_search_is_complete_without_one_machine(cluster: RayMachines, indexed: str) -> None:
    """Each shard has two replicas. When a machine has no network, responses stay complete."""
    head = cluster.machines[0]
    port = free_port([OUTSIDE])
    command = [*cluster.python(head), "-m", "lycosa.cli.main", "-w", indexed, "serve"]
    command += ["--host", head.address, "--port", str(port), "--engine", "ray"]
    command += ["--address", cluster.address, "--replicas", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://{head.address}:{port}/api/v1/search?n=50&q=lang:en"
            until(lambda: listens(head.address, port), LIMIT_S, alive=server)
            until(lambda: len(replica_machines(cluster)) == 4, LIMIT_S, alive=server)
            time.sleep(SETTLE_S)
            before = _search(url)
            assert before["total"] > 0
            with next(each for each in replica_machines(cluster) if each is not head).unplugged():
                responses = [_search(url) for _ in range(8)]
        finally:
            server.terminate()
            server.communicate()
    assert [each["missing_shards"] for each in responses] == [[]] * len(responses)
    assert {each["total"] for each in responses} == {before["total"]}
    print(f"slowest response {max(each['took_ms'] for each in responses):,.0f} ms")


def replica_machines(cluster: RayMachines) -> list[Machine]:
    """Return the machine of each replica."""
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
