"""The lock under which one process of a machine rewrites and deletes files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from lycosa.store.coordination.owner import FOLDER
from lycosa.store.storage.storage import Storage

LOCK = f"{FOLDER}/merge.lock"
BUSY = "another process is merging, cleaning up or purging this workspace"


@contextmanager
def maintenance(storage: Storage) -> Iterator[bool]:
    """Hold the lock during the block; yields False if another process holds it."""
    storage.make_folder(FOLDER)
    lock = os.open(storage.lock_path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)
