"""Identity: 64-bit keys of hosts and URLs, and the partition that owns them."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from lycosa.core.records import UrlId
from lycosa.url.domain import Domains
from lycosa.url.schemes import path_start
from lycosa.url.scope import hostname

_MAX_ORIGINS = 16_384  # 5 MB
_new_id = tuple.__new__  # skips the generated constructor, a third of the time of `identify`


def host_key(host: str) -> int:
    """Return the xxh3_64 (UTF-8, seed 0) of a hostname as the URL standard serialises it (an IPv6
    address with its brackets).
    """
    return xxh3_64_intdigest(host.encode())


def url_key(url: str) -> int:
    """Return the xxh3_64 (UTF-8, seed 0) of a normalised URL."""
    return xxh3_64_intdigest(url.encode())


class Identifier:
    """Computes the identity of normalised URLs. Hot path of `bench/network.py`.

    The partition is xxh3_64(registrable domain, an IP address being its own) mod `partitions`, so
    all hosts of a registrable domain share one owner.
    """

    def __init__(self, domains: Domains, partitions: int) -> None:
        if partitions < 1:
            raise ValueError(f"a workspace has at least one partition, not {partitions}")
        self.domains = domains
        self._partitions = partitions
        self._origins: dict[str, tuple[str, int, int]] = {}

    def identify(self, url: str) -> UrlId:
        """Return the identifiers of a normalised URL.

        Raises:
            UrlError: its scheme is not crawled.
        """
        origin = url[: url.find("/", 8) if url[0] == "h" else path_start(url)]
        cached = self._origins.get(origin)
        if cached is None:
            cached = self._identify_host(url, origin)
        return _new_id(
            UrlId, (url, cached[0], cached[1], xxh3_64_intdigest(url.encode()), cached[2])
        )

    def partition(self, host: str) -> int:
        """Return the partition of a hostname."""
        return xxh3_64_intdigest(self.domains.registrable(host).encode()) % self._partitions

    def _identify_host(self, url: str, origin: str) -> tuple[str, int, int]:
        host = hostname(url)
        parts = (host, host_key(host), self.partition(host))
        if len(self._origins) >= _MAX_ORIGINS:
            self._origins.clear()
        self._origins[origin] = parts
        return parts
