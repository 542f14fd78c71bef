"""Input and output of the browser."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class BrowserLimits:
    """Limits of a page and of the browser.

    Of a page: `page_ms`, `requests`, and `bytes`, for loaded resources and for the document. Of the
    browser: `pages` at a time, and `memory` in bytes.
    """

    pages: int
    page_ms: int
    requests: int
    bytes: int
    memory: int


@dataclass(slots=True, eq=False)
class RenderJob:
    """One page to render.

    `head`: the response fields that the browser receives. The result is the document in `html`, or
    in `error` the reason why there is none: `timeout`, `memory`, `too_large`, `crashed`, `left`,
    `failed`.
    """

    url: str
    status: int
    head: list[tuple[str, str]]
    payload: bytes
    user_agent: str
    language: str = ""
    html: bytes = b""
    error: str = ""
    token: object = None
    alone: bool = False  # rendered alone, because the browser died while it was rendered
    requests: int = 0
    loaded: int = 0  # bytes

    def end(self, error: str = "", html: bytes = b"") -> None:
        """Set the result."""
        self.error, self.html = error, html

    def count(self, *, requests: int = 0, loaded: int = 0) -> None:
        """Count requests of the page, and bytes given to it."""
        self.requests += requests
        self.loaded += loaded

    def repeat_alone(self) -> None:
        """Render the page once more, with no other page in the browser."""
        self.alone, self.requests, self.loaded = True, 0, 0
