"""A workspace on a real HDFS: a crawl with compaction and search, and the loss of a DataNode."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lycosa.core.errors import WorkspaceError
from lycosa.store.log.entry import COMMIT
from lycosa.store.workspace import Workspace
from tests.cluster.driver import ClusterCrawl
from tests.cluster.verification import assert_valid, expected_result, facts, verify_crawl
from tests.cluster.webs import options
from tests.crawl.kills import run_json
from tests.crawl.synthetic_crawls import served_web
from tests.servers.hdfs import HdfsCluster, hdfs_cluster

pytestmark = pytest.mark.prove

SEED = 11
FAILED_DATANODE = 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[HdfsCluster]:
    """Three DataNodes with replication 2.

    A silent DataNode is considered alive for longer than any timeout of a crawl.
    """
    with hdfs_cluster(datanodes=3, replication=2, dead_after_s=60) as running:
        yield running


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "cache"))


def lycosa(root: str, *arguments: str) -> Any:
    """Run a command with `--json`. Return its document."""
    return run_json(root, *arguments, "--json")


def test_crawl_compaction_and_search(tmp_path: Path, cluster: HdfsCluster) -> None:
    root = cluster.url("/complete")
    with served_web(tmp_path, *options(SEED, hosts=20, pages=300)) as served:
        expected = expected_result(served.web, tmp_path / "expected")
        with ClusterCrawl(
            root,
            served,
            ("--engine", "local", "--workers", "1"),
            settings=("--set", "store.merge_commits=4"),
        ) as crawl:
            assert crawl.finish()["ended"] == "finished"
        print(verify_crawl(root, served.web, served.requests(), expected, []))
    before = facts(root)
    files = len(Workspace.open(root).state().files["urls"])
    assert lycosa(root, "compact", "--full")["merged"]["files_after"] < max(files, 2)
    assert facts(root) == before
    assert_valid(root)
    lycosa(root, "index")
    rows = lycosa(
        root,
        "sql",
        "SELECT url, title FROM pages WHERE title != '' AND may_index ORDER BY url LIMIT 20",
    )
    results = [
        (row["url"], lycosa(root, "search", str(row["title"]), "-n", "10")) for row in rows[:5]
    ]
    assert sum(any(hit["url"] == url for hit in result["hits"]) for url, result in results) >= 4


@pytest.mark.proves("durability-datanode")
def test_crawl_continues_after_loss_of_a_datanode(
    tmp_path: Path, cluster: HdfsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and commits succeed although the NameNode refers to the DataNode for a minute."""
    root = cluster.url("/datanode")
    with served_web(tmp_path, *options(SEED + 1, hosts=20, pages=400)) as served:
        expected = expected_result(served.web, tmp_path / "expected")
        with ClusterCrawl(root, served, ("--engine", "local", "--workers", "1")) as crawl:
            crawl.until(lambda: count_commits(root) >= 2, 120)
            before = count_commits(root)
            cluster.stop(FAILED_DATANODE)
            at = time.monotonic()
            crawl.until(lambda: count_commits(root) >= before + 3, 60)
            print(
                f"three commits within {time.monotonic() - at:.1f} s after the failure; the "
                f"NameNode considers {cluster.state().live} DataNodes alive"
            )
            assert not crawl.ended
            assert crawl.finish()["ended"] == "finished"
        assert cluster.state().missing == 0
        print(verify_crawl(root, served.web, served.requests(), expected, []))
    # Read from a machine with an empty cache.
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "another"))
    assert_valid(root)
    assert facts(root).states == expected.states


def count_commits(root: str) -> int:
    try:
        return sum(entry.kind == COMMIT for entry in Workspace.open(root).log.entries())
    except WorkspaceError:  # not created yet
        return 0
