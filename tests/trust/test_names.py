"""Name resolution, outcomes of fetches, and tests in isolated networks.

`isolation.py` explains the isolated network; `isolated_names.py` and `isolated_guard.py` are the tests.
"""

from __future__ import annotations

import gzip
import re
import select
import socket
import threading
import time
from pathlib import Path

import pytest

from lycosa.core.errors import FetchError
from lycosa.fetch import resolver as names
from lycosa.fetch.guard import is_public
from lycosa.fetch.resolver import Resolution, Resolver, is_name, look_up
from tests.crawl.sessions import collection, work
from tests.crawl.sessions import select as query
from tests.fetch.fetching import fetch, open_fetcher
from tests.servers.hostile import ENDPOINTS, HostileServer
from tests.trust.isolation import run_isolated


def resolutions(resolver: Resolver, count: int) -> list[Resolution]:
    """Return the next `count` results, waiting for the file descriptor only."""
    done: list[Resolution] = []
    deadline = time.monotonic() + 30
    while len(done) < count:
        assert select.select([resolver.wakes], [], [], max(deadline - time.monotonic(), 0))[0]
        done += resolver.take()
    return done


def test_resolution_is_cached_per_host_and_port() -> None:
    resolver = Resolver(2)
    endpoint = ("localhost", 80)
    assert not resolver.knows(endpoint)
    resolver.ask(endpoint)
    [resolution] = resolutions(resolver, 1)
    assert "127.0.0.1" in resolution.addresses
    assert resolver.knows(endpoint)
    assert not resolver.knows(("localhost", 81))
    resolver.forget(endpoint)
    assert not resolver.knows(endpoint)
    resolver.close()


def test_resolver_limits_threads_and_close_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    proceed, begun = threading.Event(), threading.Semaphore(0)

    def slow(endpoint: names.Endpoint) -> Resolution:
        begun.release()
        proceed.wait(30)
        return Resolution(endpoint, (), "unknown")

    monkeypatch.setattr(names, "look_up", slow)
    resolver = Resolver(3)
    for number in range(5):
        resolver.ask((f"name-{number}.test", 80))
    for _ in range(3):
        assert begun.acquire(timeout=30)
    assert not begun.acquire(timeout=0.2)
    assert resolver.take() == []
    proceed.set()
    assert {resolution.endpoint[0] for resolution in resolutions(resolver, 5)} == {
        f"name-{number}.test" for number in range(5)
    }
    proceed.clear()
    resolver.ask(("last.test", 80))
    assert begun.acquire(timeout=30)
    began = time.monotonic()
    resolver.close()
    assert time.monotonic() - began < 5
    proceed.set()


@pytest.mark.parametrize("host", ["a.test", "xn--bcher-kva.example", "a-1.b2.test", "intranet"])
def test_host_name_needs_resolution(host: str) -> None:
    assert is_name(host)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "localhost", "www.localhost", "a.test.", "hidden.onion"]
)
def test_host_name_needs_no_resolution(host: str) -> None:
    assert not is_name(host)


def test_invalid_name_is_reported_as_unknown() -> None:
    assert look_up(("a" * 64 + ".test", 80)).addresses == ()
    with open_fetcher([]) as fetcher:
        exchange = fetch(fetcher, f"http://{'a' * 64}.test/")
    assert (exchange.status, exchange.error, exchange.ip) == (0, "name_unknown", "")
    assert "Could not resolve host" in exchange.error_text


def test_name_of_this_machine_is_refused() -> None:
    """A name from /etc/hosts is resolved by Lycosa and checked by the guard."""
    host = socket.gethostname().lower()
    result = look_up((host, 80)).addresses
    if not is_name(host) or not result or any(map(is_public, result)):
        pytest.skip("this machine's name does not resolve to private addresses")
    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
        with open_fetcher([]) as fetcher:
            exchange = fetch(fetcher, f"http://{host}:{port}/")
        assert (exchange.error, exchange.connect_ms) == ("address_refused", 0)


INCOMPLETE_ERRORS = {
    FetchError.TIMEOUT,
    FetchError.TOO_SLOW,
    FetchError.RESET,
    FetchError.INCOMPLETE,
    FetchError.HTTP2,
}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "fetch-errors.md"


@pytest.mark.proves("limits-outcome")
def test_every_error_is_documented_with_its_retry_rule() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| (yes|no) \| ?[^|]* \|$",
        DOCS.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert dict(rows) == {error.value: "yes" if error.retry else "no" for error in FetchError}


@pytest.mark.proves("limits-size")
@pytest.mark.prove
def test_incomplete_responses_are_archived_as_truncated(tmp_path: Path) -> None:
    """Incomplete and limited responses have WARC-Truncated (WARC/1.1 section 5.13)."""
    settings = (
        "fetch.first_byte_timeout=1500ms",
        "fetch.total_timeout=4s",
        "fetch.slow_time=1s",
        "fetch.retries=0",
        "fetch.max_body=2MiB",
    )
    with HostileServer() as server:
        seeds = [
            server.url(endpoint.name)
            for endpoint in ENDPOINTS
            if not endpoint.name.startswith("busy-")
        ]
        chosen = collection("c", depth=0, connections_per_host=8, backoff="1ms")
        work(tmp_path, [(chosen, seeds)], settings=settings)
    rows = query(tmp_path, "SELECT url, error, http_status FROM visits")
    broken = {
        str(row["url"]) for row in rows if row["error"] in INCOMPLETE_ERRORS and row["http_status"]
    }
    assert len(broken) > 10
    cut: set[str] = set()
    whole: set[str] = set()
    for archive in tmp_path.glob("data/*/*.warc.gz"):
        for head in re.findall(
            rb"WARC/1\.1\r\n(.*?)\r\n\r\n", gzip.decompress(archive.read_bytes()), re.DOTALL
        ):
            fields = dict(
                re.findall(r"^([\w-]+): (.*?)\r?$", head.decode("utf-8", "replace"), re.MULTILINE)
            )
            if fields.get("WARC-Type") == "response":
                (cut if "WARC-Truncated" in fields else whole).add(fields["WARC-Target-URI"])
    assert broken <= cut
    assert not broken & whole
    limited = {server.url(endpoint.name) for endpoint in ENDPOINTS if endpoint.expected.truncated}
    assert limited & whole == set()


@pytest.mark.proves(
    "access-addresses", "access-redirects", "access-dns-rebinding", "access-callers"
)
def test_no_connection_to_private_addresses() -> None:
    """Run the quick tests of `isolated_names.py` and `isolated_guard.py`."""
    run_isolated("--durations=5")


@pytest.mark.proves("isolation-browser-network", "access-redirects", "access-callers")
@pytest.mark.prove
def test_no_connection_to_private_addresses_in_long_tests() -> None:
    """Run the long tests of `isolated_names.py` and `isolated_guard.py`."""
    run_isolated("-m", "prove")
