"""`find` as an operation of the crawl: the work of one order, as a worker does it page by page."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.core.errors import WorkspaceError
from lycosa.crawl.policy.operations import OperationType
from lycosa.crawl.state.events import PatternMatch
from lycosa.matching.orders import SearchOrder, read_order
from lycosa.matching.page_watcher import PatternGroup, match_of
from lycosa.store.storage.storage import Storage
from lycosa.url.site_scope import SiteScope

FIND = "find"
"""The name of this type of operation; the operation of an order is `find:` and its id."""


class FindWork:
    """Looks through pages for the texts of one order, in its site."""

    def __init__(self, order: SearchOrder) -> None:
        self.since_ms = order.created_at - order.max_age_ms
        self._site = SiteScope(order.site) if order.site else None
        self._group = PatternGroup([order], order.folding)

    def takes(self, url: str) -> bool:
        return self._site is None or self._site.takes(url)

    def look(self, text: str) -> Iterator[PatternMatch]:
        for order, needle, places in self._group.look(text):
            yield match_of(order, needle, places, text)


def find_type(storage: Storage) -> OperationType:
    """The function that is registered for a workspace's orders."""

    def work(id: str) -> FindWork | None:
        try:
            order = read_order(storage, id)
        except WorkspaceError:  # a damaged file: there is no telling what was ordered
            return None
        return FindWork(order) if order is not None else None

    return work
