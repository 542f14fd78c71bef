"""Outcomes of responses, decisions before requests, and uptime checks."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
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
    Postpone,
    Rows,
    fetch_decision,
)
from lycosa.crawl.policy.host_delay import CheckPace
from lycosa.crawl.policy.operations import Operations
from lycosa.crawl.policy.outcome import FetchOutcome, judge
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.url.keys import host_key, url_key

NOW = 1_700_000_000_000


def exchange(status: int, head: str = "", error: str = "", body: bytes = b"") -> Exchange:
    fields = f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() if status else b""
    return Exchange(
        "http://h/", "page", NOW, 5, response_head=fields, body=body, status=status, error=error
    )


def outcome(answer: Exchange, last: bool = False) -> tuple[str, str, bool, int]:
    verdict = judge(answer, now_ms=NOW, last_attempt=last)
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
        (508, ("retry", "http_508", True, 0)),
        (521, ("retry", "http_521", True, 0)),
        (530, ("retry", "http_530", True, 0)),
        (531, ("later", "http_531", False, 0)),
        (600, ("later", "http_600", False, 0)),
        (999, ("later", "http_999", False, 0)),
        (99, ("later", "http_99", False, 0)),
    ],
)
def test_outcome_of_each_status(status: int, expected: tuple[str, str, bool, int]) -> None:
    assert outcome(exchange(status)) == expected


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_need_a_location(status: int) -> None:
    answer = exchange(status, "Location: /x\r\n")
    verdict = judge(answer, now_ms=NOW, last_attempt=False)
    assert (verdict.outcome, verdict.location) == (FetchOutcome.REDIRECT, "/x")
    assert outcome(exchange(status)) == ("later", "bad_redirect", False, 0)
    assert outcome(exchange(status, "Location:  \r\n")) == ("later", "bad_redirect", False, 0)


@pytest.mark.proves("politeness-retry-after")
@pytest.mark.parametrize(
    ("status", "host_failed", "wait_ms"),
    [(503, True, 7_000), (429, True, 7_000), (500, False, 0), (502, True, 0)],
)
def test_retry_after_is_used_on_429_and_503_only(
    status: int, host_failed: bool, wait_ms: int
) -> None:
    expected = ("retry", f"http_{status}", host_failed, wait_ms)
    assert outcome(exchange(status, "Retry-After: 7\r\n")) == expected


def test_retry_after_date_is_relative_to_the_date_of_the_server() -> None:
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


@pytest.mark.parametrize("error", ["incomplete", "reset", "too_slow"])
def test_incomplete_body_with_the_end_of_a_page_is_parsed_at_once(error: str) -> None:
    whole = b"<html><p>whole</HTML>\n<!-- cached -->"
    encoded = gzip.compress(whole)
    expected = "retry" if error == "too_slow" else "page"
    for head, body in (("", whole), ("Content-Encoding: gzip\r\n", encoded)):
        assert outcome(exchange(200, head, error=error, body=body))[0] == expected
    cut = exchange(200, "Content-Encoding: gzip\r\n", error=error, body=encoded[:-40])
    assert outcome(cut)[0] == "retry"


def test_incomplete_body_is_parsed_after_the_last_attempt() -> None:
    broken = exchange(200, error="incomplete", body=b"<p>half")
    assert (outcome(broken)[0], outcome(broken, last=True)[:2]) == ("retry", ("page", "incomplete"))
    assert outcome(exchange(200, error="incomplete"), last=True)[0] == "retry"
    assert outcome(exchange(500, error="incomplete", body=b"x"), last=True)[0] == "retry"


def test_ended_operation_does_not_run_when_its_page_arrives() -> None:
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


def row(collection: str, *, visited: bool = False) -> Any:
    return SimpleNamespace(
        id=SimpleNamespace(host_key=1, url="http://a.test/"),
        collection=collection,
        text_digest=visited,
        operation="",
        visited_at=visited,
    )


def rules(
    *,
    rows_in_flight: Sequence[Any] = (),
    in_flight: int = 0,
    pages: int = 8,
    grant: int | None = None,
    added: int = 0,
) -> Any:
    """Return the rules for a collection with `pages` of 10 pages fetched."""
    assignment = SimpleNamespace(
        name="one",
        grant=grant,
        added=added,
        pages=pages,
        in_flight=in_flight,
        collection=SimpleNamespace(max_pages=10, traps=False),
    )
    crawl: Any = SimpleNamespace(
        assignments={"one": assignment},
        clock=SimpleNamespace(monotonic_ms=lambda: NOW_MS),
        in_flight={number: (each,) for number, each in enumerate(rows_in_flight)},
    )
    nothing: Any = SimpleNamespace(plain=True, from_robots=None)
    return FetchRules(crawl, nothing, nothing, nothing, lambda: None)


@pytest.mark.parametrize(
    ("rows_in_flight", "in_flight", "deferred"),
    [
        ([row("one"), row("one")], 2, True),
        ([row("one"), row("one", visited=True)], 2, False),
        ([row("two"), row("one", visited=True), row("one", visited=True)], 2, False),
        ([row("one")], 1, False),
    ],
)
def test_only_new_pages_of_the_collection_in_flight_count_against_its_quota(
    rows_in_flight: list[Any], in_flight: int, deferred: bool
) -> None:
    request = (row("one"),)
    checked = rules(rows_in_flight=rows_in_flight, in_flight=in_flight)
    decisions = list(checked.page_budget_of_collection(request))
    assert decisions == ([Defer(request, NOW_MS + BLOCKED_RETRY_MS)] if deferred else [])


def test_exhausted_quota_postpones_new_pages_only() -> None:
    new, revisit = row("one"), row("one", visited=True)
    exhausted = rules(pages=10)
    assert exhausted.page_budget_of_collection((new, revisit)) == [Postpone((new,), "budget")]


def test_exhausted_lease_defers_and_counts_nothing() -> None:
    request = (row("one"),)
    exhausted = rules(grant=3, added=3)
    assert exhausted.page_budget_of_collection(request) == [Defer(request, NOW_MS + QUOTA_RETRY_MS)]
    assert exhausted.quota_lease(request) == (Defer(request, NOW_MS + QUOTA_RETRY_MS),)
    assert exhausted._crawl.assignments["one"].in_flight == 0
    open_lease = rules(grant=3, added=2)
    assert open_lease.quota_lease(request) == ()
    assert open_lease._crawl.assignments["one"].in_flight == 1


def test_each_row_gets_one_decision_from_the_first_rule_that_stops_it() -> None:
    a, b, c = row("a"), row("b"), row("c")
    seen: list[Rows] = []

    def stops_a(rows: Rows) -> list[Decision]:
        return [Postpone((a,), "budget")]

    def stops_b(rows: Rows) -> list[Decision]:
        seen.append(rows)
        return [Defer((b,), 7)]

    assert fetch_decision((a, b, c), (stops_a, stops_b)) == [
        Postpone((a,), "budget"),
        Defer((b,), 7),
        Fetch((c,)),
    ]
    assert seen == [(b, c)]


def test_later_rules_are_not_evaluated_without_rows() -> None:
    request = (row("a"), row("b"))

    def excludes(rows: Rows) -> list[Decision]:
        return [Exclude(rows, Exclusion.ROBOTS)]

    def never(rows: Rows) -> list[Decision]:
        raise AssertionError

    assert fetch_decision(request, (excludes, never)) == [Exclude(request, Exclusion.ROBOTS)]


def test_order_of_the_rules() -> None:
    assert [rule.__name__ for rule in rules().in_order] == [
        "refused_address",
        "excluded_by_operator",
        "out_of_scope",
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


def frontier_and_pace(rows: int) -> tuple[Frontier, CheckPace]:
    """Return a frontier with `rows` queued URLs of one host, if any."""
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


def test_frequent_checks_of_a_host_leave_time_for_its_crawl() -> None:
    frontier, pace = frontier_and_pace(rows=200)
    checked = identity("check")
    request_log: list[tuple[int, str]] = []
    in_flight: tuple[int, str, bool] | None = None
    next_check = 0
    for now in range(0, 60_000, 10):
        if in_flight is not None and now >= in_flight[0]:
            _, kind, queued = in_flight
            if kind == "check":
                pause = pace.pause_ms(checked, PAUSE)
                pace.finish(checked, now, PAUSE, queued=queued)
                next_check = now + pause
            else:
                frontier.finished(checked.host_key, now, PAUSE)
            in_flight = None
        if in_flight is not None:
            continue
        if now >= next_check and pace.ready_at(checked, now, 0, PAUSE) <= now:
            in_flight = (now + FETCH_MS, "check", pace.start(checked, now))
            request_log.append((now, "check"))
        elif frontier.next(now):
            in_flight = (now + FETCH_MS, "page", True)
            request_log.append((now, "page"))
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(request_log)]
    assert min(gaps) >= PAUSE + FETCH_MS
    counts = Counter(kind for _, kind in request_log)
    assert counts["page"] >= 20
    assert counts["check"] >= 20


def test_back_off_stops_the_crawl_but_not_the_checks() -> None:
    frontier, pace = frontier_and_pace(rows=5)
    (row,) = frontier.next(0)
    frontier.finished(row.id.host_key, 100, 3_600_000, domain_pause=PAUSE)
    assert frontier.next(2_000) == ()
    checked = identity("check")
    assert pace.ready_at(checked, 200, 0, PAUSE) == 100 + PAUSE
    assert pace.ready_at(checked, 2_000, 0, PAUSE) <= 2_000
    pace.finish(checked, 2_100, PAUSE, queued=pace.start(checked, 2_000))
    assert frontier.next(3_500_000) == ()
    assert frontier.next(3_600_200) != ()


def test_slow_response_to_the_crawl_delays_a_check_by_one_pause_at_most() -> None:
    frontier, pace = frontier_and_pace(rows=5)
    assert frontier.next(0)
    checked = identity("check")
    assert pace.ready_at(checked, 50, 0, PAUSE) > 50
    assert pace.ready_at(checked, 50 + PAUSE, PAUSE, PAUSE) <= 50 + PAUSE


def test_check_of_an_inactive_host_delays_its_next_fetch() -> None:
    frontier, pace = frontier_and_pace(rows=0)
    checked = identity("check")
    queued = pace.start(checked, 0)
    # the crawl activates the host during the check
    frontier.open_host(HostRow(HOST, 0, host_key(HOST), HOST, 0))
    frontier.add(UrlRow(identity("1"), "a", 0))
    assert frontier.next(50) == ()
    pace.finish(checked, 100, PAUSE, queued=queued)
    assert frontier.next(100 + PAUSE - 1) == ()
    assert frontier.next(100 + PAUSE) != ()
