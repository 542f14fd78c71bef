"""Shared-memory mark of the page that a worker is parsing, so that its parent can name that page
and kill a hanging worker.
"""

from __future__ import annotations

from multiprocessing.sharedctypes import RawArray, RawValue

MAX_PAGE_MS = 180_000
"""A worker that reads one page for so long hangs, and is killed: the slowest page of the hostile
server takes under 5 s.
"""

_MARK_BYTES = 2_048


class PageMark:
    """The page being parsed, in memory shared by parent and child.

    So it can be read after the child was killed.
    """

    def __init__(self) -> None:
        self._text = RawArray("c", _MARK_BYTES)
        self._number = RawValue("Q")

    def set(self, url: str) -> None:
        """Record that the page of a URL is parsed from now on; "": none is."""
        self._number.value += 1
        self._text.value = url.encode()[: _MARK_BYTES - 1]

    @property
    def number(self) -> int:
        """Changes with every page that is begun or done."""
        number: int = self._number.value
        return number

    @property
    def url(self) -> str:
        text: bytes = self._text.value
        return text.decode(errors="replace")


class HangDetector:
    """Detects that one page is parsed for too long. Call it from one thread."""

    def __init__(self, mark: PageMark) -> None:
        self._mark = mark
        self._page = (0, 0)  # its number, and since when it is parsed (monotonic ms)

    def hangs(self, now: int) -> bool:
        """Return whether the same page is parsed since `MAX_PAGE_MS`. `now`: monotonic ms."""
        number, since = self._page
        if number != self._mark.number or not self._mark.url:
            self._page = (self._mark.number, now)
            return False
        return now - since >= MAX_PAGE_MS
