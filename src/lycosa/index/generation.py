"""Index generations: immutable folders, the newest of which is the index.

    index/00000007/                files of tantivy and generation.json
    index/.build-<random>/         being built; the next indexer removes it after a kill
    index/.lock                    locked (flock) by the indexer

A generation is published atomically: readers see the old one or the new one. Unchanged files are
hard links. The newest two generations are kept, so that a reader finds the files of the one that it
has just looked up; open files stay readable. The last update of a crawl keeps only the newest:
after merges they share few files. On S3 and HDFS, build folders and lock are local to the indexer,
and readers have copies (`store.storage.storage`).

Each shard has a series of generations of its own (`index.shards.shards`) in the folder `line`.

Without polars: every search starts with this module.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from dataclasses import asdict, field
from pathlib import Path

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import OwnedError, WorkspaceError
from lycosa.store.storage.files import TEMPORARY_SUFFIX
from lycosa.store.storage.staging import (
    generation_numbers,
    generation_path,
    newest_generations,
    publish_generation,
    read_info,
    write_list,
)
from lycosa.store.storage.storage import Storage, open_storage

FORMAT = 1
FOLDER = "index"
INFO = "generation.json"
LOCK = ".lock"
BUILD_PREFIX = ".build-"
MAX_GENERATIONS = 2
TABLES = ("pages", "urls")
"""Tables whose rows change the index."""

# tantivy's files have a CRC, stored texts their keys (`lycosa.index.verify`)
_CHECKED = re.compile(r"[0-9a-f]{32}\..*")
_REBUILD = "rebuild the index with `lycosa index --rebuild`"


@dataclass(slots=True, frozen=True)
class GenerationInfo:
    """Content of generation.json: the log up to `log_entry` (ID `attempt`) is in the index."""

    generation: int
    log_entry: int
    attempt: str
    documents: int
    analyzers: dict[str, str]
    # language -> pages; replaced pages count until their segment is merged
    languages: dict[str, int]
    collections: dict[str, int]
    created_at: str
    format: int = FORMAT
    shard: int = 0
    shards: int = 1  # number of shards of the index
    graph: int = 0  # generation of the graph that it includes; 0: none


@dataclass(slots=True, frozen=True)
class Generation:
    """A published generation on disk."""

    path: Path
    info: GenerationInfo = field(repr=False)

    @property
    def number(self) -> int:
        return self.info.generation


Place = str | os.PathLike[str] | Storage
"""A workspace, or its storage. Pass the storage for repeated calls: opening S3 is slow."""


def storage_of(place: Place) -> Storage:
    """Return the storage of a workspace. Raises UsageError as `open_storage` does."""
    return open_storage(os.fspath(place)) if isinstance(place, str | os.PathLike) else place


def staging_folder(place: Place, line: str = FOLDER) -> Path:
    """Create and return the folder in which generations are built."""
    return Path(storage_of(place).folders.staging_dir(line))


def numbers(place: Place, line: str = FOLDER) -> list[int]:
    """Return the numbers of the published generations, oldest first."""
    return generation_numbers(storage_of(place), line)


def newest(place: Place, line: str = FOLDER) -> Generation | None:
    """Return the newest generation; None if nothing was indexed yet.

    Raises:
        WorkspaceError: it is damaged, or of an unknown format.
    """
    generations = (_read(path) for _, path in newest_generations(storage_of(place), line))
    return next(filter(None, generations), None)


def load(place: Place, number: int, line: str = FOLDER) -> Generation | None:
    """Return a generation; None if it does not exist. Raises WorkspaceError as `newest` does."""
    local = storage_of(place).folders.local_path(generation_path(line, number))
    return None if local is None else _read(Path(local))


def _read(path: Path) -> Generation | None:
    try:
        return Generation(path, read_info(path / INFO, GenerationInfo, FORMAT, _REBUILD))
    except FileNotFoundError:
        return None


def publish(place: Place, build: Path, info: GenerationInfo, line: str = FOLDER) -> Generation:
    """Publish a build folder of the `staging_folder` durably as the newest generation.

    All older ones but one are removed. If another machine has used its number, it gets the next.
    """
    storage = storage_of(place)

    def write(number: int) -> None:
        own = asdict(info) | {"generation": number}
        document = json.dumps(own, ensure_ascii=False, indent=1) + "\n"
        (build / INFO).write_text(document, encoding="utf-8")
        write_list(build, without=lambda name: _CHECKED.fullmatch(name) is not None)

    number = publish_generation(
        storage, line, info.generation, build, write, retained=MAX_GENERATIONS
    )
    published = load(storage, number, line)
    if published is None:
        raise WorkspaceError(
            f"generation {number} of {line} was removed right after it "
            "was published: run the update again"
        )
    return published


def remove_leftovers(place: Place, line: str = FOLDER) -> int:
    """Remove the files of a killed indexer; the caller has the lock. Return the number removed."""
    leftovers = [
        path
        for path in staging_folder(place, line).iterdir()
        if path.name.startswith(BUILD_PREFIX) or path.name.endswith(TEMPORARY_SUFFIX)
    ]
    for path in leftovers:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return len(leftovers)


class IndexLock:
    """The lock of a shard. Its indexer also shares the lock of the whole index; the indexer of an
    unsharded index (`whole`) has that lock exclusively.
    """

    def __init__(self, storage: Storage, line: str, *, whole: bool) -> None:
        self._storage, self._line, self._whole = storage, line, whole
        self._held: list[int] = []

    def acquire(self, root: str) -> None:
        """Take the lock, if not held yet, and remove the files of a killed indexer.

        Raises:
            OwnedError: another process is indexing this workspace.
        """
        if self._held:
            return
        staging_folder(self._storage, self._line)  # durable before anything is published in it
        locks = [(FOLDER, fcntl.LOCK_EX if self._whole else fcntl.LOCK_SH)]
        if not self._whole:
            locks.append((self._line, fcntl.LOCK_EX))
        for folder, kind in locks:
            path = Path(self._storage.lock_path(f"{folder}/{LOCK}"))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._held.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            try:
                fcntl.flock(self._held[-1], kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                raise OwnedError(
                    f"another process is indexing {root}: a running crawl updates the index "
                    "itself; otherwise wait for the other `lycosa index`"
                ) from None
        remove_leftovers(self._storage, self._line)

    def release(self) -> None:
        """Release the lock if it is held."""
        while self._held:
            os.close(self._held.pop())


def link_or_copy(source: Path, target: Path) -> None:
    """Link an immutable file, or copy it where the file system has no hard links (EPERM)."""
    try:
        os.link(source, target)
    except PermissionError:
        shutil.copyfile(source, target)
