"""Folders in which something is put together before it is published: made, and cleared away whatever happens to their maker."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lycosa.store.local_storage import ASIDE_SUFFIX
from lycosa.store.owner import FOLDER as RUN
from lycosa.store.storage import Storage

PREFIX = ".build-"


@contextmanager
def build_folder(storage: Storage, relative: str) -> Iterator[Path]:
    """A new folder in the workshop `relative`, for `Storage.publish_folder`; what is left of it at the end is removed.

    What killed makers left behind goes first, unless somebody else builds there now. Several may build at the same time.

    Raises:
        OSError: storage failed.
    """
    shop = Path(storage.workshop(relative))
    path = Path(storage.lock_path(f"{RUN}/build-{relative.replace('/', '-')}.lock"))
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _clear(shop, lock)
        fcntl.flock(lock, fcntl.LOCK_SH)
        build = Path(tempfile.mkdtemp(prefix=PREFIX, dir=shop))
        try:
            build.chmod(0o755)
            yield build
        finally:
            shutil.rmtree(build, ignore_errors=True)
    finally:
        os.close(lock)


def _clear(shop: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    for path in shop.iterdir():
        if path.name.startswith(PREFIX) or path.name.endswith(ASIDE_SUFFIX):
            shutil.rmtree(path, ignore_errors=True)
