"""What carries out work elsewhere: child processes of this machine, or the nodes of a Ray cluster.
Nothing else knows which.

An engine starts long-lived objects and maps a function over items. What it starts may be killed at
any time, and may be asked from any process that has the `Remote`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lycosa.core.errors import WorkError

Item = TypeVar("Item")
Result = TypeVar("Result")


class Unreachable(WorkError):
    """A remote object gave no answer in time, or is gone. Whether it did what it was asked is not
    known.
    """


@dataclass(slots=True, frozen=True)
class Node:
    """A machine that an engine can use. `name` is its own, stable while it lives; `cpus` what it
    offers.
    """

    name: str
    address: str
    cpus: float
    alive: bool = True


class Remote(Protocol):
    """An object that lives elsewhere. Picklable: whoever gets it can ask. Its methods may run side
    by side, in threads.
    """

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> str: ...

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """Call a method there and return what it returns; what it raises is raised here.

        Raises:
            Unreachable: no answer within `timeout_s`, or the object is gone.
        """
        ...

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method there and do not wait. Raises nothing: whoever wants to know asks."""
        ...

    def alive(self) -> bool:
        """Whether it is there, as far as the engine knows now."""
        ...

    def has_ended(self) -> bool:
        """Whether its process certainly runs no more. False if the engine cannot be certain, as of
        another machine.
        """
        ...

    def kill(self) -> None:
        """End it at once, as SIGKILL does. May be called twice."""
        ...


class Engine(Protocol):
    """See the module. Close it in any case: everything that it started is gone afterwards."""

    @property
    def name(self) -> str: ...

    @property
    def dashboard(self) -> str:
        """Where people can look at the engine's own page; "" if it has none."""
        ...

    def nodes(self) -> list[Node]:
        """The machines that can be used now."""
        ...

    def start(
        self,
        name: str,
        make: Callable[..., object],
        *arguments: Any,
        node: str = "",
        restarts: int = 0,
    ) -> Remote:
        """Have `make(*arguments)` called elsewhere, and keep what it returns there to be asked.

        `node`: there and nowhere else; "" where there is room. `restarts`: the engine makes it
        anew, so often, when its process or its node dies; its `Remote` stays good. Returns at once:
        a failure of `make` shows in `alive` and in the first `ask`.
        """
        ...

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, attempts: int = 3
    ) -> Iterator[Result]:
        """The results in the order of the items. An item whose process or node died is tried again,
        `attempts` times in all.

        Raises:
            WorkError: it failed that often. What the function itself raises is raised here, at
            once.
        """
        ...

    def close(self) -> None: ...
