"""An index in several parts: which documents are in which, and which parts make up the index now.

    index/00000007/              an index of one part: its generations, as `lycosa.index.generation`
    says index/of-8/0003/00000007/    an index of eight: each part has a line of generations of its
    own index/layout.json            how many parts the index has that is to be read; without it:
    one

A part (shard) holds the documents of a contiguous group of partitions. Each is built, published and
read for itself, so a slow one holds nothing back. When their number changes, the new ones are built
beside the old, `layout.json` is replaced when all of them are there, and then the old ones go.

No polars here: a search starts with this module.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lycosa.core.errors import WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.generation import FOLDER, Generation, GenerationInfo, Place
from lycosa.store.storage.storage import Storage
from lycosa.text.analyze import Analysis, analysis_by

LAYOUT = "layout.json"
MAX_SHARDS = 1_024
_GROUP = re.compile(r"^of-(\d+)\Z")
_NUMBER = re.compile(r"^\d{8,}\Z")
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
        """The partitions whose documents it holds, of a workspace that has `of`. None, if there are
        more shards than partitions.
        """
        return range(-(-self.number * of // self.count), -(-(self.number + 1) * of // self.count))

    def __str__(self) -> str:
        return f"shard {self.number + 1} of {self.count}"


WHOLE = Shard()


def shards_of(count: int) -> list[Shard]:
    return [Shard(number, count) for number in range(count)]


def layout(place: Place) -> int:
    """How many parts the index has that is to be read.

    Raises:
        WorkspaceError: the note that says so is damaged.
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
    """The parts of the index that is to be read. Raises WorkspaceError as `layout` does."""
    return shards_of(layout(place))


def newest_of_all(place: Place) -> list[Generation | WorkspaceError | None]:
    """The newest generation of each part, in order; in its place what is wrong with it, or None: it
    has none (yet).
    """
    found: list[Generation | WorkspaceError | None] = []
    storage = generations.storage_of(place)
    for _ in range(_ATTEMPTS):
        parts = current(storage)
        found = [_newest(storage, shard) for shard in parts]
        if layout(storage) == len(parts):
            break  # else the parts that were looked for have just been removed
    return found


def newest_numbers(place: Place) -> tuple[tuple[int, int], ...]:
    """(shard, number of its newest generation) of those that have one: changes whenever something
    is published.
    """
    storage = generations.storage_of(place)
    found = []
    for shard in current(storage):
        numbers = generations.numbers(storage, shard.line)
        if numbers:
            found.append((shard.number, numbers[-1]))
    return tuple(found)


def highest_number(place: Place) -> int:
    """The highest number of a generation that is to be read; a line that begins goes on from there,
    so that no number comes twice.
    """
    try:
        return max((number for _, number in newest_numbers(place)), default=0)
    except WorkspaceError:
        return 0  # the layout is damaged: all is built anew


def current_generation(place: Place) -> GenerationInfo | None:
    """What the index says of itself; None if nothing was indexed yet.

    Of several parts: sums of their documents and of the numbers of their generations, and the log
    entry that all of them have read.

    Raises:
        WorkspaceError: it is damaged, or of a format that this program does not know.
    """
    found = newest_of_all(place)
    for part in found:
        if isinstance(part, WorkspaceError):
            raise part
    return combined([part.info for part in found if isinstance(part, Generation)], len(found))


def index_analysis(place: Place) -> Analysis:
    """How the index analyses Korean, as far as the packages for it are installed; where there is
    none, as one without settings would.
    """
    try:
        info = current_generation(place)
    except WorkspaceError:
        return Analysis()
    return Analysis() if info is None else analysis_by(info.analyzers).here()[0].each()[0]


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
        analyzers={name: version for info in parts for name, version in info.analyzers.items()},
        languages=by_count(languages),
        collections=by_count(collections),
        shards=count,
    )


def by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent first: the order in which languages read a query, whatever shards they come
    from.
    """
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def adopt(place: Place, count: int) -> bool:
    """Make the parts of an index of `count` the ones to be read, if all of them are there; True if
    they are.

    What belongs to another number of parts is removed then. Any builder may call it, at any time:
    it changes nothing twice.
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
