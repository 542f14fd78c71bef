"""Resolves names in threads, so that a name without a response delays no other.

libcurl has twenty threads for look-ups and uses two for each name: ten silent names block all
others. Here each look-up has a thread of its own, up to a bound that concurrent connections do not
reach, and libcurl gets the result. The resolver of the system is used, as libcurl would.

The guard checks every address again when the connection is made.
"""

from __future__ import annotations

import queue
import socket
import threading
from typing import NamedTuple

from lycosa.fetch.driver import monotonic_ms
from lycosa.processes.platform import WakeUp
from lycosa.processes.threads import OnError, start_thread

KEPT_MS = 240_000
"""Time for which a name is not looked up again: less than libcurl caches its addresses
(`handle.DNS_CACHE_S`).
"""

_IDLE_S = 10.0  # after which a thread without work ends
_MAX_RESOLVED = 20_000

Endpoint = tuple[str, int]
"""Host name and port."""


_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class Resolution(NamedTuple):
    """The result of a look-up: addresses in the order of preference, or why there are none."""

    endpoint: Endpoint
    addresses: tuple[str, ...]
    why: str
    unknown: bool = False  # the name does not exist: a retry is useless


class Resolver:
    """Resolves names in threads.

    Call `ask` and `take` from one other thread. `wakes`: a descriptor that is readable when there
    are results.
    """

    def __init__(self, most: int) -> None:
        """`most`: maximum number of concurrent look-ups."""
        self._most = most
        self._orders: queue.SimpleQueue[Endpoint | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._resolutions: list[Resolution] = []
        self._threads = 0
        self._pending = 0  # queued, or being resolved by a thread
        self._closed = False
        self._resolved_until: dict[Endpoint, int] = {}  # until when
        self._wake_up = WakeUp()
        self.wakes = self._wake_up.descriptor

    def knows(self, endpoint: Endpoint) -> bool:
        """Return whether libcurl still caches its addresses."""
        return self._resolved_until.get(endpoint, 0) > monotonic_ms()

    def forget(self, endpoint: Endpoint) -> None:
        """Resolve it again for the next request."""
        self._resolved_until.pop(endpoint, None)

    def ask(self, endpoint: Endpoint) -> None:
        """Resolve a name; `take` returns the result."""
        with self._lock:
            self._pending += 1
            more = self._pending > self._threads and self._threads < self._most
            self._threads += more
        self._orders.put(endpoint)
        if more:
            start_thread(self._work, name="names", on_error=OnError.RESTART)

    def take(self) -> list[Resolution]:
        """Return the results since the last call."""
        with self._lock:
            resolutions, self._resolutions = self._resolutions, []
            if resolutions:
                self._wake_up.clear()
        if len(self._resolved_until) + len(resolutions) > _MAX_RESOLVED:
            self._resolved_until.clear()
        until = monotonic_ms() + KEPT_MS
        self._resolved_until.update(
            (each.endpoint, until) for each in resolutions if each.addresses
        )
        return resolutions

    def close(self) -> None:
        """Start no more look-ups. Those in progress end by themselves."""
        with self._lock:
            self._closed = True
            self._wake_up.close()
            threads = self._threads
        for _ in range(threads):
            self._orders.put(None)

    def _work(self) -> None:
        while True:
            try:
                endpoint = self._orders.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._pending >= self._threads:  # one was ordered just now, for this thread
                        continue
                    self._threads -= 1
                return
            if endpoint is None:
                return
            resolution = look_up(endpoint)
            with self._lock:
                if self._closed:
                    return
                self._pending -= 1
                self._resolutions.append(resolution)
                self._wake_up.set()


def look_up(endpoint: Endpoint) -> Resolution:
    """Resolve a name with the resolver of the system. Blocks."""
    host, port = endpoint
    try:
        answers = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: not a name that the system resolves
        return Resolution(
            endpoint,
            (),
            str(getattr(error, "strerror", None) or error),
            getattr(error, "errno", None) in _NO_SUCH_NAME,
        )
    addresses = dict.fromkeys(str(address[0]) for _, _, _, _, address in answers)
    return Resolution(endpoint, tuple(addresses), "" if addresses else "the name has no address")


def is_name(host: str) -> bool:
    """Return whether the host of a normalised URL must be resolved.

    Addresses, and names that libcurl resolves itself, need not be.
    """
    last = host.rpartition(".")[2]
    return not (last.isdigit() or last in ("", "localhost", "onion") or host[:1] == "[")
