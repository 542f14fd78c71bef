"""Keeps the replicas of all shards alive on an engine: so many of each, on different machines, started again when they die."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable

from lycosa.core.errors import LycosaError
from lycosa.crawl.engine import Engine, Remote
from lycosa.index.shards import Shard, layout, shards_of
from lycosa.search.replica import FOLLOW_S, Replica

LOOK_S = 1.0


class ReplicaKeeper:
    """`count` replicas of every shard of the workspace at `location`. Close it before the engine.

    `copies`: a folder that each machine has for its copies; "" reads the generations where they lie. `say` gets lines for people.
    """

    def __init__(
        self,
        engine: Engine,
        location: str,
        count: int,
        *,
        copies: str = "",
        follow_s: float = FOLLOW_S,
        look_s: float = LOOK_S,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._engine = engine
        self._location = location
        self._count = count
        self._copies = copies
        self._follow_s = follow_s
        self._say = say
        self._serial = itertools.count(1)
        self._nodes: dict[str, str] = {}  # replica -> the node that it was put on
        self._shards: list[list[Remote]] = []
        self._ending = threading.Event()
        self.look()
        self._thread = threading.Thread(target=self._look_on, args=(look_s,), name="replicas", daemon=True)
        self._thread.start()

    def replicas(self) -> list[list[Remote]]:
        """For each shard its replicas, those included that have died and are not replaced yet; for `Federation`."""
        return self._shards

    def look(self) -> None:
        """Start what is missing. When the number of shards has changed, those of the new number take over at once."""
        shards = shards_of(layout(self._location))
        before = self._shards if len(self._shards) == len(shards) else [[] for _ in shards]
        left = [] if before is self._shards else list(itertools.chain.from_iterable(self._shards))
        kept = [[replica for replica in replicas if replica.alive()] for replicas in before]
        dead = [replica for replicas in before for replica in replicas if not replica.alive()]
        for replica in dead:
            self._say(f"search replica {replica.name} died; another one takes its place")
            self._nodes.pop(replica.name, None)
        nodes = [node.name for node in self._engine.nodes() if node.alive]
        for shard, replicas in zip(shards, kept, strict=True):
            while len(replicas) < self._count:
                replicas.append(self._start(shard, replicas, nodes))
        self._shards = kept
        for replica in (*dead, *left):
            self._nodes.pop(replica.name, None)
            replica.kill()

    def close(self) -> None:
        """Start nothing any more, and end all replicas."""
        self._ending.set()
        self._thread.join()
        for replica in itertools.chain.from_iterable(self._shards):
            replica.kill()

    def _start(self, shard: Shard, twins: list[Remote], nodes: list[str]) -> Remote:
        """On the node with the fewest of its twins, then the fewest of all."""
        name = f"replica-{shard.number + 1}-of-{shard.count}-{next(self._serial)}"
        all_of_them, of_twins = Counter(self._nodes.values()), Counter(self._nodes.get(twin.name, "") for twin in twins)
        node = min(nodes, key=lambda node: (of_twins[node], all_of_them[node], node), default="")
        self._nodes[name] = node
        return self._engine.start(name, Replica, self._location, shard, self._copies, self._follow_s, node=node)

    def _look_on(self, every_s: float) -> None:
        while not self._ending.wait(every_s):
            try:
                self.look()
            except (LycosaError, OSError) as error:  # a layout that is just being written, a node that has just gone: look again
                self._say(f"search replicas: {error}")
