"""Objects and functions that the conformance suite runs on engines."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from lycosa.cluster.engine import Remote
from lycosa.core.errors import Refusal, UrlError, UsageError


class Unpicklable(Exception):
    """An exception that cannot be unpickled: its arguments are not those of `__init__`."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class SampleObject:
    """An object that counts, sleeps, fails, ends its process and calls other objects."""

    def __init__(self, start: int = 0, folder: str = "") -> None:
        self._count = start
        self._gate = threading.Event()
        if folder:
            Path(folder, f"{os.getpid()}.life").touch()

    def add(self, number: int) -> int:
        self._count += number
        return self._count

    def count(self) -> int:
        return self._count

    def pid(self) -> int:
        return os.getpid()

    def sleep(self, seconds: float) -> str:
        time.sleep(seconds)
        return "woke"

    def wait_for_gate(self) -> bool:
        return self._gate.wait(30)

    def open_gate(self) -> None:
        self._gate.set()

    def echo(self, value: Any) -> Any:
        return value

    def fail(self, kind: str) -> None:
        if kind == "usage":
            raise UsageError("wrong call")
        if kind == "url":
            raise UrlError(Refusal.SCHEME, "x:y")
        if kind == "unpicklable":
            raise Unpicklable(1, 2)
        raise ValueError("a failure")

    def lock(self) -> object:
        return threading.Lock()

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def add_to_other(self, other: Remote, number: int) -> Any:
        return other.ask("add", number, timeout_s=20)


def fail_to_construct() -> SampleObject:
    raise UsageError("construction failed")


def square(number: int) -> int:
    return number * number


def slow_square(number: int) -> int:
    """Return the square. Small numbers take longer."""
    time.sleep(max(0.3 - number * 0.05, 0))
    return number * number


def fail_at_three(number: int) -> int:
    if number == 3:
        raise UsageError("three is wrong")
    return number


def die_once(order: tuple[str, int]) -> int:
    """Kill the process on the first call with each odd number."""
    folder, number = order
    mark = Path(folder, str(number))
    if number % 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


class Title:
    """An object that needs packages that are not installed on a bare node."""

    def of(self, page: bytes) -> tuple[str, str]:
        """Return the title of a page and the path of the parser."""
        from lycosa.page import parse  # installed on a bare node only with the object

        parsed = parse.parse_page(page, url="http://h/", content_type="text/html")
        return parsed.title, parse.__file__
