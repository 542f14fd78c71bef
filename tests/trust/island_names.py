"""Name servers that lie: each lie has its outcome, and none leads to a private address. Run by
test_island.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.core.records import Request
from tests.crawl.conftest import page
from tests.crawl.sessions import LaterClock, collection, select, work
from tests.fetch.fetching import fetch, open_fetcher, open_impatient_fetcher, run
from tests.servers.ftp import lying_ftp
from tests.trust.island import (
    AAAA,
    CNAME,
    NO_SUCH_NAME,
    PRIVATE,
    PUBLIC,
    PUBLIC_6,
    SERVER_FAILED,
    A,
    Answer,
    Island,
    Reply,
    Say,
    addresses,
    island,
)

DAY_MS = 86_400_000
NOWHERE = "93.184.216.99"  # public, and nobody there: the island has no way to it


@pytest.fixture
def here() -> Island:
    laid = island()
    laid.clear()
    laid.sites["lies.test", "/"] = Answer("the site")
    return laid


def loop(name: str, kind: int, before: int) -> Reply:
    return Reply([(name, CNAME, 60, "round.test"), ("round.test", CNAME, 60, name)])


def to_private(name: str, kind: int, before: int) -> Reply:
    return Reply(
        [(name, CNAME, 60, "inner.test"), ("inner.test", A, 60, "10.1.2.3")] if kind == A else []
    )


def only_a(reply: Reply) -> Say:
    return lambda name, kind, before: reply if kind == A else Reply()


PRIVATES = [f"10.{number >> 8}.{number & 255}.7" for number in range(1_000)]

LIES: dict[str, tuple[Say, int, str, str]] = {
    # what is said, then what comes of it: status, error, address
    "the truth": (addresses(PUBLIC[0]), 200, "", PUBLIC[0]),
    "no such name": (lambda *_: Reply(code=NO_SUCH_NAME), 0, "name_unknown", ""),
    "the server failed": (lambda *_: Reply(code=SERVER_FAILED), 0, "dns", ""),
    "refused": (lambda *_: Reply(code=5), 0, "dns", ""),
    "silence": (lambda *_: Reply(silent=True), 0, "dns", ""),
    "silence for IPv6 alone": (lambda name, kind, _: Reply(silent=kind == AAAA, records=[(name, A, 60, PUBLIC[0])]), 200, "", PUBLIC[0]),
    "garbage": (lambda *_: Reply(garbage=True), 0, "dns", ""),
    "nothing": (lambda *_: Reply(), 0, "name_unknown", ""),
    "an alias that leads back": (loop, 0, "name_unknown", ""),
    "an alias of a private name": (to_private, 0, "address_refused", "10.1.2.3"),
    "a private address": (addresses("192.168.7.7"), 0, "address_refused", "192.168.7.7"),
    "private addresses alone": (addresses("10.1.2.3", "127.0.0.1", "::1"), 0, "address_refused", ""),
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
    "nobody there, then private": (addresses(NOWHERE, "10.1.2.3"), 0, "connect", ""),
    "a thousand private addresses": (addresses(*PRIVATES), 0, "address_refused", ""),
    "a thousand private ones and a public one": (addresses(*PRIVATES, PUBLIC[2]), 200, "", PUBLIC[2]),
    "a time to live of none": (addresses(PUBLIC[0], ttl=0), 200, "", PUBLIC[0]),
    "a time to live of ages": (addresses(PUBLIC[0], ttl=2**31 - 1), 200, "", PUBLIC[0]),
    "an answer of another name": (only_a(Reply([("other.test", A, 60, PUBLIC[0])])), 0, "name_unknown", ""),
}  # fmt: skip


def test_every_lie_has_its_outcome(here: Island) -> None:
    hosts = {f"lie-{number}.test": lie for number, lie in enumerate(LIES)}
    for host, lie in hosts.items():
        here.names.names[host] = LIES[lie][0]
        here.sites[host, "/"] = Answer("the site")
    with open_fetcher([]) as fetcher:
        done = run(
            fetcher,
            [Request(f"http://{host}/", token=lie) for host, lie in hosts.items()],
            at_once=len(hosts),
        )
    wrong = []
    for exchange in done:
        _, status, error, address = LIES[str(exchange.token)]
        if (exchange.status, exchange.error) != (status, error) or (
            address and exchange.ip != address
        ):
            wrong.append(
                f"{exchange.token}: {exchange.status} {exchange.error} "
                f"{exchange.error_text} {exchange.ip}"
            )
    assert not wrong, "\n".join(wrong)
    assert here.trap.heard == []


def test_a_silent_name_server_holds_nobody_up(here: Island) -> None:
    """Names are looked up beside the fetching."""
    here.names.names.update(
        {f"silent-{number}.test": lambda *_: Reply(silent=True) for number in range(20)}
    )
    here.sites["well.test", "/"] = Answer("well")
    with open_impatient_fetcher([]) as fetcher:
        done = run(
            fetcher,
            [
                *(Request(f"http://silent-{number}.test/") for number in range(20)),
                Request("http://well.test/"),
            ],
            at_once=30,
        )
    assert done[0].url == "http://well.test/"
    assert {exchange.error for exchange in done[1:]} == {"dns"}


def test_nor_one_for_files(here: Island) -> None:
    """FTP and gopher: their names go the same way."""
    here.names.names.update(
        {f"silent-{number}.test": lambda *_: Reply(silent=True) for number in range(20)}
    )
    here.names.names["files.test"] = addresses(PUBLIC[1])
    with (
        lying_ftp(PUBLIC[1], PUBLIC[1]) as port,
        open_fetcher([], other_schemes=True, total_timeout="4s") as fetcher,
    ):
        silent = [
            Request(f"{('ftp', 'gopher')[number % 2]}://silent-{number}.test/")
            for number in range(20)
        ]
        done = run(fetcher, [*silent, Request(f"ftp://files.test:{port}/a.txt")], at_once=30)
    assert (done[0].url, done[0].body, done[0].ip) == (
        f"ftp://files.test:{port}/a.txt",
        b"the text",
        PUBLIC[1],
    )
    assert {(exchange.error, exchange.status, exchange.protocol) for exchange in done[1:]} == {
        ("dns", 0, "")
    }


@pytest.mark.parametrize("inner", PRIVATE)
def test_a_name_that_changes_between_two_fetches(here: Island, inner: str) -> None:
    """Public at first, then private, whatever is kept of the first answer: the connection that is
    open may be used, another is not made.
    """

    def say(name: str, kind: int, before: int) -> Reply:
        result = inner if here.asked["lies.test", "/"] else PUBLIC[0]
        return Reply([(name, kind, 0, result)] if (":" in result) == (kind == AAAA) else [])

    here.names.names["lies.test"] = say
    with open_fetcher([]) as fetcher:
        assert [fetch(fetcher, "http://lies.test/").status for _ in range(2)] == [200, 200]
    with open_fetcher([]) as fetcher:
        assert (changed := fetch(fetcher, "http://lies.test/")).error == "address_refused", changed
    assert here.trap.heard == []


def test_a_name_that_is_another_one_each_time_it_is_asked_for(here: Island) -> None:
    """Between a look and a connection there is no second look: so the answers may alternate as they
    like.
    """

    def say(name: str, kind: int, before: int) -> Reply:
        return Reply([(name, A, 0, (PUBLIC[0], "127.0.0.99")[before % 2])] if kind == A else [])

    here.names.names["lies.test"] = say
    result = []
    for _ in range(20):
        with open_fetcher([]) as fetcher:
            result.append(fetch(fetcher, "http://lies.test/"))
    assert {(exchange.error, exchange.ip) for exchange in result} == {
        ("", PUBLIC[0]),
        ("address_refused", "127.0.0.99"),
    }
    assert here.names.asked["lies.test", A] == 20  # one look for one connection
    assert here.trap.heard == []


def test_a_named_host_may_lead_inside_at_its_own_port_alone(here: Island) -> None:
    here.names.names["named.test"] = addresses("10.1.2.3")
    with open_fetcher([("named.test", 80)]) as fetcher:
        assert fetch(fetcher, "http://named.test/").body == b"secret"
        assert fetch(fetcher, "http://named.test:8080/").error == "address_refused"
        assert fetch(fetcher, "http://sub.named.test.example/").error != "address_refused"
    assert here.trap.heard == [("10.1.2.3", 80)]  # the trap works


def gone(code: int) -> Say:
    return lambda *_: Reply(code=code)


@pytest.mark.prove
@pytest.mark.parametrize("code", [NO_SUCH_NAME, SERVER_FAILED])
def test_a_host_whose_name_is_gone_for_a_while_is_not_gone(
    here: Island, tmp_path: Path, code: int
) -> None:
    """A second crawl finds no name: the pages stay, and a third one finds them again."""
    here.sites["home.test", "/"] = Answer(page("/a.html"))
    here.sites["home.test", "/a.html"] = Answer(page(text="a page that stays"))
    chosen = collection("c", recrawl="age", max_age="1h", delay=0)
    for ahead, says, visits in ((0, 0, 2), (DAY_MS // 8, code, 2), (2 * DAY_MS, 0, 4)):
        here.names.names["home.test"] = gone(says) if says else addresses(PUBLIC[0])
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
        assert sum(here.asked["home.test", path] for path in ("/", "/a.html")) == visits
    assert {row["error"] for row in select(tmp_path, "SELECT error FROM visits")} == {"", "dns"}
