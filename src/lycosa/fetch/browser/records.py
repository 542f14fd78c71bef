"""What goes into the browser and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class BrowserLimits:
    """Of one page: time in the browser, requests, bytes loaded or grown to. Of the browser: pages
    at once, memory.
    """

    pages: int
    page_ms: int
    requests: int
    bytes: int
    memory: int


@dataclass(slots=True, eq=False)
class RenderJob:
    """One page. `head` are the fields of its answer that a browser is to see. When it is done,
    `html` holds the document, or `error` why there is none: `timeout`, `memory`, `too_large`,
    `crashed`, `left`, `failed`.
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
    alone: bool = False  # it was there when the browser went down
    requests: int = 0
    loaded: int = 0


@dataclass(slots=True, eq=False)
class RenderPage:
    """A job in the browser: the ids that Chromium gave it, and how far it is."""

    job: RenderJob
    began: int
    context: str = ""
    target: str = ""
    session: str = ""
    pending: set[str] = field(default_factory=set)  # requests that the caller has not answered
    spent: int = 0  # ms without any pending
    quiet_at: int = 0
    loaded: bool = False
    skipping_at: int = 0
    taking: bool = False
    served: bool = False
    dialogs: int = 0
    led_to: str = ""  # where a script wanted to go


@dataclass(slots=True, eq=False)
class ResourceRequest:
    """A script or a piece of data that a page asks for by GET; to be answered by `Browser.give` or
    `Browser.refuse`.
    """

    page: RenderPage
    url: str
    kind: str  # Chromium's resource type
    request_id: str

    @property
    def job(self) -> RenderJob:
        """The page that asks."""
        return self.page.job
