"""Progress of a crawl, a bar on a terminal, else a line every few seconds; and its end."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

from lycosa.cli.output import note
from lycosa.core.units import format_size, number_of
from lycosa.processes.terminal import escape_output, raw

if TYPE_CHECKING:
    from lycosa.crawl.state.progress import Progress
    from lycosa.processes.threads import Stoppable

MAX_FAILURES = 10
_LINE_EVERY_S = 5


class ProgressLines:
    """A line every few seconds, and each failure of a seed once."""

    def __init__(self) -> None:
        self._last = 0.0
        self._failures = 0

    def update(self, progress: Progress) -> None:
        """Show the counters."""
        for url, why in list(progress.failures.items())[self._failures : MAX_FAILURES]:
            note(f"failed: {url}: {why}")
        self._failures = len(progress.failures)
        self.draw(progress)

    def draw(self, progress: Progress) -> None:
        """Print the counters if some seconds passed."""
        if time.monotonic() - self._last >= _LINE_EVERY_S:
            self._last = time.monotonic()
            note(progress_line(progress))

    def close(self) -> None:
        """End the display."""


class ProgressBar(ProgressLines):
    """One line that is drawn again, with a bar where the end is known."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        super().__init__()
        self._display = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=Console(file=raw(sys.stderr)),
            transient=True,
        )
        self._task = self._display.add_task("starting", total=None)
        self._display.start()
        escape_output()  # rich replaces our streams until it stops

    def draw(self, progress: Progress) -> None:
        total = progress.pages + progress.queue + progress.in_flight
        self._display.update(
            self._task,
            total=total or None,
            completed=progress.pages,
            description=progress_line(progress),
        )

    def close(self) -> None:
        self._display.stop()


def progress_line(progress: Progress) -> str:
    """Return the counters of a running crawl."""
    seconds = max(time.monotonic_ns() // 1_000_000 - progress.started_ms, 1) / 1000
    return (
        f"{number_of(progress.pages, 'page')}  {progress.pages / seconds:,.1f} pages/s  "
        f"queue {progress.queue:,}  hosts {progress.hosts:,}  "
        f"errors {sum(progress.errors.values()):,}  {format_size(progress.bytes)}"
    )


def stop_on_signals(crawl: Stoppable) -> None:
    """Let Ctrl-C and SIGTERM commit and end a crawl.

    A second Ctrl-C ends it immediately.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        note(
            "stopping: committing the fetched pages (press Ctrl-C again to exit immediately; "
            "archived pages are not lost)"
        )
        crawl.stop()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def exit_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end a server with exit code 0, also while it starts."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: sys.exit(0))
