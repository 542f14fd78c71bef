"""Encode the chunks of new pages in a thread during a crawl."""

from __future__ import annotations

import time
from collections.abc import Callable

from lycosa.config.settings import Config
from lycosa.core.errors import LycosaError
from lycosa.core.units import number_of
from lycosa.processes.threads import PollingThread
from lycosa.store.workspace import Workspace
from lycosa.vectors.encoders import Encoder, load_encoder
from lycosa.vectors.update import update_vectors

FINISH_S = 10.0
"""Time for encoding the remaining chunks when the crawl ends."""


class EncodingService:
    """See `lycosa.hooks.plugins.CrawlService`. An error is reported once, and tried again."""

    def __init__(self, root: str, config: Config, report: Callable[[str], None]) -> None:
        self._workspace = Workspace.open(root)
        self._config = config
        self._report = report
        self._encoder: Encoder | None = None
        self._polling = PollingThread(
            lambda: self._update(self._polling.ending.is_set)[1],
            config.encoder.interval / 1000,
            report,
            name="vectors",
        )

    def start(self) -> None:
        self._polling.start()

    def finish(self) -> None:
        self.close()
        deadline = time.monotonic() + FINISH_S
        waiting, problem = self._update(lambda: time.monotonic() >= deadline)
        if problem:
            self._report(problem)
        if waiting:
            self._report(
                f"{number_of(waiting, 'page')} without vectors: the next crawl or `lycosa "
                "index` encodes them"
            )

    def close(self) -> None:
        self._polling.ending.set()
        if self._encoder is not None:
            self._encoder.stop()
        self._polling.end()

    def _update(self, is_over: Callable[[], bool]) -> tuple[int, str]:
        """Encode new chunks. Return the number of pages without vectors, and a problem or ""."""
        waiting, problem = 0, ""
        try:
            if self._encoder is None:
                self._encoder = load_encoder(self._config)
            if result := update_vectors(self._workspace, self._encoder, is_over):
                waiting, problem = result.waiting, result.problem
        except LycosaError as error:
            problem = str(error)
        return waiting, problem and f"chunks are not encoded, but searched by words: {problem}"
