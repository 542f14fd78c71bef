"""False DNS replies never lead to a connection to a private address.

Run by `test_names.py` in an isolated network.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.core.records import Request
from tests.crawl.conftest import page
from tests.crawl.sessions import LaterClock, collection, select, work
from tests.fetch.fetching import fetch, open_fetcher, open_impatient_fetcher, run
from tests.servers.ftp import false_address_ftp
from tests.trust.isolation import (
    AAAA,
    CNAME,
    NO_SUCH_NAME,
    PRIVATE,
    PUBLIC,
    PUBLIC_6,
    SERVER_FAILED,
    A,
    Answer,
    IsolatedNetwork,
    Reply,
    Responder,
    addresses,
    isolated_network,
)

DAY_MS = 86_400_000
UNREACHABLE = "93.184.216.99"  # public, without a route in the isolated network


@pytest.fixture
def network() -> IsolatedNetwork:
    network = isolated_network()
    network.clear()
    network.sites["changing.test", "/"] = Answer("the site")
    return network


def loop(name: str, kind: int, before: int) -> Reply:
    return Reply([(name, CNAME, 60, "round.test"), ("round.test", CNAME, 60, name)])


def to_private(name: str, kind: int, before: int) -> Reply:
    return Reply(
        [(name, CNAME, 60, "inner.test"), ("inner.test", A, 60, "10.1.2.3")] if kind == A else []
    )


MANY_PRIVATE = [f"10.{number >> 8}.{number & 255}.7" for number in range(1_000)]

REPLIES: dict[str, tuple[Responder, int, str, str]] = {
    # responder, then the expected status, error and address
    "a correct address": (addresses(PUBLIC[0]), 200, "", PUBLIC[0]),
    "no such name": (lambda *_: Reply(code=NO_SUCH_NAME), 0, "name_unknown", ""),
    "the server failed": (lambda *_: Reply(code=SERVER_FAILED), 0, "dns", ""),
    "refused": (lambda *_: Reply(code=5), 0, "dns", ""),
    "silence": (lambda *_: Reply(silent=True), 0, "dns", ""),
    "silence for IPv6 only": (lambda name, kind, _: Reply(silent=kind == AAAA, records=[(name, A, 60, PUBLIC[0])]), 200, "", PUBLIC[0]),
    "garbage": (lambda *_: Reply(garbage=True), 0, "dns", ""),
    "no records": (lambda *_: Reply(), 0, "name_unknown", ""),
    "an alias loop": (loop, 0, "name_unknown", ""),
    "an alias of a private name": (to_private, 0, "address_refused", "10.1.2.3"),
    "a private address": (addresses("192.168.7.7"), 0, "address_refused", "192.168.7.7"),
    "only private addresses": (addresses("10.1.2.3", "127.0.0.1", "::1"), 0, "address_refused", ""),
    "an unspecified address": (addresses("0.0.0.0"), 0, "address_refused", "0.0.0.0"),
    "an unspecified IPv6 address": (addresses("::"), 0, "address_refused", "::"),
    "a mapped address": (addresses("::ffff:10.1.2.3"), 0, "address_refused", "::ffff:10.1.2.3"),
    "NAT64 of a private address": (addresses("64:ff9b::a01:203"), 0, "address_refused", "64:ff9b::a01:203"),
    "6to4 of a private address": (addresses("2002:a01:203::1"), 0, "address_refused", "2002:a01:203::1"),
    "a unique local address": (addresses("fd00::7"), 0, "address_refused", "fd00::7"),
    "a link-local address": (addresses("fe80::7"), 0, "address_refused", "fe80::7"),
    "private before public": (addresses("10.1.2.3", PUBLIC[1]), 200, "", PUBLIC[1]),
    "public before private": (addresses(PUBLIC[1], "10.1.2.3"), 200, "", PUBLIC[1]),
    "private IPv6, public IPv4": (addresses("fd00::7", PUBLIC[0]), 200, "", PUBLIC[0]),
    "public IPv6, private IPv4": (addresses(PUBLIC_6, "10.1.2.3"), 200, "", PUBLIC_6),
    "unreachable, then private": (addresses(UNREACHABLE, "10.1.2.3"), 0, "connect", ""),
    "a thousand private addresses": (addresses(*MANY_PRIVATE), 0, "address_refused", ""),
    "a thousand private ones and a public one": (addresses(*MANY_PRIVATE, PUBLIC[2]), 200, "", PUBLIC[2]),
    "a TTL of zero": (addresses(PUBLIC[0], ttl=0), 200, "", PUBLIC[0]),
    "the maximum TTL": (addresses(PUBLIC[0], ttl=2**31 - 1), 200, "", PUBLIC[0]),
    "a record of another name": (lambda name, kind, _: Reply([("other.test", A, 60, PUBLIC[0])] if kind == A else []), 0, "name_unknown", ""),
}  # fmt: skip


def test_each_reply_has_its_outcome(network: IsolatedNetwork) -> None:
    hosts = {f"host-{number}.test": reply for number, reply in enumerate(REPLIES)}
    for host, reply in hosts.items():
        network.name_server.names[host] = REPLIES[reply][0]
        network.sites[host, "/"] = Answer("the site")
    with open_fetcher([]) as fetcher:
        done = run(
            fetcher,
            [Request(f"http://{host}/", token=reply) for host, reply in hosts.items()],
            max_active=len(hosts),
        )
    wrong = []
    for exchange in done:
        _, status, error, address = REPLIES[str(exchange.token)]
        if (exchange.status, exchange.error) != (status, error) or (
            address and exchange.ip != address
        ):
            wrong.append(
                f"{exchange.token}: {exchange.status} {exchange.error} "
                f"{exchange.error_text} {exchange.ip}"
            )
    assert not wrong, "\n".join(wrong)
    assert network.private.connections == []


def test_silent_name_server_does_not_delay_other_hosts(network: IsolatedNetwork) -> None:
    network.name_server.names.update(
        {f"silent-{number}.test": lambda *_: Reply(silent=True) for number in range(20)}
    )
    network.sites["well.test", "/"] = Answer("well")
    with open_impatient_fetcher([]) as fetcher:
        done = run(
            fetcher,
            [
                *(Request(f"http://silent-{number}.test/") for number in range(20)),
                Request("http://well.test/"),
            ],
            max_active=30,
        )
    assert done[0].url == "http://well.test/"
    assert {exchange.error for exchange in done[1:]} == {"dns"}


def test_silent_name_server_does_not_delay_ftp_and_gopher(network: IsolatedNetwork) -> None:
    network.name_server.names.update(
        {f"silent-{number}.test": lambda *_: Reply(silent=True) for number in range(20)}
    )
    network.name_server.names["files.test"] = addresses(PUBLIC[1])
    with (
        false_address_ftp(PUBLIC[1], PUBLIC[1]) as port,
        open_fetcher([], other_schemes=True, total_timeout="4s") as fetcher,
    ):
        silent = [
            Request(f"{('ftp', 'gopher')[number % 2]}://silent-{number}.test/")
            for number in range(20)
        ]
        done = run(fetcher, [*silent, Request(f"ftp://files.test:{port}/a.txt")], max_active=30)
    assert (done[0].url, done[0].body, done[0].ip) == (
        f"ftp://files.test:{port}/a.txt",
        b"the text",
        PUBLIC[1],
    )
    assert {(exchange.error, exchange.status, exchange.protocol) for exchange in done[1:]} == {
        ("dns", 0, "")
    }


@pytest.mark.parametrize("inner", PRIVATE)
def test_name_that_becomes_private_is_refused_for_new_connections(
    network: IsolatedNetwork, inner: str
) -> None:
    """An open connection to the first, public address may be used again."""

    def respond(name: str, kind: int, before: int) -> Reply:
        address = inner if network.requests["changing.test", "/"] else PUBLIC[0]
        return Reply([(name, kind, 0, address)] if (":" in address) == (kind == AAAA) else [])

    network.name_server.names["changing.test"] = respond
    with open_fetcher([]) as fetcher:
        assert [fetch(fetcher, "http://changing.test/").status for _ in range(2)] == [200, 200]
    with open_fetcher([]) as fetcher:
        assert (changed := fetch(fetcher, "http://changing.test/")).error == "address_refused", (
            changed
        )
    assert network.private.connections == []


def test_name_is_resolved_once_per_connection(network: IsolatedNetwork) -> None:
    """So alternating public and private addresses cannot pass the guard (DNS rebinding)."""

    def respond(name: str, kind: int, before: int) -> Reply:
        return Reply([(name, A, 0, (PUBLIC[0], "127.0.0.99")[before % 2])] if kind == A else [])

    network.name_server.names["changing.test"] = respond
    result = []
    for _ in range(20):
        with open_fetcher([]) as fetcher:
            result.append(fetch(fetcher, "http://changing.test/"))
    assert {(exchange.error, exchange.ip) for exchange in result} == {
        ("", PUBLIC[0]),
        ("address_refused", "127.0.0.99"),
    }
    assert network.name_server.queries["changing.test", A] == 20
    assert network.private.connections == []


def test_allowed_host_may_be_private_only_at_its_own_port(network: IsolatedNetwork) -> None:
    network.name_server.names["named.test"] = addresses("10.1.2.3")
    with open_fetcher([("named.test", 80)]) as fetcher:
        assert fetch(fetcher, "http://named.test/").body == b"secret"
        assert fetch(fetcher, "http://named.test:8080/").error == "address_refused"
        assert fetch(fetcher, "http://sub.named.test.example/").error != "address_refused"
    assert network.private.connections == [("10.1.2.3", 80)]  # connections are recorded


@pytest.mark.prove
@pytest.mark.parametrize(
    ("code", "error"), [(NO_SUCH_NAME, "name_unknown"), (SERVER_FAILED, "dns")]
)
def test_pages_are_kept_when_a_name_is_temporarily_unknown(
    network: IsolatedNetwork, tmp_path: Path, code: int, error: str
) -> None:
    """The name is unknown in the second of three crawls."""
    network.sites["home.test", "/"] = Answer(page("/a.html"))
    network.sites["home.test", "/a.html"] = Answer(page(text="a page that stays"))
    chosen = collection("c", recrawl="age", max_age="1h", delay=0)
    for ahead, reply_code, visits in ((0, 0, 2), (DAY_MS // 8, code, 2), (2 * DAY_MS, 0, 4)):
        network.name_server.names["home.test"] = (
            (lambda *_: Reply(code=code)) if reply_code else addresses(PUBLIC[0])
        )
        work(
            tmp_path,
            [(chosen, ["http://home.test/"])],
            clock=LaterClock(ahead),
            settings=("fetch.retries=1",),
        )
        states = {
            str(row["url"]): row["state"] for row in select(tmp_path, "SELECT url, state FROM urls")
        }
        assert set(states) == {"http://home.test/", "http://home.test/a.html"}
        assert "gone" not in states.values()
        assert sum(network.requests["home.test", path] for path in ("/", "/a.html")) == visits
    assert {row["error"] for row in select(tmp_path, "SELECT error FROM visits")} == {"", error}
