"""Waiting lines of hosts that lack only a connection to their address or a domain place."""

from __future__ import annotations

from collections import OrderedDict, deque


class AddressLines:
    """A line per IP address that is busy with other hosts. A host is in one line at most."""

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[int, None]] = {}
        self._address: dict[int, str] = {}

    def __len__(self) -> int:
        """Return how many hosts wait."""
        return len(self._address)

    def join(self, host_key: int, address: str) -> None:
        """Add a host to the end of the line; one that is in it already keeps its place."""
        if self._address.get(host_key) != address:
            self.leave(host_key)
            self._lines.setdefault(address, OrderedDict())[host_key] = None
            self._address[host_key] = address

    def leave(self, host_key: int) -> None:
        """Remove a host from its line, if it is in one."""
        address = self._address.pop(host_key, None)
        if address is not None:
            line = self._lines[address]
            del line[host_key]
            if not line:
                del self._lines[address]

    def first(self, address: str) -> int | None:
        """Return the host that has waited longest; None: no host waits."""
        line = self._lines.get(address)
        return next(iter(line)) if line else None


class DomainLines:
    """A line per registrable domain. Of the many hosts of a large domain only the first needs an
    entry in the schedule; otherwise all of them would be tried each time the domain has a place.
    """

    def __init__(self) -> None:
        self._lines: dict[str, deque[int]] = {}

    def __contains__(self, domain: str) -> bool:
        """Whether a host waits for the domain."""
        return domain in self._lines

    def join(self, host_key: int, domain: str) -> None:
        """Add a host to the end of the line."""
        self._lines.setdefault(domain, deque()).append(host_key)

    def pop(self, domain: str) -> int | None:
        """Remove and return the first host; None: no host waits."""
        line = self._lines.get(domain)
        if line is None:
            return None
        first = line.popleft()
        if not line:
            del self._lines[domain]
        return first

    def cut(self, domain: str, length: int) -> list[int]:
        """Remove and return the hosts behind the first `length`, in their order."""
        hosts = list(self._lines.get(domain, ()))
        if len(hosts) <= length:
            return []
        self._lines[domain] = deque(hosts[:length])
        if not length:
            del self._lines[domain]
        return hosts[length:]
