"""CPU time per page of several workers compared with one process, on six documentation sites.

The start of a worker costs 0.5 s, with Ray 1.3 s, independent of the pages. So there are two sizes:
the six sites, where five starts are a fifth of the total, and three copies of each site.
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

MAX_COST = 1.25
LIMIT_S = 1_800


def cpu_of_children_s() -> float:
    """Return the CPU-seconds of all ended child processes and their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def crawl(
    web: ServedSites, workspace: Path, *engine: str, environment: dict[str, str] | None = None
) -> tuple[int, float, float]:
    """Crawl with a command.

    Return the pages, the CPU-seconds of the command and its children, and the CPU-seconds that the
    coordinator and its workers report.
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
    cpu_s = cpu_of_children_s() - before
    assert document["ended"] == "finished"
    if not engine:
        return document["pages"], cpu_s, 0.0
    cluster = json.loads((workspace / "run" / "cluster.json").read_text())
    return (
        document["pages"],
        cpu_s,
        cluster["cpu_s"] + sum(each["progress"]["cpu_s"] for each in cluster["workers"]),
    )


def copies(sites: tuple[Site, ...], number: int) -> tuple[Site, ...]:
    """Return this many copies of each site, on different addresses."""
    return tuple(
        Site(site.name, site.root, f"127.0.{2 + copy}.{10 + index}")
        for copy in range(number)
        for index, site in enumerate(sites)
    )


@pytest.mark.parametrize("number", [1, 3])
def test_four_workers_cost_little_more_than_one_process(tmp_path: Path, number: int) -> None:
    """The cost includes the start of processes, but not the daemons of Ray."""
    with serve_sites(copies(require_sites(), number)) as web:
        pages, alone, _ = crawl(web, tmp_path / "one")
        local_pages, local, local_workers = crawl(
            web, tmp_path / "local", "--engine", "local", "--workers", "4"
        )
        with ray_cluster(nodes=3) as cluster:
            engine = ("--engine", "ray", "--address", cluster.address, "--workers", "4")
            ray_pages, driver, ray_workers = crawl(
                web, tmp_path / "ray", *engine, environment=cluster.environment
            )
            daemons: dict[str, float] = {}
            for process in psutil.Process().children(recursive=True):
                times = process.cpu_times()
                daemons[process.name()] = round(
                    daemons.get(process.name(), 0.0) + times.user + times.system, 1
                )
    print(f"one process: {pages} pages, {alone:.1f} CPU-s")
    local_cost = local / local_pages / (alone / pages)
    print(
        f"local, 4 workers: {local:.1f} CPU-s, of which workers {local_workers:.1f}; "
        f"{local_cost:.2f} times as much per page"
    )
    ray_cost = (driver + ray_workers) / ray_pages / (alone / pages)
    print(
        f"ray, 3 nodes, 4 workers: driver {driver:.1f}, workers {ray_workers:.1f} CPU-s; "
        f"{ray_cost:.2f} times as much per page"
    )
    print(f"processes of Ray, including their start: {daemons}")
    assert pages == local_pages == ray_pages
    assert local_cost <= MAX_COST
    assert ray_cost <= MAX_COST
