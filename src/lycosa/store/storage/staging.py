"""Folders that are built before they are published, and the list of files in them.

The list allows `lycosa check` to report missing and changed files.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.storage.files import TEMPORARY_SUFFIX, file_digest, try_lock
from lycosa.store.storage.storage import Storage

PREFIX = ".build-"
LIST = "files"
"""File of a published folder: name -> [bytes, xxh3_128 or ""]."""


@contextmanager
def build_folder(storage: Storage, relative: str) -> Iterator[Path]:
    """Create a folder for `PublishedFolders.publish`; remove it at the end if it still exists.

    Folders of killed processes are removed first, unless another process is building. Several
    processes may build at the same time.

    Raises:
        OSError: storage failed.
    """
    staging = Path(storage.folders.staging_dir(relative))
    path = Path(storage.lock_path(f"{RUN}/build-{relative.replace('/', '-')}.lock"))
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _clear(staging, lock)
        fcntl.flock(lock, fcntl.LOCK_SH)
        build = Path(tempfile.mkdtemp(prefix=PREFIX, dir=staging))
        try:
            build.chmod(0o755)
            yield build
        finally:
            shutil.rmtree(build, ignore_errors=True)
    finally:
        os.close(lock)


def write_list(folder: Path, *, without: Callable[[str], bool] = lambda name: False) -> None:
    """Write the list of a folder's files into it, before it is published. `without`: names that get
    no digest, because they have checksums of their own.
    """
    files = {}
    for path in sorted(folder.iterdir()):
        if path.name != LIST and path.is_file() and not path.name.startswith("."):
            files[path.name] = [
                path.stat().st_size,
                "" if without(path.name) else file_digest(str(path)),
            ]
    (folder / LIST).write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")


def list_faults(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, problem) of files of a published folder that differ from its list, if it has
    one.
    """
    try:
        files = json.loads((folder / LIST).read_bytes())
        for name, (size, digest) in files.items():
            path = folder / name
            if not path.is_file():
                yield name, "it is missing"
            elif path.stat().st_size != size:
                yield name, f"it has {path.stat().st_size} bytes, but {size} according to {LIST}"
            elif digest and file_digest(str(path)) != digest:
                yield name, "its bytes have changed since it was published"
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        yield LIST, f"it is damaged: {type(error).__name__}"


def _clear(staging: Path, lock: int) -> None:
    if not try_lock(lock, fcntl.LOCK_EX):
        return
    for path in staging.iterdir():
        if path.name.startswith(PREFIX) or path.name.endswith(TEMPORARY_SUFFIX):
            shutil.rmtree(path, ignore_errors=True)
