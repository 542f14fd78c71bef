"""Places where a workspace may lie, for tests that run on each: a folder, S3 (moto's server), HDFS
(Hadoop's mini cluster).
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


class Places:
    """Makes places. Servers are started when they are first needed, and stay until `close`."""

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
        """A place of that kind that nobody has used."""
        if kind == "local":
            return str(folder / "workspace")
        name = f"{folder.name}-{uuid.uuid4().hex[:8]}"
        return f"s3://{BUCKET}/{name}" if kind == "s3" else self.hdfs.url(name)

    def environment(self, kind: str, cache: Path) -> dict[str, str]:
        """What leads a process to the place, as a machine of its own if `cache` is."""
        own = {"LYCOSA_CACHE": str(cache)}
        return (
            own | dict(self.s3.environment)
            if kind == "s3"
            else own | {"HADOOP_USER_NAME": "lycosa-test"}
        )

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    made = Places()
    yield made
    made.close()


@pytest.fixture
def storage(
    request: pytest.FixtureRequest, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Storage:
    """Storage of the kind that the test is parametrised with (`indirect`), with the folder `log`,
    and the marker of a workspace.
    """
    for name, value in places.environment(request.param, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    made = open_storage(places.location(request.param, tmp_path))
    made.make_folder("log")
    made.create("workspace.json", b"{}")
    return made
