"""An index in several parts: which documents are in which, and which parts make up the index now.

    index/00000007/              an index of one part: its generations, as `lycosa.index.generation` says
    index/of-8/0003/00000007/    an index of eight: each part has a line of generations of its own
    index/layout.json            how many parts the index has that is to be read; without it: one

A part (shard) holds the documents of a contiguous group of partitions. Each is built, published and read for itself, so a slow
one holds nothing back. When their number changes, the new ones are built beside the old, `layout.json` is replaced when all of
them are there, and then the old ones go.

No polars here: a search starts with this module.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lycosa.core.errors import WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.generation import FOLDER, Generation, GenerationInfo

LAYOUT = "layout.json"
MOST_SHARDS = 1_024
_GROUP = re.compile(r"^of-(\d+)$")
_NUMBER = re.compile(r"^\d{8,}$")
_REMOVED = f"{generations.BUILD_PREFIX}layout-removed-"
_ATTEMPTS = 5  # looks at a layout that changes meanwhile


@dataclass(slots=True, frozen=True)
class Shard:
    """Part `number` of `count`."""

    number: int = 0
    count: int = 1

    @property
    def line(self) -> str:
        """The folder of its generations, within the workspace."""
        return FOLDER if self.count == 1 else f"{FOLDER}/of-{self.count}/{self.number:04d}"

    def partitions(self, of: int) -> range:
        """The partitions whose documents it holds, of a workspace that has `of`. None, if there are more shards than partitions."""
        return range(-(-self.number * of // self.count), -(-(self.number + 1) * of // self.count))

    def __str__(self) -> str:
        return f"shard {self.number + 1} of {self.count}"


WHOLE = Shard()


def shards_of(count: int) -> list[Shard]:
    return [Shard(number, count) for number in range(count)]


def layout(root: str | os.PathLike[str]) -> int:
    """How many parts the index has that is to be read.

    Raises:
        WorkspaceError: the note that says so is damaged.
    """
    path = generations.folder(root) / LAYOUT
    try:
        count = json.loads(path.read_bytes())["shards"]
    except (FileNotFoundError, NotADirectoryError):
        return 1
    except (ValueError, KeyError, TypeError):
        count = 0
    if not isinstance(count, int) or not 1 <= count <= MOST_SHARDS:
        raise WorkspaceError(f"{path} is damaged: build the index anew with `lycosa index --rebuild`")
    return count


def current(root: str | os.PathLike[str]) -> list[Shard]:
    """The parts of the index that is to be read. Raises WorkspaceError as `layout` does."""
    return shards_of(layout(root))


def newest_of_all(root: str | os.PathLike[str]) -> list[Generation | WorkspaceError | None]:
    """The newest generation of each part, in order; in its place what is wrong with it, or None: it has none (yet)."""
    found: list[Generation | WorkspaceError | None] = []
    for _ in range(_ATTEMPTS):
        parts = current(root)
        found = [_newest(root, shard) for shard in parts]
        if layout(root) == len(parts):
            break  # else the parts that were looked for have just been removed
    return found


def current_generation(root: str | os.PathLike[str]) -> GenerationInfo | None:
    """What the index says of itself; None if nothing was indexed yet.

    Of several parts: sums of their documents and of the numbers of their generations, and the log entry that all of them have read.

    Raises:
        WorkspaceError: it is damaged, or of a format that this program does not know.
    """
    found = newest_of_all(root)
    for part in found:
        if isinstance(part, WorkspaceError):
            raise part
    return combined([part.info for part in found if isinstance(part, Generation)], len(found))


def combined(parts: Sequence[GenerationInfo], count: int) -> GenerationInfo | None:
    """What several parts of an index of `count` say together; None for none."""
    if not parts:
        return None
    if count == 1:
        return parts[0]
    slowest = min(parts, key=lambda info: info.log_entry)
    languages, collections = Counter[str](), Counter[str]()
    for info in parts:
        languages.update(info.languages)
        collections.update(info.collections)
    return replace(
        slowest,
        generation=sum(info.generation for info in parts),
        documents=sum(info.documents for info in parts),
        languages=dict(languages),
        collections=dict(collections),
        shards=count,
    )


def adopt(root: str | os.PathLike[str], count: int) -> bool:
    """Make the parts of an index of `count` the ones to be read, if all of them are there; True if they are.

    What belongs to another number of parts is removed then. Any builder may call it, at any time: it changes nothing twice.
    """
    if any(not generations.numbers(root, shard.line) for shard in shards_of(count)):
        return False
    folder = generations.folder(root)
    try:
        as_it_is = layout(root) == count
    except WorkspaceError:
        as_it_is = False
    if not as_it_is:
        aside = folder / f"{generations.BUILD_PREFIX}layout-{os.getpid()}"
        with aside.open("w", encoding="utf-8") as file:
            json.dump({"shards": count}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, folder / LAYOUT)
        generations.sync(folder)
    for path in _of_other_layouts(folder, count):
        _remove(path)
    return True


def _newest(root: str | os.PathLike[str], shard: Shard) -> Generation | WorkspaceError | None:
    try:
        return generations.newest(root, shard.line)
    except WorkspaceError as error:
        return error


def _of_other_layouts(folder: Path, count: int) -> list[Path]:
    def other(name: str) -> bool:
        group = _GROUP.match(name)
        if group is not None:
            return int(group[1]) != count
        return name.startswith(_REMOVED) or (count != 1 and _NUMBER.match(name) is not None)

    return [path for path in folder.iterdir() if other(path.name)]


def _remove(path: Path) -> None:
    """Out of sight first, by one rename; another builder may be at it too."""
    aside = path.with_name(f"{_REMOVED}{path.name}-{os.getpid()}") if not path.name.startswith(_REMOVED) else path
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors=True)
