"""What the daemon does at this moment: a small file that it writes again and again, for `lycosa
status`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lycosa.store.coordination.owner import FOLDER, owner_of
from lycosa.store.storage.storage import Storage, open_storage

FILE = f"{FOLDER}/worker.json"
COMMAND = "run"
"""Command of a daemon in the owner file."""


def write_live(storage: Storage, document: Mapping[str, object]) -> None:
    """Write the file; whole for every reader. A disk that does not take it is no reason to stop."""
    with suppress(OSError):
        storage.replace(FILE, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def live_status(root: str) -> dict[str, Any] | None:
    """What the living daemon of a workspace says of itself; None if there is none.

    Keys: `daemon` and `pid` (processes: the daemon and its worker, 0 if there is none now), `since`
    (when the worker started, from where it counts; without one, the daemon), `written_at`, `pages`,
    `visits`, `rate` (pages a second over the last minute), `queue`, `hosts`, `in_flight`, `errors`
    (by kind), `collections` (by name: `pages` ever held, `in_flight`, `resting`), `message` (why
    nothing is fetched now; "" while all is well), `last_commit` (`entry`, `at`; null before the
    first), `bad` (collections that are left out, with the reason). What the worker counts is
    missing while there is no worker.
    """
    storage = open_storage(root)
    owner = owner_of(storage)
    if owner is None or owner.command != COMMAND:
        return None
    try:
        document = json.loads(storage.read(FILE) or b"null")
    except ValueError:
        return None
    return document if isinstance(document, dict) and document.get("daemon") == owner.pid else None
