"""The interface of fetchers: libcurl over the network, or a simulated web with its own clock."""

from __future__ import annotations

from typing import Protocol

from lycosa.core.records import Exchange, Request
from lycosa.processes.stopping import StopFlag


class Fetcher(Protocol):
    """Starts requests and returns exchanges, failed ones included."""

    @property
    def active(self) -> int:
        """The number of exchanges that were started and not yet returned."""
        ...

    def start(self, request: Request) -> None:
        """Begin an exchange."""
        ...

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """Return finished exchanges, waiting at most `timeout_ms` for the first one."""
        ...

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Sleep while nothing is in progress, at most until `wake` is set."""
        ...

    def stop(self) -> None:
        """End all exchanges; the next `wait` returns them, marked `interrupted`."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
