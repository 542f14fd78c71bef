"""The lock under which one process of a machine rewrites and deletes files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lycosa.store.coordination.owner import FOLDER
from lycosa.store.storage.files import file_lock
from lycosa.store.storage.storage import Storage

LOCK = f"{FOLDER}/merge.lock"
BUSY = "another process is merging, cleaning up or purging this workspace"


@contextmanager
def maintenance(storage: Storage) -> Iterator[bool]:
    """Hold the lock during the block; yields False if another process holds it."""
    storage.make_folder(FOLDER)
    with file_lock(storage.lock_path(LOCK)) as locked:
        yield locked
