"""The web of `bench.scale`: in process, for several sessions that take turns, with links that
mostly stay near.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import urlsplit

from bench.large import Meter, Web
from lycosa.core.clock import ManualClock
from lycosa.core.records import Exchange
from lycosa.url.keys import Identifier

POPULAR = 1_000
TURN = 64
"""Waits of a session before the next one's turn: some hundred pages."""

_AT_HOME, _ANYWHERE = 28, 6


class Turns:
    """Lets threads run one at a time, in turn."""

    def __init__(self, count: int) -> None:
        self._gates = [threading.Semaphore(0) for _ in range(count)]
        self._running = list(range(count))
        self._gates[0].release()

    def begin(self, number: int) -> None:
        self._gates[number].acquire()

    def pass_on(self, number: int) -> None:
        place = self._running.index(number)
        self._gates[self._running[(place + 1) % len(self._running)]].release()
        self._gates[number].acquire()

    def leave(self, number: int) -> None:
        place = self._running.index(number)
        self._running.remove(number)
        if self._running:
            self._gates[self._running[place % len(self._running)]].release()


class SharedWeb(Web):
    """The web of `bench.large` with links as this module says, for one session among several."""

    def __init__(
        self, clock: ManualClock, known: Known, meter: Meter, turns: Turns, number: int
    ) -> None:
        super().__init__(clock, known.all, meter)
        self._sample = known
        self._turns = turns
        self._number = number
        self._waits = 0

    def wait(self, timeout_ms: int) -> list[Exchange]:
        self._waits += 1
        if self._waits % TURN == 0:
            self._turns.pass_on(self._number)
        return super().wait(timeout_ms)

    def _links(self, url: str, digest: int) -> list[str]:
        known, sample = self._known, self._sample
        near = sample.near(url)
        links = [
            known[digest * 7 * (place + 1) % (POPULAR if place % 2 else len(known))]
            for place in range(_ANYWHERE)
        ]
        links += [near[digest * (place + 1) % len(near)] for place in range(_AT_HOME)]
        host = "/".join(url.split("/", 3)[:3])
        links += [f"{host}/new/{digest:x}/{place}.html" for place in range(4)]
        links.append(f"{'/'.join(links[0].split('/', 3)[:3])}/from/{digest:x}.html")
        if digest % 10 == 0:
            links.append(f"https://www.fresh{digest:x}.com/")
        return links


class Known:
    """A sample of the known URLs: all, and by partition."""

    def __init__(self, urls: Sequence[str], keys: Identifier) -> None:
        self.all = list(urls)
        self._keys = keys
        self._near: defaultdict[int, list[str]] = defaultdict(list)
        for url in self.all:
            self._near[self._partition(url)].append(url)

    def near(self, url: str) -> list[str]:
        """Of the URL's own partition; all, if the sample has none there."""
        return self._near[self._partition(url)] or self.all

    def _partition(self, url: str) -> int:
        return self._keys.partition(urlsplit(url).hostname or "")
