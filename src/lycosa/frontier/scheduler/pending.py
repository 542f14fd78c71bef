"""URLs and hosts of the worker's batch, which the tables do not hold yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lycosa.core.records import HostRow, UrlRow
from lycosa.frontier.scheduler.agenda import Agenda


@dataclass(slots=True, frozen=True)
class Pending:
    """Look-ups of the newest version of each uncommitted row: by host key the rows of its URLs and
    its own row, and the row of a URL in another collection. `in_flight`: whether a URL is being
    fetched.
    """

    urls: Callable[[int], Iterable[UrlRow]]
    host: Callable[[int], HostRow | None]
    in_flight: Callable[[UrlRow], bool]
    row_of_collection: Callable[[UrlRow, str], UrlRow | None] = lambda row, collection: None

    def due_in_collection(self, agenda: Agenda, row: UrlRow, collection: str) -> UrlRow | None:
        """Return the row that a URL has in another collection, if it is uncommitted and due."""
        other = self.row_of_collection(row, collection)
        if other is None or self.in_flight(other) or not agenda.is_due(other):
            return None
        return other
