"""Pausing a collection during its crawl, without changing lycosa.toml.

A paused collection has a small file, `run/paused/NAME.json`. Crawl processes read the folder every
few seconds, so a pause applies to every worker and after a restart, until it is resumed. Requests
in flight are finished. `paused = true` in lycosa.toml is a separate setting, which `resume` does
not change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from lycosa.core.clock import Clock, Interval, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.units import format_time
from lycosa.crawl.session.planning import require_collection
from lycosa.crawl.session.workspace_config import read_config
from lycosa.store.storage.storage import Storage, json_documents
from lycosa.store.workspace import Workspace

if TYPE_CHECKING:  # `status` imports this module, and none of the crawl
    from lycosa.crawl.dispatcher import Dispatcher

FOLDER = "run/paused"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def pause(storage: Storage, collection: str, by: str = "", clock: Clock | None = None) -> None:
    """Stop fetching for a collection until `resume`.

    Pausing a paused collection changes nothing.

    Raises:
        UsageError: the name is not valid for a collection.
    """
    path = _path(collection)
    storage.make_folder(FOLDER)
    document = {"by": by, "at": format_time((clock or SystemClock()).now_ms())}
    storage.create(path, (json.dumps(document, ensure_ascii=False) + "\n").encode())


def resume(storage: Storage, collection: str) -> None:
    """Resume a paused collection.

    Raises:
        UsageError: the name is not valid for a collection.
    """
    storage.remove(_path(collection))


def set_paused(root: str, collection: str, *, paused: bool, by: str = "") -> None:
    """`pause` or `resume` a collection of the workspace or its configuration.

    Raises:
        UsageError: there is no collection with that name.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    require_collection(workspace, read_config(root), collection)
    if paused:
        pause(workspace.storage, collection, by)
    else:
        resume(workspace.storage, collection)


def paused(storage: Storage) -> Mapping[str, Mapping[str, str]]:
    """Return the paused collections, each with `by` and `at`."""
    return {
        name: {"by": str(document.get("by", "")), "at": str(document.get("at", ""))}
        for name, document in json_documents(storage, FOLDER)
        if _NAME.fullmatch(name)
    }


def require_not_paused(storage: Storage, collection: str) -> None:
    """Check that a collection is not paused.

    Raises:
        UsageError: it is paused; the message has time and author of the pause.
    """
    if (state := paused(storage).get(collection)) is not None:
        raise UsageError(
            f"collection {collection!r} is {pause_text(state)}: `lycosa collection "
            f"resume {collection}` resumes it"
        )


def pause_text(state: Mapping[str, str]) -> str:
    """Return a pause as text: `paused since 2026-11-24T08:00:00Z by ada`."""
    return (
        "paused"
        + (f" since {state['at']}" if state["at"] else "")
        + (f" by {state['by']}" if state["by"] else "")
    )


class ManualPauses:
    """The names of paused collections, cached for frequent calls."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._interval = Interval(clock, 1_000 if storage.on_disk else 10_000)
        self._names: frozenset[str] = frozenset()

    def read(self) -> frozenset[str]:
        """Return the names, at most 1 s old (10 s on remote storage).

        If storage is unreachable, the last names are returned.
        """
        if self._interval.is_due():
            with suppress(OSError):
                self._names = frozenset(
                    name.removesuffix(".json")
                    for name in self._storage.names(FOLDER)
                    if name.endswith(".json")
                )
        return self._names


class PauseFollower:
    """Applies the pauses of a collection to a running crawl, and reports them.

    `dispatcher`: None with several workers, each of which applies them itself.
    """

    def __init__(
        self,
        storage: Storage,
        collection: str,
        dispatcher: Dispatcher | None,
        report: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._storage, self._collection = storage, collection
        self._dispatcher, self._report = dispatcher, report
        self._pauses = ManualPauses(storage, clock)
        self._paused = False

    def tick(self) -> None:
        """Stop or continue fetching if the collection was paused or resumed."""
        paused = self._collection in self._pauses.read()
        if paused != self._paused:
            self._paused = paused
            if self._dispatcher is not None:
                self._dispatcher.pause_collections([self._collection] if paused else [])
            resume = f"`lycosa collection resume {self._collection}` resumes it"
            self._report(
                f"collection {self._collection!r} is {f'paused: {resume}' if paused else 'resumed'}"
            )


def _path(collection: str) -> str:
    if not _NAME.fullmatch(collection):
        raise UsageError(f"{collection!r} is not a valid collection name")
    return f"{FOLDER}/{collection}.json"
