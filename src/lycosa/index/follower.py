"""Update the index in a thread during a crawl."""

from __future__ import annotations

import threading

from lycosa.config.settings import IndexSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import LycosaError
from lycosa.index.indexer import Indexer
from lycosa.processes.memory import give_back
from lycosa.processes.threads import OnError, start_thread

_WITHOUT_SUGGESTIONS_MS = 60_000


class IndexFollower:
    """Updates the index `settings.interval` after a commit, and at the end of the crawl.

    A crawl that ends earlier is indexed at once, with fewer segments and one generation. In the
    first minute suggestions are not renewed: they cost a quarter of the index, and a crawl
    that ends by then writes them once. An error of the indexer does not stop the crawl: `finish`
    raises it.
    """

    def __init__(self, root: str, settings: IndexSettings, clock: Clock) -> None:
        self._indexer = Indexer(root, settings, release_memory=give_back)
        self._interval_ms = settings.interval
        self._clock = clock
        self._wake = threading.Event()
        self._ending = threading.Event()
        self.error: LycosaError | None = None
        self._thread = start_thread(self._follow, name="index", on_error=OnError.RESTART)

    def committed(self, entry: int) -> None:
        """Wake the thread: the log has a new entry."""
        self._wake.set()

    def finish(self) -> None:
        """Index all commits, and end.

        Raises:
            LycosaError: the indexer failed, now or earlier.
        """
        self._end()
        if self.error is not None:
            raise self.error
        give_back()
        self._indexer.update(last=True)

    def close(self) -> None:
        """End the thread after its update. Idempotent; allowed after `finish`."""
        self._end()
        self._indexer.close()

    def _follow(self) -> None:
        started = self._clock.monotonic_ms()
        while not self._ending.is_set():
            self._wake.wait()
            if self._ending.wait(self._interval_ms / 1000):
                return
            self._wake.clear()
            try:
                self._indexer.update(
                    suggestions=self._clock.monotonic_ms() - started >= _WITHOUT_SUGGESTIONS_MS
                )
            except LycosaError as error:
                self.error = error
                return

    def _end(self) -> None:
        self._ending.set()
        self._wake.set()
        self._thread.join()
