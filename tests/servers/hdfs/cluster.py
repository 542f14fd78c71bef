"""A real HDFS on loopback: Hadoop's own mini cluster, from Maven Central, with WebHDFS.

Its jars (90 MB) are laid once into `~/.cache/lycosa-hdfs`, by `mvn`; a cluster of three DataNodes
starts in 5 to 15 s and takes half a gigabyte. For `make prove` only: the plain suite needs no Java.
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
JAVA = 17
"""The least Java that runs the launcher from its source and Hadoop 3.4."""

START_LIMIT_S = 120.0
ANSWER_LIMIT_S = 60.0
_HEAP = "-Xmx768m"


@dataclass(frozen=True)
class State:
    """What the NameNode and the launcher know. Ports are on 127.0.0.1; `live` as the NameNode
    believes, later than the truth.
    """

    http_port: int
    rpc_port: int
    datanode_ports: tuple[int, ...]
    live: int
    under_replicated: int
    missing: int


class HdfsCluster:
    """A running mini cluster. Its DataNodes are numbered from 0; a number stays with its
    DataNode.
    """

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.folder = folder
        self.http_port = self._answer(START_LIMIT_S).http_port

    @property
    def address(self) -> str:
        """HOST:PORT of WebHDFS."""
        return f"127.0.0.1:{self.http_port}"

    def url(self, path: str) -> str:
        """The `webhdfs://` URL of a path."""
        return f"webhdfs://{self.address}/{path.lstrip('/')}"

    def state(self) -> State:
        return self._ask("state")

    def stop(self, datanode: int) -> State:
        """End a DataNode at once. The NameNode believes for a while that it lives, and sends
        readers and writers there.
        """
        return self._ask(f"stop {datanode}")

    def start(self, datanode: int) -> State:
        """Start a stopped DataNode again, with the blocks that it had."""
        return self._ask(f"start {datanode}")

    def _ask(self, command: str) -> State:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer(ANSWER_LIMIT_S)

    def _answer(self, limit_s: float) -> State:
        """Raises RuntimeError: it said that it failed, or said nothing in time and was ended."""
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
    """An HDFS until the block ends; the test is skipped where Java 17 or Maven is missing.

    Args:
        dead_after_s: silence after which the NameNode gives a DataNode up, at least 10. Hadoop's
            own default is 630: until then it goes on sending clients there.
        settings: NAME=VALUE of hdfs-site.xml.

    Raises:
        RuntimeError: the jars cannot be had, or it does not start; the message holds the log.
    """
    java, jars = java_program(), hadoop_jars()
    folder = Path(tempfile.mkdtemp(prefix="lycosa-hdfs-"))
    command = [
        java,
        _HEAP,
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
    """The path of a Java that is new enough; `pytest.skip` without one."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("HDFS: the program 'java' is not installed")
    messages = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(\d+)', messages)
    if version is None or int(version[1]) < JAVA:
        pytest.skip(
            f"HDFS: Java {JAVA} is needed; {messages.splitlines()[0] if messages else 'java'} is here"
        )
    return java


def hadoop_jars() -> Path:
    """The folder of the mini cluster's jars, fetched at the first call; `pytest.skip` if they are
    not here and Maven is not either.

    Raises:
        RuntimeError: Maven failed; the message says how.
    """
    pom = HERE / "pom.xml"
    version = re.search(r"<hadoop.version>(.+)</hadoop.version>", pom.read_text())
    assert version is not None
    retained = Path.home() / ".cache" / "lycosa-hdfs" / version[1]
    if retained.is_dir():
        return retained
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("HDFS: the program 'mvn' is not installed")
    retained.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=retained.parent) as aside:
        laid = Path(aside) / "jars"
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={laid}"]
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(
                "Maven could not fetch Hadoop's mini cluster: "
                f"{(done.stdout + done.stderr)[-2_000:]}"
            )
        if not retained.is_dir():  # another process may have been faster
            os.rename(laid, retained)
    return retained
