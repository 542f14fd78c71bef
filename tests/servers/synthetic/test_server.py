from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import ManualClock, SystemClock
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.failure import REPEATED_TEXT
from lycosa.fetch.guard import AddressGuard
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.request_log import read_log
from tests.servers.synthetic.server import WebServer
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.walk import walk
from tests.servers.synthetic.web import Web

_BOUND_S = 30.0
PLAN = WebPlan(
    seed=3,
    hosts=60,
    pages=300,
    refused=0.05,
    unresolved=0.05,
    resetting=0.1,
    closing=0.1,
    cutting=0.1,
    hanging=0.05,
    stalling=0.05,
)
AT = PLAN.epoch_ms + 3 * 86_400_000
LIMITS = {"first_byte_timeout": "1s", "slow_time": "1s", "total_timeout": "8s"}


def settings(connect_to: Iterable[str]) -> FetchSettings:
    return FetchSettings.model_validate({**LIMITS, "connect_to": tuple(connect_to)})


def curl(connect_to: Iterable[str], urls: Iterable[str], at_once: int = 30) -> dict[str, Exchange]:
    """All exchanges that the product's own client makes."""
    waiting = list(urls)
    actual = {}
    deadline = time.monotonic() + _BOUND_S
    with CurlFetcher(settings(connect_to), AddressGuard(()), SystemClock()) as fetcher:
        while waiting or fetcher.active:
            while waiting and fetcher.active < at_once:
                fetcher.start(Request(waiting.pop()))
            actual.update({exchange.url: exchange for exchange in fetcher.wait(200)})
            assert time.monotonic() < deadline
    return actual


_TIMES = {"started_at", "duration_ms", "first_byte_ms", "connect_ms"}
# libcurl names ports and times in its texts
_WORDS_OF_ITS_OWN = {"dns", "connect_refused", "first_byte_timeout"}


def test_both_uses_make_the_same_exchanges() -> None:
    web = Web(PLAN)
    urls = sorted(walk(web, AT).met)
    with WebServer(web, clock=ManualClock(AT), pace=0) as server:
        real = curl(server.connect_to, urls)
        for url in [url for url in urls if real[url].error_text == REPEATED_TEXT]:
            real.update(curl(server.connect_to, [url]))  # on a new connection, as the simulated one
        limits = settings(server.connect_to)
    errors: Counter[str] = Counter()
    for url in urls:
        fetcher = SimulatedFetcher(web, SimulatedClock(AT), limits, pace=0)
        fetcher.start(Request(url))
        [simulated] = fetcher.wait(1_000_000)
        error = real[url].error
        left_out = _TIMES | ({"error_text"} if error in _WORDS_OF_ITS_OWN else set())
        for name in [field.name for field in fields(Exchange) if field.name not in left_out]:
            assert getattr(simulated, name) == getattr(real[url], name), (url, name)
        errors[error] += 1
    assert set(errors) == {
        "",
        "dns",
        "connect_refused",
        "reset",
        "empty_reply",
        "incomplete",
        "first_byte_timeout",
        "too_slow",
    }


def test_the_log_tells_every_request() -> None:
    web = Web(WebPlan.calm(hosts=12, pages=100))
    urls = list(web.real_pages())
    with WebServer(web, pace=0) as server:
        before = time.time_ns() // 1_000_000
        exchanges = curl(server.connect_to, urls)
    after = time.time_ns() // 1_000_000
    log = server.requests()
    assert sorted(f"http://{entry.host}{entry.path}" for entry in log) == sorted(urls)
    assert all(before <= entry.arrived_at_ms <= entry.answered_at_ms <= after for entry in log)
    assert {entry.status for entry in log} == {200}
    hosts_of_connections = {(entry.connection, entry.host) for entry in log}
    assert (
        len({connection for connection, _ in hosts_of_connections})
        == len(hosts_of_connections)
        < len(urls)
    )
    assert all(exchange.status == 200 for exchange in exchanges.values())


def test_latency_and_slow_writing_take_their_time() -> None:
    web = Web(WebPlan.calm(hosts=2, pages=2, slow=0.5, dripping=0.5))
    url = web.seeds(2)[1]
    answer = web.answer(url, {}, web.plan.epoch_ms)
    with WebServer(web, pace=0.2, clock=ManualClock(web.plan.epoch_ms)) as server:
        exchange = curl(server.connect_to, [url])[url]
    [entry] = server.requests()
    assert exchange.first_byte_ms >= 0.2 * answer.latency_ms - 2
    assert exchange.duration_ms >= 0.2 * (answer.latency_ms + answer.transfer_ms) - 4
    assert (
        0.2 * (answer.latency_ms + answer.transfer_ms) - 4
        <= entry.answered_at_ms - entry.arrived_at_ms
        <= exchange.duration_ms + 1
    )


def test_stopping_ends_what_hangs_and_logs_it() -> None:
    web = Web(WebPlan.calm(hosts=2, pages=20, hanging=0.5, failing_share=1.0))
    host = web.layout.hosts.get(1)
    with (
        WebServer(web, pace=0) as server,
        socket.create_connection((server.addresses[0], server.port), _BOUND_S) as connection,
    ):
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {host.name}\r\n\r\n".encode())
        while not any(each.busy for each in list(server.connections)):
            time.sleep(0.01)
        assert not server.requests()
    assert [(entry.status, entry.left) for entry in server.requests()] == [(0, True)]


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_in_a_process_of_its_own(tmp_path: Path, ending: signal.Signals) -> None:
    log = tmp_path / "requests.log"
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "tests.servers.synthetic",
        "--seed",
        "5",
        "--hosts",
        "8",
        "--pages",
        "40",
        "--calm",
    ]
    arguments = ["--set", "refused=0.2", "--pace", "0", "--log", str(log)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        web = Web(WebPlan.calm(seed=5, hosts=8, pages=40, refused=0.2))
        assert ready["seeds"] == web.seeds()
        urls = list(web.real_pages())
        exchanges = curl(ready["connect_to"], urls)
        process.send_signal(ending)
        assert process.wait(10) == 0
    assert {exchange.status for exchange in exchanges.values()} == {200}
    assert sorted(f"http://{entry.host}{entry.path}" for entry in read_log(log)) == sorted(urls)
