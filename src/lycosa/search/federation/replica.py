"""Replicas of shards run on an engine, on different machines. They follow the index and search it.

A replica may copy generations of the shard to the local disk:

    COPIES/00000007/     all files of the generation; renamed to this name when complete

Files that a generation shares with the previous one have the same name and are linked.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from lycosa.cluster.engine import Engine, Remote, Unreachable
from lycosa.core.errors import LycosaError, WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.generation import BUILD_PREFIX, INFO, Generation, storage_of
from lycosa.index.shards.shards import Shard, layout, shards_of
from lycosa.processes.threads import OnError, start_thread
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.federation.backend import IndexBackend, IndexDescription
from lycosa.store.storage.cache import cache_root
from lycosa.store.storage.staging import LIST
from lycosa.text import korean
from lycosa.text.analyze import KIWI

FOLLOW_INTERVAL_S = 1.0
# files with the same name and different content in each generation
_REWRITTEN = frozenset({"meta.json", INFO, LIST})
CHECK_INTERVAL_S = 1.0
_READY_S = 0.2  # timeout of a call to a new replica, and interval of checks until it answers


class Replica(IndexBackend):
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
                    korean.load()  # takes longer than the limit of a search
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


class ReplicaSupervisor:
    """Runs `count` replicas of every shard of the workspace at `location`.

    Close it before the engine. `copy` as of `Replica`; `notify` gets messages for the operator.
    """

    def __init__(
        self,
        engine: Engine,
        location: str,
        count: int,
        *,
        copy: bool = False,
        follow_interval_s: float = FOLLOW_INTERVAL_S,
        check_interval_s: float = CHECK_INTERVAL_S,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._engine = engine
        self._location = location
        self._storage = storage_of(location)
        self._count = count
        self._copy = copy
        self._follow_interval_s = follow_interval_s
        self._notify = notify
        self._serial = itertools.count(1)
        self._nodes: dict[str, str] = {}  # replica -> its node
        self._shards: list[list[Remote]] = []  # replicas of the current number of shards
        self._ready: set[str] = set()  # replicas that have responded
        self._serving: list[list[Remote]] = []
        # replicas of another number of shards: they serve until the new ones can
        self._retired: list[Remote] = []
        self._ending = threading.Event()
        self.check()
        self._thread = start_thread(
            self._check_on, check_interval_s, name="replicas", on_error=OnError.RESTART
        )

    def replicas(self) -> list[list[Remote]]:
        """Return the replicas of each shard that are ready."""
        return self._serving

    def wait(self, timeout_s: float) -> bool:
        """Wait until every shard has a ready replica. False: it took longer."""
        until = time.monotonic() + timeout_s
        while not (self._serving and all(self._serving)):
            if time.monotonic() > until:
                return False
            time.sleep(_READY_S / 4)
        return True

    def check(self) -> None:
        """Start missing replicas. After a change of the number of shards, the new ones serve as
        soon as all of them can.
        """
        shards = shards_of(layout(self._storage))
        if len(self._shards) != len(shards):
            self._retired += itertools.chain.from_iterable(self._shards)
            self._shards = [[] for _ in shards]
        for replica in [
            replica for replicas in self._shards for replica in replicas if not replica.alive()
        ]:
            self._notify(f"search replica {replica.name} died; it is replaced")
            self._end(replica)
        nodes = [node.name for node in self._engine.nodes()]
        for shard, replicas in zip(shards, self._shards, strict=True):
            replicas[:] = [replica for replica in replicas if replica.name in self._nodes]
            while len(replicas) < self._count:
                replicas.append(self._start(shard, replicas, nodes))
        self._update_serving()

    def _update_serving(self) -> None:
        """Use the replicas that respond for searches."""
        for replica in itertools.chain.from_iterable(self._shards):
            if replica.name not in self._ready:
                with contextlib.suppress(Unreachable):
                    replica.ask("describe", _READY_S, timeout_s=_READY_S)
                    self._ready.add(replica.name)
        able = [
            [replica for replica in replicas if replica.name in self._ready]
            for replicas in self._shards
        ]
        if all(able) or len(able) == len(self._serving):
            self._serving = able
            for replica in self._retired:
                self._end(replica)
            self._retired = []

    def _end(self, replica: Remote) -> None:
        self._nodes.pop(replica.name, None)
        self._ready.discard(replica.name)
        replica.kill()

    def close(self) -> None:
        """Stop, and end all replicas."""
        self._ending.set()
        self._thread.join()
        for replica in [*itertools.chain.from_iterable(self._shards), *self._retired]:
            replica.kill()

    def _start(self, shard: Shard, siblings: list[Remote], nodes: list[str]) -> Remote:
        """Start a replica on the node with the fewest of its shard, then the fewest of all."""
        name = f"replica-{shard.number + 1}-of-{shard.count}-{next(self._serial)}"
        replicas_on = Counter(self._nodes.values())
        siblings_on = Counter(self._nodes.get(sibling.name, "") for sibling in siblings)
        node = min(nodes, key=lambda node: (siblings_on[node], replicas_on[node], node), default="")
        self._nodes[name] = node
        return self._engine.start(
            name, Replica, self._location, shard, self._copy, self._follow_interval_s, node=node
        )

    def _check_on(self, interval_s: float) -> None:
        while not self._ending.wait(interval_s if self._all_ready() else _READY_S):
            try:
                self.check()
            except (LycosaError, OSError) as error:
                # a layout is being written, or a node has ended: check again
                self._notify(f"search replicas: {error}")

    def _all_ready(self) -> bool:
        return all(replica.name in self._ready for replicas in self._shards for replica in replicas)
