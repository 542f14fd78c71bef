"""Folders in which something is put together before it is published: made, and cleared away
whatever happens to their maker; and the list of its files that goes with it, by which a check sees
what is missing or has changed.
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
from lycosa.store.storage.local import ASIDE_SUFFIX, file_digest
from lycosa.store.storage.storage import Storage

PREFIX = ".build-"
LIST = "files"
"""Of a published folder: name -> [bytes, xxh3_128 or ""]."""


@contextmanager
def build_folder(storage: Storage, relative: str) -> Iterator[Path]:
    """A new folder in the workshop `relative`, for `Storage.publish_folder`; what is left of it at
    the end is removed.

    What killed makers left behind goes first, unless somebody else builds there now. Several may
    build at the same time.

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


def write_list(folder: Path, *, without: Callable[[str], bool] = lambda name: False) -> None:
    """Put the list of its files into a folder that is about to be published. `without`: of which
    names no digest is taken, as they have checksums of their own and most were in the folder
    before.
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
    """(name, what is wrong) of files of a published folder that are not as its list says. Without a
    list (an earlier version made it): nothing.
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


def _clear(shop: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    for path in shop.iterdir():
        if path.name.startswith(PREFIX) or path.name.endswith(ASIDE_SUFFIX):
            shutil.rmtree(path, ignore_errors=True)
