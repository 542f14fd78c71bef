"""What a worker needs of whoever fetches for it: libcurl over the network, or a simulated web with
a clock of its own.
"""

from __future__ import annotations

from typing import Protocol

from lycosa.core.records import Exchange, Request
from lycosa.processes.stopping import StopFlag


class Fetcher(Protocol):
    """Starts requests and hands back exchanges, whatever became of them."""

    @property
    def active(self) -> int:
        """Exchanges that were started and not yet handed back."""
        ...

    def start(self, request: Request) -> None:
        """Begin an exchange."""
        ...

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """What has finished, waiting for the first one at most `timeout_ms`."""
        ...

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Let time pass while nothing is under way, until `wake` is set at the latest."""
        ...

    def stop(self) -> None:
        """End everything under way; the exchanges come from the next `wait`, marked
        `interrupted`.
        """
        ...

    def close(self) -> None:
        """Give connections back."""
        ...
