"""The indexer process of the daemon, which follows the log."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from lycosa.config.settings import IndexSettings
from lycosa.core.errors import LycosaError, OwnedError
from lycosa.index.indexer import Indexer
from lycosa.processes.children import ReportKind, failure_of
from lycosa.processes.memory import collect_garbage, give_back, tune_memory
from lycosa.processes.threads import StopFlag

_MIN_INTERVAL_MS, _TIDY_S = 500, 60.0
_NICENESS = 5  # the crawl and the web server go first


def follow(report: Callable[..., None], root: str, settings: IndexSettings) -> None:
    """Index new commits every `settings.interval` until SIGTERM, then once more."""
    ending = StopFlag()
    signal.signal(signal.SIGTERM, lambda number, frame: ending.set())
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    tune_memory()
    try:
        with contextlib.closing(Indexer(root, settings, release_memory=give_back)) as indexer:
            _follow(indexer, ending, report, settings)
    except (LycosaError, OSError) as error:
        report(ReportKind.FAILED, failure_of(error).text)
        raise SystemExit(1) from None


def _follow(
    indexer: Indexer, ending: StopFlag, report: Callable[..., None], settings: IndexSettings
) -> None:
    last = working = False
    tidied = time.monotonic()
    while not last:
        last = ending.wait(max(settings.interval, _MIN_INTERVAL_MS) / 1000)
        try:
            indexer.update()
        except OwnedError:
            continue  # `lycosa index` is running; continue after it
        if not working:
            working = True
            report(ReportKind.WORKING)
        if time.monotonic() - tidied >= _TIDY_S:
            collect_garbage()
            tidied = time.monotonic()
