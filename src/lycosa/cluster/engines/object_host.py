"""Serves an object to other processes: calls methods, returns results."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lycosa.core.errors import LycosaError, WorkError


@dataclass(slots=True, frozen=True)
class CallResult:
    """Result of a call: a value, or an exception that can be pickled."""

    value: Any = None
    raised: Exception | None = None

    def unpack(self) -> Any:
        """Return the value, or raise the exception of the call."""
        if self.raised is not None:
            raise self.raised
        return self.value


def attempt(function: Callable[..., Any], arguments: tuple[Any, ...], where: str) -> CallResult:
    """Call a function and return its result or exception. `where`: this process, for messages."""
    try:
        return CallResult(function(*arguments))
    except Exception as error:  # noqa: BLE001 - the caller gets it
        return CallResult(raised=portable(error, where))


def portable(error: Exception, where: str) -> Exception:
    """Return the error if it can be pickled, else a WorkError that quotes it.

    Unexpected errors get a note with their traceback.
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
    """Holds the object that `make(*arguments)` returned. Calls may run in several threads."""

    def __init__(self, where: str, make: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.where = where
        self._object = make(*arguments)

    def call(self, method: str, arguments: tuple[Any, ...]) -> CallResult:
        """Call a method; an unknown one is an error like any other."""
        return attempt(lambda: getattr(self._object, method)(*arguments), (), self.where)

    def close(self) -> None:
        """Close the object if it can be closed."""
        close = getattr(self._object, "close", None)
        if close is not None:
            close()
