"""The address guard permits connections only to public addresses."""

from __future__ import annotations

import socket

import pytest

from lycosa.core.errors import ConfigError
from lycosa.fetch.connect_to import find_override, parse_connect_to
from lycosa.fetch.guard import AddressGuard, is_public
from lycosa.http.decode import parse_head
from tests.fetch.fetching import fetch, open_fetcher
from tests.servers.hostile import HostileServer
from tests.servers.hostile import server as server

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.1", "192.169.0.1", "223.255.255.255",
    "2606:4700::1111", "2a00:1450:4001:81c::200e", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
)  # fmt: skip
NOT_PUBLIC = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::808:808", "100::1", "2001::1", "2001:0:7f00:1::f7f7:f7f7", "2001:2::1", "2001:10::1",
    "2001:20::1", "2001:db8::1", "2002:7f00:1::1", "2002:a00:1::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1",
    "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
    "", "localhost", "1.2.3", "0x7f.1", "2130706433", "1.2.3.4.5", "example.org", "127.0.0.1 ", "[::1]",
)  # fmt: skip


@pytest.mark.parametrize("ip", PUBLIC)
def test_public_addresses_are_permitted(ip: str) -> None:
    assert is_public(ip)
    assert AddressGuard().permits(ip, 80, "example.org")


@pytest.mark.proves("access-addresses")
@pytest.mark.parametrize("ip", NOT_PUBLIC)
def test_other_addresses_are_not_permitted(ip: str) -> None:
    assert not is_public(ip)
    assert not AddressGuard([("other.test", 80), ("example.org", 81)]).permits(
        ip, 80, "example.org"
    )


@pytest.mark.proves("access-addresses")
@pytest.mark.parametrize(
    ("ip", "port", "host", "permitted"),
    [
        ("10.1.2.3", 8080, "intranet.test", True),
        ("10.1.2.3", 8080, "INTRANET.test.", True),
        ("::1", 80, "[::1]", True),
        ("10.1.2.3", 8081, "intranet.test", False),
        ("10.1.2.3", 8080, "sub.intranet.test", False),
        # an entry permits a host name, not the addresses of other names
        ("10.0.0.1", 80, "other.test", False),
    ],
)
def test_named_host_is_permitted_to_be_private_at_its_port_only(
    ip: str, port: int, host: str, permitted: bool
) -> None:
    guard = AddressGuard([("Intranet.Test", 8080), ("::1", 80), ("10.0.0.1", 80)])
    assert guard.permits(ip, port, host) is permitted


@pytest.mark.proves("access-addresses")
def test_nothing_is_sent_to_a_refused_address(server: HostileServer) -> None:
    before = len(server.requests("good"))
    port = server.port
    with open_fetcher([]) as fetcher:
        for host in ("127.0.9.2", "localhost", "[::ffff:127.0.9.2]", "[::1]"):
            exchange = fetch(fetcher, f"http://{host}:{port}/")
            assert (exchange.status, exchange.error, exchange.request_head) == (
                0,
                "address_refused",
                b"",
            ), host
            assert exchange.ip
            assert exchange.error_text.startswith("the address is not public")
    assert len(server.requests("good")) == before


@pytest.mark.proves("access-dns-rebinding")
def test_name_that_resolves_to_loopback_is_permitted_only_if_it_is_named() -> None:
    """The name `localhost` resolves to 127.0.0.1; the guard decides by name and port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with open_fetcher([("127.0.0.1", port), ("localhost", port + 1)]) as fetcher:
            assert fetch(fetcher, f"http://localhost:{port}/").error == "address_refused"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()  # no connection
        with open_fetcher([("localhost", port)], first_byte_timeout="200ms") as fetcher:
            assert fetch(fetcher, f"http://localhost:{port}/").error == "first_byte_timeout"
        listener.accept()[0].close()


@pytest.mark.proves("access-redirects")
@pytest.mark.parametrize(
    "name",
    [
        f"redirect-{to}"
        for to in (
            "private",
            "loopback",
            "localhost",
            "metadata",
            "decimal",
            "mapped",
            "file",
            "gopher",
            "javascript",
        )
    ],
)
def test_redirects_to_private_addresses_are_refused(name: str, server: HostileServer) -> None:
    with open_fetcher(server.allowed()) as fetcher:
        location = parse_head(fetch(fetcher, server.url(name)).response_head).get("location")
        assert location is not None
        end = fetch(fetcher, location)
    scheme_is_http = location.startswith("http")
    assert (end.status, end.error) == (
        0,
        "address_refused" if scheme_is_http else "unsupported_scheme",
    )


def test_connect_to_permits_its_target_address(server: HostileServer) -> None:
    target = f"{server.addresses['good']}:{server.port}"
    with open_fetcher([], connect_to=(f"site.test:80:{target}",)) as fetcher:
        exchange = fetch(fetcher, "http://site.test/page/1")
        assert (exchange.status, exchange.ip) == (200, server.addresses["good"])
        assert b"\r\nHost: site.test\r\n" in exchange.request_head
        # the target's own name is not permitted
        assert fetch(fetcher, f"http://{target}/").error == "address_refused"
        assert fetch(fetcher, f"http://localhost:{server.port}/").error == "address_refused"
    with open_fetcher([], connect_to=(f"::{target}",)) as fetcher:
        assert fetch(fetcher, "http://any.test:81/page/2").status == 200
        assert fetch(fetcher, "http://other.test/page/3").status == 200


def test_connect_to_without_target_host_permits_no_address(server: HostileServer) -> None:
    port = server.port
    with open_fetcher([], connect_to=(f":80::{port}",)) as fetcher:
        assert fetch(fetcher, f"http://{server.addresses['good']}/").error == "address_refused"
    with open_fetcher([(server.addresses["good"], 80)], connect_to=(f":80::{port}",)) as fetcher:
        assert fetch(fetcher, f"http://{server.addresses['good']}/").status == 200


def test_connection_is_not_shared_between_hosts(server: HostileServer) -> None:
    """Two names have one address.

    The connection of the permitted name must not be reused for the other one.
    """
    port = server.port
    address = server.addresses["good"]
    with open_fetcher(
        [("a.test", port)], connect_to=(f"a.test:{port}:{address}:{port}", f"::127.0.0.1:{port}")
    ) as fetcher:
        assert fetch(fetcher, f"http://a.test:{port}/").status == 200
        second = fetch(fetcher, f"http://b.test:{port}/")
        assert (second.status, second.error) == (0, "connect_refused")


@pytest.mark.parametrize(
    "entry", ["", "a:1:b", "a:1:b:2:3", "a:x:b:2", "a:0:b:2", "a:1:b:65536", "a b:::c:d"]
)
def test_malformed_connect_to_is_a_configuration_error(entry: str) -> None:
    with pytest.raises(ConfigError, match="connect_to"):
        parse_connect_to([entry])


def test_first_matching_override_is_used() -> None:
    overrides = parse_connect_to(
        ["a.test:80:[::1]:8080", "a.test::b.test:", ":443:c.test:", "::d.test:1"]
    )
    assert [
        find_override(overrides, host, port)
        for host, port in [("A.TEST", 80), ("a.test", 81), ("x.test", 443), ("[::2]", 9)]
    ] == list(overrides)
    assert find_override(overrides[:1], "b.test", 80) is None
    assert overrides[0].target_host == "::1"
