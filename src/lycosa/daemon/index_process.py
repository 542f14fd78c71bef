"""The daemon's indexer: a process of its own that follows the log, so that the worker's memory
stays small.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from lycosa.config.settings import IndexSettings
from lycosa.core.errors import LycosaError, OwnedError
from lycosa.core.system_errors import is_disk_full
from lycosa.index.indexer import Indexer
from lycosa.processes.children import News
from lycosa.processes.memory import give_back, tidy, tune_memory
from lycosa.processes.stopping import StopFlag

_MIN_INTERVAL_MS, _TIDY_S = 500, 60.0
_NICENESS = 5  # where the processor is short, who asks for pages goes first, and the crawl


def follow(report: Callable[..., None], root: str, settings: IndexSettings) -> None:
    """Index what is committed, at most every `settings.interval`, until SIGTERM; then once more,
    and return.
    """
    ending = StopFlag()

    def end(number: int, frame: FrameType | None) -> None:
        ending.set()

    signal.signal(signal.SIGTERM, end)
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    tune_memory()
    indexer = Indexer(root, settings, release_memory=give_back)
    last = working = False
    tidied = time.monotonic()
    try:
        while not last:
            last = ending.wait(max(settings.interval, _MIN_INTERVAL_MS) / 1000)
            try:
                indexer.update()
            except OwnedError:
                continue  # `lycosa index` is at it: what it leaves is ours
            if not working:
                working = True
                report(News.WORKING)
            if time.monotonic() - tidied >= _TIDY_S:
                tidy()
                tidied = time.monotonic()
    except LycosaError as error:
        report(News.DISK if is_disk_full(error) else News.FAILED, str(error))
        raise SystemExit(1) from None
    except OSError as error:
        report(
            News.DISK if is_disk_full(error) else News.FAILED, f"{type(error).__name__}: {error}"
        )
        raise
    finally:
        indexer.close()
