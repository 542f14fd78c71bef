"""A user of the web pages in a real browser, on a desktop or a phone, with or without scripts.

The user clicks links and buttons by their text and fills in fields by their labels. Every page that
loads is checked for errors, requests to other hosts, overflow and layout shifts.
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

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
"""One screenshot per kind of page and mode, and of failures; ignored by git."""

_MOVED_BY_END = """(() => {
  const start = document.querySelector('main > *');
  const end = document.querySelector('main > :last-child');
  if (start === end) return 0;
  const place = () => [start.getBoundingClientRect().x, start.getBoundingClientRect().y];
  const [x, y] = place(), hidden = end.hidden;
  end.hidden = true;
  const [earlierX, earlierY] = place();
  end.hidden = hidden;
  return Math.hypot(x - earlierX, y - earlierY);
})()"""
"""Pixels that the first element moves when the last one, received later, is displayed."""

MAX_SHIFT = 0.001
"""Limit of the sum of layout shift scores of a page."""

RESULT_TITLES = ".results > li h2"
"""Selector of the titles of search results."""

_LABEL = (
    "(each => (each.getAttribute('aria-label') ?? each.innerText).trim().replace(/\\s+/g, ' '))"
)
_CONTROL = """[...document.querySelectorAll('%s label')].find(each => each.innerText.trim().startsWith(%s) && each.control)?.control"""


@dataclass(frozen=True)
class BrowserMode:
    """Settings of the browser."""

    scripts: bool
    phone: bool

    def __str__(self) -> str:
        device = "phone" if self.phone else "desktop"
        return f"{'scripts' if self.scripts else 'no-scripts'}-{device}"

    @property
    def window(self) -> tuple[int, int]:
        """Width and height in CSS pixels."""
        return (390, 844) if self.phone else (1280, 900)


SCRIPTS_ON_PHONE = BrowserMode(scripts=True, phone=True)
MODES = [BrowserMode(scripts=True, phone=False), BrowserMode(scripts=False, phone=True)]
"""Modes of every run."""
OTHER_MODES = [SCRIPTS_ON_PHONE, BrowserMode(scripts=False, phone=False)]
"""Additional modes of `make prove`."""


@pytest.fixture(
    params=[*MODES, *(pytest.param(mode, marks=pytest.mark.prove) for mode in OTHER_MODES)],
    ids=str,
)
def mode(request: pytest.FixtureRequest) -> BrowserMode:
    parameter: BrowserMode = request.param
    return parameter


class User:
    """A user of the pages.

    In all methods, `within` is a selector of the elements that are searched.
    """

    def __init__(self, browser: Browser, address: str, mode: BrowserMode, scenario: str) -> None:
        self.browser = browser
        self.mode = mode
        self.address = address.rstrip("/")
        self._scenario = scenario
        self._page_count = 0
        self._kinds: set[str] = set()

    def open(self, path: str, *, status: int = 0) -> None:
        """Open a path. `status` is an expected HTTP error (the browser logs it)."""
        self.browser.open(self.address + path)
        self.check_page(status=status)

    def follow(self, text: str, within: str = "", *, status: int = 0) -> None:
        """Click a link by its text, and check the page that loads."""
        self.browser.follow(self._find("a[href]", text, within))
        self.check_page(status=status)

    def submit(self, text: str, within: str = "", *, status: int = 0) -> None:
        """Click a button that loads a page, and check that page."""
        self.browser.follow(self._find("button", text, within))
        self.check_page(status=status)

    def download(self, text: str, folder: Path) -> Path:
        """Click a download link; return the path of the file."""
        return self.browser.download(self._find("a[download]", text, ""), folder)

    def click(self, text: str, within: str = "", kind: str = "button") -> None:
        """Click an element that changes the page without loading another one."""
        self.browser.click(self._find(kind, text, within))

    def fill(self, label: str, text: str, within: str = "") -> None:
        """Replace the content of a field."""
        control = _CONTROL % (within, json.dumps(label))
        self.browser.click(control)
        self.browser.evaluate(f"({control}).select()")
        if text:
            self.browser.type_text(text)
        else:
            self.browser.evaluate(f"({control}).value = ''")
        assert self.browser.evaluate(f"({control}).value") == text

    def tick(self, label: str) -> None:
        """Tick a checkbox."""
        control = _CONTROL % ("", json.dumps(label))
        self.browser.click(control)
        assert self.browser.evaluate(f"({control}).checked") is True

    def select(self, label: str, value: str) -> None:
        """Set the value of a list; the list itself opens outside the page."""
        control = _CONTROL % ("", json.dumps(label))
        assert self.browser.evaluate(f"({control}).value = {json.dumps(value)}") == value
        assert self.browser.evaluate(f"({control}).value") == value, f"{value} is not in the list"

    def search(self, query: str) -> None:
        """Type a query into the search field and press Enter."""
        self.browser.click("document.querySelector('input[name=q]')")
        self.browser.evaluate("document.querySelector('input[name=q]').select()")
        self.browser.type_text(query)
        self.browser.press_enter()
        self.check_page()

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all visible elements that match a selector."""
        visible = (
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(each => "
            "each.checkVisibility())"
        )
        texts: list[str] = self.browser.evaluate(
            f"{visible}.map(each => each.innerText.trim().replace(/\\s+/g, ' '))"
        )
        return texts

    def assert_shown(self, *texts: str) -> None:
        shown = self._page_text()
        for each in texts:
            assert each in shown, f"{each!r} is not in {shown!r}"

    def assert_not_shown(self, text: str) -> None:
        assert text not in self._page_text()

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        return self.browser.evaluate(expression)

    @property
    def path(self) -> str:
        """Path and query of the page."""
        path: str = self.browser.evaluate("location.pathname + location.search")
        return path

    def check_page(self, *, status: int = 0) -> None:
        """Check width, errors and requested hosts of the page.

        Layout shifts are checked on the first page of each kind, which is also saved as a
        screenshot.
        """
        browser = self.browser
        self._page_count += 1
        kind: str = browser.evaluate(
            "location.pathname + ',' + [...new URLSearchParams(location.search).keys()].sort()"
        )
        if kind not in self._kinds:
            self._kinds.add(kind)
            # The screenshot renders a frame, so that pending layout shifts are reported.
            self.save_screenshot(f"{self._page_count:02d}{_file_suffix(kind)}")
            assert sum(browser.layout_shifts) <= MAX_SHIFT, f"layout shifts at {self.path}"
            assert browser.evaluate(_MOVED_BY_END) == 0, f"the end of {self.path} moves its start"
        # On a phone the viewport is wide at first.
        browser.wait_until(f"document.documentElement.clientWidth === {self.mode.window[0]}")
        content, viewport = browser.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert content <= viewport == self.mode.window[0], f"{self.path} is {content} pixels wide"
        assert [
            each for each in browser.errors if not (status and f"status of {status}" in each)
        ] == [], f"at {self.path}"
        assert browser.font_requests == []
        hosts = {urlsplit(url).netloc for url in browser.requests if not url.startswith("data:")}
        assert hosts <= {urlsplit(self.address).netloc}
        self.clear_events()

    def save_screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{self._scenario}-{self.mode}-{name}.png"
        path.write_bytes(self.browser.screenshot())

    def clear_events(self) -> None:
        """Discard the events that the browser has recorded."""
        browser = self.browser
        for events in (
            browser.requests,
            browser.errors,
            browser.font_requests,
            browser.layout_shifts,
        ):
            events.clear()

    def _page_text(self) -> str:
        text: str = self.browser.evaluate("document.body.innerText.replace(/\\s+/g, ' ')")
        return text

    def _find(self, kind: str, text: str, within: str) -> str:
        condition = f"{_LABEL}(each) === {json.dumps(text)} && each.checkVisibility()"
        selector = ", ".join(f"{within} {each}" for each in kind.split(", "))
        return f"[...document.querySelectorAll({json.dumps(selector)})].find(each => {condition})"


def _file_suffix(kind: str) -> str:
    """Return the words of a path, without IDs, for a file name."""
    parts = kind.partition("/")[2].partition(",")[0].split("/")
    return "".join(f"-{part}" for part in parts if re.fullmatch(r"[a-z.]+", part))


@contextmanager
def new_user(browser: Browser, address: str, mode: BrowserMode, scenario: str) -> Iterator[User]:
    """Yield a user without cookies; save the page if the test fails."""
    browser.open("about:blank")
    browser.allow_scripts(mode.scripts)
    browser.set_window(*mode.window)
    browser.clear_site_data(re.sub(r"/$", "", address))
    user = User(browser, address, mode, scenario)
    user.clear_events()
    try:
        yield user
    except BaseException:
        user.save_screenshot("failed")
        (SCREENSHOTS / f"{scenario}-{mode}-failed.html").write_text(
            str(browser.evaluate("document.documentElement.outerHTML")), encoding="utf-8"
        )
        raise
    finally:
        browser.allow_scripts(True)
