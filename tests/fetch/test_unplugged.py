"""A request that a broken network held up: it is not delivered after the time that it was given."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.engines.clusters import ROOT
from tests.engines.machines import OUTSIDE, RayMachines, require_machines
from tests.servers.local_http import QuietHandler, QuietServer, serving

_CLIENT = """
import sys

from lycosa.core.records import Request
from lycosa.core.clock import SystemClock
from lycosa.fetch.client import CurlFetcher
from tests.fetch.fetching import patient_limits
from lycosa.fetch.guard import AddressGuard

host, port, unacknowledged_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fetcher = CurlFetcher(
    patient_limits(), AddressGuard([(host, port)]), SystemClock(),
    unacknowledged_ms=unacknowledged_ms,
)
fetcher.start(Request(f"http://{host}:{port}/first"))
print(fetcher.wait(10_000)[0].status, flush=True)
sys.stdin.readline()
fetcher.start(Request(f"http://{host}:{port}/second"))
fetcher.wait(300)
fetcher.stop()
print(fetcher.wait(0)[0].error, flush=True)
sys.stdin.readline()
"""

LIMIT_MS = 1_000
CUT_S = 2.0
REPEATED_S = 6.0  # TCP doubles the time between two attempts: the last one came within `CUT_S`


@contextmanager
def recording_server() -> Iterator[tuple[int, list[str]]]:
    """Yield the port of an HTTP server, and the paths that were requested from it."""
    paths: list[str] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.reply(200, b"")

    server = QuietServer((OUTSIDE, 0), Handler)
    with serving(server):
        yield server.server_port, paths


@pytest.mark.proves("cluster-late-requests")
@pytest.mark.parametrize(
    ("unacknowledged_ms", "requested"), [(0, ["/first", "/second"]), (LIMIT_MS, ["/first"])]
)
def test_a_request_is_not_delivered_later(unacknowledged_ms: int, requested: list[str]) -> None:
    """The machine is unplugged while its connection is open, requests, stops, and is plugged in
    again. Without a limit the kernel delivers the request then.
    """
    require_machines()
    machines = RayMachines({"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
    try:
        machine = machines.boot()
        with recording_server() as (port, paths):
            words = ["-c", _CLIENT, OUTSIDE, str(port), str(unacknowledged_ms)]
            with subprocess.Popen(
                [*machines.python(machine), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as client:
                assert client.stdin is not None
                assert client.stdout is not None
                assert client.stdout.readline() == "200\n"
                with machine.unplugged():
                    print(file=client.stdin, flush=True)
                    assert client.stdout.readline() == "interrupted\n"
                    time.sleep(CUT_S)
                time.sleep(REPEATED_S)
                print(file=client.stdin, flush=True)
            assert paths == requested
    finally:
        machines.close()
