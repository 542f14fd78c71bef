"""Connect overrides (curl's HOST:PORT:CONNECT-HOST:CONNECT-PORT): another address serves a host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import ConfigError

_HOST = r"(\[[^\]]*\]|[^:\[\]]*)"
_ENTRY = re.compile(rf"{_HOST}:(\d*):{_HOST}:(\d*)")


@dataclass(slots=True, frozen=True)
class ConnectOverride:
    """One entry; empty parts match all, or change nothing."""

    host: str
    port: int | None
    target_host: str

    def matches(self, host: str, port: int) -> bool:
        return self.host in ("", host) and self.port in (None, port)

    @property
    def names_a_host(self) -> bool:
        """Whether the operator named a host, of the URL or of the connection: then its address may
        be private.
        """
        return bool(self.host or self.target_host)


def parse_connect_to(entries: Iterable[str]) -> tuple[ConnectOverride, ...]:
    """Read the setting `fetch.connect_to`.

    Raises:
        ConfigError: an entry has not four parts, or a port is no port.
    """
    return tuple(_parse(entry) for entry in entries)


def _parse(entry: str) -> ConnectOverride:
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        raise ConfigError(
            f"fetch.connect_to: {entry!r} is not of the form HOST:PORT:HOST:PORT; parts may be "
            "empty, but all colons are required"
        )
    _port(match[4], entry)
    return ConnectOverride(_bare(match[1]), _port(match[2], entry), _bare(match[3]))


def _bare(host: str) -> str:
    return host.strip("[]").lower()


def _port(text: str, entry: str) -> int | None:
    if not text:
        return None
    if not 0 < int(text) < 65536:
        raise ConfigError(f"fetch.connect_to: {text} in {entry!r} is not a port (1 to 65535)")
    return int(text)


def find_override(
    overrides: Sequence[ConnectOverride], host: str, port: int
) -> ConnectOverride | None:
    """Return the first matching entry, as curl does."""
    bare = _bare(host)
    return next((override for override in overrides if override.matches(bare, port)), None)
