"""Looking names up in threads, and outcomes of a crawl in a faulty network. The rest needs a network
namespace (island.py).
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
from tests.trust.island import ashore


def accepted(result: Resolver, many: int) -> list[Resolution]:
    """So many answers, by waiting for the descriptor alone."""
    done: list[Resolution] = []
    deadline = time.monotonic() + 30
    while len(done) < many:
        assert select.select([result.wakes], [], [], max(deadline - time.monotonic(), 0))[0]
        done += result.take()
    return done


def test_a_name_is_looked_up_once_for_a_while() -> None:
    result = Resolver(2)
    place = ("localhost", 80)
    assert not result.knows(place)
    result.ask(place)
    [answer] = accepted(result, 1)
    assert "127.0.0.1" in answer.addresses
    assert result.knows(place)
    assert not result.knows(("localhost", 81))
    result.forget(place)
    assert not result.knows(place)
    result.close()


def test_each_has_a_thread_until_there_are_enough_and_closing_waits_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go, begun = threading.Event(), threading.Semaphore(0)

    def slow(place: names.Endpoint) -> Resolution:
        begun.release()
        go.wait(30)
        return Resolution(place, (), "nobody")

    monkeypatch.setattr(names, "look_up", slow)
    result = Resolver(3)
    for number in range(5):
        result.ask((f"name-{number}.test", 80))
    for _ in range(3):
        assert begun.acquire(timeout=30)
    assert not begun.acquire(timeout=0.2)
    assert result.take() == []
    go.set()
    assert {answer.endpoint[0] for answer in accepted(result, 5)} == {
        f"name-{number}.test" for number in range(5)
    }
    go.clear()
    result.ask(("last.test", 80))
    assert begun.acquire(timeout=30)
    began = time.monotonic()
    result.close()
    assert time.monotonic() - began < 5
    go.set()


@pytest.mark.parametrize("host", ["a.test", "xn--bcher-kva.example", "a-1.b2.test", "intranet"])
def test_these_are_names(host: str) -> None:
    assert is_name(host)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "localhost", "www.localhost", "a.test.", "hidden.onion"]
)
def test_these_libcurl_knows_itself(host: str) -> None:
    assert not is_name(host)


def test_a_name_that_cannot_be_asked_for_is_one_that_is_not_there() -> None:
    assert look_up(("a" * 64 + ".test", 80)).addresses == ()
    with open_fetcher([]) as fetcher:
        exchange = fetch(fetcher, f"http://{'a' * 64}.test/")
    assert (exchange.status, exchange.error, exchange.ip) == (0, "name_unknown", "")
    assert "Could not resolve host" in exchange.error_text


def test_the_machines_own_name_leads_nowhere_unasked() -> None:
    """A name of /etc/hosts, by the whole way: looked up by us, refused by the guard, or asked where
    it is named.
    """
    host = socket.gethostname().lower()
    result = look_up((host, 80)).addresses
    if not is_name(host) or not result or any(map(is_public, result)):
        pytest.skip("this machine's name does not resolve to private addresses")
    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
        with open_fetcher([]) as fetcher:
            exchange = fetch(fetcher, f"http://{host}:{port}/")
        assert (exchange.error, exchange.connect_ms) == ("address_refused", 0)


BREAKS = {
    FetchError.TIMEOUT,
    FetchError.TOO_SLOW,
    FetchError.RESET,
    FetchError.INCOMPLETE,
    FetchError.HTTP2,
}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "fetch-errors.md"


@pytest.mark.proves("limits-outcome")
def test_every_outcome_is_documented_and_says_whether_it_is_tried_again() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| (yes|no) \| ?[^|]* \|$",
        DOCS.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert dict(rows) == {error.value: "yes" if error.retry else "no" for error in FetchError}


@pytest.mark.proves("limits-size")
@pytest.mark.prove
def test_nothing_is_archived_as_whole_that_is_not(tmp_path: Path) -> None:
    """Of every endpoint: what came with an error, or was cut at a limit, says so in the archive
    (WARC/1.1 section 5.13).
    """
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
    broken = {str(row["url"]) for row in rows if row["error"] in BREAKS and row["http_status"]}
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
def test_no_name_and_no_site_leads_inside() -> None:
    """Name servers that lie (island_names.py), and every way into private space
    (island_guard.py).
    """
    ashore("--durations=5")


@pytest.mark.proves("isolation-browser-network", "access-redirects", "access-callers")
@pytest.mark.prove
def test_what_takes_longer() -> None:
    ashore("-m", "prove")
