"""The plug-in of content alerts and `find`: page matcher and operation of a crawl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lycosa.core.clock import Clock
from lycosa.core.errors import WorkspaceError
from lycosa.crawl.policy.operations import OperationType
from lycosa.crawl.state.events import PatternMatch
from lycosa.hooks.specs import hook
from lycosa.matching.orders import SearchOrder, read_order
from lycosa.matching.page_watcher import PatternGroup, Watcher, match_of
from lycosa.store.storage.storage import Storage
from lycosa.url.site_name import SiteScope

FIND = "find"  # the operation of an order is `find:` and its ID


@hook
def page_matcher(storage: Storage, clock: Clock) -> Watcher:
    return Watcher(storage, clock)


@hook
def operation_types(storage: Storage) -> Mapping[str, OperationType]:
    def find(id: str) -> FindWork | None:
        try:
            order = read_order(storage, id)
        except WorkspaceError:  # a damaged file
            return None
        return FindWork(order) if order is not None else None

    return {FIND: find}


class FindWork:
    """Searches pages for the texts of an order, within its site."""

    def __init__(self, order: SearchOrder) -> None:
        self.since_ms = order.created_at - order.max_age_ms
        self._site = SiteScope(order.site) if order.site else None
        self._group = PatternGroup([order], order.folding)

    def takes(self, url: str) -> bool:
        return self._site is None or self._site.takes(url)

    def match(self, text: str) -> Iterator[PatternMatch]:
        for order, pattern, places in self._group.match(text):
            yield match_of(order, pattern, places, text)
