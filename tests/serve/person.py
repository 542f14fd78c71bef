"""Somebody at our pages in a real browser, on a desk or a phone, with or without scripts: follows
links by their words, fills in fields by their labels, presses buttons, and looks at every page that
comes for what is never to be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.serve.browser import Browser

PICTURES = Path(__file__).resolve().parents[2] / "build" / "screenshots"
"""Where a picture of every kind of page that a walk sees is kept, by walk, way and number, and of
where one failed; git ignores it.
"""

MAX_SHIFT = 0.001
"""Of the window, by how much things may move that nobody touched."""

_WORDS = (
    "(each => (each.getAttribute('aria-label') ?? each.innerText).trim().replace(/\\s+/g, ' '))"
)
_CONTROL = """[...document.querySelectorAll('%s label')].find(each => each.innerText.trim().startsWith(%s) && each.control)?.control"""


@dataclass(frozen=True)
class Way:
    """How somebody comes: with scripts or without, on a desk or a phone."""

    scripts: bool
    phone: bool

    def __str__(self) -> str:
        return f"{'scripts' if self.scripts else 'no-scripts'}-{'phone' if self.phone else 'desk'}"

    @property
    def window(self) -> tuple[int, int]:
        """Width and height in CSS pixels."""
        return (390, 844) if self.phone else (1280, 900)


SCRIPTS_ON_A_PHONE = Way(True, True)
WAYS = [Way(True, False), Way(False, True)]
"""Those of every run: scripts at a desk, none on a phone."""
OTHER_WAYS = [SCRIPTS_ON_A_PHONE, Way(False, False)]
"""Those of `make prove`."""


@pytest.fixture(
    params=[*WAYS, *(pytest.param(way, marks=pytest.mark.prove) for way in OTHER_WAYS)], ids=str
)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


class Person:
    """See above. `within` is a selector that narrows where to look; a page that comes is looked at
    (`look`) before anything is done.
    """

    def __init__(self, browser: Browser, address: str, way: Way, walk: str) -> None:
        self.browser = browser
        self.way = way
        self.address = address.rstrip("/")
        self._walk = walk
        self._seen = 0
        self._kinds: set[str] = set()

    def go(self, path: str, *, refused: int = 0) -> None:
        """Type an address of ours. `refused`: the status that the answer has, of which the browser
        complains.
        """
        self.browser.open(self.address + path)
        self.look(refused=refused)

    def follow(self, words: str, within: str = "", *, refused: int = 0) -> None:
        """Press a link by its words."""
        self.browser.follow(self._find("a[href]", words, within))
        self.look(refused=refused)

    def press(self, words: str, within: str = "", *, refused: int = 0) -> None:
        """Press a button that leads to a page."""
        self.browser.follow(self._find("button", words, within))
        self.look(refused=refused)

    def take(self, words: str, folder: Path) -> Path:
        """Press a link that gives a file."""
        return self.browser.take(self._find("a[download]", words, ""), folder)

    def press_here(self, words: str, within: str = "", kind: str = "button") -> None:
        """Press what changes the page that one is at."""
        self.browser.click(self._find(kind, words, within))

    def fill(self, label: str, text: str, within: str = "") -> None:
        """Write into a field, over what stands in it."""
        control = _CONTROL % (within, json.dumps(label))
        self.browser.click(control)
        self.browser.evaluate(f"({control}).select()")
        if text:
            self.browser.type_text(text)
        else:
            self.browser.evaluate(f"({control}).value = ''")
        assert self.browser.evaluate(f"({control}).value") == text

    def tick(self, label: str) -> None:
        """Press a box."""
        control = _CONTROL % ("", json.dumps(label))
        self.browser.click(control)
        assert self.browser.evaluate(f"({control}).checked") is True

    def choose(self, label: str, value: str) -> None:
        """Choose from a list: the list itself opens outside the page, so its value is set."""
        control = _CONTROL % ("", json.dumps(label))
        assert self.browser.evaluate(f"({control}).value = {json.dumps(value)}") == value
        assert self.browser.evaluate(f"({control}).value") == value, f"{value} is not on the list"

    def search(self, words: str) -> None:
        """Put words into the box and press Enter."""
        self.browser.click("document.querySelector('input[name=q]')")
        self.browser.evaluate("document.querySelector('input[name=q]').select()")
        self.browser.type_text(words)
        self.browser.press_enter()
        self.look()

    def texts(self, selector: str) -> list[str]:
        """The words of all elements of a selector that are shown."""
        shown = (
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(each => "
            "each.checkVisibility())"
        )
        found: list[str] = self.browser.evaluate(
            f"{shown}.map(each => each.innerText.trim().replace(/\\s+/g, ' '))"
        )
        return found

    def sees(self, *words: str) -> None:
        """These words stand on the page."""
        shown = self.browser.evaluate("document.body.innerText.replace(/\\s+/g, ' ')")
        for each in words:
            assert each in shown, f"{each!r} is not in {shown!r}"

    def misses(self, words: str) -> None:
        """These words stand nowhere on the page."""
        assert words not in self.browser.evaluate("document.body.innerText.replace(/\\s+/g, ' ')")

    def value(self, expression: str) -> Any:
        """What the page's document says."""
        return self.browser.evaluate(expression)

    @property
    def place(self) -> str:
        """The address without its origin."""
        here: str = self.browser.evaluate("location.pathname + location.search")
        return here

    def look(self, *, refused: int = 0) -> None:
        """What holds of every page: it fits the window, nothing complains, nothing comes from
        elsewhere, nothing moves by itself (which is looked for where a kind of page is first seen).
        """
        browser = self.browser
        self._seen += 1
        kind: str = browser.evaluate(
            "location.pathname + ',' + [...new URLSearchParams(location.search).keys()].sort()"
        )
        if kind not in self._kinds:
            self._kinds.add(kind)
            # a frame is drawn for it, so that whatever moves has moved
            self.keep(f"{self._seen:02d}{_name(kind)}")
            assert sum(browser.shifts) <= MAX_SHIFT, f"things move at {self.place}"
        # a phone's begins wide
        browser.until(f"document.documentElement.clientWidth === {self.way.window[0]}")
        wide, room = browser.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= room == self.way.window[0], f"{self.place} is {wide} wide"
        assert [
            each for each in browser.errors if not (refused and f"status of {refused}" in each)
        ] == [], f"at {self.place}"
        assert browser.fonts == []
        assert {urlsplit(url).netloc for url in browser.asked if not url.startswith("data:")} <= {
            urlsplit(self.address).netloc
        }
        self.clear()

    def keep(self, name: str) -> None:
        """A picture of the window."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{self._walk}-{self.way}-{name}.png").write_bytes(self.browser.screenshot())

    def clear(self) -> None:
        """Forget what the browser has said so far."""
        for each in (
            self.browser.asked,
            self.browser.errors,
            self.browser.fonts,
            self.browser.shifts,
        ):
            each.clear()

    def _find(self, kind: str, words: str, within: str) -> str:
        fits = (
            f"const said = {_WORDS}(each); return said === {json.dumps(words)} && "
            "each.checkVisibility()"
        )
        selector = ", ".join(f"{within} {each}" for each in kind.split(", "))
        return f"[...document.querySelectorAll({json.dumps(selector)})].find(each => {{ {fits} }})"


def _name(kind: str) -> str:
    """A path of ours, for the name of a file; hunts have numbers of their own."""
    parts = kind.partition("/")[2].partition(",")[0].split("/")
    return "".join(f"-{part}" for part in parts if re.fullmatch(r"[a-z.]+", part))


@contextmanager
def person(browser: Browser, address: str, way: Way, walk: str) -> Iterator[Person]:
    """Somebody who comes for the first time. Where the walk fails, a picture and the page are kept
    beside the others.
    """
    browser.open("about:blank")
    browser.scripts(allowed=way.scripts)
    browser.look(*way.window)
    browser.forget(re.sub(r"/$", "", address))
    found = Person(browser, address, way, walk)
    found.clear()
    try:
        yield found
    except BaseException:
        found.keep("failed")
        (PICTURES / f"{walk}-{way}-failed.html").write_text(
            str(browser.evaluate("document.documentElement.outerHTML")), encoding="utf-8"
        )
        raise
    finally:
        browser.scripts(allowed=True)
