"""The address guard: connections go to public addresses and to those that the operator named.

The guard checks the address of the connection, after name resolution. So it does not matter how a
page writes a private address: as a literal, in another notation, or as a name that resolves to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

from lycosa.url.schemes import DEFAULT_PORTS
from lycosa.url.scope import hostname, url_origin

# IANA's special-purpose registries (RFC 6890 and its updates). Python's `is_global` is not used,
# because its results changed between patch releases.
_REFUSED_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private (RFC 1918)
        "100.64.0.0/10",  # carrier-grade NAT (RFC 6598)
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, including the metadata services of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation (RFC 5737)
        "192.88.99.0/24",  # 6to4 relays, deprecated (RFC 7526)
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks (RFC 2544)
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")  # all other space is unassigned, local or special
_REFUSED_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001:0::/32",  # Teredo: decided by the embedded addresses, see _is_public_v6
        "2001:2::/48",  # benchmarks (RFC 5180)
        "2001:10::/28",  # ORCHID, deprecated
        "2001:20::/28",  # ORCHIDv2: identifiers, not addresses
        "2001:db8::/32",  # documentation (RFC 3849)
        "3fff::/20",  # documentation (RFC 9637)
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
# RFC 6052; the local-use 64:ff9b:1::/48 (RFC 8215) remains refused
_NAT64 = IPv6Network("64:ff9b::/96")
_LOW_32 = 0xFFFFFFFF


@lru_cache(maxsize=4096)
def is_public(ip: str) -> bool:
    """Return whether an IPv4 or IPv6 literal is a public unicast address; False for other text."""
    text = ip.partition("%")[0]  # a zone identifier only ever belongs to link-local addresses
    try:
        return _is_public_v6(IPv6Address(text)) if ":" in text else _is_public_v4(IPv4Address(text))
    except AddressValueError:
        return False


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in network for network in _REFUSED_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    """Return whether an address is public. An embedded IPv4 address decides."""
    if address in _MAPPED or address in _NAT64:
        return _is_public_v4(IPv4Address(int(address) & _LOW_32))
    if address.sixtofour is not None:
        return _is_public_v4(address.sixtofour)
    if address.teredo is not None:
        return all(_is_public_v4(inner) for inner in address.teredo)
    return address in _GLOBAL_V6 and not any(address in network for network in _REFUSED_V6)


def _plain_host(host: str) -> str:
    return host.lower().removesuffix(".").strip("[]")


class AddressGuard:
    """Permits public addresses, and any address of the operator's hosts.

    The operator names pairs of host and port.
    """

    def __init__(self, allowed: Iterable[tuple[str, int]] = ()) -> None:
        self.allow(allowed)

    def allow(self, allowed: Iterable[tuple[str, int]]) -> None:
        """Replace the pairs that the operator named. Thread-safe."""
        self._allowed = frozenset((_plain_host(host), port) for host, port in allowed)

    def names(self, host: str, port: int) -> bool:
        """Return whether the operator named this host with this port."""
        return (_plain_host(host), port) in self._allowed

    def permits(self, ip: str, port: int, host: str) -> bool:
        """Return whether a URL of `host` may connect to `ip`:`port`.

        A host that the operator named may resolve to any address, at its port.
        """
        return is_public(ip) or (_plain_host(host), port) in self._allowed


def named_pair(url: str) -> tuple[str, int]:
    """Return host and port of a normalised URL.

    An operator allows them by typing the URL.
    """
    port = url_origin(url).rpartition(":")[2]
    return hostname(url), int(port) if port.isdigit() else DEFAULT_PORTS[url.partition(":")[0]]
