"""Strategies, and the fair share of URLs and hosts.

More is due than politeness permits. The real worker runs over real tables in simulated time.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlId, UrlRow
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.queue import CollectionOrder
from lycosa.frontier.scheduler.strategy import STRATEGIES, Strategy
from lycosa.store.workspace import Workspace
from tests.frontier.test_parked_hosts import Page, Web, separate_domains
from tests.waiting import ManualClock

_MINUTE_MS = 60_000


def tree(hosts: int, pages: int, links: int) -> dict[Page, list[Page]]:
    """Return a tree per host: each page links to `links` further pages."""
    return {
        (host, number): [
            (host, child)
            for child in range(links * number + 1, links * number + 1 + links)
            if child < pages
        ]
        for host in range(hosts)
        for number in range(pages)
    }


def crawl_for(
    root: Path,
    graph: dict[Page, list[Page]],
    hours: float,
    collection: Collection,
    *,
    hosts: int = 100,
    urls: int = 1_000,
    connections: int = 200,
) -> list[tuple[Page, int]]:
    """Crawl for some hours.

    Returns the requested pages with their times in ms from the start.
    """
    web = Web(ManualClock(), graph, separate_domains)
    requests: list[tuple[Page, int]] = []
    start = web.clock.now_ms()

    def record() -> None:
        if len(web.requests) > len(requests):  # a page, not a robots.txt
            requests.append((web.requests[-1], web.clock.now_ms() - start))

    web.observer = record
    workspace = Workspace.create(str(root / "w"))
    seeds = tuple(separate_domains(page) for page in graph if page[1] == 0)
    with workspace.own("test"):
        session = open_session(
            workspace,
            parse_config(
                f"[crawl]\nactive_hosts = {hosts}\ncommit_pages = 40\ncommit_interval = "
                f"'30m'\n[fetch]\nconnections = {connections}"
            ),
            [Job(collection, seeds)],
            SessionOptions(
                fetcher=web, limits=Limits(max_time_ms=round(hours * 60 * _MINUTE_MS)), forever=True
            ),
            command="test",
            clock=web.clock,
        )
        session.crawl.scheduler.heads._waiting_urls = urls
        try:
            session.load()
            session.worker.run()
            session.claim.release()
        finally:
            session.close()
    return requests


def collection(**options: object) -> Collection:
    """Return a collection with a delay of 60 s that fetches only pages."""
    defaults = {
        "scope": "any",
        "delay": "60s",
        "courtesy_factor": 0.0,
        "sitemaps": False,
        "feeds": False,
        "traps": False,
    }
    return Collection.model_validate({"name": "a", **defaults, **options})


@pytest.mark.parametrize("urls", [1_000, 4], ids=["all in memory", "four in memory"])
def test_first_visits_and_revisits_alternate(tmp_path: Path, urls: int) -> None:
    """The host permits one request per minute.

    More than one of its 40 pages becomes due per minute, and some were never visited.
    """
    requests = crawl_for(
        tmp_path, tree(1, 40, 3), 1.5, collection(recrawl="age", max_age="5m"), urls=urls
    )
    pages = [page for page, _ in requests]
    first_urls = [index for index, page in enumerate(pages) if page not in pages[:index]]
    assert len(first_urls) == 40, "not every page was visited"
    mixed = pages[10 : first_urls[-1] + 1]
    assert 0.4 <= (sum(index >= 10 for index in first_urls)) / len(mixed) <= 0.6, (
        "first visits and revisits do not alternate"
    )
    for page in set(pages):  # the page that is due earliest comes next, so all are revisited
        visits = [index for index, other in enumerate(pages) if other == page]
        assert (
            max((after - before for before, after in pairwise([*visits, len(pages)])), default=0)
            <= 2 * 40 + 2
        )


def test_linked_pages_do_not_displace_other_pages(tmp_path: Path) -> None:
    """Every page links to the same eight pages, which exceed `max_age` before all were revisited."""
    graph = {
        page: [*links, *((0, menu) for menu in range(1, 9))]
        for page, links in tree(1, 40, 3).items()
    }
    requests = crawl_for(
        tmp_path, graph, 2.0, collection(recrawl="age", max_age="4m", recrawl_triggers=["on_link"])
    )
    times = Counter(page for page, _ in requests)
    assert len(times) == 40
    menu = [times[0, number] for number in range(1, 9)]
    assert 2 <= min(menu) <= max(menu) <= min(menu) + 2


def test_hosts_with_urls_always_due_share_the_only_active_slot(tmp_path: Path) -> None:
    """Each host is active for ten minutes, and its pauses are observed."""
    requests = crawl_for(
        tmp_path, tree(3, 6, 5), 1.5, collection(recrawl="age", max_age="2m"), hosts=1, urls=2
    )
    hosts = Counter(page[0] for page, _ in requests)
    assert min(hosts[host] for host in range(3)) >= 0.2 * len(requests)
    assert len(requests) >= 0.8 * 90, "the active place is empty too often"
    changes = sum(before[0][0] != after[0][0] for before, after in pairwise(requests))
    assert changes <= 90 // 10 + 6, "hosts are parked too often"
    for host in range(3):
        times = [at for page, at in requests if page[0] == host]
        assert min(after - before for before, after in pairwise(times)) >= _MINUTE_MS


def test_hosts_share_active_slots_when_connections_are_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two active hosts always use up the only connection.

    The third host is still activated.
    """
    monkeypatch.setattr("lycosa.frontier.scheduler.turnover.PLACE_MS", 1_000)
    monkeypatch.setattr("lycosa.crawl.worker.REFILL_MS", 500)
    busy = collection(recrawl="age", max_age="1s", delay="20ms")
    requests = crawl_for(tmp_path, tree(3, 40, 5), 5 / 3_600, busy, hosts=2, connections=1)
    assert sum(page[0] == 2 for page, _ in requests) >= 0.25 * len(requests)


def row(
    number: int, depth: int = 0, priority: float = 0.0, first_seen_at: int = 0, host_key: int = 1
) -> UrlRow:
    identity = UrlId(f"http://h{host_key}/{number}", f"h{host_key}", host_key, number, 0)
    return UrlRow(identity, "default", depth, priority=priority, first_seen_at=first_seen_at)


def host(host_key: int = 1, visited: int = 0, last_visit_at: int = 0) -> HostRow:
    return HostRow(
        f"h{host_key}", 0, host_key, f"h{host_key}", 0, visited=visited, last_visit_at=last_visit_at
    )


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0, 2.5])), min_size=1, max_size=30
).map(
    lambda drawn: [
        row(number, depth, priority, first_seen_at=number)
        for number, (depth, priority) in enumerate(drawn, 1)
    ]
)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@given(rows=ROWS)
def test_sort_columns_give_the_same_order_as_the_rank(
    strategy: Strategy, rows: list[UrlRow]
) -> None:
    """An in-memory head returns its URLs in the sort order of the tables."""
    frontier = Frontier(orders={"default": CollectionOrder(strategy)})
    frontier.open_host(host())
    for each in rows:
        frontier.add(each)
    returned = []
    now = 0
    while result := frontier.next(now):
        returned.append(result[0].id.url_key)
        frontier.finished(1, now, 0)
        now += 1
    frame = pl.DataFrame(
        {
            "url_key": [each.id.url_key for each in rows],
            "depth": [each.depth for each in rows],
            "priority": [each.priority for each in rows],
            "first_seen_at": [each.first_seen_at for each in rows],
        }
    )
    columns = [name for name, _ in strategy.columns]
    assert (
        returned
        == frame.sort(columns, descending=[down for _, down in strategy.columns])[
            "url_key"
        ].to_list()
    )


def test_strategy_names_equal_those_of_the_configuration() -> None:
    from typing import get_args

    from lycosa.config import collection as config

    assert set(STRATEGIES) == set(get_args(config.Strategy))
    assert all(strategy.name == name for name, strategy in STRATEGIES.items())


def order_of_hosts(strategy: str, hosts: list[tuple[HostRow, UrlRow]]) -> list[int]:
    """Return the order in which hosts are selected if all are due."""
    frontier = Frontier(orders={"default": CollectionOrder(STRATEGIES[strategy])})
    for record, first in hosts:
        frontier.open_host(record)
        frontier.add(first)
    sequence = []
    while result := frontier.next(0):
        sequence.append(result[0].id.host_key)
    return sequence


def test_server_first_selects_unvisited_hosts_then_by_last_visit() -> None:
    hosts = [
        (host(1, visited=3, last_visit_at=50), row(1, host_key=1)),
        (host(2, visited=9, last_visit_at=20), row(2, host_key=2)),
    ]
    hosts += [(host(3), row(3, depth=7, host_key=3))]
    assert order_of_hosts("server-first", hosts) == [3, 2, 1]
    assert order_of_hosts("breadth-first", hosts) == [1, 2, 3]


def test_best_first_selects_the_host_with_the_best_url() -> None:
    hosts = [
        (host(number), row(number, priority=priority, host_key=number))
        for number, priority in ((1, 0.2), (2, 0.9), (3, 0.5))
    ]
    assert order_of_hosts("best-first", hosts) == [2, 3, 1]


def test_priority_of_a_collection_precedes_the_strategy() -> None:
    frontier = Frontier(
        orders={
            "default": CollectionOrder(STRATEGIES["best-first"]),
            "urgent": CollectionOrder(STRATEGIES["best-first"], 1.0),
        }
    )
    for number in (1, 2):
        frontier.open_host(host(number))
    frontier.add(row(1, priority=9.0, host_key=1))
    other = row(2, priority=0.1, host_key=2)
    other.collection = "urgent"
    frontier.add(other)
    assert [frontier.next(0)[0].id.host_key for _ in range(2)] == [2, 1]


def test_head_emptied_by_removal_is_marked_for_refill() -> None:
    """Replay, exclusion and the fetch of another collection remove URLs from a head. The head must
    then be refilled from the tables.
    """
    frontier = Frontier()
    frontier.open_host(host())
    first = row(1)
    frontier.add(first)
    frontier.active.close_line(1, "default", (0,))
    assert not frontier.active.dry
    frontier.active.remove("default", 1, first.key)
    assert frontier.active.dry == {1}


def test_head_emptied_by_another_collection_is_marked_for_refill() -> None:
    frontier = Frontier()
    frontier.open_host(host())
    mine, other = row(1), row(1)
    other.collection = "other"
    frontier.add(mine)
    frontier.add(other)
    frontier.active.close_line(1, "other", (0,))
    assert (len(frontier.next(0)), frontier.active.dry) == (2, {1})
