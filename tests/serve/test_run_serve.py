"""`lycosa run --serve`: the web server runs in a process next to the crawl."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import httpx
import psutil
import pytest

from lycosa.commands.maintenance.tokens import Tokens
from lycosa.core.errors import WorkError
from lycosa.serve import processes
from lycosa.serve.processes import ServerProcesses
from lycosa.serve.server import ServerOptions
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests import waiting
from tests.cli.conftest import run_here
from tests.daemon.daemons import QUICK, RUN, collection, site
from tests.serve.conftest import server_process

LIMIT_S = 90.0
until = functools.partial(waiting.until, limit_s=LIMIT_S)


def test_server_process_is_restarted_during_a_crawl(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    errors = tmp_path / "stderr"
    with site(tmp_path / "site", "127.0.6.42", 3) as server:
        (workspace / "lycosa.toml").write_text(
            QUICK + collection("one", f"http://127.0.6.42:{server.port}/")
        )
        with errors.open("wb") as log:
            process = subprocess.Popen(
                [*RUN, "-w", str(workspace), "run", "--serve", "--port", "0"], stderr=log
            )
        try:
            until(lambda: "Serving the search page at" in errors.read_text())
            address = re.search(r"at (http://127\.0\.0\.1:\d+/)", errors.read_text())
            assert address

            def get(path: str) -> bytes:
                with urllib.request.urlopen(address[1] + path, timeout=30) as answer:
                    content: bytes = answer.read()
                return content

            def hits() -> int:
                try:
                    return int(json.loads(get("api/v1/search?q=dormouse"))["total"])
                except OSError:
                    return 0

            until(lambda: hits() >= 1)
            assert b"URLs queued in memory" in get("crawl")
            (server_pid,) = listening_children(process.pid)
            os.kill(server_pid, signal.SIGKILL)
            until(lambda: "the web server process ended: killed by signal 9" in errors.read_text())
            until(lambda: errors.read_text().count("Serving the search page at") == 2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, errors.read_text()
            assert "stopped: all fetched data is committed" in errors.read_text()
        finally:
            process.kill()
            process.wait()


def listening_children(pid: int) -> list[int]:
    """Return the IDs of child processes that listen on a TCP port."""
    return [
        child.pid
        for child in psutil.Process(pid).children()
        if any(each.status == psutil.CONN_LISTEN for each in child.net_connections("tcp"))
    ]


def test_port_in_use_is_reported_before_the_crawl_starts(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    with site(tmp_path / "site", "127.0.6.43", 1) as server:
        (workspace / "lycosa.toml").write_text(
            QUICK + collection("one", f"http://127.0.6.43:{server.port}/")
        )
        words = ["run", "--serve", "--host", "127.0.6.43", "--port", str(server.port)]
        done = run_here("-w", str(workspace), *words)
    done.expect(1, err=("cannot listen on 127.0.6.43",))
    assert not (workspace / "log").exists()
    assert run_here("-w", str(workspace), "run", "--port", "1").code == 2
    refused = run_here("-w", str(workspace), "run", "--serve", "--host", "a..b")
    refused.expect(2, err=("cannot listen on 'a..b'",))


def test_several_processes_share_sessions_and_port(tmp_path: Path) -> None:
    root = tmp_path / "w"
    Workspace.create(str(root))
    token = Tokens(open_storage(str(root))).add("ada")
    words = ("-w", str(root), "serve", "--processes", "2", "--port")
    with server_process(*words, "0", end_s=30) as (process, address):
        until(lambda: len(listening_children(process.pid)) == 2)
        login = httpx.post(f"{address}login", data={"token": token}, timeout=60)
        cookie = login.headers["set-cookie"].partition(";")[0]
        answers = [
            httpx.get(f"{address}login", headers={"cookie": cookie}, timeout=60).text
            for _ in range(24)
        ]
        assert all("Signed in as ada" in answer for answer in answers), (
            "a session is valid in every process"
        )
        port = address.rstrip("/").rpartition(":")[2]
        run_here(*words, port).expect(1, err=("cannot listen",))
    assert process.returncode == 0


def test_a_server_that_does_not_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_START_S", 0.01)
    Workspace.create(str(tmp_path / "w"))
    with (
        pytest.raises(WorkError, match="did not accept connections within"),
        ServerProcesses(ServerOptions(str(tmp_path / "w"), "127.0.6.44", 0, ()), print) as server,
    ):
        server.start()


@pytest.mark.parametrize(
    "words", [("run", "--serve"), ("serve", "--processes", "2"), ("serve",)], ids=" ".join
)
def test_a_signal_is_obeyed_as_soon_as_the_address_is_printed(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    workspace = tmp_path / "w"
    Workspace.create(str(workspace))
    (workspace / "lycosa.toml").write_text(QUICK + collection("one", "http://127.0.6.45:9/"))
    command = [*RUN, "-w", str(workspace), *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            assert process.stdout is not None
            assert b"Serving the search page at" in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
            assert b"Traceback" not in process.stdout.read()
        finally:
            process.kill()
