"""`lycosa serve` on a real socket: start, stop, ports, addresses and shard replicas."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import httpx
import psutil
import pytest

from lycosa.config.settings import IndexSettings
from lycosa.core.errors import UsageError, WorkError
from lycosa.index.indexer import Indexer
from lycosa.serve.server import address_of, listen
from tests.cli.conftest import run_here
from tests.index.corpus import Corpus, page
from tests.serve.conftest import lycosa, printed_address, server_process


@pytest.mark.proves("access-loopback")
def test_serves_until_interrupted(workspace: str) -> None:
    command = lycosa("-w", workspace, "serve", "--port", "0")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            with httpx.Client(base_url=printed_address(process), timeout=10) as client:
                page = client.get("/", params={"q": "龙井茶"})
                assert page.status_code == 200
                assert "<mark>龙井茶</mark>" in page.text
                assert "server" not in page.headers
                assert client.head("/", params={"q": "龙井茶"}).content == b""
                assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 421
                with contextlib.ExitStack() as idle:  # idle connections do not block requests
                    endpoint = (client.base_url.host, client.base_url.port or 0)
                    for _ in range(300):
                        idle.enter_context(socket.create_connection(endpoint))
                    assert client.get("/api/v1/search", params={"q": "龙井茶"}).status_code == 200
                process.send_signal(signal.SIGINT)
            assert process.wait(timeout=15) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_port_in_use_is_reported() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(WorkError, match="--port"),
    ):
        listen("127.0.0.1", listener.getsockname()[1])


def test_accepted_connections_have_tcp_nodelay() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_url_of_ipv4_and_ipv6_sockets() -> None:
    with listen("127.0.0.1", 0) as ipv4:
        assert address_of(ipv4) == f"http://127.0.0.1:{ipv4.getsockname()[1]}/"
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with listen("::1", 0) as ipv6:
        assert address_of(ipv6) == f"http://[::1]:{ipv6.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("no-such-name.invalid", "no-such-name"),
        ("a" * 300, "^cannot listen on 'a"),
        ("a..b", "^cannot listen on 'a"),
        (".a", r"^cannot listen on '\."),
        ("a\0b", "^cannot listen on 'a"),
    ],
)
def test_unknown_or_invalid_host_name_is_reported(host: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        listen(host, 0)


def test_server_searches_shard_replicas_and_a_second_workspace(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "workspace"))
    corpus.commit(
        [
            (f"http://h{number}.test/", page("A spider in its web.", title="Spider"))
            for number in range(12)
        ]
    )
    with Indexer(
        corpus.root, IndexSettings.model_validate({"heap": "15MiB", "shards": 2})
    ) as indexer:
        indexer.update()
    other = Corpus(str(tmp_path / "other"))
    other.commit(
        [
            (f"http://other{number}.test/", page("A spider in a jar.", title="Spider"))
            for number in range(3)
        ]
    )
    with Indexer(other.root, IndexSettings.model_validate({"heap": "15MiB"})) as indexer:
        indexer.update()
    words = ("serve", "-w", corpus.root, "-w", other.root, "--port", "0", "--engine", "local")
    with server_process(*words, end_s=60) as (server, address):
        children = psutil.Process(server.pid).children(recursive=True)
        with urllib.request.urlopen(f"{address}api/v1/search?q=spiders+-jar") as response:
            answer = json.load(response)
        assert (answer["total"], len(answer["hits"]), answer["missing_shards"]) == (12, 10, [])
        with urllib.request.urlopen(f"{address}?q=spider") as response:
            assert b"15 pages" in response.read()
        with urllib.request.urlopen(f"{address}api/v1/search?q=spiders") as response:
            assert {hit["source"] for hit in json.load(response)["hits"]} == {"", other.root}
    assert len(children) >= 2
    _, alive = psutil.wait_procs(children, 30)
    assert not alive


def test_ray_address_without_engine_ray_is_refused(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "workspace"))
    engine = ("--engine", "local", "--address", "127.0.0.1:6379")
    result = run_here("serve", "-w", corpus.root, *engine)
    assert result.code == 2
    assert "--engine ray" in result.err
