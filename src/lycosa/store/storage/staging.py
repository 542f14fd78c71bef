"""Folders that are built before they are published, and the list of files in them.

The list allows `lycosa check` to report missing and changed files. Derived data (index, graph,
vectors) is in numbered folders, called generations, of which the newest is current.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lycosa.core.errors import WorkspaceError
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.storage.files import TEMPORARY_SUFFIX, file_digest, try_lock
from lycosa.store.storage.storage import Storage

PREFIX = ".build-"
LIST = "files"
"""File of a published folder: name -> [bytes, xxh3_128 or ""]."""
_NUMBER = re.compile(r"^\d{8,}\Z")
_Info = TypeVar("_Info")


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


def generation_path(folder: str, number: int) -> str:
    """Return the path of a generation in the workspace."""
    return f"{folder}/{number:08d}"


def generation_numbers(storage: Storage, folder: str) -> list[int]:
    """Return the numbers of the published generations, oldest first."""
    try:
        names = storage.names(folder)
    except NotADirectoryError:
        return []
    return sorted(int(name) for name in names if _NUMBER.match(name))


def newest_generations(storage: Storage, folder: str) -> Iterator[tuple[int, Path]]:
    """Yield the number and local folder of each generation, newest first."""
    for number in reversed(generation_numbers(storage, folder)):
        path = storage.folders.local_path(generation_path(folder, number))
        if path is not None:
            yield number, Path(path)


def publish_generation(
    storage: Storage,
    folder: str,
    number: int,
    build: Path,
    write: Callable[[int], None],
    *,
    retained: int,
) -> int:
    """Publish a build folder durably, and remove all but the newest `retained` generations.

    `write(number)` completes the build folder. If another process used the number, it is called
    with the next one. Return the number.
    """
    write(number)
    while not storage.folders.publish(str(build), generation_path(folder, number)):
        number += 1
        write(number)
    for older in generation_numbers(storage, folder)[:-retained]:
        storage.folders.remove(generation_path(folder, older))
    return number


def remove_generations(storage: Storage, folder: str, before: float = math.inf) -> None:
    """Remove every generation with a lower number than `before`."""
    for number in generation_numbers(storage, folder):
        if number < before:
            storage.folders.remove(generation_path(folder, number))


def read_info(path: Path, kind: Callable[..., _Info], version: int, remedy: str) -> _Info:
    """Read the JSON description of a generation, whose member `format` must be `version`.

    Raises:
        FileNotFoundError: the generation was removed.
        WorkspaceError: the description is damaged, or of an unknown format.
    """
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        if document["format"] != version:
            raise WorkspaceError(
                f"{path} has format {document['format']!r}, but this version needs format "
                f"{version}: upgrade with `pip install -U lycosa`, or {remedy}"
            )
        return kind(**document)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WorkspaceError(f"{path} is damaged ({error!r}): {remedy}") from None


def _clear(staging: Path, lock: int) -> None:
    if not try_lock(lock, fcntl.LOCK_EX):
        return
    for path in staging.iterdir():
        if path.name.startswith(PREFIX) or path.name.endswith(TEMPORARY_SUFFIX):
            shutil.rmtree(path, ignore_errors=True)
