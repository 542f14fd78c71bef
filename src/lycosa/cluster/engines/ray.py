"""The engine of a Ray cluster: objects are actors, maps are tasks.

Needs `lycosa[ray]`. Nodes may join and leave. Without an address a cluster of this machine alone is
started, on loopback, and ended with the engine. With one, this process joins as a driver; it must
run on a machine of that cluster, and have its secret (Ray's token authentication:
RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH in the environment of every node and
driver).

This package is sent to the nodes with the job. Its dependencies are on the nodes, or are installed
there (`lycosa.cluster.engines.shipping`). Credentials are not sent: every node has its own
environment.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray._private import auto_init_hook, ray_constants
from ray._private import state as ray_state
from ray._private import worker as ray_worker
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import lycosa
from lycosa.cluster.engine import Item, Node, Result, Unreachable
from lycosa.cluster.engines import shipping
from lycosa.cluster.engines.object_host import CallResult, ObjectHost, attempt
from lycosa.core.errors import UsageError, WorkError

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no statistics are sent
    "RAY_DEDUP_LOGS": "0",
}
_LOOPBACK = "127.0.0.1:"

_ANSWER_S = 30
_AHEAD = 2

THREADS = 64
"""Concurrent calls of an object: pings must not wait for a slow call."""

_ENDED = "DEAD"


class ObjectActor:
    """The actor: our object, behind the calls that `RayRemote` makes."""

    def __init__(self, name: str, requirements: list[str], install: str, packed: bytes) -> None:
        """`packed`: the function that creates the object, and its arguments.

        It can be unpacked once the requirements are installed.
        """
        shipping.provide(requirements, install)
        make, arguments = cloudpickle.loads(packed)
        self._host = ObjectHost(f"actor {name}", make, arguments)

    def call(self, method: str, arguments: tuple[Any, ...]) -> CallResult:
        return self._host.call(method, arguments)


class RayRemote:
    """See `lycosa.cluster.engine.Remote`.

    Can be sent to any process of the same Ray job. The object lives as long as the engine that
    started it.
    """

    def __init__(self, name: str, handle: Any) -> None:
        self.name = name
        self._handle = handle

    def __reduce__(self) -> tuple[type[RayRemote], tuple[str, Any]]:
        return RayRemote, (self.name, self._handle)

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """See `Remote`."""
        try:
            reference = self._handle.call.remote(method, arguments)
            outcome: CallResult = ray.get(
                reference, timeout=None if timeout_s == math.inf else timeout_s
            )
        except GetTimeoutError:
            raise Unreachable(f"{self.name} did not respond within {timeout_s:g} s") from None
        except RayActorError as error:
            raise Unreachable(f"{self.name} has ended: {_short(error)}") from None
        except RayError as error:
            raise Unreachable(f"{self.name} cannot be reached: {_short(error)}") from None
        return outcome.unpack()

    def send(self, method: str, *arguments: Any) -> None:
        try:
            self._handle.call.remote(method, arguments)
        except RayError:
            return  # the result is not needed

    def alive(self) -> bool:
        state = self._row().get("State")
        return state is not None and state != _ENDED

    def has_ended(self) -> bool:
        return False  # the cluster declares a node dead that it cannot reach

    def kill(self) -> None:
        ray.kill(self._handle, no_restart=True)

    def _row(self) -> dict[str, Any]:
        """Return the cluster's record of the actor; empty before it is registered."""
        row: dict[str, Any] = ray_state.actors(self._handle._actor_id.hex()) or {}
        return row


def _short(error: Exception) -> str:
    """Return the last non-empty line of Ray's message: the informative one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


class RayEngine:
    """See `lycosa.cluster.engine.Engine`. A process can have one."""

    name = "ray"

    def __init__(
        self,
        address: str = "",
        *,
        install: str = "auto",
        variables: dict[str, str] | None = None,
    ) -> None:
        """`install`: auto, always or never; `variables`: environment of all that is started.

        Raises:
            UsageError: an address of another kind.
            WorkError: the cluster cannot be reached, or refuses the token.
        """
        if address.startswith("ray://"):
            raise UsageError(
                f"{address}: specify the address of the cluster (HOST:PORT, usually "
                "port 6379), not that of its client server"
            )
        self._install = install
        self._requirements = shipping.requirements()
        self._lock = threading.Lock()
        self._remotes: list[RayRemote] = []
        self._ours = not ray.is_initialized()
        self.dashboard = self._join(address, variables or {}) if self._ours else ""
        self._actor = ray.remote(ObjectActor)

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def nodes(self) -> list[Node]:
        return [
            Node(
                str(row["NodeID"]),
                str(row["NodeManagerAddress"]),
                float(row["Resources"].get("CPU", 0.0)),
            )
            for row in ray.nodes()  # type: ignore[no-untyped-call]
            if row["Alive"]
        ]

    def start(
        self,
        name: str,
        make: Callable[..., object],
        *arguments: Any,
        node: str = "",
        restarts: int = 0,
    ) -> RayRemote:
        """See `Engine`.

        An object reserves no CPU in Ray: callers that start many choose their nodes.
        """
        where = NodeAffinitySchedulingStrategy(node, soft=False) if node else "SPREAD"
        options: dict[str, Any] = {
            "num_cpus": 0,
            "max_restarts": restarts,
            "max_task_retries": 0,
            "max_concurrency": THREADS,
            "scheduling_strategy": where,
        }
        packed = _pack((make, arguments))
        handle = self._actor.options(**options).remote(
            name, self._requirements, self._install, packed
        )
        remote = RayRemote(name, handle)
        with self._lock:
            self._remotes.append(remote)
        return remote

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, attempts: int = 3
    ) -> Iterator[Result]:
        name = getattr(function, "__name__", type(function).__name__)
        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_retries": attempts - 1,
            "retry_exceptions": False,
            "name": name,
        }
        packed = _pack(function)
        task = ray.remote(_run_task).options(**options)
        waiting = iter(items)
        pending: deque[tuple[Any, Item]] = deque()
        begun = iter(
            (task.remote(packed, _pack(item), self._requirements, self._install), item)
            for item in waiting
        )
        # Tasks in progress are not cancelled: `ray.cancel` of a task that just ends aborts
        # this whole process ("Tried to complete task that was not pending", Ray 2.60).
        while True:
            most = max(round(sum(node.cpus for node in self.nodes())), 1) * _AHEAD
            pending.extend(islice(begun, max(most - len(pending), 0)))
            if not pending:
                return
            results = self._finished(pending, name, attempts)
            pending.popleft()
            yield results

    def close(self) -> None:
        """Kill everything that was started, and leave the cluster. May be called twice."""
        with self._lock:
            remotes, self._remotes = self._remotes, []
        if not ray.is_initialized():
            return
        for remote in remotes:
            with suppress(RayError, ValueError):
                remote.kill()
        if self._ours:
            ray.shutdown()

    def _finished(self, pending: deque[tuple[Any, Item]], name: str, attempts: int) -> Any:
        """Return the result of the first pending call.

        Raises errors of the other calls as soon as they occur.
        """
        unread = dict(pending)
        first, result = pending[0][0], None
        while first in unread:
            done, _ = ray.wait(list(unread), num_returns=1)
            for reference in done:
                item = unread.pop(reference)
                try:
                    outcome: CallResult = ray.get(reference)
                except RayError as error:
                    raise WorkError(
                        f"{name} of {item!r:.200} failed {attempts} times because its process or "
                        f"node died ({type(error).__name__})"
                    ) from None
                value = outcome.unpack()
                if reference == first:
                    result = value
        return result

    def _join(self, address: str, variables: dict[str, str]) -> str:
        """Connect this process, and return the URL of the dashboard or ""."""
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        if address not in ("", "auto", "local"):
            require_cluster(address)
        logging.getLogger("ray").setLevel(logging.ERROR)
        _silence_ray()
        former = signal.getsignal(signal.SIGTERM)
        try:
            with _loopback(not address or address.startswith(_LOOPBACK)):
                context = ray.init(
                    address=address or "local",
                    include_dashboard=None if address else False,
                    runtime_env={
                        "py_modules": [str(Path(lycosa.__file__).parent)],
                        "env_vars": {**_QUIET, **variables},
                    },
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        except (ConnectionError, RayError, RuntimeError) as error:
            raise WorkError(
                f"the Ray cluster {address or 'of this machine'} cannot be joined: {error}; it "
                "must be running, this machine must be "
                "one of its nodes (`ray start --address …`), and RAY_AUTH_TOKEN or "
                "RAY_AUTH_TOKEN_PATH must contain its token"
            ) from None
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, former)
        return str(context.dashboard_url or "")


def require_cluster(address: str) -> None:
    """Check in a child process that a cluster answers.

    Without one, `ray.init` would wait for minutes, log from C++ and abort.

    Raises:
        UsageError: the address is not HOST:PORT.
        WorkError: no cluster answers within 30 seconds.
    """
    command = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "health-check",
        "--skip-version-check",
        "--address",
        address,
    ]
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--address {address}: write HOST:PORT, for example 10.0.0.1:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
        answers = (
            subprocess.run(command, capture_output=True, timeout=_ANSWER_S, check=False).returncode
            == 0
        )
        problem = (
            "it is not a Ray cluster, or RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH does not "
            "contain its token"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        answers = False
        problem = getattr(error, "strerror", None) or "no answer"
    if not answers:
        raise WorkError(
            f"no Ray cluster answers at {address} within {_ANSWER_S} s: {problem}; "
            "start one with `ray start --head`"
        )


@contextmanager
def _loopback(enabled: bool) -> Iterator[None]:
    """Restrict Ray to the address 127.0.0.1.

    This is the switch that Ray itself uses for clusters of one machine.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    if enabled:
        ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _pack(value: object) -> bytes:
    """Pack a value; a node unpacks it once its requirements are installed."""
    packed: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return packed


def _run_task(
    packed: bytes, packed_item: bytes, requirements: list[str], install: str
) -> CallResult:
    shipping.provide(requirements, install)
    function, item = cloudpickle.loads(packed), cloudpickle.loads(packed_item)
    return attempt(function, (item,), f"process {os.getpid()} (a task)")


def _silence_ray() -> None:
    """Prevent Ray from printing to stdout, and from joining another cluster.

    stdout may contain a document. After `close`, a call from a thread would join any cluster on
    this machine. Ray has no public switch for either that works after its import.
    """
    ray_worker.print_to_stdstream = _print_nothing
    auto_init_hook.enable_auto_connect = False


def _print_nothing(data: dict[str, Any], ignore_prefix: bool = False) -> None:
    pass
