"""Rendering pages: a page's answer goes into Chromium, what its scripts ask for is given or refused
by the caller, its document comes out.

`Browser` does as many at once as it may; `pump` is to be called every few milliseconds while it is
`busy`. Each page has a context of its own: no cookie, storage or cache is common to two. A page
that does not end, eats memory, opens windows or brings a process down costs itself: its job ends
with an error. Where one of several brought the browser down, each is tried once more by itself.

After the load event, and once nothing is being loaded, `SKIP_MS` of the page's timers are run
through at once (Chromium's virtual time).
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from html import escape

from lycosa.fetch.browser.devtools import DevTools
from lycosa.fetch.browser.process import BrowserProcess, Message
from lycosa.fetch.browser.records import BrowserLimits, RenderJob, RenderPage, ResourceRequest

SKIP_MS = 5_000
_QUIET_MS = 100  # nothing is asked for so long before the timers are run
_SKIP_BY_MS = 2_000  # a page that has no end of timers is taken as it is then
_PAGES_A_PROCESS = 200
_MEMORY_EVERY_MS = 500
_START_MS = 20_000  # the browser itself may take so long to begin
_MAX_GAP_MS = 200  # between two calls of ours; what is beyond is no page's fault
_TIMES_IN_ALL = 10  # waiting for the network included, a page may take so many times `page_ms`
_MAX_DIALOGS = 20
_REST_MS = 60_000  # without a page: the browser is ended, for it is large
# a browser that cannot begin is left alone for a while; pages are read as they were sent
_MAX_BAD_STARTS, _CLOSED_MS = 3, 600_000
_STARVATION = 1_000  # tasks that may run at one moment of virtual time
_LOADED = frozenset(("Script", "XHR", "Fetch"))
_ESCAPED = 6  # bytes of JSON that a character may take


class Browser:
    """Renders pages in one Chromium, which is started when there is something to do. Not
    thread-safe.
    """

    def __init__(self, program: str, limits: BrowserLimits, *, sandbox: bool = True) -> None:
        self._program = program
        self._sandbox = sandbox
        self._limits = limits
        self._devtools: DevTools | None = None
        self._waiting: deque[RenderJob] = deque()
        self._pages: list[RenderPage] = []
        self._by_session: dict[str, RenderPage] = {}
        self._requests: list[ResourceRequest] = []
        self._done: list[RenderJob] = []
        self._rendered = 0
        self._started_at = 0
        self._looked_at = 0
        self._last = 0
        self._busy_at = 0
        self._bad_starts = 0
        self._closed_until = 0
        self.starts = 0

    @property
    def pending(self) -> int:
        """Jobs that were begun and not handed back."""
        return len(self._waiting) + len(self._pages) + len(self._done)

    @property
    def waiting(self) -> int:
        """Those of them that no page is open for."""
        return len(self._waiting)

    def begin(self, job: RenderJob) -> None:
        """Render a page; it comes back from `pump`."""
        self._waiting.append(job)

    def pump(self) -> tuple[list[ResourceRequest], list[RenderJob]]:
        """Let pages go on: what they ask for now, and those that are done. Never waits."""
        now = _now_ms()
        since, self._last = now - self._last if self._last else 0, now
        if self.pending:
            self._busy_at = now
        elif now - self._busy_at > _REST_MS:
            self.close()
        self._open_pages(now)
        devtools = self._devtools
        if devtools is not None:
            for event in devtools.events():
                self._take(devtools, event, now)
            self._watch(now, since)
            if devtools.process.broken and self._devtools is devtools:
                self._died("crashed")
        requests, self._requests = self._requests, []
        done, self._done = self._done, []
        return requests, done

    def give(
        self, request: ResourceRequest, status: int, head: list[tuple[str, str]], payload: bytes
    ) -> None:
        """Hand in what a page asked for. More than it may load ends it."""
        page = request.page
        if page not in self._pages:
            return
        if request.job.count_loaded(len(payload)) > self._limits.bytes:
            self._end(page, "too_large")
            return
        page.answered(request.request_id, _now_ms())
        page.fulfil(request.request_id, status, head, payload)

    def refuse(self, request: ResourceRequest) -> None:
        """Say that what a page asked for is not to be had."""
        page = request.page
        if page in self._pages:
            page.answered(request.request_id, _now_ms())
            page.fail(request.request_id)

    def stop(self) -> list[RenderJob]:
        """End everything; the jobs that were not done."""
        left = [*self._waiting, *(page.job for page in self._pages), *self._done]
        self._waiting.clear()
        self._done = []
        self.close()
        return left

    def close(self) -> None:
        """End the browser. A later job starts another one."""
        if self._devtools is not None:
            self._devtools.close()
            self._devtools = None
        self._rendered = 0
        self._pages = []
        self._by_session = {}
        self._requests = []

    # -- pages
    # ------------------------------------------------------------

    def _open_pages(self, now: int) -> None:
        if now < self._closed_until:
            for job in self._waiting:
                job.fail("failed")
            self._done += self._waiting
            self._waiting.clear()
        if self._rendered >= _PAGES_A_PROCESS and not self._pages:
            self.close()
        full = self._rendered >= _PAGES_A_PROCESS
        while (
            self._waiting
            and len(self._pages) < self._limits.pages
            and not full
            and not any(page.job.alone for page in self._pages)
        ):
            if self._waiting[0].alone and self._pages:
                break
            devtools = self._devtools or self._start(now)
            job = self._waiting.popleft()
            self._rendered += 1
            full = self._rendered >= _PAGES_A_PROCESS
            page = RenderPage(job, now, devtools)
            self._pages.append(page)
            page.devtools.call(
                "Target.createBrowserContext",
                {"disposeOnDetach": True},
                then=partial(self._context, page),
            )

    def _start(self, now: int) -> DevTools:
        self._devtools = DevTools(
            BrowserProcess(
                self._program,
                largest_message=_ESCAPED * self._limits.bytes + 2**20,
                sandbox=self._sandbox,
            )
        )
        self._rendered, self._started_at, self._looked_at = 0, now, now
        self.starts += 1
        return self._devtools

    def _context(self, page: RenderPage, result: Message) -> None:
        if page not in self._pages:
            return
        page.enter_context(result)
        page.devtools.call(
            "Browser.setDownloadBehavior", {"behavior": "deny", "browserContextId": page.context}
        )
        parameters = {"url": "about:blank", "browserContextId": page.context}
        page.devtools.call("Target.createTarget", parameters, then=partial(self._created, page))

    def _created(self, page: RenderPage, result: Message) -> None:
        page.attach(target=str(result.get("targetId", "")))
        page.devtools.call(
            "Target.attachToTarget",
            {"targetId": page.target, "flatten": True},
            then=partial(self._attached, page),
        )

    def _attached(self, page: RenderPage, result: Message) -> None:
        if page not in self._pages:
            return
        page.attach(session=str(result.get("sessionId", "")))
        self._by_session[page.session] = page
        job = page.job
        agent = {
            "userAgent": job.user_agent,
            **({"acceptLanguage": job.language} if job.language else {}),
        }
        page.call("Inspector.enable")
        page.call("Emulation.setUserAgentOverride", agent)
        page.call("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        # Its process may still be busy with about:blank: what comes before it has taken this in
        # would be missed.
        page.call("Page.enable", then=partial(self._navigate, page))

    def _navigate(self, page: RenderPage, _: Message) -> None:
        if page in self._pages:
            page.call("Page.navigate", {"url": page.job.url})

    # -- what the browser says
    # ------------------------------------------------------------

    def _take(self, devtools: DevTools, message: Message, now: int) -> None:
        method, parameters = message.get("method"), message.get("params") or {}
        page = self._by_session.get(message.get("sessionId", ""))
        if page is not None:
            self._take_event(page, str(method), parameters, now)
        elif method == "Target.targetCreated":
            info = parameters.get("targetInfo", {})
            mine = {page.target for page in self._pages}
            if info.get("openerId") in mine and info.get("targetId") not in mine:
                # a window that a page opened
                devtools.call("Target.closeTarget", {"targetId": info["targetId"]})
        elif method == "Target.targetCrashed":
            for page in [page for page in self._pages if page.target == parameters.get("targetId")]:
                self._end(page, "crashed")

    def _take_event(self, page: RenderPage, method: str, parameters: Message, now: int) -> None:
        if method == "Fetch.requestPaused":
            self._paused(page, parameters, now)
        elif method == "Page.loadEventFired":
            page.load(now)
        elif (
            method == "Page.frameStoppedLoading"
            and page.served
            and parameters.get("frameId") == page.target
            and not page.loaded
        ):
            page.load(now)  # no load event: a script wanted to go elsewhere
        elif method == "Page.javascriptDialogOpening":
            if page.open_dialog() > _MAX_DIALOGS:
                self._end(page, "failed")
            else:
                page.call("Page.handleJavaScriptDialog", {"accept": False})
        elif method == "Emulation.virtualTimeBudgetExpired":
            self._take_document(page)
        elif method == "Inspector.targetCrashed":
            self._end(page, "crashed")

    def _paused(self, page: RenderPage, parameters: Message, now: int) -> None:
        request, identity = parameters["request"], str(parameters["requestId"])
        url, kind, job = str(request["url"]), str(parameters.get("resourceType", "")), page.job
        if kind == "Document":
            if not page.served and url == job.url:
                page.serve()
                page.fulfil(identity, job.status, job.head, job.payload)
            else:
                if parameters.get("frameId") == page.target and url.startswith(
                    ("http://", "https://")
                ):
                    page.lead_to(url)
                page.fail(identity, "Aborted")  # it stays; frames are pages of their own
            return
        if kind == "Stylesheet":
            # it changes no text
            page.fulfil(identity, 200, [("Content-Type", "text/css")], b"")
            return
        if (
            kind not in _LOADED
            or request.get("method") != "GET"
            or not url.startswith(("http://", "https://"))
        ):
            page.fail(identity)
            return
        if job.requests >= self._limits.requests:
            page.fail(identity)
            return
        page.request(identity, now)
        self._requests.append(ResourceRequest(page, url.partition("#")[0], kind, identity))

    # -- time and memory
    # ------------------------------------------------------------

    def _watch(self, now: int, since: int) -> None:
        devtools = self._devtools
        if devtools is None:
            return
        if not devtools.ready:
            if now - self._started_at > _START_MS:
                self._died("failed")
            return
        for page in list(self._pages):
            if not page.pending:
                page.spend(min(since, _MAX_GAP_MS))
            waited = now - page.began
            if (
                page.spent > self._limits.page_ms
                or waited > (_TIMES_IN_ALL + 1) * self._limits.page_ms
            ):
                self._end(page, "timeout")
                # its process may go on for ever: the browser ends with the other pages
                self._rendered = _PAGES_A_PROCESS
            elif waited > _TIMES_IN_ALL * self._limits.page_ms:
                self._take_document(page)  # what it still waits for may come too late
            elif page.skipping_at:
                if not page.taking and not page.pending and now - page.skipping_at > _SKIP_BY_MS:
                    self._take_document(page)
            elif page.loaded and not page.pending and now - page.quiet_at > _QUIET_MS:
                parameters = {
                    "policy": "pauseIfNetworkFetchesPending",
                    "budget": SKIP_MS,
                    "maxVirtualTimeTaskStarvationCount": _STARVATION,
                }
                page.skip_timers(now, parameters)
        if now - self._looked_at > _MEMORY_EVERY_MS:
            self._looked_at = now
            if devtools.process.memory() > self._limits.memory:
                self._died("memory")

    def _died(self, why: str) -> None:
        """The browser is gone, or has to go. Who did it is found out by trying each page once more,
        by itself.
        """
        suspects = [page.job for page in self._pages]
        ready = self._devtools is not None and self._devtools.ready
        self._bad_starts = 0 if ready else self._bad_starts + 1
        if self._bad_starts >= _MAX_BAD_STARTS:
            self._bad_starts, self._closed_until = 0, _now_ms() + _CLOSED_MS
        self.close()
        for job in suspects:
            if job.alone or len(suspects) == 1:
                job.fail(why)
                self._done.append(job)
            else:
                job.repeat_alone()
                self._waiting.append(job)

    # -- the document
    # ------------------------------------------------------------

    def _take_document(self, page: RenderPage) -> None:
        if page in self._pages:
            page.take_document(partial(self._document, page))

    def _document(self, page: RenderPage, result: Message) -> None:
        root = result.get("root") or {}
        if _origin(str(root.get("documentURL", ""))) != _origin(page.job.url):
            self._end(page, "left")
            return
        parameters = {"nodeId": root.get("nodeId")}
        page.call("DOM.getOuterHTML", parameters, then=partial(self._markup, page))

    def _markup(self, page: RenderPage, result: Message) -> None:
        text = str(result.get("outerHTML", ""))
        if page.led_to and page.led_to != page.job.url:  # as a page without scripts would say it
            text = text.replace(
                "<head>",
                f'<head><meta http-equiv="refresh" content="0; url={escape(page.led_to)}">',
                1,
            )
        html = text.encode("utf-8", "replace")
        if len(html) > self._limits.bytes:
            self._end(page, "too_large")
        elif "<body" not in text and "<frameset" not in text:
            self._end(page, "failed")  # scripts left nothing to read
        else:
            page.job.finish(html)
            self._end(page, "")

    def _end(self, page: RenderPage, error: str) -> None:
        if page not in self._pages:
            return
        self._pages.remove(page)
        self._by_session.pop(page.session, None)
        if page.context:
            page.devtools.call("Target.disposeBrowserContext", {"browserContextId": page.context})
        page.job.fail(error)
        self._done.append(page.job)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
