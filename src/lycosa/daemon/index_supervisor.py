"""The daemon's side of its indexer: starts it, and starts it again when it dies, without ever
stopping the crawl.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.config.settings import IndexSettings
from lycosa.core.units import format_duration
from lycosa.daemon import index_process
from lycosa.processes.children import Child, News

_PAUSE_MS, _MAX_PAUSE_MS = 10_000, 600_000


class IndexSupervisor:
    """Looks after one indexer. After a death it waits, twice as long each time, until one works
    again. `say` gets lines for people.
    """

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        self._root = root
        self._report = report
        self._start_at = 0
        self._pause = _PAUSE_MS
        self.child: Child | None = None

    def forget(self) -> None:
        """The process was ended elsewhere."""
        self.child = None

    def look(self, now: int, settings: IndexSettings, *, room: bool) -> None:
        """Do what is due at `now` (monotonic ms); without `room` on the disk none is started. Call
        it as often as you like.
        """
        child = self.child
        if child is None:
            if room and now >= self._start_at:
                self.child = Child(
                    "index", index_process.follow, self._root, settings, patient=True
                )
            return
        child.listen()
        if child.has_reported(News.WORKING):
            self._pause = _PAUSE_MS
        if child.alive:
            return
        self.child = None
        how = child.end()
        if how:
            self._start_at = now + self._pause
            self._report(
                f"the indexer died: {how}; it is restarted in "
                f"{format_duration(self._pause)}; the crawl continues"
            )
            self._pause = min(self._pause * 2, _MAX_PAUSE_MS)

    def end(self) -> None:
        """Have it read the log once more and end: its settings changed, or the disk is full. `look`
        starts the next one.
        """
        if self.child is not None:
            self.child.terminate()
