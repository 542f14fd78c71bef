"""Points of a crawl at which the parts of a session take part in each other's work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lycosa.core.records import Page, UrlId, UrlRow, Visit
from lycosa.store.log.state import LogState


class CrawlListener:
    """Takes part in a crawl; every method of this base does nothing."""

    def before_commit(self) -> None:
        """A batch is about to be cut: add what belongs into it."""

    def log_advanced(self, state: LogState) -> None:
        """The worker has read on in the log: its own commit, or what others committed."""

    def may_become_due(self) -> bool:
        """Return True while more URLs may become due, so that the crawl does not end."""
        return False

    def row_processed(self, row: UrlRow, visit: Visit, page: Page | None) -> None:
        """An exchange was processed for a row, which is as it stands after the visit; `page` if it
        gave one.
        """

    def seen_url_linked(self, collection: str, identity: UrlId) -> None:
        """A page links to a URL that is known already."""

    def applied_entries(self) -> Mapping[int, int]:
        """Return by partition the log entry up to which links from other workers are applied."""
        return {}


CrawlListeners = list[CrawlListener]
"""The listeners of one session, in the order in which they were added."""


@dataclass(slots=True, frozen=True)
class PatternMatch:
    """A text that somebody looks for, in a page. `watch`: whose it is; `positions`: character
    offsets in the page's text, the first ones of `count`; `context`: what stands around the first.
    """

    watch: str
    text: str
    positions: Sequence[int]
    count: int
    context: str


class PageMatcher(Protocol):
    """Shown every page that is new, or says something else than at its last visit. Its matches
    stand in the page's own commit.
    """

    def look(self, visit: Visit, text: str) -> bool:
        """A page's text; `visit` is that of one collection: where several wanted the page it is
        shown for each. True if it wants to be asked for what it has found now; before a commit is
        cut it is asked in any case.
        """
        ...

    def take_matches(self) -> Iterable[tuple[Visit, PatternMatch]]:
        """What stands in the pages that were shown since this was asked last."""
        ...

    def refresh(self) -> None:
        """Called each second: take in what is looked for by now."""
        ...
