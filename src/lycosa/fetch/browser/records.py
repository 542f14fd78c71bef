"""What goes into the browser and comes out of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from lycosa.fetch.browser.devtools import DevTools
from lycosa.fetch.browser.process import Message


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

    def fail(self, error: str) -> None:
        """The page was not rendered."""
        self.error = error

    def finish(self, html: bytes) -> None:
        """The page was rendered."""
        self.html = html

    def count_request(self) -> None:
        """The page requests a resource."""
        self.requests += 1

    def count_loaded(self, size: int) -> int:
        """A resource was given to the page. Return the bytes that it has loaded."""
        self.loaded += size
        return self.loaded

    def repeat_alone(self) -> None:
        """Render the page once more, with no other page in the browser."""
        self.alone, self.requests, self.loaded = True, 0, 0


@dataclass(slots=True, eq=False)
class RenderPage:
    """A job in the browser: the ids that Chromium gave it, and how far it is."""

    job: RenderJob
    began: int
    devtools: DevTools
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

    def enter_context(self, result: Message) -> None:
        """Chromium created the page's browser context."""
        self.context = str(result.get("browserContextId", ""))

    def attach(self, target: str = "", session: str = "") -> None:
        """Chromium created the page's target, or its session."""
        self.target = target or self.target
        self.session = session or self.session

    def serve(self) -> None:
        """Chromium was given the document."""
        self.served = True

    def load(self, now: int) -> None:
        """The document is loaded."""
        self.loaded, self.quiet_at = True, now

    def request(self, request_id: str, now: int) -> None:
        """The page requests a resource."""
        self.job.count_request()
        self.pending.add(request_id)
        self.quiet_at = now

    def lead_to(self, url: str) -> None:
        """A script wants to go elsewhere; the first URL counts."""
        self.led_to = self.led_to or url

    def open_dialog(self) -> int:
        """A dialog opens. Return how many there were."""
        self.dialogs += 1
        return self.dialogs

    def spend(self, ms: int) -> None:
        """Time has passed in which the page waited for no request."""
        self.spent += ms

    def skip_timers(self, now: int, parameters: Message) -> None:
        """Run the timers of the page at once."""
        self.skipping_at = now
        self.call("Emulation.setVirtualTimePolicy", parameters)

    def take_document(self, then: Callable[[Message], None]) -> None:
        """Request the document, once."""
        if not self.taking:
            self.taking = True
            self.call("DOM.getDocument", {"depth": 0}, then=then)

    def call(
        self,
        method: str,
        parameters: Message | None = None,
        *,
        then: Callable[[Message], None] | None = None,
    ) -> None:
        """Call a method of the page's session."""
        self.devtools.call(method, parameters, session=self.session, then=then)

    def fulfil(
        self, request_id: str, status: int, head: list[tuple[str, str]], payload: bytes
    ) -> None:
        """Answer one of its requests."""
        parameters = {
            "requestId": request_id,
            "responseCode": status,
            "responseHeaders": [{"name": name, "value": value} for name, value in head],
            "body": b64encode(payload).decode("ascii"),
        }
        self.call("Fetch.fulfillRequest", parameters)

    def fail(self, request_id: str, reason: str = "BlockedByClient") -> None:
        """Let one of its requests fail."""
        self.call("Fetch.failRequest", {"requestId": request_id, "errorReason": reason})

    def answered(self, request_id: str, now: int) -> None:
        """The caller has answered one of its requests."""
        self.pending.discard(request_id)
        self.quiet_at = now


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
