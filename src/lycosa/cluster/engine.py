"""Interface of engines, which run objects in child processes or on the nodes of a Ray cluster.

An engine starts long-lived objects and maps a function over items. Its processes may be killed at
any time, and any process that has the `Remote` of an object may call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkError

LOCAL = "local"
"""The name of the engine whose processes are all on this machine."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Unreachable(WorkError):
    """A remote object did not answer in time, or has ended.

    The call may have been executed.
    """


@dataclass(slots=True, frozen=True)
class Node:
    """A running machine that an engine can use.

    `name`: unique, stable while the machine runs. `cpus`: number of CPUs for workers.
    """

    name: str
    address: str
    cpus: float


class Remote(Protocol):
    """An object in another process. Picklable. Its methods may run concurrently, in threads."""

    @property
    def name(self) -> str: ...

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """Call a method and return its result, or raise its exception.

        Raises:
            Unreachable: no answer within `timeout_s`, or the object has ended.
        """
        ...

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method without waiting for its result. Raises nothing."""
        ...

    def alive(self) -> bool:
        """Return whether the object runs, by the engine's last information."""
        ...

    def has_ended(self) -> bool:
        """Return whether its process has certainly ended. Always False on other machines."""
        ...

    def kill(self) -> None:
        """End the process immediately, as SIGKILL does. May be called twice."""
        ...


class Engine(Protocol):
    """Must be closed, which ends everything that it started."""

    @property
    def name(self) -> str: ...

    @property
    def dashboard(self) -> str:
        """URL of the web page of the engine; "" if it has none."""
        ...

    def nodes(self) -> list[Node]:
        """Return the machines that can be used now."""
        ...

    def start(
        self,
        name: str,
        make: Callable[..., object],
        *arguments: Any,
        node: str = "",
        restarts: int = 0,
    ) -> Remote:
        """Call `make(*arguments)` in another process and serve the object that it returns.

        `node`: where to run; "" for any. `restarts`: how often the object is created again when its
        process or node dies; its `Remote` remains valid. Returns immediately: a failure of `make`
        is reported by `alive` and by the first `ask`.
        """
        ...

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, attempts: int = 3
    ) -> Iterator[Result]:
        """Return the results in the order of the items.

        If the process or node of an item dies, the item is retried, with `attempts` in all.

        Raises:
            WorkError: all attempts failed. Exceptions of the function are raised at once.
        """
        ...

    def close(self) -> None: ...
