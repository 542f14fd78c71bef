"""A call of a crawl: collection, seeds, limits and number of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from lycosa.commands.crawl_models import CrawlReport
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.commands.engines import is_shared, open_engine
from lycosa.config.settings import Collection, Config
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.core.records import Page, Visit
from lycosa.crawl.session.planning import read_seeds
from lycosa.crawl.session.workspace_config import called_collection
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.worker import Limits
from lycosa.hooks.plugins import Plugins, plugins_with
from lycosa.hooks.specs import hook
from lycosa.processes.threads import Stoppable
from lycosa.url.normalise import typed_url
from lycosa.url.site_name import SiteScope

if TYPE_CHECKING:
    from lycosa.commands.page_models import FetchedPage


@dataclass(frozen=True)
class CrawlCall:
    """The parameters of one crawl. `start`: a URL, or "unvisited"; see `CrawlOrder`."""

    root: str
    config: Config
    collection: str
    seeds: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    depth: int | None = None
    delay_ms: int | None = None
    scope: str = ""
    strategy: str = ""
    start: str = ""
    index: bool = True
    engine: str = ""
    address: str = ""
    workers: int | None = None
    site: SiteScope | None = None

    def settings(self) -> Collection:
        """Return the collection with the options of the call.

        Raises:
            UsageError: an option is wrong.
        """
        named = (each for each in self.config.collection if each.name == self.collection)
        entry = next(named, None)
        if entry is None:
            raise UsageError(f"{self.collection!r} is not the name of a collection")
        return called_collection(
            self.config,
            self.collection,
            depth=None if self.is_walk else self.depth,
            delay=self.delay_ms,
            scope=self.scope,
            strategy=self.strategy,
            seeds=read_seeds(entry.seed_file) if entry.seed_file and self.site is None else (),
        )

    @property
    def is_walk(self) -> bool:
        """Whether known links are followed from a URL."""
        return bool(self.start) and self.start != "unvisited"


def seed_url(text: str) -> str:
    """Return a seed; without a scheme https if the server speaks TLS there, else http."""
    if typed_url(text) == text:
        return text
    from lycosa.fetch.handle import accepts_tls

    return f"https://{text}" if accepts_tls(text) else f"http://{text}"


class _ListenerFailed(BaseException):
    """An error of `on_page`; it ends the crawl, unlike an Exception of a plug-in."""


class _PageListener:
    """A plug-in that calls a function with each parsed page."""

    def __init__(self, on_page: Callable[[FetchedPage], None]) -> None:
        self._on_page = on_page

    @hook
    def page_parsed(self, page: Page, visit: Visit) -> None:
        from lycosa.commands.inspection.single import fetched_page

        fetched = fetched_page(visit.url, visit.http_status, page, visit.collection)
        try:
            self._on_page(fetched)
        except Exception as error:
            raise _ListenerFailed from error


@dataclass(frozen=True)
class CrawlListeners:
    """Functions that are called during a crawl. Their errors end it.

    `on_page` is not called with several workers.
    """

    on_progress: Callable[[Progress], None] | None = None
    on_page: Callable[[FetchedPage], None] | None = None
    on_start: Callable[[Stoppable], None] | None = None


def run_call(call: CrawlCall, listeners: CrawlListeners) -> CrawlReport:
    """Crawl to the end or to a limit.

    Raises:
        UsageError: there is no seed, or a seed or an option is invalid.
        OwnedError: another process is crawling in this workspace.
        WorkError: the disk is full, the archive or the log is damaged.
    """
    if call.start and call.seeds:
        raise UsageError("--from starts from stored URLs: leave out other URLs and --seeds")
    plugins: Plugins | None = None
    if listeners.on_page is not None:
        plugins = plugins_with(("pages", _PageListener(listeners.on_page)))
    order = CrawlOrder(
        call.root,
        call.config,
        call.settings(),
        call.seeds,
        call.limits,
        index=call.index,
        start=call.start,
        start_depth=call.depth if call.is_walk else None,
        site=call.site,
        plugins=plugins,
    )
    if is_shared(call.engine, call.address, call.workers):
        from lycosa.commands.crawling.cluster_crawl import crawl_together

        with open_engine(call.engine, call.address, call.config) as engine:
            progress = crawl_together(
                order,
                engine,
                call.workers,
                observer=listeners.on_progress,
                started=listeners.on_start,
            )
    else:
        try:
            progress = crawl(order, observer=listeners.on_progress, started=listeners.on_start)
        except _ListenerFailed as failure:
            raise (failure.__cause__ or failure) from None
    return CrawlReport(
        workspace=call.root,
        collection=call.collection,
        public_pages=progress.public_pages,
        **progress.summary(progress.ended_ms),  # type: ignore[arg-type]
    )
