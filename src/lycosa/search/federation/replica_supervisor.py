"""Run the replicas of all shards on an engine, on different machines, and restart dead ones."""

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
from lycosa.search.federation.replica import FOLLOW_INTERVAL_S, Replica

CHECK_INTERVAL_S = 1.0
_READY_S = 0.2  # timeout of a call to a new replica, and interval of checks until it answers


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
        self._ready: set[str] = set()  # replicas that have answered
        self._serving: list[list[Remote]] = []
        # replicas of another number of shards: they serve until the new ones can
        self._retired: list[Remote] = []
        self._ending = threading.Event()
        self.check()
        self._thread = start_thread(
            self._check_on, check_interval_s, name="replicas", on_error=OnError.RESTART
        )

    def replicas(self) -> list[list[Remote]]:
        """Return the replicas of each shard that answer now."""
        return self._serving

    def wait(self, timeout_s: float) -> bool:
        """Wait until every shard has a replica that answers. False: it took longer."""
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
        nodes = [node.name for node in self._engine.nodes() if node.alive]
        for shard, replicas in zip(shards, self._shards, strict=True):
            replicas[:] = [replica for replica in replicas if replica.name in self._nodes]
            while len(replicas) < self._count:
                replicas.append(self._start(shard, replicas, nodes))
        self._update_serving()

    def _update_serving(self) -> None:
        """Let the replicas that answer serve."""
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
                # a layout that is being written, a node that is gone: check again
                self._notify(f"search replicas: {error}")

    def _all_ready(self) -> bool:
        return all(replica.name in self._ready for replicas in self._shards for replica in replicas)
