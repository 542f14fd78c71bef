"""Features of the Ray engine: tokens, bare nodes, joining nodes, killed drivers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from lycosa.cluster.engines import shipping
from tests.cli.conftest import printed
from tests.cluster.test_cluster import (
    SET,
    Sites,
    assert_same_tables,
    count_hits,
    crawl,
    daemon_config,
    sites,
)
from tests.daemon.daemons import daemon
from tests.daemon.test_daemon import check
from tests.engines import remote_objects
from tests.engines.clusters import RayCluster, ray_cluster
from tests.waiting import until

pytestmark = pytest.mark.prove

LIMIT_S = 180.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster(nodes=3) as running:
        yield running


DRIVER = """
from lycosa.cluster.engines.ray import RayEngine
with RayEngine({address!r}, install="never") as engine:
    print(len(engine.nodes()), "nodes")
"""

NODE = """
from ray._private.node import Node
from ray._private.parameter import RayParams
parameters = RayParams(
    gcs_address={address!r}, redis_address={address!r}, node_ip_address="127.0.0.1", num_cpus=1,
    num_gpus=0, object_store_memory=100_000_000, min_worker_port=0, max_worker_port=0,
    node_manager_port=0, include_log_monitor=False,
)
Node(parameters, head=False, shutdown_at_exit=True, spawn_reaper=False)
print("joined")
"""


def call(
    program: str, environment: dict[str, str], python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


@pytest.mark.proves("access-cluster")
def test_joining_requires_the_cluster_secret(cluster: RayCluster) -> None:
    secret = cluster.environment["RAY_AUTH_TOKEN"]
    for program, expected in ((DRIVER, "3 nodes"), (NODE, "joined")):
        text = program.format(address=cluster.address)
        for wrong in (
            {"RAY_AUTH_TOKEN": "0" * 64},
            {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""},
        ):
            refused = call(text, {**cluster.environment, **wrong})
            assert refused.returncode != 0
            assert expected not in refused.stdout
            assert secret not in refused.stdout + refused.stderr
        accepted = call(text, cluster.environment)
        assert expected in accepted.stdout, accepted.stderr


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Python in a virtual environment that has only Ray."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    requirement = f"ray=={shipping.installed('ray')}"
    if subprocess.run(
        [python, "-m", "pip", "install", "--quiet", requirement], check=False
    ).returncode:
        pytest.skip("a bare node needs Ray from the package index, which cannot be reached")
    return python


def test_node_needs_only_python_and_ray(
    cluster: RayCluster, bare_python: str, tmp_path: Path
) -> None:
    program = (
        NODE.format(address=cluster.address)
        + "\nimport sys, time\nsys.stdout.flush()\ntime.sleep(3600)\n"
    )
    environment = {**os.environ, **cluster.environment, "XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen(
        [bare_python, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as node:
        try:
            assert node.stdout is not None
            assert node.stdout.readline() == "joined\n"
            with cluster.engine() as engine:
                known = {str(each.node_id) for each in cluster.nodes}
                (bare,) = [each.name for each in engine.nodes() if each.name not in known]
                title = engine.start("title", remote_objects.Title, node=bare)
                result, path = title.ask("of", b"<title>The dormouse</title>", timeout_s=600)
                assert result == "The dormouse"
                assert "py_modules" in path  # the code is shipped with the job
                title.kill()
                again = engine.start("title", remote_objects.Title, node=bare)
                assert again.ask("of", b"<title>Again</title>", timeout_s=LIMIT_S)[0] == "Again"
            assert list(tmp_path.glob("lycosa/packages/*/selectolax"))
        finally:
            node.terminate()


@pytest.mark.proves("cluster-driver")
def test_local_ray_cluster_listens_on_loopback_only_and_ends_with_its_driver() -> None:
    program = """
import time
from lycosa.cluster.engines.ray import RayEngine
if __name__ == "__main__":
    engine = RayEngine(cpus=1, install="never")
    assert list(engine.map(len, ["abc"])) == [3]
    print("up", flush=True)
    time.sleep(600)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RAY_AUTH_TOKEN": "1" * 64},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
        assert len(family) > 3
        open_to_all = []
        for each in family:
            with suppress(psutil.NoSuchProcess):
                listening = [
                    link.laddr.ip
                    for link in each.net_connections()
                    if link.status == psutil.CONN_LISTEN
                ]
                open_to_all += [
                    (each.name(), ip)
                    for ip in listening
                    if not ip.removeprefix("::ffff:").startswith("127.")
                ]
        assert not open_to_all
        process.kill()
        process.wait()
        # The agents of Ray check once per minute whether their raylet runs.
        _, alive = psutil.wait_procs(family[1:], timeout=LIMIT_S)
        assert not alive
    finally:
        process.kill()
        process.communicate()


def arguments(cluster: RayCluster, workers: int | None) -> list[str]:
    return [
        "--engine",
        "ray",
        "--address",
        cluster.address,
        *(["--workers", str(workers)] if workers else []),
    ]


@pytest.mark.proves("cluster-same-result")
def test_four_workers_on_three_nodes_store_the_same_rows_as_one_process(
    tmp_path: Path, cluster: RayCluster
) -> None:
    with sites(tmp_path / "sites", "127.0.46", 12, 40) as web:
        alone = crawl(tmp_path / "one", web, web.home)
        together = crawl(
            tmp_path / "four",
            web,
            web.home,
            *arguments(cluster, 4),
            environment=cluster.environment,
        )
    assert (alone["ended"], together["ended"]) == ("finished", "finished")
    assert together["pages"] == alone["pages"] == 12 * 41
    assert together["states"] == alone["states"]
    assert_same_tables(tmp_path / "one", tmp_path / "four")
    assert [count_hits(tmp_path / name, "dormouse") for name in ("one", "four")] == [12, 12]
    for query in ("dormouse", "21th", "7th month", "Site 3"):
        assert hits(tmp_path / "one", query) == hits(tmp_path / "four", query)
    check(tmp_path / "four")


def hits(workspace: Path, query: str) -> list[tuple[str, float]]:
    """Return URLs and scores of the first 50 results, sorted by URL."""
    output = printed("-w", str(workspace), "search", query, "--json", "-n", "50")
    return sorted((hit["url"], round(hit["score"], 3)) for hit in json.loads(output)["hits"])


@pytest.mark.proves("cluster-joining")
def test_new_node_has_partitions_within_ten_seconds(tmp_path: Path, cluster: RayCluster) -> None:
    with sites(tmp_path / "sites", "127.0.47", 12, 80) as web:
        before = {str(node.node_id) for node in cluster.nodes}
        workspace = tmp_path / "w"
        process = start_crawl(workspace, web, cluster)
        try:
            until(lambda: len(holders(workspace)) >= len(cluster.nodes))
            cluster.add()
            joined = next(
                str(node.node_id) for node in cluster.nodes if str(node.node_id) not in before
            )
            worker_s = until(lambda: joined in {each["node"] for each in worker_rows(workspace)})
            claim_s = worker_s + until(
                lambda: joined in {each["node"] for each in holders(workspace)}
            )
            print(f"after the node joined: worker {worker_s:.1f} s, partitions {claim_s:.1f} s")
            assert claim_s <= 10.0
            assert process.poll() is None
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0
    check(workspace)


def start_crawl(workspace: Path, web: Sites, cluster: RayCluster) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "-w",
        str(workspace),
        *SET,
        "--set",
        "crawl.patience=60s",
    ]
    command += [
        "--set",
        f"fetch.connect_to={json.dumps(web.connect_to)}",
        "crawl",
        web.home,
        "--scope",
        "any",
        "--delay",
        "300ms",
    ]
    command += ["--json", "-q", "--no-index", *arguments(cluster, None)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **cluster.environment}
    )


def holders(workspace: Path) -> list[dict[str, Any]]:
    """Return the workers that hold partitions."""
    return [each for each in worker_rows(workspace) if each["claim"] and each["partitions"]]


def worker_rows(workspace: Path) -> list[dict[str, Any]]:
    """Return the workers in the status file, which the coordinator writes every two seconds."""
    try:
        document = json.loads((workspace / "run" / "cluster.json").read_text())
    except (FileNotFoundError, ValueError):
        return []
    workers: list[dict[str, Any]] = document["workers"]
    return workers


def test_daemon_on_ray_crawls_and_stops(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with sites(tmp_path / "sites", "127.0.48", 3, 10) as web:
        with daemon(workspace, daemon_config(web), "--engine", "ray", "--workers", "2") as running:
            running.until_pages(33)
            assert running.stop() == 0, running.errors
        assert "starting a cluster on engine ray: 2 workers" in running.errors
        assert "Traceback" not in running.errors
    check(workspace)
