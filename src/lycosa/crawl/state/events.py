"""Interfaces of a crawl for the parts of a session and for features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from lycosa.core.dataclass import dataclass
from lycosa.core.records import Page, UrlId, UrlRow, Visit
from lycosa.store.log.state import LogState


class CrawlListener:
    """Receives events of a crawl. The methods of this base class do nothing."""

    def before_commit(self) -> None:
        """Add rows to a batch that is about to be cut."""

    def log_advanced(self, state: LogState) -> None:
        """Handle new log entries, of this worker or others."""

    def may_become_due(self) -> bool:
        """Return True while more URLs may become due, so that the crawl does not end."""
        return False

    def row_processed(self, row: UrlRow, visit: Visit, page: Page | None) -> None:
        """Handle a processed exchange: its row after the visit, and its page if any."""

    def seen_url_linked(self, collection: str, identity: UrlId) -> None:
        """Handle a link to a known URL."""

    def applied_entries(self) -> Mapping[int, int]:
        """Return by partition the log entry up to which links from other workers are applied."""
        return {}


CrawlListeners = list[CrawlListener]
"""The listeners of one session, in the order in which they were added."""


@dataclass(slots=True, frozen=True)
class PatternMatch:
    """A match of a watched text in a page.

    `watch`: ID of the watch or of the `find` call; `positions`: the first of `count` character
    offsets in the page's text; `context`: the text around the first.
    """

    watch: str
    text: str
    positions: Sequence[int]
    count: int
    context: str


class PageMatcher(Protocol):
    """Searches new and changed pages. Matches are committed with their page."""

    def match_page(self, visit: Visit, text: str) -> bool:
        """Search a page's text. Called once for each collection of the page.

        If it returns True, call `take_matches` now; otherwise it is called before the next commit.
        """
        ...

    def take_matches(self) -> Iterable[tuple[Visit, PatternMatch]]:
        """Return the matches since the last call."""
        ...

    def refresh(self) -> None:
        """Load the current watches. Called each second."""
        ...
