"""A cache of slow results for many concurrent readers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

MIN_AGE_S, MAX_AGE_S = 3.0, 60.0
COST_FACTOR = 20
"""A value is valid for so many times the time of its computation, within these limits."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Entry(Generic[T]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.result: tuple[float, T] | None = None
        """Until when the value is valid, and the value."""


class TtlCache(Generic[K, T]):
    """Caches the result of `compute` for each key, longer if it takes long; evicts by last use.

    One thread computes a value; others get the previous one meanwhile, or wait if there is none.
    (`cachetools.TTLCache` computes the same value once per thread.) Exceptions are not cached.
    """

    def __init__(
        self,
        compute: Callable[[K], T],
        max_entries: int = 64,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compute = compute
        self._now = now
        self._lock = threading.Lock()
        self._entries: LRUCache[K, _Entry[T]] = LRUCache(max_entries)

    def get(self, key: K) -> T:
        """Return the value, or the previous one while another thread computes it."""
        with self._lock:
            entry = self._entries.get(key) or _Entry[T]()
            self._entries[key] = entry
        result = entry.result
        if result is not None and self._now() < result[0]:
            return result[1]
        if not entry.lock.acquire(blocking=result is None):
            return result[1] if result is not None else self.get(key)
        try:
            if entry.result is not result and entry.result is not None:
                return entry.result[1]  # computed by the thread that held the lock
            start = self._now()
            value = self._compute(key)
            now = self._now()
            age = min(max(COST_FACTOR * (now - start), MIN_AGE_S), MAX_AGE_S)
            entry.result = (now + age, value)
            return value
        finally:
            entry.lock.release()
