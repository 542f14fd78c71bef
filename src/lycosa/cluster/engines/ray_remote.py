"""An object in an actor of a Ray cluster, and its `Remote` for callers."""

from __future__ import annotations

import math
from typing import Any

import ray
from ray import cloudpickle
from ray._private import state as ray_state
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from lycosa.cluster.engine import Unreachable
from lycosa.cluster.engines.object_host import CallResult, ObjectHost
from lycosa.cluster.engines.shipping import provide

THREADS = 64
"""Concurrent calls of an object: pings must not wait for a slow call."""

_ENDED = "DEAD"


class ObjectActor:
    """The actor: our object, behind the calls that `RayRemote` makes."""

    def __init__(self, name: str, requirements: list[str], install: str, packed: bytes) -> None:
        """`packed`: the function that creates the object, and its arguments.

        It can be unpacked once the requirements are installed.
        """
        provide(requirements, install)
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
