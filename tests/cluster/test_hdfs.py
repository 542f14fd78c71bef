"""A workspace on a real HDFS: a whole crawl with merges and search, and one that loses a DataNode
in its middle.
"""

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
from tests.cluster.webs import options
from tests.cluster.witness import facts, is_sound, judge, truth
from tests.crawl.kills import run_json
from tests.crawl.polite import served_web
from tests.servers.hdfs import HdfsCluster, hdfs_cluster

pytestmark = pytest.mark.prove

SEED = 11
LOST = 1
"""The DataNode that dies."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[HdfsCluster]:
    """Two copies of everything on three DataNodes. A silent one is believed alive for much longer
    than a crawl waits for anything.
    """
    with hdfs_cluster(datanodes=3, replication=2, dead_after_s=60) as running:
        yield running


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "cache"))


def lycosa(root: str, *arguments: str) -> Any:
    """A command's JSON."""
    return run_json(root, *arguments, "--json")


def test_a_whole_crawl(tmp_path: Path, cluster: HdfsCluster) -> None:
    root = cluster.url("/whole")
    with served_web(tmp_path, *options(SEED, hosts=20, pages=300)) as served:
        expected = truth(served.web, tmp_path / "truth")
        with ClusterCrawl(
            root,
            served,
            ("--engine", "local", "--workers", "1"),
            settings=("--set", "store.merge_commits=4"),
        ) as crawl:
            assert crawl.finish()["ended"] == "finished"
        print(judge(root, served.web, served.requests(), expected, []))
    before = facts(root)
    commits = len(list(Workspace.open(root).state().files["urls"]))
    assert lycosa(root, "compact", "--full")["merged"]["files_after"] < max(commits, 2)
    assert facts(root) == before
    is_sound(root)
    lycosa(root, "index")
    rows = lycosa(
        root,
        "sql",
        "SELECT url, title FROM pages WHERE title != '' AND may_index ORDER BY url LIMIT 20",
    )
    request_count = [
        (row["url"], lycosa(root, "search", str(row["title"]), "-n", "10")) for row in rows[:5]
    ]
    assert (
        sum(any(hit["url"] == url for hit in answer["hits"]) for url, answer in request_count) >= 4
    )


@pytest.mark.proves("durability-datanode")
def test_a_datanode_dies(
    tmp_path: Path, cluster: HdfsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and commits go on, though the NameNode goes on sending us to it for a minute."""
    root = cluster.url("/dies")
    with served_web(tmp_path, *options(SEED + 1, hosts=20, pages=400)) as served:
        expected = truth(served.web, tmp_path / "truth")
        with ClusterCrawl(root, served, ("--engine", "local", "--workers", "1")) as crawl:
            crawl.until(lambda: _commits(root) >= 2, 120)
            before = _commits(root)
            cluster.stop(LOST)
            at = time.monotonic()
            crawl.until(lambda: _commits(root) >= before + 3, 60)
            print(
                f"three commits in {time.monotonic() - at:.1f} s after it died; the NameNode "
                f"believes in {cluster.state().live} DataNodes"
            )
            assert not crawl.over
            assert crawl.finish()["ended"] == "finished"
        assert cluster.state().missing == 0
        print(judge(root, served.web, served.requests(), expected, []))
    # a machine that has no copies of anything
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "another"))
    is_sound(root)
    assert facts(root).states == expected.states


def _commits(root: str) -> int:
    try:
        return sum(entry.kind == COMMIT for entry in Workspace.open(root).log.entries())
    except WorkspaceError:  # there is none yet
        return 0
