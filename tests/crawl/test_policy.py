"""Rules of a request: what an answer means for its URL and host, whether a URL is requested now, and
checks beside a crawl of one host.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lycosa.core.errors import Exclusion, FetchError
from lycosa.core.host_row import HostRow
from lycosa.core.records import Exchange, UrlId, UrlRow, UrlState
from lycosa.crawl.policy.fetch_decision import (
    BLOCKED_RETRY_MS,
    QUOTA_RETRY_MS,
    Decision,
    Defer,
    Exclude,
    Fetch,
    FetchRules,
    PutOff,
    Rows,
    fetch_decision,
)
from lycosa.crawl.policy.host_delay import CheckPace
from lycosa.crawl.policy.operations import Operations
from lycosa.crawl.policy.outcome import FetchOutcome, judge
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.http.decode import parse_head
from lycosa.url.keys import host_key, url_key

NOW = 1_700_000_000_000


def exchange(status: int, head: str = "", error: str = "", body: bytes = b"") -> Exchange:
    fields = f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() if status else b""
    return Exchange(
        "http://h/", "page", NOW, 5, response_head=fields, body=body, status=status, error=error
    )


def outcome(answer: Exchange, last: bool = False) -> tuple[str, str, bool, int]:
    verdict = judge(answer, parse_head(answer.response_head), now_ms=NOW, last_attempt=last)
    return verdict.outcome.value, verdict.reason, verdict.host_failed, verdict.wait_ms


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, ("page", "", False, 0)),
        (203, ("page", "", False, 0)),
        (204, ("page", "", False, 0)),
        (206, ("page", "", False, 0)),
        (300, ("page", "", False, 0)),
        (304, ("unchanged", "http_304", False, 0)),
        (305, ("later", "http_305", False, 0)),
        (400, ("gone", "http_400", False, 0)),
        (403, ("gone", "http_403", False, 0)),
        (404, ("gone", "http_404", False, 0)),
        (410, ("gone", "http_410", False, 0)),
        (418, ("gone", "http_418", False, 0)),
        (408, ("retry", "http_408", False, 0)),
        (425, ("retry", "http_425", False, 0)),
        (429, ("retry", "http_429", True, 0)),
        (500, ("retry", "http_500", False, 0)),
        (501, ("later", "http_501", False, 0)),
        (502, ("retry", "http_502", True, 0)),
        (503, ("retry", "http_503", True, 0)),
        (504, ("retry", "http_504", True, 0)),
        (600, ("later", "http_600", False, 0)),
        (999, ("later", "http_999", False, 0)),
        (99, ("later", "http_99", False, 0)),
    ],
)
def test_statuses(status: int, expected: tuple[str, str, bool, int]) -> None:
    assert outcome(exchange(status)) == expected


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_need_a_location(status: int) -> None:
    answer = exchange(status, "Location: /x\r\n")
    verdict = judge(answer, parse_head(answer.response_head), now_ms=NOW, last_attempt=False)
    assert (verdict.outcome, verdict.location) == (FetchOutcome.REDIRECT, "/x")
    assert outcome(exchange(status)) == ("later", "bad_redirect", False, 0)
    assert outcome(exchange(status, "Location:  \r\n")) == ("later", "bad_redirect", False, 0)


@pytest.mark.proves("politeness-retry-after")
@pytest.mark.parametrize(
    ("status", "host_failed", "wait_ms"),
    [(503, True, 7_000), (429, True, 7_000), (500, False, 0), (502, True, 0)],
)
def test_retry_after_is_heard_on_429_and_503_only(
    status: int, host_failed: bool, wait_ms: int
) -> None:
    expected = ("retry", f"http_{status}", host_failed, wait_ms)
    assert outcome(exchange(status, "Retry-After: 7\r\n")) == expected


def test_a_retry_after_of_a_server_whose_clock_is_slow_means_its_own_time() -> None:
    at = "Retry-After: Tue, 14 Nov 2023 22:10:00 GMT\r\n"  # 200 s before NOW
    assert outcome(exchange(503, at))[3] == 0
    assert outcome(exchange(503, at + "Date: Tue, 14 Nov 2023 22:08:30 GMT\r\n"))[3] == 90_000


@pytest.mark.proves("limits-outcome")
@pytest.mark.parametrize("error", list(FetchError))
def test_every_error_has_an_outcome(error: FetchError) -> None:
    kind, reason, host_failed, _ = outcome(exchange(0, error=error))
    if error is FetchError.ADDRESS_REFUSED:
        assert kind == "excluded"
        return
    assert (kind, reason) == ("retry" if error.retry else "later", error)
    assert host_failed == (
        error
        in {
            "dns",
            "name_unknown",
            "connect",
            "connect_refused",
            "connect_timeout",
            "first_byte_timeout",
        }
    )


def test_a_body_that_broke_off_is_read_when_no_attempt_is_left() -> None:
    broken = exchange(200, error="incomplete", body=b"<p>half")
    assert (outcome(broken)[0], outcome(broken, last=True)[:2]) == ("retry", ("page", "incomplete"))
    assert outcome(exchange(200, error="incomplete"), last=True)[0] == "retry"
    assert outcome(exchange(500, error="incomplete", body=b"x"), last=True)[0] == "retry"


def test_a_row_that_ended_does_not_run_again_when_its_page_comes() -> None:
    settled: list[Any] = []
    crawl: Any = SimpleNamespace(
        config=SimpleNamespace(crawl=SimpleNamespace(patience=60_000)),
        clock=SimpleNamespace(now_ms=lambda: 0),
        urls=SimpleNamespace(
            change=lambda row: None, settle=lambda row, state, reason: settled.append(row)
        ),
        listeners=[],
        scheduler=SimpleNamespace(heads=SimpleNamespace(wait_for=lambda row: None)),
        frontier=SimpleNamespace(active=SimpleNamespace(remove=lambda *_: None)),
    )
    nothing: Any = None
    operations = Operations(crawl, nothing, nothing, {})
    row = UrlRow(UrlId("http://a.test/", "a.test", 2, 1, 0), "c", 0, operation="find:x")
    operations._wait(row, 1_000)
    operations._end(row, UrlState.VISITED)
    page: Any = SimpleNamespace(
        collection="c", id=row.id, operation="", state=UrlState.GONE, reason="gone"
    )
    operations.row_processed(page, nothing, None)
    assert settled == [row]
    assert not operations._waiting


NOW_MS = 5_000


def row(collection: str, *, held: bool = False) -> Any:
    return SimpleNamespace(
        id=SimpleNamespace(host_key=1, url="http://a.test/"),
        collection=collection,
        text_digest=held,
        operation="",
        visited_at=held,
    )


def rules(*, flying: list[Any] = (), in_flight: int = 0, pages: int = 8, **lease: int) -> Any:  # type: ignore[assignment]
    assignment = SimpleNamespace(
        name="one",
        grant=lease.get("grant"),
        added=lease.get("added", 0),
        pages=pages,
        in_flight=in_flight,
        collection=SimpleNamespace(max_pages=10, traps=False),
    )
    crawl: Any = SimpleNamespace(
        assignments={"one": assignment},
        clock=SimpleNamespace(monotonic_ms=lambda: NOW_MS),
        in_flight={number: (each,) for number, each in enumerate(flying)},
    )
    nothing: Any = SimpleNamespace(plain=True, from_robots=None)
    return FetchRules(crawl, nothing, nothing, nothing, lambda: None)


@pytest.mark.parametrize(
    ("flying", "in_flight", "waits"),
    [
        ([row("one"), row("one")], 2, True),
        ([row("one"), row("one", held=True)], 2, False),
        # starved as long as `two` fetched anything
        ([row("two"), row("one", held=True), row("one", held=True)], 2, False),
        ([row("one")], 1, False),
    ],
)
def test_only_new_pages_of_the_collection_itself_use_up_its_budget(
    flying: list[Any], in_flight: int, waits: bool
) -> None:
    request_log = (row("one"),)
    decided = list(rules(flying=flying, in_flight=in_flight).page_budget_of_collection(request_log))
    assert decided == ([Defer(request_log, NOW_MS + BLOCKED_RETRY_MS)] if waits else [])


def test_a_used_up_budget_stops_new_pages_and_no_revisits() -> None:
    full = rules(pages=10)
    new, again = row("one"), row("one", held=True)
    assert full.page_budget_of_collection((new, again)) == [PutOff((new,), "budget")]


def test_a_lease_without_pages_left_defers_and_counts_nothing() -> None:
    request_log = (row("one"),)
    leased = rules(grant=3, added=3)
    assert leased.page_budget_of_collection(request_log) == [
        Defer(request_log, NOW_MS + QUOTA_RETRY_MS)
    ]
    assert leased.quota_lease(request_log) == (Defer(request_log, NOW_MS + QUOTA_RETRY_MS),)
    assert leased._crawl.assignments["one"].in_flight == 0
    open_lease = rules(grant=3, added=2)
    assert open_lease.quota_lease(request_log) == ()
    assert open_lease._crawl.assignments["one"].in_flight == 1


def test_each_row_gets_one_decision_from_the_first_rule_that_stops_it() -> None:
    a, b, c = row("a"), row("b"), row("c")
    seen: list[Rows] = []

    def stops_a(rows: Rows) -> list[Decision]:
        return [PutOff((a,), "budget")]

    def stops_b(rows: Rows) -> list[Decision]:
        seen.append(rows)
        return [Defer((b,), 7)]

    assert fetch_decision((a, b, c), (stops_a, stops_b)) == [
        PutOff((a,), "budget"),
        Defer((b,), 7),
        Fetch((c,)),
    ]
    assert seen == [(b, c)]


def test_no_rule_is_asked_when_nothing_is_left() -> None:
    request_log = (row("a"), row("b"))

    def excludes(rows: Rows) -> list[Decision]:
        return [Exclude(rows, Exclusion.ROBOTS)]

    def never(rows: Rows) -> list[Decision]:
        raise AssertionError

    assert fetch_decision(request_log, (excludes, never)) == [
        Exclude(request_log, Exclusion.ROBOTS)
    ]


def test_the_rules_have_an_order() -> None:
    assert [rule.__name__ for rule in rules().in_order] == [
        "refused_address",
        "excluded_by_operator",
        "robots_unknown",
        "robots_unreachable",
        "robots_disallow",
        "page_budget_of_collection",
        "page_budget_of_host",
        "suspected_trap",
        "refetch_budget",
        "quota_lease",
    ]


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
    pace.finish(checked, 2_100, PAUSE, queued=pace.start(checked, 2_000))
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
