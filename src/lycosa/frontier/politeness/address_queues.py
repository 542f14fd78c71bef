"""Hosts that could be asked but for their address, which is busy with other hosts: the first that
came is the first to go on.
"""

from __future__ import annotations

from collections import OrderedDict


class AddressLines:
    """A line for each address that somebody waits for. A host stands in one line at most."""

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[int, None]] = {}
        self._address: dict[int, str] = {}

    def __len__(self) -> int:
        """How many hosts stand in line."""
        return len(self._address)

    def stand(self, host_key: int, address: str) -> None:
        """To the end of the address's line; a host that stands there already keeps its place."""
        if self._address.get(host_key) != address:
            self.leave(host_key)
            self._lines.setdefault(address, OrderedDict())[host_key] = None
            self._address[host_key] = address

    def leave(self, host_key: int) -> None:
        """Out of its line, if it stands in one."""
        address = self._address.pop(host_key, None)
        if address is not None:
            line = self._lines[address]
            del line[host_key]
            if not line:
                del self._lines[address]

    def first(self, address: str) -> int | None:
        """Who has stood there longest; None: nobody does."""
        line = self._lines.get(address)
        return next(iter(line)) if line else None
