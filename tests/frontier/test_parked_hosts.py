"""Active and parked hosts in the real worker over real tables.

With any limits, every URL is fetched once and none is lost.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.host_row import HostRow
from lycosa.core.records import Exchange, Request, UrlId, UrlRow, UrlState
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.frontier.scheduler import scheduler as scheduler_module
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.queue import FIRST
from lycosa.frontier.scheduler.strategy import STRATEGIES
from lycosa.processes.threads import StopFlag
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.waiting import ManualClock

Page = tuple[int, int]  # host, number
Graph = Mapping[Page, Iterable[Page]]


@dataclass
class Web:
    """A fetcher over a graph of pages, which advances its clock when it waits.

    `fails` is the number of first requests to a page that get a 503.
    """

    clock: ManualClock
    graph: Graph
    address: Callable[[Page], str]
    fails: Counter[Page] = field(default_factory=Counter)
    max_requests: int = 1 << 30
    stop_worker: Callable[[], None] = lambda: None
    robots: str = ""
    observer: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._pages = {self.address(page): page for page in self.graph}
        self._running: list[tuple[int, int, Exchange]] = []
        self._order = count()
        self.requests: list[Page] = []
        self.answered: Counter[Page] = Counter()
        self.in_flight: Counter[int] = Counter()

    @property
    def active(self) -> int:
        return len(self._running)

    def start(self, request: Request) -> None:
        page = self._pages.get(request.url)
        status, body = 404, b""
        if self.robots and request.url.endswith("/robots.txt"):
            status, body = 200, self.robots.encode()
        if page is not None:
            self.requests.append(page)
            self.in_flight[page[0]] += 1
            assert self.in_flight[page[0]] == 1, "two concurrent fetches from a host"
            status = 503 if self.fails[page] > 0 else 200
            self.fails[page] -= 1
            links = "".join(
                f'<p><a href="{self.address(target)}">to {target}</a></p>'
                for target in self.graph[page]
            )
            text = " ".join(f"word{page[0]}x{page[1]}y{number}" for number in range(30))
            body = f"<title>{page}</title><p>{text}</p>{links}".encode()
        now = self.clock.now_ms()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: text/html\r\n\r\n".encode()
        exchange = Exchange(
            request.url,
            request.kind,
            now,
            20,
            ip="127.0.0.1",
            request_head=b"GET",
            response_head=head,
            body=body,
            status=status,
            token=request.token,
        )
        heapq.heappush(self._running, (now + 20, next(self._order), exchange))
        self.observer()
        if len(self.requests) >= self.max_requests:
            self.stop_worker()

    def wait(self, timeout_ms: int) -> list[Exchange]:
        if self._running:
            self.clock.advance(max(0, min(self._running[0][0] - self.clock.now_ms(), timeout_ms)))
        done = []
        while self._running and self._running[0][0] <= self.clock.now_ms():
            done.append(self._end(heapq.heappop(self._running)[2]))
        return done

    def _end(self, exchange: Exchange) -> Exchange:
        page = self._pages.get(exchange.url)
        if page is not None:
            self.in_flight[page[0]] -= 1
            self.answered[page] += not exchange.error and exchange.status == 200
        return exchange

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        self.clock.advance(timeout_ms * 20)  # nothing is in flight: larger steps save time

    def stop(self) -> None:
        for index, (_, number, exchange) in enumerate(self._running):
            exchange.error = "interrupted"
            self._running[index] = (0, number, exchange)

    def close(self) -> None:
        self._running.clear()


def session_of(
    workspace: Workspace,
    web: Web,
    collections: list[Collection],
    *,
    hosts: int,
    urls: int,
    commit_pages: int = 3,
    seeds: Iterable[Page] = ((0, 0),),
    patience: str = "30d",
) -> CrawlSession:
    config = parse_config(
        f"[crawl]\nactive_hosts = {hosts}\ncommit_pages = "
        f"{commit_pages}\npatience = '{patience}'\ncommit_interval = '5s'"
    )
    addresses = tuple(map(web.address, seeds))
    session = open_session(
        workspace,
        config,
        [Job(collection, addresses) for collection in collections],
        SessionOptions(fetcher=web),
        command="test",
        clock=web.clock,
    )
    session.crawl.scheduler.heads._waiting_urls = urls  # below the minimum of the configuration
    web.stop_worker = session.worker.stop
    return session


def crawl(session: CrawlSession) -> None:
    try:
        session.load()
        session.worker.run()
        session.claim.release()
    finally:
        session.close()


def separate_domains(page: Page) -> str:
    return f"http://www.site{page[0]}.com/p{page[1]}"


def shared_domain(page: Page) -> str:
    """Return the URL of a page.

    All hosts except the first two are in one domain.
    """
    return f"http://h{page[0]}.same.com/p{page[1]}" if page[0] > 1 else separate_domains(page)


def unlinked_pages(hosts: int, pages: int) -> dict[Page, list[Page]]:
    return {(host, number): [] for host in range(hosts) for number in range(pages)}


def reachable_pages(graph: Graph, seeds: Iterable[Page]) -> set[Page]:
    reachable, queue = set(seeds), list(seeds)
    while queue:
        for target in graph[queue.pop()]:
            if target not in reachable:
                reachable.add(target)
                queue.append(target)
    return reachable


@st.composite
def graphs(draw: st.DrawFn) -> dict[Page, list[Page]]:
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=7))
    pages = [(host, number) for host, size in enumerate(sizes) for number in range(size)]
    links = st.lists(st.sampled_from(pages), max_size=8)
    graph = {page: draw(links) for page in pages}
    graph[0, 0] = [
        *graph[0, 0],
        *draw(st.lists(st.sampled_from(pages), min_size=len(pages) // 2, max_size=len(pages))),
    ]
    return graph


@pytest.mark.proves("consistency-once")
@given(
    graph=graphs(),
    hosts=st.integers(1, 4),
    urls=st.integers(2, 12),
    commit_pages=st.integers(1, 6),
    strategies=st.lists(st.sampled_from(sorted(STRATEGIES)), min_size=1, max_size=2),
    large_heads=st.booleans(),
    address=st.sampled_from([separate_domains, shared_domain]),
    failing=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 8)), max_size=3),
    stops=st.lists(st.integers(1, 12), max_size=2),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_url_is_returned_exactly_once(
    tmp_path_factory: pytest.TempPathFactory,
    graph: dict[Page, list[Page]],
    hosts: int,
    urls: int,
    commit_pages: int,
    strategies: list[str],
    large_heads: bool,
    address: Callable[[Page], str],
    failing: set[Page],
    stops: list[int],
) -> None:
    workspace = Workspace.create(str(tmp_path_factory.mktemp("reserve") / "w"))
    urls += 1_000 * large_heads
    # not the seed: a crawl of which every seed fails ends before the retry
    failures = Counter({page: 1 for page in failing if page in graph and page != (0, 0)})
    web = Web(ManualClock(), graph, address, +failures)
    collections = [
        Collection(name=name, scope="any", strategy=strategy, priority=place)
        for place, (name, strategy) in enumerate(zip("ab", strategies, strict=False))
    ]
    for stop in [*stops, 1 << 30]:
        web.max_requests = len(web.requests) + stop
        with workspace.own("test"):
            crawl(
                session_of(
                    workspace, web, collections, hosts=hosts, urls=urls, commit_pages=commit_pages
                )
            )
    expected = reachable_pages(graph, [(0, 0)])
    # two collections share a fetch
    assert {page for page, times in web.answered.items() if times} == expected
    assert max(web.answered.values()) <= 1
    assert stops or all(
        times <= 1 + failures[page] for page, times in Counter(web.requests).items()
    )
    rows = LiveTables(workspace).scan("urls").collect()
    assert Counter(rows["state"]) == {UrlState.VISITED: len(expected) * len(collections)}


@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=9),
    hosts=st.integers(1, 4),
    urls=st.integers(2, 20),
    resume=st.booleans(),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_server_first_visits_every_known_host_before_any_second_visit(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], hosts: int, urls: int, resume: bool
) -> None:
    """This holds with fewer active hosts than known hosts, and when all state is in the tables.
    Hosts that are already active are excepted.
    """
    workspace = Workspace.create(str(tmp_path_factory.mktemp("servers") / "w"))
    pages: dict[Page, list[Page]] = {
        (host, number): [] for host, size in enumerate(sizes) for number in range(size)
    }
    for host, size in enumerate(sizes):
        pages[host, 0] = [(host, number) for number in range(size)]
    collection = Collection(name="a", scope="any", strategy="server-first")
    web = Web(ManualClock(), pages, separate_domains)
    with workspace.own("test"):
        session = session_of(workspace, web, [collection], hosts=hosts, urls=urls, seeds=pages)
        if resume:
            session.load()
            session.worker.commits.now()
            session.claim.release()
            session.close()
            session = session_of(workspace, web, [collection], hosts=hosts, urls=urls)
        crawl(session)
    assert Counter(web.requests) == Counter(list(pages))
    first_urls = [
        index
        for index, (host, _) in enumerate(web.requests)
        if host not in {other for other, _ in web.requests[:index]}
    ]
    # while the last hosts wait for their robots.txt, others may be visited again
    assert first_urls[-1] < len(sizes) + 2 * hosts


def test_domain_with_many_hosts_does_not_use_all_active_slots(tmp_path: Path) -> None:
    """Hosts that wait for a connection of their domain are parked, and others are activated."""
    pages = unlinked_pages(40, 2)
    workspace = Workspace.create(str(tmp_path / "w"))
    web = Web(
        ManualClock(),
        pages,
        lambda page: (
            f"http://h{page[0]}.{'same' if page[0] < 30 else f'site{page[0]}'}.com/p{page[1]}"
        ),
    )
    with workspace.own("test"):
        seeds = sorted(pages, key=lambda page: page[0])
        crawl(
            session_of(
                workspace,
                web,
                [Collection(name="a", scope="any", delay="60s")],
                hosts=5,
                urls=10,
                seeds=seeds,
            )
        )
    assert Counter(web.requests) == Counter(list(pages))
    last_of_others = max(index for index, (host, _) in enumerate(web.requests) if host >= 30)
    assert last_of_others < 60, "other hosts waited for the large domain"


def test_domain_with_more_hosts_than_may_be_active_is_fetched_in_one_crawl(tmp_path: Path) -> None:
    """Parked hosts are activated again in time."""
    pages = unlinked_pages(30, 2)
    workspace = Workspace.create(str(tmp_path / "w"))
    web = Web(ManualClock(), pages, lambda page: f"http://h{page[0]}.same.com/p{page[1]}")
    start = web.clock.now_ms()
    with workspace.own("test"):
        collection = Collection(name="a", scope="any", delay="10s")
        session = session_of(
            workspace, web, [collection], hosts=5, urls=10, seeds=sorted(pages), patience="1m"
        )
        crawl(session)
    assert Counter(web.requests) == Counter(list(pages))
    # 60 pages and 30 robots.txt files over two connections, with a pause of 10 s each
    assert web.clock.now_ms() - start <= 1.25 * 90 * 10_000 / 2 + 60_000


def test_domain_queues_stay_short_and_the_domain_is_fetched_without_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.frontier.scheduler.turnover._LINE", 4)
    monkeypatch.setattr(scheduler_module, "_REFILL_HOSTS", 12)
    pages = unlinked_pages(80, 2)
    workspace = Workspace.create(str(tmp_path / "w"))
    web = Web(
        ManualClock(),
        pages,
        lambda page: (
            f"http://h{page[0]}.{'same' if page[0] < 60 else f'site{page[0]}'}.com/p{page[1]}"
        ),
    )
    with workspace.own("test"):
        session = session_of(
            workspace,
            web,
            [Collection(name="a", scope="any", delay="60s")],
            hosts=40,
            urls=200,
            seeds=sorted(pages),
        )
        max_queued = 0
        ended: list[int] = []

        def record() -> None:
            nonlocal max_queued
            if len(web.requests) > 10:  # after the first refill
                max_queued = max(
                    max_queued, sum(queue.parked for queue in session.crawl.frontier.hosts.values())
                )
            ended.append(web.clock.now_ms())

        web.observer = record
        start = web.clock.now_ms()
        crawl(session)
    assert Counter(web.requests) == Counter(list(pages))
    assert max_queued <= 4 + 12, "queue limit plus the hosts of one refill"
    # 120 pages and 60 robots.txt files over two connections, with a pause of 60 s each, plus some
    # refills of at most 60 s
    assert ended[-1] - start <= 1.25 * 180 * 60_000 / 2


@pytest.mark.parametrize(
    "strategies", [("breadth-first", "depth-first"), ("best-first", "depth-first")]
)
def test_two_collections_share_every_fetch_with_small_heads(
    tmp_path: Path, strategies: tuple[str, str]
) -> None:
    """The collections fetch the pages of the host in opposite orders.

    All URLs are in the tables, and the heads hold two of them.
    """
    pages = unlinked_pages(1, 24)
    workspace = Workspace.create(str(tmp_path / "w"))
    collections = [
        Collection(name=name, scope="any", strategy=strategy)
        for name, strategy in zip("ab", strategies, strict=True)
    ]
    web = Web(ManualClock(), pages, separate_domains)
    with workspace.own("test"):
        session = session_of(workspace, web, collections, hosts=1, urls=2, seeds=pages)
        session.load()
        for row in session.crawl.buffer.batch.urls_of(
            session.crawl.identifier.identify(separate_domains((0, 0))).host_key
        ):
            row.depth = int(row.id.url.rpartition("/p")[2])
        session.worker.commits.now()
        session.claim.release()
        session.close()
        crawl(session_of(workspace, web, collections, hosts=1, urls=2, commit_pages=7))
    assert Counter(web.requests) == Counter(list(pages))
    assert (
        LiveTables(workspace).scan("urls").collect()["state"].to_list() == [UrlState.VISITED] * 48
    )


def test_hosts_with_long_robots_txt_are_parked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The robots.txt text of active hosts is bounded, and every page is still fetched."""
    monkeypatch.setattr("lycosa.frontier.scheduler.turnover._MAX_ROBOTS_TEXT", 40_000)
    monkeypatch.setattr("lycosa.frontier.scheduler.turnover._WEIGH_EVERY_MS", 1_000)
    pages = unlinked_pages(30, 3)
    workspace = Workspace.create(str(tmp_path / "w"))
    web = Web(
        ManualClock(),
        pages,
        separate_domains,
        robots="User-agent: *\nDisallow: /x\n" + "# nothing\n" * 900,
    )
    held_chars: list[int] = []
    with workspace.own("test"):
        session = session_of(
            workspace,
            web,
            [Collection(name="a", scope="any", delay="20s")],
            hosts=12,
            urls=200,
            seeds=pages,
        )
        hosts = session.crawl.frontier.hosts
        web.observer = lambda: held_chars.append(
            sum(len(entry.body) for queue in hosts.values() for entry in queue.row.robots)
        )
        crawl(session)
    assert Counter(web.requests) == Counter(list(pages))
    assert max(held_chars) > 40_000, "the bound was never reached"
    assert sorted(held_chars)[len(held_chars) // 2] <= 60_000 < 12 * 9_000


def test_full_head_keeps_the_urls_with_the_best_rank() -> None:
    frontier = Frontier(orders={})
    frontier.open_host(HostRow("h", 0, 1, "h", 0))
    rows = [
        UrlRow(UrlId(f"http://h/{number}", "h", 1, number, 0), "a", depth)
        for number, depth in enumerate([9, 9, 8, 7, 6, 5, 4, 3, 2, 1])
    ]
    for row in rows:
        frontier.offer([row], 2)
        if row.key == 1:
            frontier.active.close_line(1, "a", (9,))
    head = frontier.hosts[1].heads["a"].line(FIRST)
    assert len(head.rows) <= 4
    assert len(frontier) == len(head.rows)
    assert min(entry[1].depth for entry in head.rows.values()) == 1
    assert head.closed_at is not None
    assert all(row.key in head.rows or (row.depth,) >= head.closed_at for row in rows)
