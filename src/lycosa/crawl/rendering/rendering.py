"""Rendering in a crawl: a page with scripts passes through a browser before it is parsed.

Its exchange is archived when it arrives (`ResponseProcessor.archive_unparsed`), like that of a
document, and its host is then released. The resources of the page are separate, archived requests,
which obey the host's clock, robots.txt and the exclusions. After rendering, the exchange is
processed with the rendered document, or without it if rendering failed. After a kill, replay
processes the page without rendering.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from cachetools import TTLCache

from lycosa.config.settings import Collection, Config
from lycosa.core.errors import Refusal
from lycosa.core.records import Exchange, Page, UrlId, VisitKind
from lycosa.crawl.processing.page_reader import ParseFunction
from lycosa.crawl.rendering.learning import RenderLearner, RenderPlan, gains, is_shell
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.fetch.browser.browser import Browser
from lycosa.fetch.browser.page import ResourceRequest
from lycosa.fetch.browser.process import find_browser
from lycosa.fetch.browser.records import BrowserLimits, RenderJob
from lycosa.http.decode import Headers, content_type_of, decode_body, parse_head
from lycosa.url.normalise import LinkResolver
from lycosa.url.scope import url_origin

KEEP_MS = 3_600_000
"""Time during which a fetched script is reused for other pages."""

_MAX_BYTES = 32 * 2**20

Head = list[tuple[str, str]]


class RequisiteDecision(Enum):
    """Whether a resource of a page may be fetched."""

    YES = "yes"
    NO = "no"
    ASK_ROBOTS = "ask robots"  # robots.txt is unknown and may be requested now
    WAIT = "wait"


class RequisiteRules:
    """The rules of one collection for the resources of pages."""

    def __init__(self, crawl: CrawlState, collection: Collection) -> None:
        self._crawl = crawl
        self._deny = tuple(re.compile(pattern) for pattern in collection.deny)
        self._hosts = frozenset(host.lower().strip(".") for host in collection.render_hosts)

    def judge(self, identity: UrlId, page_host: str) -> RequisiteDecision:
        """Return whether a URL may be fetched now for a page of `page_host`.

        Activates the URL's host.
        """
        crawl = self._crawl
        url, origin = identity.url, url_origin(identity.url)
        if (
            not self._near(identity.host, page_host)
            or not crawl.held_partitions.holds(identity.partition)
            or origin in crawl.refused_origins
            or crawl.excluded(url)
            or any(pattern.search(url) for pattern in self._deny)
        ):
            return RequisiteDecision.NO
        queue = crawl.hosts.queue(identity)
        if not crawl.hosts.has_current_robots(origin, identity.host_key, crawl.clock.now_ms()):
            return RequisiteDecision.WAIT if queue.held else RequisiteDecision.ASK_ROBOTS
        if not crawl.robots.reachable(origin) or not crawl.robots.allowed(url, origin):
            return RequisiteDecision.NO
        return RequisiteDecision.YES

    def _near(self, host: str, page_host: str) -> bool:
        registrable = self._crawl.domains.registrable
        if registrable(host) == registrable(page_host):
            return True
        labels = host.split(".")
        return any(".".join(labels[start:]) in self._hosts for start in range(len(labels)))


_MAX_WAITING_PER_PAGE = 8  # waiting pages per page in the browser, from which no more are fetched
_LOOK_AGAIN_MS = 100
_HTML = frozenset(("text/html", "application/xhtml+xml"))
_SCRIPT = re.compile(rb"<script\b", re.IGNORECASE)
_PASSED_ON = frozenset(
    ("content-type", "location", "etag", "last-modified", "cache-control", "vary")
)
_CORS = "access-control-"


@dataclass(slots=True)
class _Rendered:
    """The page of a rendering job."""

    exchange: Exchange
    collection: str
    host: str
    plain: Page | None = None  # the page without rendering, if it is to be compared
    shell: bool = False
    compare: bool = False


class Renders:
    """The pages of a worker that are in the browser, or wait for it."""

    def __init__(
        self,
        crawl: CrawlState,
        config: Config,
        parse: ParseFunction,
        archive: Callable[[Exchange], object | None],
        recheck: Callable[[], None],
    ) -> None:
        """`archive`: archives a page and releases its host.

        If it returns None, the page is not rendered. `recheck`: called when `prerequisites` have
        changed.

        Raises:
            ConfigError: no browser is installed, or it cannot use its sandbox.
        """
        render = config.render
        limits = BrowserLimits(
            render.pages, render.timeout, render.requests, render.bytes, render.memory
        )
        self._browser = Browser(
            find_browser(render.browser, sandbox=render.sandbox), limits, sandbox=render.sandbox
        )
        self._max_waiting = _MAX_WAITING_PER_PAGE * render.pages
        self._agent = config.fetch.user_agent
        self._crawl = crawl
        self._config = config
        self._parse = parse
        self._archive = archive
        self._recheck = recheck
        self._learner = RenderLearner()
        collections = {name: each.collection for name, each in crawl.assignments.items()}
        self._modes = {name: each.render for name, each in collections.items()}
        self._languages = {
            name: each.accept_language or each.language for name, each in collections.items()
        }
        self._rules = {
            name: RequisiteRules(crawl, each)
            for name, each in collections.items()
            if each.render != "never"
        }
        # scripts by collection and URL
        self._scripts: TTLCache[tuple[str, str], tuple[int, Head, bytes]] = TTLCache(
            _MAX_BYTES,
            KEEP_MS,
            timer=crawl.clock.monotonic_ms,
            getsizeof=lambda script: len(script[2]),
        )
        # (retry at, …): URLs that may not be requested yet
        self._requests: deque[tuple[int, ResourceRequest]] = deque()
        self._awaited: dict[tuple[str, str], list[ResourceRequest]] = {}  # by collection and URL
        self._left: list[_Rendered] = []

    @property
    def pending(self) -> int:
        """Number of pages that were accepted and not returned."""
        return self._browser.pending + len(self._left)

    @property
    def full(self) -> bool:
        """Whether so many pages wait for the browser that none should be added."""
        return self._browser.waiting >= self._max_waiting

    @property
    def prerequisites(self) -> deque[Task]:
        """Requests that the worker makes before all others."""
        return self._crawl.prerequisites

    def expects(self, task: Task) -> bool:
        """Return whether a page will be rendered in any case.

        Then a 304 would be useless, because data that its scripts load may have changed.
        """
        modes = {self._modes[row.collection] for row in task.rows if not row.operation}
        return "always" in modes or ("auto" in modes and self._learner.pays(task.identity.host))

    def takes(self, exchange: Exchange) -> bool:
        """Accept a page if it is to be rendered. Return whether it was accepted."""
        task = exchange.token
        if (
            exchange.kind != VisitKind.PAGE
            or exchange.error
            or exchange.truncated
            or not 200 <= exchange.status < 300
        ):
            return False
        assert isinstance(task, Task)
        row = next(
            (
                row
                for row in task.rows
                if not row.operation and self._modes[row.collection] != "never"
            ),
            None,
        )
        if row is None:
            return False
        if content_type_of(exchange).partition(";")[0].strip().lower() not in _HTML:
            return False
        payload = decode_body(exchange, self._config.fetch.max_decoded).payload
        if not _SCRIPT.search(payload):
            return False
        page = _Rendered(exchange, row.collection, task.identity.host)
        if self._modes[row.collection] == "auto":
            plain = self._parse(exchange).page
            shell = is_shell(plain)
            plan = self._learner.plan(page.host, shell=shell)
            if plan is RenderPlan.PLAIN:
                return False
            compare = plan is RenderPlan.COMPARE
            page = replace(page, plain=plain if compare else None, shell=shell, compare=compare)
        if self._archive(exchange) is None:
            return False
        self._begin(page)
        return True

    def record_response(self, exchange: Exchange) -> None:
        """Pass a response on to the pages that requested it."""
        task = exchange.token
        assert isinstance(task, Task)
        key = (task.collection, task.identity.url)
        requests = self._awaited.pop(key, [])
        headers = parse_head(exchange.response_head)
        if exchange.error or not exchange.status:
            for each in requests:
                self._browser.refuse(each)
            return
        payload = decode_body(exchange, self._config.fetch.max_decoded).payload
        head = _passed_on(headers)
        if (
            exchange.status == 200
            and any(each.kind == "Script" for each in requests)
            and "no-store" not in headers.tokens("cache-control")
        ):
            with suppress(ValueError):  # larger than the cache
                self._scripts[key] = exchange.status, head, payload
        for each in requests:
            self._browser.give(each, exchange.status, head, payload)

    def pump(self) -> list[Exchange]:
        """Advance the browser, and return the rendered pages."""
        for waiting in self._left:
            self._begin(waiting)
        self._left = []
        requests, done = self._browser.pump()
        now = self._crawl.clock.monotonic_ms()
        self._requests.extend((now, each) for each in requests)
        for _ in range(len(self._requests)):
            at, each = self._requests.popleft()
            if at > now:
                self._requests.append((at, each))
            else:
                self._want(each, now)
        return [self._finished(job) for job in done]

    def leave(self) -> None:
        """Stop rendering.

        Archived pages are processed by the next `pump`, or by replay.
        """
        self._left += [_token(job) for job in self._browser.stop()]
        self._requests.clear()
        self._awaited.clear()
        prerequisites = self._crawl.prerequisites
        others = [task for task in prerequisites if task.kind is not VisitKind.REQUISITE]
        prerequisites.clear()
        prerequisites.extend(others)

    def close(self) -> None:
        """End the browser."""
        self._browser.close()

    def _begin(self, page: _Rendered) -> None:
        payload = decode_body(page.exchange, self._config.fetch.max_decoded).payload
        language = self._languages[page.collection] or self._config.fetch.accept_language
        headers = parse_head(page.exchange.response_head)
        head = [(name, value) for name, value in _passed_on(headers) if name == "content-type"]
        self._browser.begin(
            RenderJob(page.exchange.url, 200, head, payload, self._agent, language, token=page)
        )

    def _want(self, request: ResourceRequest, now: int) -> None:
        page = _token(request.job)
        target = LinkResolver(page.exchange.url).resolve(request.url)
        if isinstance(target, Refusal):
            self._browser.refuse(request)
            return
        key = (page.collection, target)
        cached = self._scripts.get(key)
        if cached is not None:
            self._browser.give(request, *cached)
            return
        if key in self._awaited:
            self._awaited[key].append(request)
            return
        crawl, identity = self._crawl, self._crawl.identifier.identify(target)
        verdict = self._rules[page.collection].judge(identity, page.host)
        origin = url_origin(target)
        if verdict is RequisiteDecision.NO:
            crawl.buffer.batch.counters["requisites_refused"] += 1
            self._browser.refuse(request)
        elif verdict is RequisiteDecision.YES:
            self._awaited[key] = [request]
            task = Task(
                identity,
                (),
                origin,
                VisitKind.REQUISITE,
                collection=page.collection,
                referrer=page.exchange.url,
            )
            crawl.prerequisites.append(task)
            self._recheck()
        else:
            if verdict is RequisiteDecision.ASK_ROBOTS:
                crawl.frontier.hold(identity.host_key)
                crawl.prerequisites.append(crawl.hosts.robots_task(origin))
                self._recheck()
            self._requests.append((now + _LOOK_AGAIN_MS, request))

    def _finished(self, job: RenderJob) -> Exchange:
        page, counters = _token(job), self._crawl.buffer.batch.counters
        for key, requests in list(self._awaited.items()):
            self._awaited[key] = [each for each in requests if each.job is not job]
            if not self._awaited[key] and self._recall(key):
                del self._awaited[key]
        self._requests = deque(entry for entry in self._requests if entry[1].job is not job)
        exchange = page.exchange
        exchange.set_rendered(job.html)
        counters["rendered" if job.html else f"render_{job.error}"] += 1
        if not job.html:
            self._crawl.progress.errors[f"render_{job.error}"] += 1
        if page.compare:
            rendered = self._parse(exchange).page if job.html else None
            gained = rendered is not None and gains(page.plain, rendered)
            self._learner.observe(page.host, shell=page.shell, gained=gained)
            if not gained:
                exchange.set_rendered(b"")
        return exchange

    def _recall(self, key: tuple[str, str]) -> bool:
        """Withdraw a waiting request that no page needs any more.

        Returns whether there was one.
        """
        prerequisites = self._crawl.prerequisites
        task = next(
            (
                each
                for each in prerequisites
                if each.kind is VisitKind.REQUISITE and (each.collection, each.identity.url) == key
            ),
            None,
        )
        if task is not None:
            prerequisites.remove(task)
            self._recheck()
        return task is not None


def _token(job: RenderJob) -> _Rendered:
    assert isinstance(job.token, _Rendered)
    return job.token


def _passed_on(headers: Headers) -> Head:
    """Return the header fields that the browser receives.

    No cookies: the fetcher stores and sends them. No policies: the browser has no network.
    """
    return [
        (name, value)
        for name, value in headers.items()
        if name in _PASSED_ON or name.startswith(_CORS)
    ]
