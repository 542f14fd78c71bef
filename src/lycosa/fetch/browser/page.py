"""One page in the browser: its DevTools session from the first call to the document."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from html import escape

from lycosa.fetch.browser.devtools import DevTools, Reply
from lycosa.fetch.browser.process import Message
from lycosa.fetch.browser.records import BrowserLimits, RenderJob

SKIP_MS = 5_000
"""Virtual time by which the page's timers are advanced at once."""

_QUIET_MS = 100  # without a request, before the timers are run
_SKIP_BY_MS = 2_000  # the document of a page with endless timers is read after this time
_MAX_GAP_MS = 200  # between two calls of `watch`; longer gaps do not count as the page's time
_TIMES_IN_ALL = 10  # maximum time of a page with waiting for the network, in multiples of `page_ms`
_MAX_DIALOGS = 20
_STARVATION = 1_000  # tasks that may run at one moment of virtual time
_LOADED = frozenset(("Script", "XHR", "Fetch"))


@dataclass(slots=True, frozen=True, eq=False)
class ResourceRequest:
    """A script or data that a page requests by GET.

    `Browser.give` or `Browser.refuse` responds to it.
    """

    page: RenderPage
    url: str
    kind: str  # Chromium's resource type
    request_id: str

    @property
    def job(self) -> RenderJob:
        """The job of the page."""
        return self.page.job


class RenderPage:
    """Renders one job. `ended`: there is a result, or the page was abandoned."""

    def __init__(
        self, job: RenderJob, devtools: DevTools, limits: BrowserLimits, now_ms: int
    ) -> None:
        self.job = job
        self.target = self.session = ""  # Chromium's ids
        self.ended = False
        self._devtools = devtools
        self._limits = limits
        self._began = now_ms
        self._context = ""
        self._requests: list[ResourceRequest] = []  # not yet returned by `take_requests`
        self._pending: set[str] = set()  # requests without a response of the caller
        self._spent_ms = 0  # time without a pending request
        self._quiet_at = 0
        self._skipping_at = 0
        self._served = self._loaded = self._reading = False
        self._dialogs = 0
        self._led_to = ""  # target of a navigation by script; the first URL counts
        devtools.call(
            "Target.createBrowserContext", {"disposeOnDetach": True}, then=self._create_target
        )

    # -- beginning
    # ------------------------------------------------------------

    def _create_target(self, result: Message) -> None:
        if self.ended:
            return
        self._context = str(result.get("browserContextId", ""))
        context = {"browserContextId": self._context}
        self._devtools.call("Browser.setDownloadBehavior", {"behavior": "deny", **context})
        self._devtools.call(
            "Target.createTarget", {"url": "about:blank", **context}, then=self._attach
        )

    def _attach(self, result: Message) -> None:
        self.target = str(result.get("targetId", ""))
        self._devtools.call(
            "Target.attachToTarget", {"targetId": self.target, "flatten": True}, then=self._navigate
        )

    def _navigate(self, result: Message) -> None:
        if self.ended:
            return
        self.session = str(result.get("sessionId", ""))
        agent = {"userAgent": self.job.user_agent}
        if self.job.language:
            agent["acceptLanguage"] = self.job.language
        self._call("Inspector.enable")
        self._call("Emulation.setUserAgentOverride", agent)
        self._call("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        # The page's process may still be loading about:blank, and would miss an earlier navigation.
        self._call("Page.enable", then=self._open_url)

    def _open_url(self, _: Message) -> None:
        self._call("Page.navigate", {"url": self.job.url})

    # -- requests
    # ------------------------------------------------------------

    def take_requests(self) -> list[ResourceRequest]:
        """Return the requests since the last call."""
        requests, self._requests = self._requests, []
        return requests

    def give(
        self,
        request_id: str,
        now_ms: int,
        status: int,
        head: list[tuple[str, str]],
        payload: bytes,
    ) -> None:
        """Send the response to a request. The page ends if it exceeds its bytes."""
        if self.ended:
            return
        self.job.count(loaded=len(payload))
        if self.job.loaded > self._limits.bytes:
            self.end("too_large")
            return
        self._pending.discard(request_id)
        self._quiet_at = now_ms
        self._fulfil(request_id, status, head, payload)

    def refuse(self, request_id: str, now_ms: int) -> None:
        """Let a request fail."""
        self._pending.discard(request_id)
        self._quiet_at = now_ms
        self._fail(request_id)

    def _fulfil(
        self, request_id: str, status: int, head: list[tuple[str, str]], payload: bytes
    ) -> None:
        parameters = {
            "requestId": request_id,
            "responseCode": status,
            "responseHeaders": [{"name": name, "value": value} for name, value in head],
            "body": b64encode(payload).decode("ascii"),
        }
        self._call("Fetch.fulfillRequest", parameters)

    def _fail(self, request_id: str, reason: str = "BlockedByClient") -> None:
        self._call("Fetch.failRequest", {"requestId": request_id, "errorReason": reason})

    def _pause(self, parameters: Message, now_ms: int) -> None:
        """Respond to a request of the page, or add it for `take_requests`."""
        request, request_id = parameters["request"], str(parameters["requestId"])
        url, kind, job = str(request["url"]), str(parameters.get("resourceType", "")), self.job
        is_web = url.startswith(("http://", "https://"))
        if kind == "Document" and not self._served and url == job.url:
            self._served = True
            self._fulfil(request_id, job.status, job.head, job.payload)
        elif kind == "Document":
            if parameters.get("frameId") == self.target and is_web:
                self._led_to = self._led_to or url
            self._fail(request_id, "Aborted")  # no navigation; frames are separate pages
        elif kind == "Stylesheet":  # it changes no text
            self._fulfil(request_id, 200, [("Content-Type", "text/css")], b"")
        elif (
            kind not in _LOADED
            or request.get("method") != "GET"
            or not is_web
            or job.requests >= self._limits.requests
        ):
            self._fail(request_id)
        else:
            job.count(requests=1)
            self._pending.add(request_id)
            self._quiet_at = now_ms
            self._requests.append(ResourceRequest(self, url.partition("#")[0], kind, request_id))

    # -- events and time
    # ------------------------------------------------------------

    def handle(self, method: str, parameters: Message, now_ms: int) -> None:
        """Handle an event of the page's session."""
        if self.ended:
            return
        if method == "Fetch.requestPaused":
            self._pause(parameters, now_ms)
        elif method == "Page.loadEventFired" or (
            method == "Page.frameStoppedLoading"  # a navigation by script
            and self._served
            and parameters.get("frameId") == self.target
            and not self._loaded
        ):
            self._loaded, self._quiet_at = True, now_ms
        elif method == "Page.javascriptDialogOpening":
            self._dialogs += 1
            if self._dialogs > _MAX_DIALOGS:
                self.end("failed")
            else:
                self._call("Page.handleJavaScriptDialog", {"accept": False})
        elif method == "Emulation.virtualTimeBudgetExpired":
            self._read_document()
        elif method == "Inspector.targetCrashed":
            self.end("crashed")

    def watch(self, now_ms: int, since_ms: int) -> None:
        """Apply the limits of time. `since_ms`: the time since the last call."""
        limit_ms = self._limits.page_ms
        if not self._pending:
            self._spent_ms += min(since_ms, _MAX_GAP_MS)
        waited_ms = now_ms - self._began
        if self._spent_ms > limit_ms or waited_ms > (_TIMES_IN_ALL + 1) * limit_ms:
            self.end("timeout")
        elif waited_ms > _TIMES_IN_ALL * limit_ms:
            self._read_document()  # pending responses may arrive too late
        elif self._pending:
            return
        elif self._skipping_at:
            if now_ms - self._skipping_at > _SKIP_BY_MS:
                self._read_document()
        elif self._loaded and now_ms - self._quiet_at > _QUIET_MS:
            self._skipping_at = now_ms
            parameters = {
                "policy": "pauseIfNetworkFetchesPending",
                "budget": SKIP_MS,
                "maxVirtualTimeTaskStarvationCount": _STARVATION,
            }
            self._call("Emulation.setVirtualTimePolicy", parameters)

    # -- the end
    # ------------------------------------------------------------

    def abandon(self) -> None:
        """Abandon the page: the browser has ended, so its job gets no result."""
        self.ended = True

    def end(self, error: str = "", html: bytes = b"") -> None:
        """Set the result of the job, and remove the page from the browser."""
        if self.ended:
            return
        self.ended = True
        if self._context:
            self._devtools.call("Target.disposeBrowserContext", {"browserContextId": self._context})
        self.job.end(error, html)

    def _read_document(self) -> None:
        if not self._reading:
            self._reading = True
            self._call("DOM.getDocument", {"depth": 0}, then=self._read_markup)

    def _read_markup(self, result: Message) -> None:
        root = result.get("root") or {}
        if _origin(str(root.get("documentURL", ""))) != _origin(self.job.url):
            self.end("left")
            return
        self._call("DOM.getOuterHTML", {"nodeId": root.get("nodeId")}, then=self._finish)

    def _finish(self, result: Message) -> None:
        text = str(result.get("outerHTML", ""))
        if self._led_to and self._led_to != self.job.url:  # as in a page without scripts
            refresh = f'<meta http-equiv="refresh" content="0; url={escape(self._led_to)}">'
            text = text.replace("<head>", f"<head>{refresh}", 1)
        html = text.encode("utf-8", "replace")
        if len(html) > self._limits.bytes:
            self.end("too_large")
        elif "<body" not in text and "<frameset" not in text:
            self.end("failed")  # scripts removed all content
        else:
            self.end(html=html)

    def _call(
        self, method: str, parameters: Message | None = None, *, then: Reply | None = None
    ) -> None:
        if not self.ended:
            self._devtools.call(method, parameters, session=self.session, then=then)


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
