"""The real command on a real socket."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess

import httpx
import pytest

from lycosa.core.errors import UsageError, WorkError
from lycosa.serve.server import address_of, listen
from tests.serve.conftest import lycosa


def test_serves_until_interrupted(workspace: str) -> None:
    command = lycosa("-w", workspace, "serve", "--port", "0")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            address = next(
                word
                for word in process.stdout.readline().split()
                if word.startswith("http://127.0.0.1:")
            )
            with httpx.Client(base_url=address, timeout=10) as client:
                page = client.get("/", params={"q": "龙井茶"})
                assert page.status_code == 200
                assert "<mark>龙井茶</mark>" in page.text
                assert "server" not in page.headers
                assert client.head("/", params={"q": "龙井茶"}).content == b""
                assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 421
                with contextlib.ExitStack() as idle:  # a crowd that asks nothing keeps nobody out
                    where = (client.base_url.host, client.base_url.port or 0)
                    for _ in range(300):
                        idle.enter_context(socket.create_connection(where))
                    assert client.get("/api/v1/search", params={"q": "龙井茶"}).status_code == 200
                process.send_signal(signal.SIGINT)
            assert process.wait(timeout=15) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_a_taken_port_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(WorkError, match="--port"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_is_not_ours_is_said() -> None:
    with pytest.raises(UsageError, match="no-such-name"):
        listen("no-such-name.invalid", 0)


def test_address_of_both_families() -> None:
    with listen("127.0.0.1", 0) as four:
        assert address_of(four) == f"http://127.0.0.1:{four.getsockname()[1]}/"
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with listen("::1", 0) as six:
        assert address_of(six) == f"http://[::1]:{six.getsockname()[1]}/"


@pytest.mark.parametrize("host", ["a" * 300, "a..b", ".a", "a\0b"])
def test_what_is_no_name_of_a_host_is_told(host: str) -> None:
    with pytest.raises(UsageError, match=r"^cannot listen on 'a|^cannot listen on '\."):
        listen(host, 0)
