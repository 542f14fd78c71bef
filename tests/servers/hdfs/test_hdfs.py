"""The mini cluster itself: WebHDFS answers on loopback only, and a DataNode can be lost and come
back.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.servers.hdfs import HdfsCluster, hdfs_cluster
from tests.waiting import until

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def cluster() -> Iterator[HdfsCluster]:
    with hdfs_cluster(datanodes=3, replication=2, dead_after_s=12) as running:
        yield running


def _call(
    cluster: HdfsCluster, method: str, path: str, query: str, body: bytes = b""
) -> tuple[str, bytes]:
    """The URL that gave the last answer, and the answer."""
    url = f"http://{cluster.address}/webhdfs/v1{path}?user.name=lycosa&{query}"
    requested = urllib.request.Request(url, method=method, data=body or None)
    with urllib.request.urlopen(requested, timeout=20) as answer:
        return answer.url, answer.read()


def _create(cluster: HdfsCluster, path: str, body: bytes) -> str:
    """Create a file in WebHDFS's two steps; the DataNode's URL that took it."""
    _, messages = _call(cluster, "PUT", path, "op=CREATE&noredirect=true")
    where: str = json.loads(messages)["Location"]
    with urllib.request.urlopen(
        urllib.request.Request(where, method="PUT", data=body), timeout=20
    ) as answer:
        assert answer.status == 201
    return where


def test_a_file_is_written_and_read_on_loopback(cluster: HdfsCluster) -> None:
    body = bytes(range(256)) * 5_000
    assert _create(cluster, "/a/file", body).startswith("http://127.0.0.1:")
    url, read = _call(cluster, "GET", "/a/file", "op=OPEN")
    assert read == body
    assert url.startswith("http://127.0.0.1:")
    _, status = _call(cluster, "GET", "/a/file", "op=GETFILESTATUS")
    assert json.loads(status)["FileStatus"]["replication"] == 2


def test_a_file_outlives_any_one_of_its_datanodes(cluster: HdfsCluster) -> None:
    _create(cluster, "/b/file", b"kept twice" * 1_000)
    for lost in range(3):
        until(lambda: cluster.state().under_replicated == 0 and cluster.state().live == 3)
        gone = set(cluster.state().datanode_ports) - set(cluster.stop(lost).datanode_ports)
        assert len(gone) == 1
        until(lambda: _read(cluster, "/b/file") == b"kept twice" * 1_000)
        until(lambda: cluster.state().live == 2)
        cluster.start(lost)


def _read(cluster: HdfsCluster, path: str) -> bytes:
    """What a file holds; nothing if the NameNode sends us to a DataNode that is no more."""
    try:
        return _call(cluster, "GET", path, "op=OPEN")[1]
    except urllib.error.URLError:
        return b""


def test_it_says_what_it_does_not_understand(cluster: HdfsCluster) -> None:
    with pytest.raises(RuntimeError, match="mini cluster"):
        cluster.stop(17)
    assert cluster.state().live == 3
