"""Keeps the replicas of all shards alive on an engine: so many of each, on different machines,
started again when they die.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable

from lycosa.cluster.engine import Engine, Remote, Unreachable
from lycosa.core.errors import LycosaError
from lycosa.index.generation import storage_of
from lycosa.index.shards.shards import Shard, layout, shards_of
from lycosa.processes.threads import OnError, start_thread
from lycosa.search.federation.replica import FOLLOW_S, Replica

LOOK_S = 1.0
_READY_S = 0.2  # how long a new replica is waited for at a time


class ReplicaKeeper:
    """`count` replicas of every shard of the workspace at `location`. Close it before the engine.

    `copy` as of `Replica`. `say` gets lines for people.
    """

    def __init__(
        self,
        engine: Engine,
        location: str,
        count: int,
        *,
        copy: bool = False,
        follow_s: float = FOLLOW_S,
        look_s: float = LOOK_S,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._engine = engine
        self._location = location
        self._storage = storage_of(location)
        self._count = count
        self._copy = copy
        self._follow_s = follow_s
        self._say = say
        self._serial = itertools.count(1)
        self._nodes: dict[str, str] = {}  # replica -> the node that it was put on
        self._shards: list[list[Remote]] = []  # those that are looked after
        self._ready: set[str] = set()  # replicas that have answered
        self._serving: list[list[Remote]] = []  # those that are asked
        # of another number of shards: they serve until the new ones can
        self._retired: list[Remote] = []
        self._ending = threading.Event()
        self.look()
        self._thread = start_thread(
            self._look_on, look_s, name="replicas", on_error=OnError.RESTART
        )

    def replicas(self) -> list[list[Remote]]:
        """For each shard the replicas that can be asked now; for `Federation`."""
        return self._serving

    def wait(self, timeout_s: float) -> bool:
        """Until every shard has a replica that answers; False: it took longer."""
        until = time.monotonic() + timeout_s
        while not (self._serving and all(self._serving)):
            if time.monotonic() > until:
                return False
            time.sleep(_READY_S / 4)
        return True

    def look(self) -> None:
        """Start what is missing. When the number of shards has changed, those of the new number
        serve as soon as all of them can.
        """
        shards = shards_of(layout(self._storage))
        if len(self._shards) != len(shards):
            self._retired += itertools.chain.from_iterable(self._shards)
            self._shards = [[] for _ in shards]
        for replica in [
            replica for replicas in self._shards for replica in replicas if not replica.alive()
        ]:
            self._say(f"search replica {replica.name} died; it is replaced")
            self._end(replica)
        nodes = [node.name for node in self._engine.nodes() if node.alive]
        for shard, replicas in zip(shards, self._shards, strict=True):
            replicas[:] = [replica for replica in replicas if replica.name in self._nodes]
            while len(replicas) < self._count:
                replicas.append(self._start(shard, replicas, nodes))
        self._listen()

    def _listen(self) -> None:
        """Who answers is asked from now on."""
        for replica in itertools.chain.from_iterable(self._shards):
            if replica.name not in self._ready:
                with contextlib.suppress(Unreachable):
                    replica.ask("describe", timeout_s=_READY_S)
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
        """Start nothing any more, and end all replicas."""
        self._ending.set()
        self._thread.join()
        for replica in [*itertools.chain.from_iterable(self._shards), *self._retired]:
            replica.kill()

    def _start(self, shard: Shard, twins: list[Remote], nodes: list[str]) -> Remote:
        """On the node with the fewest of its twins, then the fewest of all."""
        name = f"replica-{shard.number + 1}-of-{shard.count}-{next(self._serial)}"
        all_of_them, of_twins = (
            Counter(self._nodes.values()),
            Counter(self._nodes.get(twin.name, "") for twin in twins),
        )
        node = min(nodes, key=lambda node: (of_twins[node], all_of_them[node], node), default="")
        self._nodes[name] = node
        return self._engine.start(
            name, Replica, self._location, shard, self._copy, self._follow_s, node=node
        )

    def _look_on(self, every_s: float) -> None:
        while not self._ending.wait(every_s if self._all_ready() else _READY_S):
            try:
                self.look()
            except (LycosaError, OSError) as error:
                # a layout that is just being written, a node that has just gone: look again
                self._say(f"search replicas: {error}")

    def _all_ready(self) -> bool:
        return all(replica.name in self._ready for replicas in self._shards for replica in replicas)
