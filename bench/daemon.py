"""A daemon, its processes and its readers, for `bench.soak` and `bench.load`."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import psutil
from tests.servers.nginx import free_port
from tests.servers.synthetic.lexicon import LANGUAGES, LEXICONS

from bench.harness import lycosa, process_tree, server_process

DAEMON = "daemon"
READER_TIMEOUT_S, START_S, STOP_S, POLL_S = 30.0, 120.0, 60.0, 0.2
_MEMORY = re.compile(r"^RssAnon:\s+(\d+) kB$", re.MULTILINE)


class Response(NamedTuple):
    """A response to a client. The duration starts when the request was due; status 0: none."""

    due_ms: int
    duration_ms: float
    status: int
    kind: str


def random_request(generator: random.Random) -> tuple[str, str]:
    """Return the kind and the path of a request: searches, suggestions, facets, further pages."""
    language = generator.choice(LANGUAGES)
    words = generator.sample(LEXICONS[language].content, generator.choice((1, 1, 2)))
    query = urlencode({"q": " ".join(words)})
    prefix = urlencode({"q": words[0][: generator.randint(1, 4)]})
    requests = {
        ("suggest", f"/api/v1/suggest?{prefix}"): 15,
        ("page", f"/?{query}&page={generator.choice((2, 3))}"): 10,
        ("api", f"/api/v1/search?{query}&offset={generator.choice((10, 20))}"): 10,
        ("facets", f"/api/v1/search?{query}&facets=language,host"): 5,
        ("api", f"/api/v1/search?{query}&lang={language}"): 5,
        ("page", f"/?{query}"): 20,
        ("api", f"/api/v1/search?{query}"): 35,
    }
    return generator.choices(list(requests), list(requests.values()))[0]


class Reader:
    """A client with one connection, which it opens again after an error."""

    def __init__(self, port: int) -> None:
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=READER_TIMEOUT_S, trust_env=False
        )

    def send(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Return the status and the body; status 0: no response."""
        page = {"accept": "text/html"} if path.startswith("/?") else {}
        try:
            response = self._client.request(
                method, path, content=body, headers={**page, **(headers or {})}
            )
        except httpx.HTTPError:
            return 0, b""
        return response.status_code, response.content

    def close(self) -> None:
        self._client.close()


@dataclass(slots=True, frozen=True)
class Sample:
    """A process at one moment; its own memory in MB (10^6 bytes)."""

    at_ms: int
    role: str
    pid: int
    memory_mb: float
    handles: int
    cpu_s: float


def family(daemon: int) -> dict[int, str]:
    """Return the living processes of a daemon with their roles, such as pages or worker-1."""
    roles = {}
    with suppress(psutil.Error, OSError):
        for process in process_tree(daemon):
            with suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE and (role := _role(process, daemon)):
                    roles[process.pid] = role
    return roles


def _role(process: psutil.Process, daemon: int) -> str:
    """Return the role, "" for helper processes of the standard library."""
    if process.pid == daemon:
        return DAEMON
    name = Path(f"/proc/{process.pid}/comm").read_text().strip()
    if name.startswith("lycosa "):
        role = name.removeprefix("lycosa ")
        return "coordinator" if len(role) > 4 and "coordinator".startswith(role) else role
    return "" if any("resource_tracker" in part for part in process.cmdline()) else "starting"


def sample(pid: int, role: str, at_ms: int) -> Sample:
    """Raises psutil.Error, OSError: the process has ended."""
    process = psutil.Process(pid)
    match = _MEMORY.search(Path(f"/proc/{pid}/status").read_text())
    memory_mb = round(int(match[1]) * 1024 / 1e6, 2) if match else 0.0
    cpu = process.cpu_times()
    return Sample(at_ms, role, pid, memory_mb, process.num_fds(), round(cpu.user + cpu.system, 2))


class Daemon:
    """`lycosa run --serve` in a workspace."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.workspace = folder / "workspace"
        self.port = free_port(["127.0.0.1"])
        self.output = folder / "output.txt"
        self._workers = workers
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        command = lycosa(self.workspace, "run", "--serve", "--port", self.port)
        if self._workers > 1:
            command += ["--engine", "local", "--workers", str(self._workers)]
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )

    def exit_code(self) -> int | None:
        """Return the exit code, None while the daemon runs."""
        return self._process.poll() if self._process is not None else None

    def responds(self) -> bool:
        """Whether the API answers."""
        reader = Reader(self.port)
        status, _ = reader.send("/api/v1/search?q=water&n=1")
        reader.close()
        return status == 200

    def wait(self) -> None:
        """Wait until the API answers.

        Raises:
            RuntimeError: the daemon has ended, or does not answer in time.
        """
        end = time.monotonic() + START_S
        while not self.responds():
            if time.monotonic() > end or self.exit_code() is not None:
                self.stop()
                last = self.output.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the daemon does not serve: {last}")
            time.sleep(POLL_S)

    def stop(self) -> int:
        """Send SIGTERM; return the exit code, -9 after the timeout."""
        assert self._process is not None
        processes = family(self.pid)
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            return -9
        finally:
            for pid in processes:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)


@contextmanager
def synthetic_web(options: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Serve the web in another process; yield its first line of output."""
    with server_process([sys.executable, "-m", "tests.servers.synthetic", *options]) as (_, line):
        yield json.loads(line)
