"""Encode the chunks of new pages in a thread during a crawl."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lycosa.config.settings import Config
from lycosa.core.errors import LycosaError
from lycosa.core.units import number_of
from lycosa.processes.threads import OnError, background_thread
from lycosa.store.workspace import Workspace
from lycosa.vectors.encoders import Encoder, load_encoder
from lycosa.vectors.update import VectorsReport, update_vectors

FINISH_S = 10.0
"""Time for encoding the remaining chunks when the crawl ends."""


class EncodingService:
    """See `lycosa.hooks.plugins.CrawlService`. An error is reported once, and tried again."""

    def __init__(self, root: str, config: Config, report: Callable[[str], None]) -> None:
        self._workspace = Workspace.open(root)
        self._config = config
        self._report = report
        self._encoder: Encoder | None = None
        self._ending = threading.Event()
        self._last_error = ""
        self._thread = background_thread(self._run, name="vectors", on_error=OnError.RESTART)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._end()
        deadline = time.monotonic() + FINISH_S
        self._last_error = ""
        result = self._update(lambda: time.monotonic() >= deadline)
        if result is not None and result.waiting:
            self._report(
                f"{number_of(result.waiting, 'page')} without vectors: the next crawl or `lycosa "
                "index` encodes them"
            )

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            if self._encoder is not None:
                self._encoder.stop()
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._config.encoder.interval / 1000):
            self._update(self._ending.is_set)

    def _update(self, is_over: Callable[[], bool]) -> VectorsReport | None:
        try:
            if self._encoder is None:
                self._encoder = load_encoder(self._config)
            result = update_vectors(self._workspace, self._encoder, is_over)
            problem = "" if result is None else result.problem
        except LycosaError as error:
            result, problem = None, str(error)
        if problem and problem != self._last_error:
            self._report(f"chunks are not encoded, but searched by words: {problem}")
        self._last_error = problem
        return result
