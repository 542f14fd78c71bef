"""What it costs to be many: CPU-seconds a page against one process, on the six documentation sites.

A process's start costs once, not by the page: a worker's .5 s, and .8 s more where it is Ray's. So
there are two sizes: the six sites as they are, where five starts are a fifth of everything, and
three copies of each on hosts of their own.
"""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import printed
from tests.engines.clusters import ray_cluster
from tests.servers.sites import ServedSites, Site, require_sites, serve_sites, site_seeds

pytestmark = pytest.mark.prove

BAR = 1.25
LIMIT_S = 1_800


def cpu_of_children_s() -> float:
    """CPU-seconds of all processes that this one has started and that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def crawl(
    web: ServedSites, workspace: Path, *engine: str, environment: dict[str, str] | None = None
) -> tuple[int, float, float]:
    """Pages, CPU-seconds of the command and its children, CPU-seconds of the coordinator and its
    workers as they say themselves.
    """
    before = cpu_of_children_s()
    seeds = [
        seed
        for site in web.sites
        for seed in site_seeds(site, f"http://{site.address}:{web.server.port}")
    ]
    document = json.loads(
        printed(
            *("-w", str(workspace), "crawl", *seeds, "--delay", "0", "--json", "-q", "--no-index"),
            *engine,
            environment={**os.environ, **(environment or {})},
            limit_s=LIMIT_S,
        )
    )
    own = cpu_of_children_s() - before
    assert document["ended"] == "finished"
    if not engine:
        return document["pages"], own, 0.0
    cluster = json.loads((workspace / "run" / "cluster.json").read_text())
    return (
        document["pages"],
        own,
        cluster["cpu_s"] + sum(each["progress"]["cpu_s"] for each in cluster["workers"]),
    )


def copies(sites: tuple[Site, ...], number: int) -> tuple[Site, ...]:
    """Each site so many times, on addresses of their own."""
    return tuple(
        Site(site.name, site.root, f"127.0.{2 + copy}.{10 + place}")
        for copy in range(number)
        for place, site in enumerate(sites)
    )


@pytest.mark.parametrize("number", [1, 3])
def test_four_workers_cost_little_more_than_one_process(tmp_path: Path, number: int) -> None:
    """All processes count, their start too; Ray's own daemons are told apart."""
    with serve_sites(copies(require_sites(), number)) as web:
        pages, alone, _ = crawl(web, tmp_path / "one")
        by_local, local, local_workers = crawl(
            web, tmp_path / "local", "--engine", "local", "--workers", "4"
        )
        with ray_cluster(nodes=3) as cluster:
            engine = ("--engine", "ray", "--address", cluster.address, "--workers", "4")
            by_ray, driver, ray_workers = crawl(
                web, tmp_path / "ray", *engine, environment=cluster.environment
            )
            daemons: dict[str, float] = {}
            for process in psutil.Process().children(recursive=True):
                times = process.cpu_times()
                daemons[process.name()] = round(
                    daemons.get(process.name(), 0.0) + times.user + times.system, 1
                )
    print(f"one process: {pages} pages, {alone:.1f} CPU-s")
    local_cost = local / by_local / (alone / pages)
    print(
        f"local, 4 workers: {local:.1f} CPU-s, of which workers {local_workers:.1f}; a page "
        f"{local_cost:.2f} times as much"
    )
    ray_cost = (driver + ray_workers) / by_ray / (alone / pages)
    print(
        f"ray, 3 nodes, 4 workers: driver {driver:.1f}, workers {ray_workers:.1f} CPU-s; a page "
        f"{ray_cost:.2f} times as much"
    )
    print(f"Ray's own processes, start included: {daemons}")
    assert pages == by_local == by_ray
    assert local_cost <= BAR
    assert ray_cost <= BAR
