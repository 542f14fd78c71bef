"""Clients behind reverse proxies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from lycosa.config.reading import parse_config
from lycosa.core.errors import ConfigError
from lycosa.serve.web.proxies import TrustedProxies


def seen(trusted: tuple[str, ...], sender: str, *headers: tuple[str, str]) -> tuple[str, str]:
    """The client and the scheme that the application sees."""
    found: list[tuple[str, str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        pass

    scope: dict[str, Any] = {"type": "http", "client": (sender, 1), "scheme": "http"}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers]
    asyncio.run(TrustedProxies(app, trusted)(scope, receive, send))
    return found[0]


PROXY = ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")


@pytest.mark.parametrize(
    ("sender", "headers", "client"),
    [
        ("127.0.0.1", [("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
        # what the client made up is before it
        ("127.0.0.1", [("x-forwarded-for", "203.0.113.9, 192.0.2.7, 10.1.2.3")], "192.0.2.7"),
        ("::ffff:127.0.0.1", [("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
        (
            "127.0.0.1",
            [("forwarded", 'for=203.0.113.9, for="[2001:4860::1]:4711";proto=https;by=10.0.0.1')],
            "2001:4860::1",
        ),
        (
            "127.0.0.1",
            [("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "203.0.113.9")],
            "192.0.2.7",
        ),
        ("127.0.0.1", [("forwarded", "for=192.0.2.7, for=unknown")], "127.0.0.1"),
        ("127.0.0.1", [("forwarded", ";;;=")], "127.0.0.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("198.51.100.1", [("x-forwarded-for", "192.0.2.7")], "198.51.100.1"),  # no proxy of ours
    ],
)
def test_the_last_address_that_is_no_proxy_is_the_client(
    sender: str, headers: list[tuple[str, str]], client: str
) -> None:
    assert seen(PROXY, sender, *headers)[0] == client
    assert seen((), sender, *headers)[0] == sender, "nothing is trusted by default"


def test_the_scheme_is_the_proxys() -> None:
    assert seen(PROXY, "10.0.0.1", ("forwarded", "for=192.0.2.7;proto=https")) == (
        "192.0.2.7",
        "https",
    )
    assert seen(
        PROXY, "10.0.0.1", ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")
    ) == ("192.0.2.7", "https")
    assert seen(
        PROXY, "10.0.0.1", ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "gopher")
    ) == ("192.0.2.7", "http")


def test_what_is_no_network_is_refused() -> None:
    assert parse_config('[serve]\ntrusted_proxies = ["10.0.0.1/8"]').serve.trusted_proxies == (
        "10.0.0.1/8",
    )
    with pytest.raises(ConfigError, match=r"neither an IP address nor a network"):
        parse_config('[serve]\ntrusted_proxies = ["proxy.example"]')
