"""Whether a URL that has its turn may be fetched: budgets, what the coordinator granted, traps, and the fetches a day of pages that come
again. What is not fetched now stays known, and waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.core.records import UrlRow, UrlState
from lycosa.crawl.assignment import Assignment
from lycosa.crawl.budgets import is_held
from lycosa.crawl.ledger import Ledger

WAIT = "wait"
"""`Allowance.held`: it is not known yet whether the URL may be fetched."""

AWAIT_GRANT = "grant"
"""`Allowance.held`: the coordinator has granted no more pages; it may do so any moment."""


class Allowance:
    """Asked before each fetch of a page, when its robots.txt allows it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def held(self, row: UrlRow) -> str:
        """Why a URL is not fetched now though nothing forbids it: a budget that is used up, a trap. "" if it may be.

        WAIT: what is being fetched may use the budget up, or not.
        """
        ledger = self._ledger
        host = ledger.frontier.hosts[row.id.host_key].row
        assignment = ledger.assignments[row.collection]
        collection = assignment.collection
        if assignment.grant is not None:
            if self._may_add(row) and not self._granted(assignment):
                return AWAIT_GRANT
        elif collection.max_pages is not None and not (is_held(row) or row.operation):
            if assignment.pages >= collection.max_pages:
                return "budget"
            if assignment.pages + assignment.in_flight >= collection.max_pages and any(map(self._may_add, self._flying())):
                return WAIT
        budget, certain = ledger.budgets.objection(row, host, self._flying)
        if budget:
            return budget if certain else WAIT
        if row.operation or row.visited_at or not collection.traps:
            return ""
        rule = ledger.traps.holds(host, row.id.url)
        if not rule:
            return ""
        if assignment.doubts() and assignment.gate.is_named(row.id.url):
            assignment.suspects += 1
            ledger.batch.counters[f"suspects.{row.collection}"] += 1
            return ""
        ledger.traps.count(host, rule)
        ledger.batch.change_host(host)
        return f"trap_{rule}"

    def _granted(self, assignment: Assignment) -> bool:
        """Whether one page more may be fetched, should all that is under way become pages."""
        left = (assignment.grant or 0) - assignment.added
        return left > assignment.in_flight or left > sum(row.collection == assignment.name and self._may_add(row) for row in self._flying())

    def _may_add(self, row: UrlRow) -> bool:
        return not (is_held(row) or row.operation)

    def _flying(self) -> Iterator[UrlRow]:
        return (row for rows in self._ledger.in_flight.values() for row in rows)

    def afford(self, rows: tuple[UrlRow, ...]) -> bool:
        """Whether the collections' budgets allow this fetch; a first visit is free, and so is what was asked for. If not, the URL
        waits in the tables for its turn."""
        ledger = self._ledger
        again = [
            (row, ledger.reserve.budgets[row.collection]) for row in rows if row.visited_at and row.collection in ledger.reserve.budgets
        ]
        again = [(row, budget) for row, budget in again if not row.operation]
        now_ms = ledger.clock.now_ms()
        if len(again) < len(rows) or any(row.state == UrlState.KNOWN for row in rows):
            for _, budget in again:
                budget.spend()
            return True
        taken = [budget.take(ledger.reserve.due_at(row) or 0, now_ms) for row, budget in again]
        if any(taken):
            return True
        ledger.frontier.undo(rows[0].id.host_key)
        for row in rows:
            ledger.reserve.wait_for(row)
        return False
