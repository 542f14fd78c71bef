"""Workers, nodes and coordinators that die or are cut off at random, and a crawl that nobody can
tell from one worker's.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import driver
from tests.cluster.driver import ClusterCrawl, die
from tests.cluster.webs import HOLD_MS, REASSIGN_MS, options
from tests.cluster.witness import is_sound, judge, truth
from tests.crawl.polite import served_web
from tests.engines.clusters import RayCluster, ray_cluster

SEED = int(os.environ.get("LYCOSA_CHAOS_SEED", "20261121"))

LOST_MS = 5_000
"""How long before a death an answer may have come that a worker took no note of: it reads them in
the order of their ends.
"""

BUSY_MS = 3_000
"""How much later than it was sent a busy server may read a request, and how late a busy machine may
see that a lease is out.
"""


def troubled(begun: int, ended: int = 0, hold_ms: int = HOLD_MS) -> tuple[int, int]:
    """When answers may be lost by a trouble: until all who depended on what was killed or stopped
    have noticed.
    """
    return begun - LOST_MS, max(begun, ended) + hold_ms + BUSY_MS


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-deaths")
@pytest.mark.prove
def test_processes_of_a_machine_die(tmp_path: Path) -> None:
    """Engine local, three workers: one is killed, one is cut off for longer than its partitions are
    kept for it, the coordinator dies.
    """
    troubles = []
    chance = random.Random(SEED)
    with served_web(tmp_path, *options(SEED, hosts=24, pages=420)) as served:
        expected = truth(served.web, tmp_path / "truth")
        with ClusterCrawl(
            tmp_path / "crawl", served, ("--engine", "local", "--workers", "3")
        ) as crawl:
            crawl.until(lambda: len(crawl.workers()) == 3, driver.START_LIMIT_S)
            crawl.await_work(60)
            troubles.append(troubled(driver.kill(chance.choice(crawl.workers()))))
            crawl.await_work(120)
            troubles.append(
                troubled(
                    *driver.pause(chance.choice(crawl.workers()), (REASSIGN_MS + 1_500) / 1_000)
                )
            )
            crawl.await_work(180)
            troubles.append(troubled(driver.kill(crawl.coordinator())))
            assert not crawl.over, "it ended before the last trouble"
            assert crawl.finish()["ended"] == "finished"
        report = judge(tmp_path / "crawl", served.web, served.requests(), expected, troubles)
    print(report)
    is_sound(tmp_path / "crawl")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A head, which lives, and three nodes, which need not."""
    with ray_cluster(nodes=4) as running:
        yield running


@pytest.mark.proves("politeness-workers", "cluster-one-worker", "cluster-deaths")
@pytest.mark.prove
@pytest.mark.parametrize("run", range(20))
def test_nodes_die(tmp_path: Path, cluster: RayCluster, run: int) -> None:
    """Four workers on real Ray nodes; a node dies and another joins, the coordinator dies, a worker
    is cut off: as chance will have it.
    """
    chance = random.Random(SEED + run)
    while len(cluster.nodes) < 4:
        cluster.add()
    with served_web(tmp_path, *options(SEED + run, hosts=60, pages=1_000)) as served:
        expected = truth(served.web, tmp_path / "truth")
        engine = ("--engine", "ray", "--address", cluster.address, "--workers", "4")
        with ClusterCrawl(
            tmp_path / "crawl", served, engine, environment=cluster.environment
        ) as crawl:
            crawl.until(lambda: len(crawl.workers()) >= 2, driver.START_LIMIT_S)
            crawl.await_work(40)
            made_troubles = _trouble(crawl, cluster, chance, most=5)
            progress = crawl.finish()
        assert progress["ended"] == "finished"
        report = judge(
            tmp_path / "crawl",
            served.web,
            served.requests(),
            expected,
            [span for _, span in made_troubles],
        )
    print(
        f"run {run}: {', '.join(name for name, _ in made_troubles)}: {report}; {progress['seconds']} s"
    )
    assert made_troubles
    is_sound(tmp_path / "crawl")


def _trouble(
    crawl: ClusterCrawl, cluster: RayCluster, chance: random.Random, most: int
) -> list[tuple[str, tuple[int, int]]]:
    """Make trouble until the crawl is over or there was enough of it."""
    made_troubles: list[tuple[str, tuple[int, int]]] = []
    while len(made_troubles) < most:
        crawl.await_work(len(crawl.served.requests()) + chance.randrange(10, 120))
        workers, coordinator = crawl.workers(), crawl.coordinator()
        if crawl.over:
            break
        what = chance.choice(("node", "coordinator", "cut"))
        if what == "node" and len(cluster.nodes) > 1:
            made_troubles.append((what, troubled(die(cluster, chance.choice(cluster.nodes[1:])))))
            if chance.random() < 0.7:
                cluster.add()
        elif what == "coordinator" and coordinator:
            made_troubles.append((what, troubled(driver.kill(coordinator))))
        elif what == "cut" and workers:
            made_troubles.append(
                (
                    what,
                    troubled(
                        *driver.pause(
                            chance.choice(workers), chance.uniform(0.5, 2 * REASSIGN_MS / 1_000)
                        )
                    ),
                )
            )
    return made_troubles
