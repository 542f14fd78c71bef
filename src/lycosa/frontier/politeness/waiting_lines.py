"""Waiting lines of hosts that lack only a connection to their address or a domain place.

Only the first host of a line needs an entry in the schedule; otherwise all hosts of a large domain
would be tried each time the domain has a place.
"""

from __future__ import annotations

from itertools import islice


class WaitingLines:
    """A line for each address, or for each registrable domain. A host is in one line at most."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, None]] = {}
        self._line_of: dict[int, str] = {}

    def __len__(self) -> int:
        """Return how many hosts wait."""
        return len(self._line_of)

    def __contains__(self, name: str) -> bool:
        """Return whether a host waits in that queue."""
        return name in self._lines

    def join(self, host_key: int, name: str) -> None:
        """Add a host to the end of the line; one that is in it already keeps its place."""
        if self._line_of.get(host_key) != name:
            self.leave(host_key)
            self._lines.setdefault(name, {})[host_key] = None
            self._line_of[host_key] = name

    def leave(self, host_key: int) -> None:
        """Remove a host from its line, if it is in one."""
        name = self._line_of.pop(host_key, None)
        if name is not None:
            line = self._lines[name]
            del line[host_key]
            if not line:
                del self._lines[name]

    def first(self, name: str) -> int | None:
        """Return the host that has waited longest; None: no host waits."""
        line = self._lines.get(name)
        return next(iter(line)) if line else None

    def pop(self, name: str) -> int | None:
        """Remove and return the first host; None: no host waits."""
        first = self.first(name)
        if first is not None:
            self.leave(first)
        return first

    def longer_than(self, length: int) -> list[str]:
        """Return the names of the lines with more hosts."""
        return [name for name, line in self._lines.items() if len(line) > length]

    def cut(self, name: str, length: int) -> list[int]:
        """Remove and return the hosts behind the first `length`, in their order."""
        hosts = list(islice(self._lines.get(name, ()), length, None))
        for host_key in hosts:
            self.leave(host_key)
        return hosts
