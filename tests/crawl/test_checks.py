"""Checks and a crawl at one host: neither breaks its pause, neither starves, back-off keeps the
crawl away and not the checks.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from lycosa.core.records import HostRow, UrlId, UrlRow
from lycosa.crawl.policy.host_delay import CheckPace
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.url.keys import host_key, url_key

HOST = "a.example"
PAUSE = 1_000
FETCH_MS = 200


def identity(path: str) -> UrlId:
    url = f"http://{HOST}/{path}"
    return UrlId(url, HOST, host_key(HOST), url_key(url), 0)


def made(rows: int) -> tuple[Frontier, CheckPace]:
    frontier = Frontier(Clocks(ClockRules()))
    crawl = SimpleNamespace(
        frontier=frontier, assignments={"a": SimpleNamespace(pace=SimpleNamespace(delay_ms=PAUSE))}
    )
    crawl.domains = SimpleNamespace(registrable=lambda host: host)
    if rows:
        frontier.open_host(HostRow(HOST, 0, host_key(HOST), HOST, 0))
    for number in range(rows):
        frontier.add(UrlRow(identity(str(number)), "a", 0))
    return frontier, CheckPace(cast(CrawlState, cast(Any, crawl)))


def test_a_host_that_is_checked_as_often_as_it_may_be_is_crawled_all_the_same() -> None:
    frontier, pace = made(rows=200)
    checked = identity("check")
    request_log: list[tuple[int, str]] = []
    under_way: tuple[int, str, bool] | None = None
    next_check = 0
    for now in range(0, 60_000, 10):
        if under_way is not None and now >= under_way[0]:
            _, what, queued = under_way
            if what == "check":
                pause = pace.pause_ms(checked, PAUSE)
                pace.finish(checked, now, PAUSE, queued=queued)
                next_check = now + pause
            else:
                frontier.finished(checked.host_key, now, PAUSE)
            under_way = None
        if under_way is not None:
            continue
        if now >= next_check and pace.ready_at(checked, now, 0, PAUSE) <= now:
            under_way = (now + FETCH_MS, "check", pace.start(checked, now))
            request_log.append((now, "check"))
        elif frontier.next(now):
            under_way = (now + FETCH_MS, "page", True)
            request_log.append((now, "page"))
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(request_log)]
    assert min(gaps) >= PAUSE + FETCH_MS
    checks, pages = ([at for at, what in request_log if what == kind] for kind in ("check", "page"))
    assert len(pages) >= 20
    assert len(checks) >= 20


def test_back_off_keeps_the_crawl_away_and_not_the_checks() -> None:
    frontier, pace = made(rows=5)
    (row,) = frontier.next(0)
    frontier.finished(row.id.host_key, 100, 3_600_000, domain_pause=PAUSE)
    assert frontier.next(2_000) == ()
    checked = identity("check")
    assert pace.ready_at(checked, 200, 0, PAUSE) == 100 + PAUSE
    assert pace.ready_at(checked, 2_000, 0, PAUSE) <= 2_000
    queued = pace.start(checked, 2_000)
    pace.finish(checked, 2_100, PAUSE, queued=queued)
    assert frontier.next(3_500_000) == ()
    assert frontier.next(3_600_200) != ()


def test_a_crawl_that_waits_long_for_one_answer_holds_a_check_up_for_no_more_than_a_pause() -> None:
    frontier, pace = made(rows=5)
    assert frontier.next(0)
    checked = identity("check")
    assert pace.ready_at(checked, 50, 0, PAUSE) > 50
    assert pace.ready_at(checked, 50 + PAUSE, PAUSE, PAUSE) <= 50 + PAUSE


def test_a_host_that_rests_in_the_tables_is_booked_on_its_clock_and_woken() -> None:
    frontier, pace = made(rows=0)
    checked = identity("check")
    queued = pace.start(checked, 0)
    # the crawl takes it in while the check is under way
    frontier.open_host(HostRow(HOST, 0, host_key(HOST), HOST, 0))
    frontier.add(UrlRow(identity("1"), "a", 0))
    assert frontier.next(50) == ()
    pace.finish(checked, 100, PAUSE, queued=queued)
    assert frontier.next(100 + PAUSE - 1) == ()
    assert frontier.next(100 + PAUSE) != ()
