"""Locations of workspaces for tests that run on every kind of storage.

The kinds are a local folder, S3 (a moto server) and HDFS (a Hadoop mini cluster).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lycosa.store.storage.storage import Storage, open_storage
from tests.servers.hdfs import HdfsCluster, hdfs_cluster
from tests.servers.s3 import BUCKET, S3Server, s3_server

KINDS = ("local", "s3", pytest.param("hdfs", marks=pytest.mark.prove))
REMOTE = KINDS[1:]


class Locations:
    """Create locations. Servers start on first use and run until `close`."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._s3: S3Server | None = None
        self._hdfs: HdfsCluster | None = None

    @property
    def s3(self) -> S3Server:
        if self._s3 is None:
            self._s3 = self._open.enter_context(s3_server())
        return self._s3

    @property
    def hdfs(self) -> HdfsCluster:
        if self._hdfs is None:
            self._hdfs = self._open.enter_context(hdfs_cluster(datanodes=3, replication=2))
        return self._hdfs

    def location(self, kind: str, folder: Path) -> str:
        """Return an unused location of this kind."""
        if kind == "local":
            return str(folder / "workspace")
        name = f"{folder.name}-{uuid.uuid4().hex[:8]}"
        return f"s3://{BUCKET}/{name}" if kind == "s3" else self.hdfs.url(name)

    def environment(self, kind: str, cache: Path) -> dict[str, str]:
        """Return the environment of a process that uses locations of this kind.

        A process with its own `cache` acts as another machine.
        """
        server = self.s3.environment if kind == "s3" else {"HADOOP_USER_NAME": "lycosa-test"}
        return {"LYCOSA_CACHE": str(cache), **server}

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def locations() -> Iterator[Locations]:
    created = Locations()
    yield created
    created.close()


@pytest.fixture
def storage(
    request: pytest.FixtureRequest,
    locations: Locations,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Storage:
    """Storage of the parametrized kind (`indirect`) with a `log` folder and workspace file."""
    for name, value in locations.environment(request.param, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    opened = open_storage(locations.location(request.param, tmp_path))
    opened.make_folder("log")
    opened.create("workspace.json", b"{}")
    return opened
