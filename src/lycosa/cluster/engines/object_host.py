"""What stands in another process for the object that an engine keeps there: it is called by name,
and what it raises travels.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lycosa.core.errors import LycosaError, WorkError


@dataclass(slots=True, frozen=True)
class CallResult:
    """What a call came to: a value, or an exception that can be pickled."""

    value: Any = None
    raised: Exception | None = None

    def unpack(self) -> Any:
        """The value. Raises what was raised there."""
        if self.raised is not None:
            raise self.raised
        return self.value


def attempt(function: Callable[..., Any], arguments: tuple[Any, ...], where: str) -> CallResult:
    """Call a function and keep what it comes to. `where` names this process in what is said of an
    error.
    """
    try:
        return CallResult(function(*arguments))
    except Exception as error:  # noqa: BLE001 - whoever asked gets it
        return CallResult(raised=portable(error, where))


def portable(error: Exception, where: str) -> Exception:
    """The error as it can be raised in another process: itself if it survives the way, else a
    WorkError that quotes it.

    An error that nobody meant to raise takes along where it happened.
    """
    if not isinstance(error, LycosaError):
        error.add_note(f"In {where}:\n{''.join(traceback.format_exception(error)).rstrip()}")
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - an exception's own code runs here, and may raise anything
        return WorkError(f"{type(error).__name__} in {where}: {error}")
    return (
        error
        if type(copy) is type(error)
        else WorkError(f"{type(error).__name__} in {where}: {error}")
    )


class ObjectHost:
    """Holds what `make(*arguments)` returned, and calls its methods, side by side in any number of
    threads.
    """

    def __init__(self, where: str, make: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.where = where
        self._object = make(*arguments)

    def call(self, method: str, arguments: tuple[Any, ...]) -> CallResult:
        """What the method came to; an unknown one is an error like any other."""
        return attempt(lambda: getattr(self._object, method)(*arguments), (), self.where)

    def close(self) -> None:
        """Close the object if it can be closed: its process is asked to end."""
        close = getattr(self._object, "close", None)
        if close is not None:
            close()
