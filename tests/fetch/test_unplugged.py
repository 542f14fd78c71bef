"""A request that an outage delays is not delivered after its time limit."""

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
OUTAGE_S = 2.0
RETRANSMISSION_S = 6.0  # TCP doubles the time between attempts; the last was within `OUTAGE_S`


@contextmanager
def recording_server() -> Iterator[tuple[int, list[str]]]:
    """Yield the port of an HTTP server and its list of requested paths."""
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
def test_unacknowledged_request_is_not_delivered_after_the_timeout(
    unacknowledged_ms: int, requested: list[str]
) -> None:
    """The network fails while a connection is open; the client sends a request and stops; the
    network recovers. Without a limit, the kernel then delivers the request.
    """
    require_machines()
    machines = RayMachines({"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
    try:
        machine = machines.boot()
        with recording_server() as (port, paths):
            arguments = ["-c", _CLIENT, OUTSIDE, str(port), str(unacknowledged_ms)]
            with subprocess.Popen(
                [*machines.python(machine), *arguments],
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
                    time.sleep(OUTAGE_S)
                time.sleep(RETRANSMISSION_S)
                print(file=client.stdin, flush=True)
            assert paths == requested
    finally:
        machines.close()
