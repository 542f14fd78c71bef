"""Tests of the simulated fetcher and of the web server, which return the same exchanges."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.failure import REPEATED_TEXT
from lycosa.fetch.guard import AddressGuard
from lycosa.processes.threads import StopFlag
from tests.fetch.fetching import run
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.request_log import LogEntry, read_log, write_log
from tests.servers.synthetic.server import WebServer
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.walk import walk
from tests.servers.synthetic.web import Web
from tests.waiting import ManualClock

DAY_MS = 86_400_000


def test_wait_moves_the_clock_to_the_next_end_but_not_past_the_timeout() -> None:
    web = Web(WebPlan.calm(hosts=5, pages=50, slow=0.5))
    clock = SimulatedClock(web.plan.epoch_ms)
    fetcher = SimulatedFetcher(web, clock)
    urls = list(web.real_pages())[:20]
    for url in urls:
        fetcher.start(Request(url, token=url))
    assert (fetcher.active, fetcher.wait(0), clock.now_ms()) == (20, [], web.plan.epoch_ms)
    ended: list[Exchange] = []
    while fetcher.active:
        before = clock.now_ms()
        finished = fetcher.wait(40)
        assert clock.now_ms() <= before + 40
        if not finished:
            assert clock.now_ms() == before + 40
        for exchange in finished:
            assert exchange.started_at + exchange.duration_ms == clock.now_ms()
            assert exchange.token == exchange.url
        ended += finished
    assert sorted(exchange.url for exchange in ended) == sorted(urls)
    assert [entry.answered_at_ms for entry in fetcher.log] == sorted(
        exchange.started_at + exchange.duration_ms for exchange in ended
    )


def test_wait_without_active_exchanges_does_not_move_the_clock() -> None:
    clock = SimulatedClock(7)
    assert SimulatedFetcher(Web(WebPlan.calm()), clock).wait(10_000) == []
    assert (clock.now_ms(), clock.monotonic_ms()) == (7, 7)
    clock.sleep(5)
    clock.sleep(-5)
    assert clock.monotonic_ms() == 12


def test_wait_returns_invalid_requests_immediately() -> None:
    fetcher = SimulatedFetcher(Web(WebPlan.calm()), SimulatedClock())
    fetcher.start(Request("ftp://x/"))
    fetcher.start(Request("http://space in host/"))
    assert [exchange.error for exchange in fetcher.wait(0)] == ["unsupported_scheme", "internal"]
    assert fetcher.log == []


def test_a_reused_connection_that_closes_is_a_reset() -> None:
    web = Web(
        WebPlan.calm(hosts=3, pages=60, closing=0.4, failing_share=0.5, fault_window_ms=10_000)
    )
    fetcher = SimulatedFetcher(web, SimulatedClock(web.plan.epoch_ms))
    errors = []
    for url in [
        url
        for url in web.real_pages()
        if web.layout.hosts.by_name(url.split("/")[2]).failure  # type: ignore[union-attr]
    ] * 3:
        fetcher.start(Request(url))
        [exchange] = fetcher.wait(60_000)
        errors.append(exchange.error)
    assert set(errors) == {"", "empty_reply", "reset"}
    for before, after in pairwise(errors):  # only a complete response keeps the connection open
        assert after in (("", "reset") if before == "" else ("", "empty_reply"))


def test_stop_interrupts_all_active_exchanges() -> None:
    web = Web(WebPlan.calm(hosts=2, pages=20, dripping=0.5))
    clock = SimulatedClock(web.plan.epoch_ms)
    fetcher = SimulatedFetcher(web, clock)
    url = web.seeds(2)[1]
    answer = web.answer(url, {}, clock.now_ms())
    fetcher.start(Request(url))
    clock.sleep(answer.latency_ms + answer.transfer_ms // 2)
    fetcher.start(Request(web.seeds()[0]))
    fetcher.stop()
    in_body, before_head = fetcher.wait(0)
    assert [in_body.error, before_head.error] == ["interrupted", "interrupted"]
    assert (in_body.status, in_body.truncated) == (200, "disconnect")
    assert (before_head.status, before_head.response_head, before_head.protocol) == (0, b"", "")
    assert 0 < len(in_body.body) < len(answer.body)
    assert fetcher.active == 0
    assert [entry.answered_at_ms for entry in fetcher.log] == [clock.now_ms()] * 2


@pytest.mark.parametrize(
    ("limits", "error", "truncated"),
    [
        ({"first_byte_timeout": "1s"}, "first_byte_timeout", ""),
        ({"first_byte_timeout": "20s", "total_timeout": "900ms"}, "timeout", ""),
        ({"max_body": "1KiB"}, "", "length"),
        ({"total_timeout": "5s"}, "timeout", "time"),
        ({"slow_time": "1s", "slow_speed": "1MiB"}, "too_slow", "time"),
    ],
)
def test_limits_of_the_client_end_exchanges(
    limits: dict[str, str], error: str, truncated: str
) -> None:
    plan = WebPlan.calm(hosts=40, pages=40, slow=0.95, dripping=0.95)
    web = Web(plan)
    clock = SimulatedClock(plan.epoch_ms)
    url = max(
        web.seeds(40),
        key=lambda url: min(
            (answer := web.answer(url, {}, plan.epoch_ms)).latency_ms, answer.transfer_ms
        ),
    )
    with SimulatedFetcher(web, clock, FetchSettings.model_validate(limits)) as fetcher:
        fetcher.start(Request(url))
        [exchange] = fetcher.wait(1_000_000)
    assert (exchange.error, exchange.truncated) == (error, truncated)
    assert bool(exchange.response_head) == bool(truncated)


def test_idle_connections_are_reused_for_a_limited_time() -> None:
    web = Web(WebPlan.calm(hosts=2, pages=40))
    clock = SimulatedClock(web.plan.epoch_ms)
    fetcher = SimulatedFetcher(web, clock)
    urls = list(web.real_pages())[:4]
    for url in (*urls[:2], None, urls[2], None, "late", urls[3]):
        if url is None:
            while fetcher.active:
                fetcher.wait(10_000)
        elif url == "late":
            clock.sleep(120_000)
        else:
            fetcher.start(Request(url))
    while fetcher.active:
        fetcher.wait(10_000)
    connections = {entry.path: entry.connection for entry in fetcher.log}
    first, second, third, fourth = (connections["/" + url.split("/", 3)[3]] for url in urls)
    assert first != second
    assert third in (first, second)
    assert fourth not in (first, second)


def test_conditional_requests_return_200_after_changes_only() -> None:
    web = Web(WebPlan.calm(hosts=3, pages=30, changes_per_day=0.5))
    clock = SimulatedClock(web.plan.epoch_ms)
    fetcher = SimulatedFetcher(web, clock)
    url = web.seeds()[0]
    etag, changes, unchanged = "", 0, 0
    for _ in range(30):
        fetcher.start(Request(url, headers=(("If-None-Match", etag),) if etag else ()))
        while fetcher.active:
            for exchange in fetcher.wait(DAY_MS):
                head = exchange.response_head.decode()
                changes += exchange.status == 200
                unchanged += exchange.status == 304
                etag = head.partition("ETag: ")[2].partition("\r\n")[0]
        clock.sleep(DAY_MS // 48)
    assert changes == 1 + sum(
        web.version(url, web.plan.epoch_ms + day * DAY_MS // 48)
        != web.version(url, web.plan.epoch_ms + (day + 1) * DAY_MS // 48)
        for day in range(29)
    )
    assert changes + unchanged == 30
    assert min(changes, unchanged) > 1


def test_log_file_is_read_without_its_incomplete_last_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    entries = [LogEntry("a.test", "/ü", 1, 2, 200, 3), LogEntry("b.test", "/", 4, 5, 0, 6, 7)]
    write_log(path, entries)
    with path.open("a") as file:
        file.write('["torn", "/"')
    assert list(read_log(path)) == entries


def test_sleep_moves_the_clock_unless_wake_is_set() -> None:
    web = Web(WebPlan.calm(hosts=2, pages=4))
    clock = SimulatedClock(web.plan.epoch_ms)
    fetcher = SimulatedFetcher(web, clock)
    wake = StopFlag()
    fetcher.sleep(1_500, wake)
    assert clock.now_ms() == web.plan.epoch_ms + 1_500
    wake.set()
    fetcher.sleep(1_500, wake)
    assert clock.now_ms() == web.plan.epoch_ms + 1_500


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


def curl(connect_to: Iterable[str], urls: Iterable[str]) -> dict[str, Exchange]:
    """Return the exchanges of `CurlFetcher` by URL."""
    with CurlFetcher(settings(connect_to), AddressGuard(()), SystemClock()) as fetcher:
        return {each.url: each for each in run(fetcher, list(map(Request, urls)), 30)}


TIMES = {"started_at", "duration_ms", "first_byte_ms", "connect_ms"}
# errors whose texts contain ports and times of libcurl
ERRORS_WITH_OTHER_TEXT = {"dns", "connect_refused", "first_byte_timeout"}


def test_simulation_and_server_give_the_same_exchanges() -> None:
    web = Web(PLAN)
    urls = sorted(walk(web, AT).discovered)
    with WebServer(web, clock=ManualClock(AT), pace=0) as server:
        real = curl(server.connect_to, urls)
        for url in [url for url in urls if real[url].error_text == REPEATED_TEXT]:
            real.update(curl(server.connect_to, [url]))  # on a new connection, like the simulation
        limits = settings(server.connect_to)
    errors: Counter[str] = Counter()
    for url in urls:
        fetcher = SimulatedFetcher(web, SimulatedClock(AT), limits, pace=0)
        fetcher.start(Request(url))
        [simulated] = fetcher.wait(1_000_000)
        error = real[url].error
        ignored = TIMES | ({"error_text"} if error in ERRORS_WITH_OTHER_TEXT else set())
        for name in [field.name for field in fields(Exchange) if field.name not in ignored]:
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


def test_the_server_logs_every_request() -> None:
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


def test_the_server_waits_for_latency_and_transfer_time() -> None:
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


def test_stop_ends_hanging_requests_and_logs_them() -> None:
    web = Web(WebPlan.calm(hosts=2, pages=20, hanging=0.5, failing_share=1.0))
    host = web.layout.hosts.get(1)
    with (
        WebServer(web, pace=0) as server,
        socket.create_connection((server.addresses[0], server.port), 30) as connection,
    ):
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {host.name}\r\n\r\n".encode())
        while not any(each.busy for each in list(server.connections)):
            time.sleep(0.01)
        assert not server.requests()
    assert [(entry.status, entry.left) for entry in server.requests()] == [(0, True)]


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_the_server_runs_in_a_separate_process(tmp_path: Path, stop_signal: signal.Signals) -> None:
    log = tmp_path / "requests.log"
    command = [sys.executable, "-W", "error", "-m", "tests.servers.synthetic"]
    options = f"--seed 5 --hosts 8 --pages 40 --calm --set refused=0.2 --pace 0 --log {log}"
    with subprocess.Popen(
        [*command, *options.split()], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        web = Web(WebPlan.calm(seed=5, hosts=8, pages=40, refused=0.2))
        assert ready["seeds"] == web.seeds()
        urls = list(web.real_pages())
        exchanges = curl(ready["connect_to"], urls)
        process.send_signal(stop_signal)
        assert process.wait(10) == 0
    assert {exchange.status for exchange in exchanges.values()} == {200}
    assert sorted(f"http://{entry.host}{entry.path}" for entry in read_log(log)) == sorted(urls)
