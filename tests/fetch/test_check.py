"""Checks of availability over real sockets: steps and their times, certificates, limits, a
connection for each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.fetch.check import Check, CheckRunner
from lycosa.fetch.guard import AddressGuard
from tests.servers.certificates import make_certificate
from tests.servers.moody import Moody, expired_certificate


@contextmanager
def runner(*servers: Moody, **settings: object) -> Iterator[CheckRunner]:
    guard = AddressGuard((each.address, each.port) for each in servers)
    made = CheckRunner(FetchSettings.model_validate(settings), guard, SystemClock())
    try:
        yield made
    finally:
        made.close()


def checked(made: CheckRunner, *urls: str, timeout_ms: int = 5_000) -> dict[str, Check]:
    for url in urls:
        made.start(Check(url, timeout_ms))
    done: dict[str, Check] = {}
    deadline = time.monotonic() + 20
    while len(done) < len(urls):
        assert time.monotonic() < deadline
        done |= {check.url: check for check in made.take()}
        time.sleep(0.01)
    return done


def test_every_check_has_a_connection_of_its_own_and_its_steps_times() -> None:
    with Moody() as server, runner(server) as made:
        for _ in range(3):
            check = checked(made, server.url)[server.url]
            assert (check.exchange.status, check.exchange.error, check.exchange.body) == (
                200,
                "",
                b"all is well",
            )
            assert check.connect_ms is not None
            assert check.first_byte_ms is not None
            assert check.tls_ms is None
            assert check.certificate_until is None
        assert server.connections == len(server.asked) == 3


def test_slow_answers_refusals_and_names_that_are_none_are_told_apart() -> None:
    with Moody(delay_s=3.0) as slow, Moody() as gone, runner(slow, gone) as made:
        gone.stop()
        nowhere, private = "http://nowhere.invalid/", "http://127.0.0.77:81/"
        done = checked(made, slow.url, gone.url, nowhere, private, timeout_ms=700)
        assert {url: check.exchange.error for url, check in done.items()} == {
            slow.url: "first_byte_timeout",
            gone.url: "connect_refused",
            nowhere: "name_unknown",
            private: "address_refused",
        }
        assert done[slow.url].exchange.duration_ms >= 700
        assert done[slow.url].first_byte_ms is None


def test_certificates_tell_when_they_end_and_expired_ones_are_none(tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority", "")
    good = make_certificate(tmp_path, "good", "IP:127.0.0.1", authority)
    old = expired_certificate(tmp_path, "old", "IP:127.0.0.1", authority)
    with (
        Moody(certificate=good) as fine,
        Moody(certificate=old) as expired,
        runner(fine, expired, ca_file=str(authority.certificate)) as made,
    ):
        done = checked(made, fine.url, expired.url)
        check = done[fine.url]
        assert (check.exchange.status, check.exchange.error) == (200, "")
        assert check.tls_ms
        days = ((check.certificate_until or 0) / 1000 - time.time()) / 86_400
        assert 1.9 < days < 2.1
        assert done[expired.url].exchange.error == "tls_certificate"
        assert "expired" in done[expired.url].exchange.error_text
