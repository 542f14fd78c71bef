"""Shares of a host that has more due than politeness lets it be asked for, in the real worker over
real tables, in simulated hours.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.clock import ManualClock
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Limits
from lycosa.store.workspace import Workspace
from tests.frontier.test_parked_hosts import Page, Web, apart

_MINUTE_MS = 60_000


def tree(hosts: int, pages: int, links: int) -> dict[Page, list[Page]]:
    """Each host's pages, of which each leads to the next few that nothing leads to yet."""
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
    """What is asked for in so long, with the times in ms from the start."""
    web = Web(ManualClock(), graph, apart)
    requests: list[tuple[Page, int]] = []
    start = web.clock.now_ms()

    def note() -> None:
        if len(web.asked) > len(requests):  # not a robots.txt
            requests.append((web.asked[-1], web.clock.now_ms() - start))

    web.observer = note
    workspace = Workspace.create(str(root / "w"))
    seeds = tuple(apart(page) for page in graph if page[1] == 0)
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
            session.take_up()
            session.worker.run()
            session.claim.release()
        finally:
            session.close()
    return requests


def settings_of(**chosen: object) -> Collection:
    """Sixty seconds between two fetches, and nothing but pages."""
    plain = {
        "scope": "any",
        "delay": "60s",
        "courtesy_factor": 0.0,
        "sitemaps": False,
        "feeds": False,
        "traps": False,
    }
    return Collection.model_validate({"name": "a", **plain, **chosen})


@pytest.mark.parametrize("urls", [1_000, 4], ids=["all at hand", "four at hand"])
def test_first_visits_and_revisits_take_turns(tmp_path: Path, urls: int) -> None:
    """A host that may be asked once a minute: of its 40 pages more are always due than that, and
    some were never visited.
    """
    requests = crawl_for(
        tmp_path, tree(1, 40, 3), 1.5, settings_of(recrawl="age", max_age="5m"), urls=urls
    )
    pages = [page for page, _ in requests]
    firsts = [place for place, page in enumerate(pages) if page not in pages[:place]]
    assert len(firsts) == 40, "every page is visited"
    waiting = pages[10 : firsts[-1] + 1]
    assert 0.4 <= (sum(place >= 10 for place in firsts)) / len(waiting) <= 0.6, (
        "none takes the turns of the others"
    )
    for page in set(pages):  # the one that has been due for longest comes next, so all come round
        visits = [place for place, other in enumerate(pages) if other == page]
        assert (
            max((after - before for before, after in pairwise([*visits, len(pages)])), default=0)
            <= 2 * 40 + 2
        )


def test_links_do_not_make_the_same_few_pages_come_for_ever(tmp_path: Path) -> None:
    """Every page links to the same eight, which are too old again before they have come round."""
    graph = {
        page: [*links, *((0, menu) for menu in range(1, 9))]
        for page, links in tree(1, 40, 3).items()
    }
    requests = crawl_for(
        tmp_path, graph, 2.0, settings_of(recrawl="age", max_age="4m", recrawl_triggers=["on_link"])
    )
    times = Counter(page for page, _ in requests)
    assert len(times) == 40
    menu = [times[0, number] for number in range(1, 9)]
    assert 2 <= min(menu) <= max(menu) <= min(menu) + 2


def test_hosts_that_always_have_something_due_share_the_only_place(tmp_path: Path) -> None:
    """Each has its ten minutes; nobody is asked again before its pause is over."""
    requests = crawl_for(
        tmp_path, tree(3, 6, 5), 1.5, settings_of(recrawl="age", max_age="2m"), hosts=1, urls=2
    )
    hosts = Counter(page[0] for page, _ in requests)
    assert min(hosts[host] for host in range(3)) >= 0.2 * len(requests)
    assert len(requests) >= 0.8 * 90, "the place is hardly ever empty"
    changes = sum(before[0][0] != after[0][0] for before, after in pairwise(requests))
    assert changes <= 90 // 10 + 6, "a host is not sent back for every page"
    for host in range(3):
        times = [at for page, at in requests if page[0] == host]
        assert min(after - before for before, after in pairwise(times)) >= _MINUTE_MS


def test_hosts_share_the_places_where_connections_are_what_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts are more than the one connection can serve: there is always something to ask, and
    the third gets a place all the same.
    """
    monkeypatch.setattr("lycosa.frontier.scheduler.turnover.PLACE_MS", 1_000)
    monkeypatch.setattr("lycosa.crawl.worker.REFILL_MS", 500)
    busy = settings_of(recrawl="age", max_age="1s", delay="20ms")
    requests = crawl_for(tmp_path, tree(3, 40, 5), 5 / 3_600, busy, hosts=2, connections=1)
    assert sum(page[0] == 2 for page, _ in requests) >= 0.25 * len(requests)
