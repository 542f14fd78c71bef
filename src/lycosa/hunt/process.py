"""A hunt in a process of its own: for a daemon, that owns the workspace, and for the server, that
does not.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from lycosa.core.errors import LycosaError, WorkError
from lycosa.core.system_errors import refusal
from lycosa.crawl.worker import Worker
from lycosa.hunt.events import failed_event, hunt_telling
from lycosa.hunt.request_queue import EventWriter
from lycosa.hunt.session import HuntOrder
from lycosa.processes.children import News


@dataclass(slots=True, frozen=True)
class HuntJob:
    """What such a process is told: picklable. `events` is the file for what it tells; when `stop`
    is there it ends. `owned`: its parent owns the workspace.
    """

    order: HuntOrder
    events: Path
    stop: Path
    owned: bool


def work(tell: Callable[..., None], job: HuntJob) -> None:
    """Hunt, tell events into the file, and end. SIGTERM ends it early."""
    stopping = _Stopping(job.stop)
    signal.signal(signal.SIGTERM, stopping)
    writer = EventWriter(job.events)
    try:
        tell(News.WORKING)
        hunt_telling(
            job.order, writer.tell, worker=stopping.started, tick=stopping.look, owned=job.owned
        )
    except (LycosaError, OSError) as error:
        known = error if isinstance(error, LycosaError) else WorkError(refusal(error))
        if not str(known):
            raise
        writer.tell(failed_event(known))
        tell(News.FAILED, str(known))
        raise SystemExit(1) from None
    finally:
        writer.close()


class _Stopping:
    def __init__(self, mark: Path) -> None:
        self._mark = mark
        self._worker: Worker | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._worker is None:
            raise SystemExit(0)
        self._worker.stop()

    def started(self, worker: Worker) -> None:
        self._worker = worker
        self.look()

    def look(self) -> None:
        """Once a second: whether whoever asked has had enough."""
        if self._worker is not None and self._mark.exists():
            self._worker.stop()
