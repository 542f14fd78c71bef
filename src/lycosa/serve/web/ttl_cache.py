"""What takes long to find out is found out once for many readers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Entry(Generic[T]):
    def __init__(self) -> None:
        self.making = threading.Lock()
        self.made: tuple[float, T] | None = None  # when, and what


class Kept(Generic[K, T]):
    """Remembers what `make` returns for a key, for `max_age_s`, and for the last `most` keys that
    were asked for.

    Whoever asks while somebody else is at it gets the value before, or waits if there is none:
    however many readers there are, one works. What `make` raises is raised to whoever made it, and
    not remembered.
    """

    def __init__(
        self,
        make: Callable[[K], T],
        max_age_s: float,
        most: int = 64,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._max_age_s = max_age_s
        self._most = most
        self._now = now
        self._lock = threading.Lock()
        self._entries: dict[K, _Entry[T]] = {}

    def get(self, key: K) -> T:
        """The value, at most `max_age_s` old, or what it was while a newer one is being made."""
        with self._lock:
            entry = self._entries.pop(key, None) or _Entry[T]()
            # at the end: the first one is the one that was asked for longest ago
            self._entries[key] = entry
            if len(self._entries) > self._most:
                del self._entries[next(iter(self._entries))]
        made = entry.made
        if made is not None and self._now() - made[0] < self._max_age_s:
            return made[1]
        if not entry.making.acquire(blocking=made is None):
            return made[1] if made is not None else self.get(key)
        try:
            if entry.made is not made and entry.made is not None:
                return entry.made[1]  # whoever we waited for has made it
            value = self._make(key)
            entry.made = (self._now(), value)
            return value
        finally:
            entry.making.release()
