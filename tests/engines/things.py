"""Objects and functions that the conformance suite has engines keep and map."""

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
    """Its own arguments do not make it again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Thing:
    """Counts, sleeps, fails, dies, and asks others."""

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

    def nap(self, seconds: float) -> str:
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
        if kind == "odd":
            raise Unpicklable(1, 2)
        raise ValueError("a fault")

    def lock(self) -> object:
        return threading.Lock()

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def ask_other(self, other: Remote, number: int) -> Any:
        return other.ask("add", number, timeout_s=20)


def cannot_be_made() -> Thing:
    raise UsageError("it cannot be made")


def square(number: int) -> int:
    return number * number


def slow_square(number: int) -> int:
    """The first ones take longest."""
    time.sleep(max(0.3 - number * 0.05, 0))
    return number * number


def fail_at_three(number: int) -> int:
    if number == 3:
        raise UsageError("three is wrong")
    return number


def die_once(order: tuple[str, int]) -> int:
    """Kills its process the first time that it meets an odd number."""
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
    """Needs what a bare node has not."""

    def of(self, page: bytes) -> tuple[str, str]:
        """A page's title, and where the parser was found."""
        from lycosa.page import parse  # on a bare node it cannot be imported before this

        return parse.parse_page(
            page, url="http://h/", content_type="text/html"
        ).title, parse.__file__
