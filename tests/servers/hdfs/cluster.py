"""A real HDFS on loopback: Hadoop's mini cluster with WebHDFS.

Maven downloads its jars (90 MB) once to `~/.cache/lycosa-hdfs`. A cluster of three DataNodes starts
in 5 to 15 s and uses 500 MB of memory. Only tests of `make prove` use it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import pytest

HERE = Path(__file__).parent
MIN_JAVA_VERSION = 17
"""The first version that runs Hadoop 3.4 and `MiniCluster.java` from source."""

START_LIMIT_S = 120.0
ANSWER_LIMIT_S = 60.0
_HEAP_OPTION = "-Xmx768m"


@dataclass(frozen=True)
class State:
    """The state of the cluster. Ports are on 127.0.0.1.

    `live`: DataNodes that the NameNode considers live; it notices a lost one late.
    `under_replicated` and `missing`: numbers of blocks.
    """

    http_port: int
    rpc_port: int
    datanode_ports: tuple[int, ...]
    live: int
    under_replicated: int
    missing: int


class HdfsCluster:
    """A running mini cluster. DataNodes have fixed numbers from 0."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.folder = folder
        self.http_port = self._answer(START_LIMIT_S).http_port

    @property
    def address(self) -> str:
        """HOST:PORT of WebHDFS."""
        return f"127.0.0.1:{self.http_port}"

    def url(self, path: str) -> str:
        """Return the `webhdfs://` URL of a path."""
        return f"webhdfs://{self.address}/{path.lstrip('/')}"

    def state(self) -> State:
        return self._execute("state")

    def stop(self, datanode: int) -> State:
        """Stop a DataNode immediately.

        For some time, the NameNode considers it live, and directs readers and writers to it.
        """
        return self._execute(f"stop {datanode}")

    def start(self, datanode: int) -> State:
        """Restart a stopped DataNode with its blocks."""
        return self._execute(f"start {datanode}")

    def _execute(self, command: str) -> State:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer(ANSWER_LIMIT_S)

    def _answer(self, limit_s: float) -> State:
        """Read an answer of the process.

        Raises:
            RuntimeError: the command failed, or there was no answer in time. In the latter case
                the process is killed.
        """
        assert self._process.stdout is not None
        timer = Timer(limit_s, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        answer = (
            json.loads(line)
            if line
            else {"error": f"no answer; its log ends: {self.log()[-2_000:]}"}
        )
        if "error" in answer:
            raise RuntimeError(f"HDFS mini cluster: {answer['error']}")
        return State(**(answer | {"datanode_ports": tuple(answer["datanode_ports"])}))

    def log(self) -> str:
        return (self.folder / "hadoop.log").read_text(errors="replace")


@contextmanager
def hdfs_cluster(
    datanodes: int = 3,
    replication: int = 2,
    *,
    dead_after_s: float = 20.0,
    settings: Sequence[str] = (),
) -> Iterator[HdfsCluster]:
    """Run a cluster until the block ends; skip the test without Java 17 or Maven.

    Args:
        dead_after_s: time without heartbeats after which the NameNode considers a DataNode dead,
            at least 10. Until then it directs clients to it. The default of Hadoop is 630.
        settings: NAME=VALUE of hdfs-site.xml.

    Raises:
        RuntimeError: the jars cannot be downloaded, or the cluster does not start. The message
            contains the log.
    """
    java, jars = java_program(), hadoop_jars()
    folder = Path(tempfile.mkdtemp(prefix="lycosa-hdfs-"))
    command = [
        java,
        _HEAP_OPTION,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        f"{jars}/*",
        str(HERE / "MiniCluster.java"),
    ]
    command += [
        str(folder / "data"),
        str(datanodes),
        str(replication),
        str(round(dead_after_s * 1_000)),
        *settings,
    ]
    with (folder / "hadoop.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
        )
    try:
        yield HdfsCluster(process, folder)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        shutil.rmtree(folder, ignore_errors=True)


def java_program() -> str:
    """Return the path of Java; skip the test if it is missing or too old."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("HDFS: the program 'java' is not installed")
    messages = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(\d+)', messages)
    if version is None or int(version[1]) < MIN_JAVA_VERSION:
        pytest.skip(
            f"HDFS: Java {MIN_JAVA_VERSION} is required, but the installed version is "
            f"{messages.splitlines()[0] if messages else 'unknown'}"
        )
    return java


def hadoop_jars() -> Path:
    """Return the folder of the jars, which the first call downloads.

    Skip the test if the jars and Maven are missing.

    Raises:
        RuntimeError: Maven failed. The message contains its output.
    """
    pom = HERE / "pom.xml"
    version = re.search(r"<hadoop.version>(.+)</hadoop.version>", pom.read_text())
    assert version is not None
    folder = Path.home() / ".cache" / "lycosa-hdfs" / version[1]
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("HDFS: the program 'mvn' is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        jars = Path(temporary) / "jars"
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(
                "Maven could not fetch Hadoop's mini cluster: "
                f"{(done.stdout + done.stderr)[-2_000:]}"
            )
        if not folder.is_dir():  # another process may have been faster
            os.rename(jars, folder)
    return folder
