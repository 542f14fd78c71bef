"""The rules that decide whether a URL is requested now, and how they are combined."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lycosa.core.errors import Exclusion
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

NOW = 5_000


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
        clock=SimpleNamespace(monotonic_ms=lambda: NOW),
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
    assert decided == ([Defer(request_log, NOW + BLOCKED_RETRY_MS)] if waits else [])


def test_a_used_up_budget_stops_new_pages_and_no_revisits() -> None:
    full = rules(pages=10)
    new, again = row("one"), row("one", held=True)
    assert full.page_budget_of_collection((new, again)) == [PutOff((new,), "budget")]


def test_a_lease_without_pages_left_defers_and_counts_nothing() -> None:
    request_log = (row("one"),)
    leased = rules(grant=3, added=3)
    assert leased.page_budget_of_collection(request_log) == [
        Defer(request_log, NOW + QUOTA_RETRY_MS)
    ]
    assert leased.quota_lease(request_log) == (Defer(request_log, NOW + QUOTA_RETRY_MS),)
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
