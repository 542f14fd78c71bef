"""Renders pages in Chromium.

The browser receives the response of a page, the caller responds to the requests of its scripts or
refuses them, and the browser returns the document. `Browser` renders several pages concurrently;
call `pump` every few milliseconds while there are pending jobs. Each page has its own context
without shared cookies, storage or cache. If a page does not end, uses too much memory, opens
windows or crashes a process, only its job ends with an error. If the browser dies while it renders
several pages, each is tried once more alone.
"""

from __future__ import annotations

from collections import deque

from lycosa.fetch.browser.devtools import DevTools
from lycosa.fetch.browser.page import RenderPage, ResourceRequest
from lycosa.fetch.browser.process import BrowserProcess, Message
from lycosa.fetch.browser.records import BrowserLimits, RenderJob
from lycosa.fetch.driver import monotonic_ms

_PAGES_A_PROCESS = 200
_MEMORY_EVERY_MS = 500
_START_MS = 20_000  # time limit for the start of the browser
_IDLE_MS = 60_000  # idle time after which the browser is ended, because it is large
# pause after a browser failed to start; pages are then read without rendering
_MAX_BAD_STARTS, _CLOSED_MS = 3, 600_000
_ESCAPED = 6  # bytes of JSON that a character may take


class Browser:
    """Renders pages in one Chromium, which is started when there is a job. Not thread-safe."""

    def __init__(self, program: str, limits: BrowserLimits, *, sandbox: bool = True) -> None:
        self._program = program
        self._sandbox = sandbox
        self._limits = limits
        self._devtools: DevTools | None = None
        self._waiting: deque[RenderJob] = deque()
        self._pages: list[RenderPage] = []
        self._done: list[RenderJob] = []
        self._rendered = 0
        self._started_at = 0
        self._measured_at = 0
        self._pumped_at = 0
        self._busy_at = 0
        self._bad_starts = 0
        self._closed_until = 0
        self.starts = 0

    @property
    def pending(self) -> int:
        """The number of jobs that were begun and not yet returned."""
        return len(self._waiting) + len(self._pages) + len(self._done)

    @property
    def waiting(self) -> int:
        """The number of jobs that wait for a page in the browser."""
        return len(self._waiting)

    def begin(self, job: RenderJob) -> None:
        """Start to render a page; `pump` returns its job."""
        self._waiting.append(job)

    def pump(self) -> tuple[list[ResourceRequest], list[RenderJob]]:
        """Continue all pages, and return their new requests and finished jobs.

        Never waits.
        """
        now_ms = monotonic_ms()
        since_ms = now_ms - self._pumped_at if self._pumped_at else 0
        self._pumped_at = now_ms
        if self.pending:
            self._busy_at = now_ms
        elif now_ms - self._busy_at > _IDLE_MS:
            self.close()
        self._open_pages(now_ms)
        devtools = self._devtools
        if devtools is not None:
            for event in devtools.events():
                self._handle(devtools, event, now_ms)
            self._watch(devtools, now_ms, since_ms)
            if devtools.process.broken and self._devtools is devtools:
                self._restart("crashed")
        requests = [request for page in self._pages for request in page.take_requests()]
        self._collect()
        done, self._done = self._done, []
        return requests, done

    def give(
        self, request: ResourceRequest, status: int, head: list[tuple[str, str]], payload: bytes
    ) -> None:
        """Send the response to a request. The page ends if it exceeds its bytes."""
        request.page.give(request.request_id, monotonic_ms(), status, head, payload)

    def refuse(self, request: ResourceRequest) -> None:
        """Let a request of a page fail."""
        request.page.refuse(request.request_id, monotonic_ms())

    def stop(self) -> list[RenderJob]:
        """End the browser, and return the jobs that were not yet returned."""
        jobs = [*self._waiting, *(page.job for page in self._pages), *self._done]
        self._waiting.clear()
        self._done = []
        self.close()
        return jobs

    def close(self) -> None:
        """End the browser. A later job starts another one."""
        if self._devtools is not None:
            self._devtools.close()
            self._devtools = None
        for page in self._pages:
            page.abandon()
        self._rendered = 0
        self._pages = []

    def _open_pages(self, now_ms: int) -> None:
        if now_ms < self._closed_until:
            for job in self._waiting:
                job.end("failed")
            self._done += self._waiting
            self._waiting.clear()
        if self._rendered >= _PAGES_A_PROCESS and not self._pages:
            self.close()
        while (
            self._waiting
            and len(self._pages) < self._limits.pages
            and self._rendered < _PAGES_A_PROCESS
            and not any(page.job.alone for page in self._pages)
        ):
            if self._waiting[0].alone and self._pages:
                break
            devtools = self._devtools or self._start(now_ms)
            self._rendered += 1
            page = RenderPage(self._waiting.popleft(), devtools, self._limits, now_ms)
            self._pages.append(page)

    def _start(self, now_ms: int) -> DevTools:
        largest_message = _ESCAPED * self._limits.bytes + 2**20
        self._devtools = DevTools(
            BrowserProcess(self._program, largest_message=largest_message, sandbox=self._sandbox)
        )
        self._rendered, self._started_at, self._measured_at = 0, now_ms, now_ms
        self.starts += 1
        return self._devtools

    def _handle(self, devtools: DevTools, message: Message, now_ms: int) -> None:
        method, parameters = str(message.get("method")), message.get("params") or {}
        if session := message.get("sessionId", ""):
            for page in self._pages:
                if page.session == session:
                    page.handle(method, parameters, now_ms)
        elif method == "Target.targetCreated":
            info = parameters.get("targetInfo", {})
            targets = {page.target for page in self._pages}
            if info.get("openerId") in targets and info.get("targetId") not in targets:
                # a window that a page opened
                devtools.call("Target.closeTarget", {"targetId": info["targetId"]})
        elif method == "Target.targetCrashed":
            for page in self._pages:
                if page.target == parameters.get("targetId"):
                    page.end("crashed")

    def _watch(self, devtools: DevTools, now_ms: int, since_ms: int) -> None:
        if not devtools.ready:
            if now_ms - self._started_at > _START_MS:
                self._restart("failed")
            return
        for page in self._pages:
            if page.ended:
                continue
            page.watch(now_ms, since_ms)
            if page.job.error == "timeout":
                # the page's process may never end: end the browser after the other pages
                self._rendered = _PAGES_A_PROCESS
        if now_ms - self._measured_at > _MEMORY_EVERY_MS:
            self._measured_at = now_ms
            if devtools.process.memory() > self._limits.memory:
                self._restart("memory")

    def _collect(self) -> None:
        """Move the jobs of pages that have ended to those that are done."""
        self._done += [page.job for page in self._pages if page.ended]
        self._pages = [page for page in self._pages if not page.ended]

    def _restart(self, error: str) -> None:
        """End a browser that died or must end.

        Each page is tried once more alone, to find the cause.
        """
        self._collect()
        suspects = [page.job for page in self._pages]
        ready = self._devtools is not None and self._devtools.ready
        self._bad_starts = 0 if ready else self._bad_starts + 1
        if self._bad_starts >= _MAX_BAD_STARTS:
            self._bad_starts, self._closed_until = 0, monotonic_ms() + _CLOSED_MS
        self.close()
        for job in suspects:
            if job.alone or len(suspects) == 1:
                job.end(error)
                self._done.append(job)
            else:
                job.repeat_alone()
                self._waiting.append(job)
