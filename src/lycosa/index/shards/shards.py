"""Shards of the index: their documents, and which of them are current.

    index/00000007/                 generation of an index of one shard (`index.generation`)
    index/of-8/0003/00000007/       generation of shard 3 of 8
    index/layout.json               number of shards of the current index; without it: one

A shard has the documents of a contiguous range of partitions. Shards are built, published and read
independently. When their number changes, new shards are built while the old ones are in use; when
all are complete, `layout.json` is replaced, and the old ones are removed.

Without polars: every search starts with this module.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tantivy

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.generation import FOLDER, INFO, Generation, GenerationInfo, Place
from lycosa.store.storage.storage import Storage
from lycosa.text.analyze import Analysis, analysis_by

LAYOUT = "layout.json"
MAX_SHARDS = 1_024
_GROUP = re.compile(r"^of-(\d+)\Z")
_NUMBER = re.compile(r"^\d{8,}\Z")
_ATTEMPTS = 5  # reads of a layout that changes meanwhile


@dataclass(slots=True, frozen=True)
class Shard:
    """Shard `number` of `count`."""

    number: int = 0
    count: int = 1

    @property
    def line(self) -> str:
        """Folder of its generations, within the workspace."""
        return FOLDER if self.count == 1 else f"{FOLDER}/of-{self.count}/{self.number:04d}"

    def partitions(self, of: int) -> range:
        """Return its partitions, of the `of` partitions of a workspace; may be empty."""
        return range(-(-self.number * of // self.count), -(-(self.number + 1) * of // self.count))

    def __str__(self) -> str:
        return f"shard {self.number + 1} of {self.count}"


WHOLE = Shard()


def shards_of(count: int) -> list[Shard]:
    return [Shard(number, count) for number in range(count)]


def layout(place: Place) -> int:
    """Return the number of shards of the current index.

    Raises:
        WorkspaceError: layout.json is damaged.
    """
    path = f"{FOLDER}/{LAYOUT}"
    try:
        content = generations.storage_of(place).read(path)
        if content is None:
            return 1
        count = json.loads(content)["shards"]
    except NotADirectoryError:
        return 1
    except (ValueError, KeyError, TypeError, RecursionError):
        count = 0
    if not isinstance(count, int) or not 1 <= count <= MAX_SHARDS:
        raise WorkspaceError(f"{path} is damaged: rebuild the index with `lycosa index --rebuild`")
    return count


def current(place: Place) -> list[Shard]:
    """Return the shards of the current index. Raises WorkspaceError as `layout` does."""
    return shards_of(layout(place))


def newest_of_all(place: Place) -> list[Generation | WorkspaceError | None]:
    """Return the newest generation of each shard, None, or the error of opening it."""
    generations_or_errors: list[Generation | WorkspaceError | None] = []
    storage = generations.storage_of(place)
    for _ in range(_ATTEMPTS):
        parts = current(storage)
        generations_or_errors = [_newest(storage, shard) for shard in parts]
        if layout(storage) == len(parts):
            break  # otherwise these shards have just been removed
    return generations_or_errors


def newest_numbers(place: Place) -> tuple[tuple[int, int], ...]:
    """Return (shard, newest generation) of the shards that have one.

    The result changes with every publication.
    """
    storage = generations.storage_of(place)
    newest = []
    for shard in current(storage):
        numbers = generations.numbers(storage, shard.line)
        if numbers:
            newest.append((shard.number, numbers[-1]))
    return tuple(newest)


def highest_number(place: Place) -> int:
    """Return the highest current generation; new shards continue from it, so numbers are unique."""
    try:
        return max((number for _, number in newest_numbers(place)), default=0)
    except WorkspaceError:
        return 0  # the layout is damaged: the index is rebuilt


def current_generation(place: Place) -> GenerationInfo | None:
    """Return the description of the current index; None if nothing was indexed yet.

    Documents and generations of shards are added up; the log entry is one that all include.

    Raises:
        WorkspaceError: it is damaged, or of an unknown format.
    """
    parts = newest_of_all(place)
    for part in parts:
        if isinstance(part, WorkspaceError):
            raise part
    return combined([part.info for part in parts if isinstance(part, Generation)], len(parts))


def index_analysis(place: Place) -> Analysis:
    """Return how the index analyses Korean, with the installed packages.

    Without an index: the analysis of the default settings.
    """
    try:
        info = current_generation(place)
    except WorkspaceError:
        return Analysis()
    return Analysis() if info is None else analysis_by(info.analyzers).here()[0].each()[0]


def combined(parts: Sequence[GenerationInfo], count: int) -> GenerationInfo | None:
    """Combine the descriptions of shards of an index of `count`; None if there are none."""
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
        analyzers={name: version for info in parts for name, version in info.analyzers.items()},
        languages=by_count(languages),
        collections=by_count(collections),
        shards=count,
    )


def by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Sort by count, largest first: the order in which languages analyse a query."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def adopt(place: Place, count: int) -> bool:
    """Make an index of `count` shards the current one if all of them exist; True if they do.

    Shards of another number are removed then. Idempotent; any indexer may call it.
    """
    storage = generations.storage_of(place)
    if any(not generations.numbers(storage, shard.line) for shard in shards_of(count)):
        return False
    try:
        as_it_is = layout(storage) == count
    except WorkspaceError:
        as_it_is = False
    if not as_it_is:
        storage.replace(f"{FOLDER}/{LAYOUT}", json.dumps({"shards": count}).encode(), sync=True)
    for name in storage.names(FOLDER):
        if _is_of_other_layout(name, count):
            storage.folders.remove(f"{FOLDER}/{name}")
    return True


def _newest(storage: Storage, shard: Shard) -> Generation | WorkspaceError | None:
    try:
        return generations.newest(storage, shard.line)
    except WorkspaceError as error:
        return error


def _is_of_other_layout(name: str, count: int) -> bool:
    group = _GROUP.match(name)
    if group is not None:
        return int(group[1]) != count
    return count != 1 and _NUMBER.match(name) is not None


META = "meta.json"
_MAX_REMOVALS = 20


def open_searcher(paths: Sequence[Path]) -> tuple[tantivy.Schema, tantivy.Searcher]:
    """Return a searcher of the generations in these folders, which may be read-only.

    Raises:
        ValueError, OSError: one cannot be opened.
    """
    if len(paths) == 1 and os.access(paths[0], os.W_OK):
        return _open(paths[0])
    return _open_together(paths)  # tantivy creates a lock file in the folder that it opens


def _open(path: Path) -> tuple[tantivy.Schema, tantivy.Searcher]:
    index = tantivy.Index.open(str(path))
    index.reload()
    return index.schema, index.searcher()


def _open_together(paths: Sequence[Path]) -> tuple[tantivy.Schema, tantivy.Searcher]:
    """Open one index of all segments, in a temporary folder of links. tantivy maps the files."""
    documents: list[dict[str, Any]] = [json.loads((path / META).read_bytes()) for path in paths]
    folder = Path(tempfile.mkdtemp(prefix="lycosa-shards-"))
    try:
        segments = []
        for path, document in zip(paths, documents, strict=True):
            segments += document["segments"]
            for name in os.listdir(path):
                if "." in name and not name.startswith(".") and name not in (META, INFO):
                    os.symlink(path.absolute() / name, folder / name)
        together: Mapping[str, Any] = documents[0] | {
            "segments": segments,
            "opstamp": max(document["opstamp"] for document in documents),
        }
        (folder / META).write_text(json.dumps(together))
        return _open(folder)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder in which a thread of tantivy may create a lock file within a second."""
    for _ in range(_MAX_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.01)
