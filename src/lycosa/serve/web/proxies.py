"""Clients behind reverse proxies (`serve.trusted_proxies`): rate limits and lock-outs apply to the
client, not to the proxy.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

_PART = re.compile(
    r'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;,"]*)\s*(;|,|$)'
)
"""One `name=value` of a Forwarded header (RFC 7239 section 4), and the delimiter after it."""

_SCHEMES = ("http", "https")
UNKNOWN = "unknown"
"""The address of clients that the headers do not name. They share one rate limit."""


class TrustedProxies:
    """ASGI middleware: where a request comes from a trusted proxy, the client and the scheme are
    those that the proxy names.

    They name it in `Forwarded` (RFC 7239), or in `X-Forwarded-For` and `X-Forwarded-Proto`. Of
    several addresses the last one that is no trusted proxy is the client: the client may have
    invented those before it. The client is `UNKNOWN` if they name none, or different ones: proxies
    pass on the header that they do not set. The headers of other senders are ignored.
    """

    def __init__(self, app: ASGIApp, trusted: Iterable[str]) -> None:
        self._app = app
        self._networks = [ipaddress.ip_network(each, strict=False) for each in trusted]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and self._networks
            and self._is_trusted((scope.get("client") or ("", 0))[0])
        ):
            scope = self._as_sent(scope)
        await self._app(scope, receive, send)

    def _as_sent(self, scope: Scope) -> Scope:
        fields = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        forwarded = ",".join(value for name, value in fields if name == b"forwarded")
        addresses = ",".join(value for name, value in fields if name == b"x-forwarded-for")
        protocol = next(
            (value for name, value in reversed(fields) if name == b"x-forwarded-proto"), ""
        ).rpartition(",")[2]
        named = [
            self._through(scope, hops)
            for hops in (
                forwarded_hops(forwarded) if forwarded else None,
                [(each, protocol) for each in addresses.split(",")] if addresses else None,
            )
            if hops is not None
        ]
        if not named:
            return scope
        if len({each["client"][0] for each in named}) > 1:
            return {**scope, "client": (UNKNOWN, 0)}
        return named[0]

    def _through(self, scope: Scope, hops: Sequence[tuple[str, str]]) -> Scope:
        scope = {**scope, "client": (UNKNOWN, 0)}
        for address, scheme in reversed(hops):
            host = _host_of(address)
            if host is None:
                break  # "unknown" or damaged
            scope["client"] = (host, 0)
            if scheme.strip().lower() in _SCHEMES:
                scope["scheme"] = scheme.strip().lower()
            if not self._is_trusted(host):
                break
        return scope

    def _is_trusted(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        plain = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(
            plain.version == network.version and plain in network for network in self._networks
        )


def forwarded_hops(value: str) -> Sequence[tuple[str, str]]:
    """Return (for, proto) of each element of a Forwarded header, that of the nearest proxy last.
    Elements after a syntax error are ignored.
    """
    hops: list[tuple[str, str]] = []
    parts: dict[str, str] = {}
    position = 0
    while match := _PART.match(value, position):
        name, text, after = match.groups()
        parts.setdefault(
            name.lower(), re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
        )
        position = match.end()
        if after != ";":
            hops.append((parts.get("for", ""), parts.get("proto", "")))
            parts = {}
        if position >= len(value):
            break
    return hops


def _host_of(node: str) -> str | None:
    """Return the address in `192.0.2.1:80`, `[2001:db8::1]:80` or without a port; None for a name,
    `unknown` and `_hidden`.
    """
    node = node.strip()
    host = (
        node[1:].partition("]")[0]
        if node.startswith("[")
        else node.partition(":")[0]
        if node.count(":") == 1
        else node
    )
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None
