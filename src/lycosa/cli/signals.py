"""Signals that end a crawl."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING

from lycosa.cli.output import note

if TYPE_CHECKING:
    from lycosa.processes.threads import Stoppable


def stop_on_signals(crawl: Stoppable) -> None:
    """Let Ctrl-C and SIGTERM commit and end a crawl; a second Ctrl-C ends it at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        note(
            "stopping: committing the fetched pages (press Ctrl-C again to exit immediately; "
            "archived pages are not lost)"
        )
        crawl.stop()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
