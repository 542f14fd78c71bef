"""When a URL may be fetched: by the rules of its collection, the limits of this call, and the
refetch budget. Times are ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import polars as pl

from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.frontier.recrawl.due import RecrawlRules, due_at, due_expr
from lycosa.frontier.recrawl.refetch_budget import Budget
from lycosa.frontier.scheduler.reach import Unvisited


class Agenda:
    """`rules` by collection; others are not fetched. `only` restricts the URLs that this call
    fetches; None: all that are due. `budgets` limit refetches, by collection.
    """

    def __init__(self, rules: Mapping[str, RecrawlRules], clock: Clock) -> None:
        self.rules = dict(rules)
        self._clock = clock
        self.only: Unvisited | None = None
        self.budgets: dict[str, Budget] = {}

    def restrict_to(self, only: Unvisited) -> None:
        """Fetch only the URLs that `only` admits."""
        self.only = only

    def due_at(self, row: UrlRow) -> int | None:
        """Return when a URL is due (0: now); None: never."""
        rules = self.rules.get(row.collection)
        if rules is None or (self.only is not None and not self.only.admits(row)):
            return None
        if row.state == UrlState.KNOWN and not row.not_before:
            return 0
        return due_at(rules, row, self._clock.now_ms())

    def earliest(self, row: UrlRow, due_at: int) -> int:
        """Return when a URL that is due may be fetched by the budget of its collection."""
        budget = self.budgets.get(row.collection)
        return due_at if budget is None or row.state == UrlState.KNOWN else budget.earliest(due_at)

    def is_near(self, row: UrlRow, horizon: int) -> bool:
        """Return whether a head may have a URL: it is due by `horizon` and within the budget."""
        due = self.due_at(row)
        return due is not None and due <= horizon and self.earliest(row, due) == due

    def is_due(self, row: UrlRow) -> bool:
        """Return whether a URL may be fetched now."""
        return self.is_near(row, self._clock.now_ms())

    def due_since(self, row: UrlRow) -> int:
        """Return since when a URL is due; 0 if it is not."""
        return self.due_at(row) or 0

    def set_rules(self, collection: str, rules: RecrawlRules) -> None:
        """Replace the rules of a collection that is crawled. Follow it with `Scheduler.renew`, or
        parked hosts keep their old times.
        """
        if collection in self.rules:
            self.rules[collection] = rules

    def due_columns(self) -> tuple[dict[str, pl.Expr], set[str]]:
        """Return `due_at` over the columns of `urls` by collection, without `only`, and the columns
        that it reads.
        """
        due = {
            collection: due_expr(rules, self._clock.now_ms())
            for collection, rules in self.rules.items()
        }
        return due, {name for expression in due.values() for name in expression.meta.root_names()}

    def due_filter(self, collection: str, horizon: int) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
        """Return over the columns of `urls`, for rows of a collection: whether a URL is ever due,
        when it may be fetched at the earliest, and `is_near`.
        """
        due = due_expr(self.rules[collection], self._clock.now_ms())
        is_due = (
            due.is_not_null() if self.only is None else due.is_not_null() & self.only.condition()
        )
        budget = self.budgets.get(collection)
        if budget is None or budget.open:
            return is_due, due, due <= horizon
        later = (
            pl.when(pl.col("state") == UrlState.KNOWN)
            .then(due)
            .otherwise(budget.earliest_expr(due))
        )
        return is_due, later, (due <= horizon) & (later <= due)


@dataclass(slots=True, frozen=True)
class Pending:
    """Look-ups of the newest version of each uncommitted row: by host key the rows of its URLs and
    its own row, and the row of a URL in a collection for an operation. `in_flight`: whether a URL
    is being fetched.
    """

    urls: Callable[[int], Iterable[UrlRow]]
    host: Callable[[int], HostRow | None]
    in_flight: Callable[[UrlRow], bool]
    url: Callable[[UrlId, str, str], UrlRow | None] = lambda identity, collection, operation: None

    def due_in_collection(self, agenda: Agenda, row: UrlRow, collection: str) -> UrlRow | None:
        """Return the row that a URL has in another collection, if it is uncommitted and due."""
        other = self.url(row.id, collection, row.operation)
        if other is None or self.in_flight(other) or not agenda.is_due(other):
            return None
        return other
