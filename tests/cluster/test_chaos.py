"""Workers, nodes and coordinators die or are suspended at random, without effect on results."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import driver
from tests.cluster.driver import ClusterCrawl, kill_node
from tests.cluster.verification import assert_valid, expected_result, verify_crawl
from tests.cluster.webs import HOLD_MS, REASSIGN_MS, options
from tests.crawl.synthetic_crawls import served_web
from tests.engines.clusters import RayCluster, ray_cluster

SEED = int(os.environ.get("LYCOSA_CHAOS_SEED", "20261121"))

LOST_MS = 5_000
"""How long before a failure a response may have arrived that the worker had not processed."""

BUSY_MS = 3_000
"""Delay on a busy machine: of requests at the server, and until a worker sees a lease expire."""


def loss_window(start: int, end: int = 0, hold_ms: int = HOLD_MS) -> tuple[int, int]:
    """Return when responses may be lost by a failure: until its leases have expired."""
    return start - LOST_MS, max(start, end) + hold_ms + BUSY_MS


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-deaths")
@pytest.mark.prove
def test_crawl_completes_after_killed_and_suspended_processes(tmp_path: Path) -> None:
    """Local engine, three workers: one is killed, one loses its lease, the coordinator dies."""
    loss_windows = []
    chance = random.Random(SEED)
    with served_web(tmp_path, *options(SEED, hosts=24, pages=420)) as served:
        expected = expected_result(served.web, tmp_path / "expected")
        with ClusterCrawl(
            tmp_path / "crawl", served, ("--engine", "local", "--workers", "3")
        ) as crawl:
            crawl.until(lambda: len(crawl.workers()) == 3, driver.START_LIMIT_S)
            crawl.await_requests(60)
            loss_windows.append(loss_window(driver.kill(chance.choice(crawl.workers()))))
            crawl.await_requests(120)
            loss_windows.append(
                loss_window(
                    *driver.pause(chance.choice(crawl.workers()), (REASSIGN_MS + 1_500) / 1_000)
                )
            )
            crawl.await_requests(180)
            loss_windows.append(loss_window(driver.kill(crawl.coordinator())))
            assert not crawl.ended, "the crawl ended before the last failure"
            assert crawl.finish()["ended"] == "finished"
        report = verify_crawl(
            tmp_path / "crawl", served.web, served.requests(), expected, loss_windows
        )
    print(report)
    assert_valid(tmp_path / "crawl")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A head node, and three nodes that tests may kill."""
    with ray_cluster(nodes=4) as running:
        yield running


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-deaths")
@pytest.mark.prove
@pytest.mark.parametrize("run", range(20))
def test_crawl_completes_after_random_node_failures(
    tmp_path: Path, cluster: RayCluster, run: int
) -> None:
    """Four workers on real Ray nodes.

    At random, a node dies and another one joins, the coordinator dies, or a worker is suspended.
    """
    chance = random.Random(SEED + run)
    while len(cluster.nodes) < 4:
        cluster.add()
    with served_web(tmp_path, *options(SEED + run, hosts=60, pages=1_000)) as served:
        expected = expected_result(served.web, tmp_path / "expected")
        engine = ("--engine", "ray", "--address", cluster.address, "--workers", "4")
        with ClusterCrawl(
            tmp_path / "crawl", served, engine, environment=cluster.environment
        ) as crawl:
            crawl.until(lambda: len(crawl.workers()) >= 2, driver.START_LIMIT_S)
            crawl.await_requests(40)
            failures = _inject_failures(crawl, cluster, chance, limit=5)
            progress = crawl.finish()
        assert progress["ended"] == "finished"
        report = verify_crawl(
            tmp_path / "crawl",
            served.web,
            served.requests(),
            expected,
            [span for _, span in failures],
        )
    names = ", ".join(name for name, _ in failures)
    print(f"run {run}: {names}: {report}; {progress['seconds']} s")
    assert failures
    assert_valid(tmp_path / "crawl")


def _inject_failures(
    crawl: ClusterCrawl, cluster: RayCluster, chance: random.Random, limit: int
) -> list[tuple[str, tuple[int, int]]]:
    """Inject failures until the crawl has ended or the limit is reached.

    Return their kinds and loss windows.
    """
    failures: list[tuple[str, tuple[int, int]]] = []
    while len(failures) < limit:
        crawl.await_requests(len(crawl.served.requests()) + chance.randrange(10, 120))
        workers, coordinator = crawl.workers(), crawl.coordinator()
        if crawl.ended:
            break
        kind = chance.choice(("node", "coordinator", "pause"))
        if kind == "node" and len(cluster.nodes) > 1:
            node = chance.choice(cluster.nodes[1:])
            failures.append((kind, loss_window(kill_node(cluster, node))))
            if chance.random() < 0.7:
                cluster.add()
        elif kind == "coordinator" and coordinator:
            failures.append((kind, loss_window(driver.kill(coordinator))))
        elif kind == "pause" and workers:
            worker, for_s = chance.choice(workers), chance.uniform(0.5, 2 * REASSIGN_MS / 1_000)
            failures.append((kind, loss_window(*driver.pause(worker, for_s))))
    return failures
