"""A replica of one shard: it runs on an engine, follows the index, and answers search steps.

It may copy generations of the shard to the local disk:

    COPIES/00000007/     all files of the generation; renamed to this name when complete

Files that a generation shares with the previous one have the same name and are linked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from lycosa.core.errors import WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.generation import BUILD_PREFIX, INFO, Generation
from lycosa.index.shards.shards import Shard
from lycosa.processes.threads import OnError, start_thread
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.federation.backend import IndexDescription, OpenGenerations
from lycosa.store.storage.cache import cache_root
from lycosa.store.storage.staging import LIST
from lycosa.text import korean
from lycosa.text.analyze import KIWI

FOLLOW_INTERVAL_S = 1.0


# files with the same name and different content in each generation
_REWRITTEN = frozenset({"meta.json", INFO, LIST})


class Replica(OpenGenerations):
    """One shard of the workspace at `location`. Arguments and results are picklable.

    Args:
        copy: read a copy on the disk of this machine, because several machines share the folder.
            Generations on S3 or HDFS are always copied.
        interval_s: how often to look for a newer generation.
    """

    def __init__(
        self,
        location: str,
        shard: Shard,
        copy: bool = False,
        interval_s: float = FOLLOW_INTERVAL_S,
    ) -> None:
        super().__init__()
        self._storage = generations.storage_of(location)
        self._shard = shard
        copies = (
            cache_root()
            / "replicas"
            / xxh3_64_hexdigest(self._storage.root.encode())
            / f"of-{shard.count}-{shard.number:04d}"
        )
        self._copies = copies if copy and self._storage.on_disk else None
        self._problem = ""
        self._ending = threading.Event()
        self.follow()
        start_thread(self._follow_on, interval_s, name="follow", on_error=OnError.RESTART)

    def process(self) -> int:
        """Return its process ID."""
        return os.getpid()

    def follow(self) -> bool:
        """Open the newest generation; True if there is a newer one than before.

        If it is damaged, the one before stays in service.
        """
        with self._changing:
            try:
                numbers = generations.numbers(self._storage, self._shard.line)
                if not numbers or numbers[-1] in self._open:
                    return False
                generation = generations.newest(self._storage, self._shard.line)
                if generation is None:
                    return False
                if self._copies is not None:
                    generation = local_copy(generation, self._copies)
                index = OpenIndex([generation], before=self.newest())
                if KIWI in index.analysis.korean:
                    korean.load()  # takes longer than a search may
            except (WorkspaceError, OSError) as error:
                self._problem = str(error)
                return False
            self._problem = ""
            self._add(index)
            if self._copies is not None:
                remove_copies(self._copies, index.number)
            return True

    def close(self) -> None:
        """Stop looking for newer generations."""
        self._ending.set()

    def _describe(self, index: OpenIndex | None, problem: str = "") -> IndexDescription:
        return super()._describe(index, problem or self._problem)

    def _follow_on(self, interval_s: float) -> None:
        while not self._ending.wait(interval_s):
            self.follow()


def local_copy(generation: Generation, copies: Path) -> Generation:
    """Copy a generation to this disk. Raises OSError if it is removed, or the disk is full."""
    target = copies / generation.path.name
    if target.is_dir():
        if (target / INFO).read_bytes() == (generation.path / INFO).read_bytes():
            return Generation(target, generation.info)
        shutil.rmtree(target)  # of an earlier index that was deleted
    copies.mkdir(parents=True, exist_ok=True)
    before = [path for path in copies.iterdir() if not path.name.startswith(BUILD_PREFIX)]
    build = Path(tempfile.mkdtemp(prefix=BUILD_PREFIX, dir=copies))
    try:
        for source in generation.path.iterdir():
            if source.name.startswith("."):
                continue
            _fetch(source, build / source.name, [path / source.name for path in before])
        os.rename(build, target)
    except FileExistsError:  # another replica on this machine was faster
        shutil.rmtree(build)
    except OSError as error:
        shutil.rmtree(build)
        if not target.is_dir():
            raise error
    return Generation(target, generation.info)


def remove_copies(copies: Path, number: int) -> None:
    """Remove the copies of older generations; open files stay readable."""
    for path in copies.iterdir():
        if path.name.isdigit() and int(path.name) < number:
            shutil.rmtree(path, ignore_errors=True)  # another replica may remove it too


def _fetch(source: Path, target: Path, before: list[Path]) -> None:
    if source.name not in _REWRITTEN:
        for path in before:
            if path.is_file() and path.stat().st_size == source.stat().st_size:
                os.link(path, target)
                return
    shutil.copyfile(source, target)
