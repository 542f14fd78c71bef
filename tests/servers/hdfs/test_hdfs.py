"""Tests of the mini cluster: WebHDFS on loopback, lost and restarted DataNodes, errors."""

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
    """Return the final URL and the body of the response."""
    url = f"http://{cluster.address}/webhdfs/v1{path}?user.name=lycosa&{query}"
    request = urllib.request.Request(url, method=method, data=body or None)
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.url, response.read()


def _create(cluster: HdfsCluster, path: str, body: bytes) -> str:
    """Create a file in the two steps of WebHDFS; return the URL at the DataNode."""
    _, answer = _call(cluster, "PUT", path, "op=CREATE&noredirect=true")
    location: str = json.loads(answer)["Location"]
    request = urllib.request.Request(location, method="PUT", data=body)
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.status == 201
    return location


def test_a_file_is_written_and_read_on_loopback(cluster: HdfsCluster) -> None:
    body = bytes(range(256)) * 5_000
    assert _create(cluster, "/a/file", body).startswith("http://127.0.0.1:")
    url, read = _call(cluster, "GET", "/a/file", "op=OPEN")
    assert read == body
    assert url.startswith("http://127.0.0.1:")
    _, status = _call(cluster, "GET", "/a/file", "op=GETFILESTATUS")
    assert json.loads(status)["FileStatus"]["replication"] == 2


def test_a_file_is_readable_after_the_loss_of_any_datanode(cluster: HdfsCluster) -> None:
    body = b"two replicas" * 1_000
    _create(cluster, "/b/file", body)
    for lost in range(3):
        until(lambda: cluster.state().under_replicated == 0 and cluster.state().live == 3)
        gone = set(cluster.state().datanode_ports) - set(cluster.stop(lost).datanode_ports)
        assert len(gone) == 1
        until(lambda: _read(cluster, "/b/file") == body)
        until(lambda: cluster.state().live == 2)
        cluster.start(lost)


def _read(cluster: HdfsCluster, path: str) -> bytes:
    """Return the content of a file; b"" if the NameNode redirects to a lost DataNode."""
    try:
        return _call(cluster, "GET", path, "op=OPEN")[1]
    except urllib.error.URLError:
        return b""


def test_unknown_datanode_is_an_error(cluster: HdfsCluster) -> None:
    with pytest.raises(RuntimeError, match="mini cluster"):
        cluster.stop(17)
    assert cluster.state().live == 3
