"""curl's HOST:PORT:CONNECT-HOST:CONNECT-PORT: another address stands in for a host (test webs).
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lycosa.core.errors import ConfigError

_HOST = r"(\[[^\]]*\]|[^:\[\]]*)"
_ENTRY = re.compile(rf"{_HOST}:(\d*):{_HOST}:(\d*)")


@dataclass(slots=True, frozen=True)
class Detour:
    """One entry; empty parts match all, or change nothing."""

    host: str
    port: int | None
    target_host: str
    target_port: int | None

    def matches(self, host: str, port: int) -> bool:
        return self.host in ("", host) and self.port in (None, port)

    @property
    def names_a_host(self) -> bool:
        """Whether the operator named a host in it, as asked for or as dialled: then its address may
        be private.
        """
        return bool(self.host or self.target_host)


def parse_connect_to(entries: Iterable[str]) -> tuple[Detour, ...]:
    """Read the setting `fetch.connect_to`.

    Raises:
        ConfigError: an entry has not four parts, or a port is no port.
    """
    return tuple(_parse(entry) for entry in entries)


def _parse(entry: str) -> Detour:
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        raise ConfigError(
            f"fetch.connect_to: {entry!r} is not of the form HOST:PORT:HOST:PORT; parts may be "
            "empty, but all colons are required"
        )
    return Detour(_bare(match[1]), _port(match[2], entry), _bare(match[3]), _port(match[4], entry))


def _bare(host: str) -> str:
    return host.strip("[]").lower()


def _port(text: str, entry: str) -> int | None:
    if not text:
        return None
    if not 0 < int(text) < 65536:
        raise ConfigError(f"fetch.connect_to: {text} in {entry!r} is not a port (1 to 65535)")
    return int(text)


def find_detour(detours: Sequence[Detour], host: str, port: int) -> Detour | None:
    """The first entry that matches, as curl takes it."""
    bare = _bare(host)
    return next((detour for detour in detours if detour.matches(bare, port)), None)
