"""Keeping the index close behind a crawl: a thread that follows the log while pages come in."""

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
    """Updates the index `settings.interval` after a commit, with all that was committed until then,
    and once more at the end.

    So a crawl that is over before that is indexed in one go: fewer segments, one generation. In the
    first minute no suggestions are made, which cost a third of what the index of the same pages
    does: a crawl that is over by then makes them once, at its end. An error of the indexer does not
    stop the crawl: it is kept in `error` and raised by `finish`.
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
        """The log has a new entry."""
        self._wake.set()

    def finish(self) -> None:
        """Index all that is committed.

        Raises:
            LycosaError: what the indexer raised, now or earlier.
        """
        self._end()
        if self.error is not None:
            raise self.error
        give_back()
        self._indexer.update()

    def close(self) -> None:
        """End the thread; an update that is under way is finished. May be called twice, and after
        `finish`.
        """
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
