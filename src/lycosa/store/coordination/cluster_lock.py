"""A file lock that all processes of a cluster on one machine share.

If it is free, they have all ended, so nothing needs to wait for their leases: the system frees the
locks of a process when it ends, also if it was killed. `run/cluster.lock` is locked with flock.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from lycosa.processes.platform import boot_id
from lycosa.store.coordination.owner import FOLDER
from lycosa.store.storage.files import file_lock
from lycosa.store.storage.storage import Storage

LOCK = f"{FOLDER}/cluster.lock"


class ClusterLock:
    """The lock of one process; has no effect if the workspace is in no folder of this machine."""

    def __init__(self, storage: Storage) -> None:
        self._descriptor = -1
        if storage.on_disk:
            with suppress(FileNotFoundError):  # a node of a Ray cluster without the folder
                self._descriptor = os.open(
                    storage.lock_path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
                )
                # waits for the moment in which another process holds it exclusively
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        """Release the lock. The process must not act for the cluster any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_scope(storage: Storage) -> str:
    """Return what identifies the processes that the lock covers: a boot of this machine.

    Empty: unknown, or the workspace is not in a folder.
    """
    return boot_id() if storage.on_disk else ""


def all_ended(storage: Storage, scope: str) -> bool:
    """Return whether all processes of a cluster with this lock scope have ended."""
    if not scope or scope != lock_scope(storage):
        return False
    with file_lock(storage.lock_path(LOCK)) as is_free:
        return is_free
