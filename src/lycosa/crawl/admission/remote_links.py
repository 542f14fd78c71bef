"""URLs of remote partitions: rows of `found` in the commit of the page that links to them.

Applying such a row is an upsert, so a superfluous row does no harm; the links of a menu sent 10,000
times would. So sent URLs are remembered, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lycosa.core.records import UrlId, UrlRow, operation_key
from lycosa.crawl.admission.url_filter import FilterResult
from lycosa.store.tables.rows import Row, found_row

INBOX_LINK = "inbox"
"""The kind of a found row for a submitted URL; its `first_seen_at` is the time of submission."""

# URLs in each of two halves per collection: a full newer half replaces the older; 20 MB
_REMEMBERED = 65_536


class Provenance(NamedTuple):
    """How a URL was discovered.

    `modified_at`: last change according to a sitemap or feed; `first_seen_at`: time of discovery;
    both ms since 1970 or 0.
    """

    referrer: str = ""
    redirects: int = 0
    redirect_from: str = ""
    anchor: str = ""
    kind: str = ""
    modified_at: int = 0
    first_seen_at: int = 0
    priority: float = 0.0


class _Sent(NamedTuple):
    depth: int
    at_ms: int
    modified_at: int


class RemoteLinks:
    """Sends a collection's URLs of remote partitions.

    `put` receives the rows; `screen` is the pre-fetch filter by text. `again_ms`: time after which
    a link is sent again, for collections that refetch linked pages; None: never.
    """

    def __init__(
        self,
        collection: str,
        held: frozenset[int],
        *,
        put: Callable[[Row], None],
        screen: Callable[[str], FilterResult],
        again_ms: int | None = None,
    ) -> None:
        self._collection = collection
        self._held = held
        self._put = put
        self._again_ms = again_ms
        self._new: dict[int, _Sent] = {}
        self._old: dict[int, _Sent] = {}
        self.screen = screen

    def holds(self, partition: int) -> bool:
        """Return whether a partition is held here, so that nothing is sent."""
        return partition in self._held

    def was_sent(self, identity: UrlId, operation: str = "") -> bool:
        """Return whether the URL was sent recently."""
        key = operation_key(identity.url_key, operation)
        return key in self._new or key in self._old

    def send(
        self, identity: UrlId, depth: int, now_ms: int, provenance: Provenance, operation: str = ""
    ) -> bool:
        """Send a URL, unless it was sent with the same or better data.

        Returns whether no earlier sending is remembered.
        """
        key = operation_key(identity.url_key, operation)
        sent = self._new.get(key) or self._old.get(key)
        if (
            sent is not None
            and provenance.kind != INBOX_LINK
            and not self._is_news(sent, depth, now_ms, provenance, operation)
        ):
            return False
        row = UrlRow(
            identity,
            self._collection,
            depth,
            operation,
            priority=provenance.priority,
            first_seen_at=provenance.first_seen_at or now_ms,
            redirects=provenance.redirects,
            redirect_from=provenance.redirect_from,
        )
        self._put(
            found_row(
                row,
                source=provenance.referrer,
                anchor=provenance.anchor,
                kind=provenance.kind,
                modified_at=provenance.modified_at,
            )
        )
        if len(self._new) >= _REMEMBERED:
            self._old, self._new = self._new, {}
        least = depth if sent is None else min(depth, sent.depth)
        self._new[key] = _Sent(
            least, now_ms, max(provenance.modified_at, sent.modified_at if sent else 0)
        )
        return sent is None

    def _is_news(
        self, sent: _Sent, depth: int, now_ms: int, provenance: Provenance, operation: str
    ) -> bool:
        again = (
            self._again_ms is not None and not operation and now_ms - sent.at_ms >= self._again_ms
        )
        return depth < sent.depth or provenance.modified_at > sent.modified_at or again
