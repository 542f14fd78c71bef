"""A hunt for somebody who is no process of the workspace: by its daemon if one works there, else by
a process of its own.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from lycosa.crawl.session.workspace_config import read_config
from lycosa.hunt import process as hunt_process
from lycosa.hunt.events import Event
from lycosa.hunt.process import HuntJob
from lycosa.hunt.relevance import Question
from lycosa.hunt.request_queue import Desk, EventFile, Hunting, daemon_of
from lycosa.hunt.session import HuntOrder, HuntRequest, hunt_collection
from lycosa.processes.children import Child
from lycosa.processes.threads import OnError, start_thread
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise


def begin_hunt(root: str, request: HuntRequest) -> Hunting:
    """Have a hunt begin. Call it in a thread that lives as long as the hunt: the kernel ends a
    child with the thread that made it.

    Raises:
        UsageError: the question has no words, a seed is no URL, a setting is wrong.
        OwnedError: a crawl or another hunt works in the workspace.
        WorkspaceError: there is none.
    """
    Question(request.question)
    for seed in request.seeds:
        normalise(seed)
    config = read_config(root, (), request.collection)
    hunt_collection(config, request)
    Workspace.open(root)
    orders = daemon_of(root)
    if orders is not None:
        return orders.submit(request)
    desk = Desk(open_storage(root))
    desk.make()
    identity = f"{time.time_ns() // 1_000_000:013d}-{uuid.uuid4().hex}"
    events, stop = desk.path(identity, "jsonl"), desk.path(identity, "stop")
    return _OwnHunt(
        Child(
            "hunt",
            hunt_process.work,
            HuntJob(HuntOrder(root, config, request), events, stop, owned=False),
        ),
        events,
    )


class _OwnHunt:
    """A hunt in a child of this process."""

    def __init__(self, child: Child, events: Path) -> None:
        self._child = child
        self._path = events
        self._events = EventFile(events)

    def take(self) -> list[Event]:
        return self._events.take()

    def stop(self) -> None:
        self._child.terminate()

    def alive(self) -> bool:
        return self._child.alive

    def close(self) -> None:
        """Returns at once: what the hunt still has to commit and index it does beside us."""
        self._child.terminate()
        start_thread(self._end, name="hunt-end", on_error=OnError.REPORT)

    def _end(self) -> None:
        self._child.end()
        self._path.unlink(missing_ok=True)
