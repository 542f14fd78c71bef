"""Index generations: immutable folders, the newest of which is the index.

    index/00000007/                tantivy's files and generation.json
    index/.build-<random>/         being built; left behind by a kill, removed by the next indexer
    index/.lock                    held (flock) by the one indexer

A generation appears by one rename, so a reader or a kill sees the old one or the new one. A file that did not change is
the same inode in both (hard link). The newest two are kept, so that a reader that has just looked finds its files; one that
has them open keeps them whatever is removed.

An index of several shards has such a line of generations for each of them (`lycosa.index.shards`); `line` names the line's folder.

No polars here: a search starts with this module.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lycosa.core.errors import WorkspaceError

FORMAT = 1
FOLDER = "index"
INFO = "generation.json"
LOCK = ".lock"
BUILD_PREFIX = ".build-"
KEPT = 2
_NAME = re.compile(r"^\d{8,}$")


@dataclass(slots=True, frozen=True)
class GenerationInfo:
    """What generation.json says. `log_entry` is the log entry up to which it has read, `attempt` that entry's id."""

    generation: int
    log_entry: int
    attempt: str
    documents: int
    analyzers: dict[str, str]
    languages: dict[str, int]  # language -> pages, about (replaced pages count until their segment is merged)
    collections: dict[str, int]
    created_at: str
    format: int = FORMAT
    shard: int = 0
    shards: int = 1  # how many the whole index has


@dataclass(slots=True, frozen=True)
class Generation:
    """A published generation on disk."""

    path: Path
    info: GenerationInfo = field(repr=False)

    @property
    def number(self) -> int:
        return self.info.generation


def folder(root: str | os.PathLike[str], line: str = FOLDER) -> Path:
    return Path(root) / line


def numbers(root: str | os.PathLike[str], line: str = FOLDER) -> list[int]:
    """The numbers of the published generations, oldest first."""
    try:
        names = os.listdir(folder(root, line))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if _NAME.match(name))


def newest(root: str | os.PathLike[str], line: str = FOLDER) -> Generation | None:
    """The newest generation, or None if nothing was indexed yet.

    Raises:
        WorkspaceError: it is damaged, or of a format that this program does not know.
    """
    for number in reversed(numbers(root, line)):
        generation = load(root, number, line)
        if generation is not None:
            return generation
    return None


def load(root: str | os.PathLike[str], number: int, line: str = FOLDER) -> Generation | None:
    """One generation; None if it is not there (any more). Raises WorkspaceError as `newest` does."""
    path = folder(root, line) / f"{number:08d}"
    try:
        document: dict[str, Any] = json.loads((path / INFO).read_bytes())
        if document["format"] != FORMAT:
            raise WorkspaceError(
                f"{path} is an index of format {document['format']!r}, this program knows {FORMAT}: "
                f"upgrade with `pip install -U lycosa`, or build it anew with `lycosa index --rebuild`"
            )
        return Generation(path, GenerationInfo(**document))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise WorkspaceError(f"{path / INFO} is damaged: build the index anew with `lycosa index --rebuild`") from None


def publish(root: str | os.PathLike[str], build: Path, info: GenerationInfo, line: str = FOLDER) -> Generation:
    """Make a finished build folder the newest generation; it is on disk when this returns. Older ones are removed, but for one."""
    document = json.dumps(asdict(info), ensure_ascii=False, indent=1) + "\n"
    (build / INFO).write_text(document, encoding="utf-8")
    for name in os.listdir(build):
        sync(build / name)
    sync(build)
    target = folder(root, line) / f"{info.generation:08d}"
    os.rename(build, target)
    sync(folder(root, line))
    for number in numbers(root, line)[:-KEPT]:
        _remove(root, number, line)
    return Generation(target, info)


def remove_older(root: str | os.PathLike[str], number: int, line: str = FOLDER) -> None:
    """Remove every generation before this one: they hold what must not be found any more."""
    for older in numbers(root, line):
        if older < number:
            _remove(root, older, line)


def remove_leftovers(root: str | os.PathLike[str], line: str = FOLDER) -> int:
    """Remove build folders that a killed indexer left. Only for who holds the lock. Returns how many."""
    leftovers = [path for path in folder(root, line).iterdir() if path.name.startswith(BUILD_PREFIX)]
    for path in leftovers:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return len(leftovers)


def _remove(root: str | os.PathLike[str], number: int, line: str) -> None:
    """Out of sight first, by one rename, so that nobody finds half a generation."""
    aside = folder(root, line) / f"{BUILD_PREFIX}removed-{number:08d}"
    os.rename(folder(root, line) / f"{number:08d}", aside)
    shutil.rmtree(aside)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
