"""Tools that fetch pages, for operators who allow them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from lycosa.api import Workspace
from lycosa.commands.crawl_models import CrawlReport, FocusedCrawlReport
from lycosa.commands.crawling.run_crawl import CrawlCall, CrawlListeners
from lycosa.commands.page_models import MarkdownPart
from lycosa.commands.untrusted.client_crawl import (
    crawl_for_client,
    focused_crawl_for_client,
    open_collection,
)
from lycosa.commands.untrusted.client_fetch import ClientFetches
from lycosa.config.settings import Collection, Config
from lycosa.core.errors import LycosaError, WorkError
from lycosa.core.units import format_time
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.worker import Limits
from lycosa.hunt.session import Event
from lycosa.mcp.output import Untrusted, error_text, reports_errors
from lycosa.mcp.read_tools import MarkdownModeName, PartLength, Query, Start, Url, markdown_part
from lycosa.page.html.markdown import MarkdownMode
from lycosa.processes.memory import collect_session
from lycosa.processes.threads import Stoppable

MAX_FETCHES = 8
"""Calls of `fetch_page` at once."""

_PROGRESS_S = 1.0
_STOP_S = 20.0  # for a crawl to commit after its client cancelled the call
_Result = TypeVar("_Result")

Pages = Annotated[
    int, Field(ge=1, description="Maximum number of pages. The server may allow fewer.")
]
Seconds = Annotated[int, Field(ge=1, description="Maximum time. The server may allow less.")]


class FetchTools:
    """The tool that fetches single pages. Its method runs in threads."""

    def __init__(self, workspace: Workspace, collection: str) -> None:
        config = workspace.config(collection)
        delay_ms = _named(config, collection).delay
        self._fetches = ClientFetches(workspace.root, config, delay_ms)
        self._slots = threading.BoundedSemaphore(MAX_FETCHES)

    @reports_errors
    def fetch_page(
        self,
        url: Url,
        mode: MarkdownModeName = "main",
        start: Start = 0,
        length: PartLength = 20_000,
    ) -> Untrusted[MarkdownPart]:
        """Fetch a page now and return it as Markdown. robots.txt is obeyed; nothing is stored."""
        if not self._slots.acquire(blocking=False):
            raise WorkError(f"{MAX_FETCHES} pages are being fetched: try again later")
        try:
            page = self._fetches.page(url, MarkdownMode(mode))
        finally:
            self._slots.release()
        fetched_at = format_time(round(page.fetched_at.timestamp() * 1000))
        part = markdown_part(page.url, page.title, fetched_at, page.markdown, start, length)
        return Untrusted(result=part)


class CrawlTools:
    """The tools that crawl. One crawl at a time: it owns the workspace.

    Args:
        workspace: where the pages are stored; it may not exist.
        collection: the collection of the pages. If lycosa.toml has it, its scope applies.
        limits: the maximum limits of a call.
    """

    def __init__(self, workspace: Workspace, collection: str, limits: Limits) -> None:
        configured = any(each.name == collection for each in workspace.config().collection)
        config = workspace.config(collection)
        self._config = open_collection(config, collection, configured=configured)
        self._root = workspace.root
        self._collection = collection
        self._max_pages = limits.max_pages or 1
        self._max_time_ms = limits.max_time_ms or 1_000
        self._running = threading.Lock()

    async def crawl_site(
        self,
        url: Annotated[
            str,
            Field(
                max_length=8_000,
                description="A host for its complete site, or a URL for the pages below its path.",
            ),
        ],
        context: Context,
        max_pages: Pages = 50,
        max_seconds: Seconds = 120,
        depth: Annotated[
            int | None, Field(ge=0, le=100, description="Maximum number of links from the URL.")
        ] = None,
    ) -> Untrusted[CrawlReport]:
        """Crawl a site, store its pages and index them. robots.txt and delays are obeyed."""
        limits = self._limits(max_pages, max_seconds)
        call = _Call(limits.max_pages or 0)
        order = CrawlCall(self._root, self._config, self._collection, limits=limits, depth=depth)
        listeners = CrawlListeners(call.observe, on_start=call.started)

        def crawl() -> CrawlReport:
            return crawl_for_client(order, url, listeners)

        return Untrusted(result=await self._run(context, call, crawl))

    async def focused_crawl(
        self,
        question: Annotated[Query, Field(description="What to look for.")],
        context: Context,
        seeds: Annotated[
            list[Annotated[str, Field(max_length=8_000)]],
            Field(max_length=20, description="Start pages; empty: matching stored pages."),
        ] = [],  # noqa: B006 - never changed
        max_pages: Pages = 50,
        max_seconds: Seconds = 60,
        enough: Annotated[
            int, Field(ge=1, le=100, description="Number of relevant pages to stop at.")
        ] = 10,
    ) -> Untrusted[FocusedCrawlReport]:
        """Follow the most relevant links for a question, and return the relevant pages."""
        limits = self._limits(max_pages, max_seconds)
        call = _Call(limits.max_pages or 0)
        parameters = {
            "question": question,
            "seeds": seeds,
            "pages": limits.max_pages,
            "time_ms": limits.max_time_ms,
            "enough": enough,
            "collection": self._collection,
        }

        def crawl() -> FocusedCrawlReport:
            return focused_crawl_for_client(
                self._root, self._config, parameters, call.handle, call.started
            )

        return Untrusted(result=await self._run(context, call, crawl))

    def _limits(self, max_pages: int, max_seconds: int) -> Limits:
        return Limits(min(max_pages, self._max_pages), min(1_000 * max_seconds, self._max_time_ms))

    async def _run(self, context: Context, call: _Call, crawl: Callable[[], _Result]) -> _Result:
        """Run a crawl in a thread and report its progress; stop it if the call is cancelled."""
        if not self._running.acquire(blocking=False):
            raise ToolError("a crawl of this server is running: try again when it has ended")

        def work() -> _Result:
            try:
                return crawl()
            finally:
                gc.unfreeze()  # each crawl freezes all objects, garbage included
                collect_session()
                self._running.release()
                call.end()

        outcome: _Result | LycosaError
        async with anyio.create_task_group() as group:
            group.start_soon(_report, context, call)
            try:
                outcome = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
            except LycosaError as error:
                outcome = error
            except anyio.get_cancelled_exc_class():
                call.stop()
                with anyio.move_on_after(_STOP_S, shield=True):
                    while not call.ended:
                        await anyio.sleep(0.05)
                raise
            group.cancel_scope.cancel()
        if isinstance(outcome, LycosaError):
            raise ToolError(error_text(outcome))
        return outcome


class _Call:
    """The progress of a crawl, and the means to stop it."""

    def __init__(self, max_pages: int) -> None:
        self.max_pages = max_pages
        self.pages = 0
        self.message = "starting"
        self.ended = False
        self._crawl: Stoppable | None = None
        self._stopped = False

    def started(self, crawl: Stoppable) -> None:
        self._crawl = crawl
        if self._stopped:
            crawl.stop()

    def stop(self) -> None:
        self._stopped = True
        if self._crawl is not None:
            self._crawl.stop()

    def end(self) -> None:
        """Record the end of the crawl."""
        self.ended = True

    def observe(self, progress: Progress) -> None:
        self.pages = progress.pages
        self.message = f"{progress.pages:,} pages, {progress.queue:,} URLs waiting"

    def handle(self, event: Event) -> None:
        if event["event"] == "progress":
            self.pages = event["pages"]
            self.message = f"{event['pages']:,} pages"


async def _report(context: Context, call: _Call) -> None:
    while True:
        await context.report_progress(call.pages, call.max_pages, call.message)
        await anyio.sleep(_PROGRESS_S)


def _named(config: Config, name: str) -> Collection:
    return next(each for each in config.collection if each.name == name)
