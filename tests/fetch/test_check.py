"""Availability checks over real sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.fetch.check import Check, CheckRunner
from lycosa.fetch.guard import AddressGuard
from tests.servers.certificates import make_certificate
from tests.servers.controllable_server import ControllableServer, expired_certificate


@contextmanager
def runner(*servers: ControllableServer, **settings: object) -> Iterator[CheckRunner]:
    guard = AddressGuard((server.address, server.port) for server in servers)
    with closing(
        CheckRunner(FetchSettings.model_validate(settings), guard, SystemClock())
    ) as checks:
        yield checks


def run_checks(checks: CheckRunner, *urls: str, timeout_ms: int = 5_000) -> dict[str, Check]:
    for url in urls:
        checks.start(Check(url, timeout_ms))
    done: dict[str, Check] = {}
    deadline = time.monotonic() + 20
    while len(done) < len(urls):
        assert time.monotonic() < deadline
        done |= {check.url: check for check in checks.take()}
        time.sleep(0.01)
    return done


def test_each_check_uses_a_new_connection_and_measures_its_steps() -> None:
    with ControllableServer() as server, runner(server) as checks:
        for _ in range(3):
            check = run_checks(checks, server.url)[server.url]
            assert (check.exchange.status, check.exchange.error, check.exchange.body) == (
                200,
                "",
                b"all is well",
            )
            assert check.connect_ms is not None
            assert check.first_byte_ms is not None
            assert check.tls_ms is None
            assert check.certificate_until is None
        assert server.connections == len(server.arrival_times) == 3


def test_timeouts_refusals_and_unknown_names_are_distinguished() -> None:
    with (
        ControllableServer(delay_s=3.0) as slow,
        ControllableServer() as gone,
        runner(slow, gone) as checks,
    ):
        gone.stop()
        unknown, private = "http://nowhere.invalid/", "http://127.0.0.77:81/"
        done = run_checks(checks, slow.url, gone.url, unknown, private, timeout_ms=700)
        assert {url: check.exchange.error for url, check in done.items()} == {
            slow.url: "first_byte_timeout",
            gone.url: "connect_refused",
            unknown: "name_unknown",
            private: "address_refused",
        }
        assert done[slow.url].exchange.duration_ms >= 700
        assert done[slow.url].first_byte_ms is None


def test_certificate_expiry_is_reported_and_expired_certificates_fail(tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority", "")
    good = make_certificate(tmp_path, "good", "IP:127.0.0.1", authority)
    old = expired_certificate(tmp_path, "old", "IP:127.0.0.1", authority)
    with (
        ControllableServer(certificate=good) as fine,
        ControllableServer(certificate=old) as expired,
        runner(fine, expired, ca_file=str(authority.certificate)) as checks,
    ):
        done = run_checks(checks, fine.url, expired.url)
        check = done[fine.url]
        assert (check.exchange.status, check.exchange.error) == (200, "")
        assert check.tls_ms
        days = ((check.certificate_until or 0) / 1000 - time.time()) / 86_400
        assert 1.9 < days < 2.1
        assert done[expired.url].exchange.error == "tls_certificate"
        assert "expired" in done[expired.url].exchange.error_text
