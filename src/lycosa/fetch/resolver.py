"""Looking names up, so that one which nobody answers for holds up no other.

libcurl has twenty threads for it and takes two a name: ten silent names, and all others wait. Here
each has a thread of its own, up to a bound that connections in flight do not reach, and libcurl is
told what was found. The system is asked, as libcurl would.

What is found is no permission: the guard sees every address that is dialled.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from typing import NamedTuple

from lycosa.fetch.driver import monotonic_ms
from lycosa.processes.threads import OnError, start_thread

KEPT_MS = 240_000
"""So long a name is not looked up again: less than libcurl keeps what it is told
(`handle.DNS_CACHE_S`).
"""

_REST_S = 10.0  # a thread without work ends after
_MOST_KNOWN = 20_000

Place = tuple[str, int]
"""Host name and port."""


_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class Resolution(NamedTuple):
    """What became of a look-up: addresses in the order in which they are to be tried, or why there
    are none.
    """

    place: Place
    addresses: tuple[str, ...]
    why: str
    unknown: bool = False  # there is no such name: asking again soon is in vain


class Names:
    """Looks names up in threads. `ask` and `take` are for one other thread; `wakes` is readable
    when there is something to take.
    """

    def __init__(self, most: int) -> None:
        """`most`: how many at once."""
        self._most = most
        self._orders: queue.SimpleQueue[Place | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._resolutions: list[Resolution] = []
        self._threads = 0
        self._pending = 0  # ordered and not taken by a thread, or under way there
        self._closed = False
        self._resolved_until: dict[Place, int] = {}  # until when
        self.wakes = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def knows(self, place: Place) -> bool:
        """Whether libcurl was told of it and has not forgotten."""
        return self._resolved_until.get(place, 0) > monotonic_ms()

    def forget(self, place: Place) -> None:
        """Look it up again when it is asked for next."""
        self._resolved_until.pop(place, None)

    def ask(self, place: Place) -> None:
        """Look it up; it comes from `take`."""
        with self._lock:
            self._pending += 1
            more = self._pending > self._threads and self._threads < self._most
            self._threads += more
        self._orders.put(place)
        if more:
            start_thread(self._work, name="names", on_error=OnError.RESTART)

    def take(self) -> list[Resolution]:
        """Those that are done since the last call."""
        with self._lock:
            resolutions, self._resolutions = self._resolutions, []
            if resolutions:
                os.eventfd_read(self.wakes)
        if len(self._resolved_until) + len(resolutions) > _MOST_KNOWN:
            self._resolved_until.clear()
        until = monotonic_ms() + KEPT_MS
        self._resolved_until.update((each.place, until) for each in resolutions if each.addresses)
        return resolutions

    def close(self) -> None:
        """Ask nothing more. Look-ups under way end by themselves; nobody waits for them."""
        with self._lock:
            self._closed = True
            os.close(self.wakes)
            threads = self._threads
        for _ in range(threads):
            self._orders.put(None)

    def _work(self) -> None:
        while True:
            try:
                place = self._orders.get(timeout=_REST_S)
            except queue.Empty:
                with self._lock:
                    if self._pending >= self._threads:  # one was ordered just now, for this thread
                        continue
                    self._threads -= 1
                return
            if place is None:
                return
            resolution = look_up(place)
            with self._lock:
                if self._closed:
                    return
                self._pending -= 1
                self._resolutions.append(resolution)
                os.eventfd_write(self.wakes, 1)


def look_up(place: Place) -> Resolution:
    """Ask the system for a name's addresses; takes as long as that takes."""
    host, port = place
    try:
        answers = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: no name that the system would look up
        return Resolution(
            place,
            (),
            str(getattr(error, "strerror", None) or error),
            getattr(error, "errno", None) in _NO_SUCH_NAME,
        )
    addresses = dict.fromkeys(str(address[0]) for _, _, _, _, address in answers)
    return Resolution(place, tuple(addresses), "" if addresses else "the name has no address")


def is_name(host: str) -> bool:
    """Whether the host of a normalised URL is a name that is to be looked up: no address, and none
    that libcurl answers for itself.
    """
    last = host.rpartition(".")[2]
    return not (last.isdigit() or last in ("", "localhost", "onion") or host[:1] == "[")
