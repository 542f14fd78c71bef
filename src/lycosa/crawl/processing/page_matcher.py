"""What looks at pages while they are crawled: the crawl asks it, the monitor implements it
(`lycosa.matching.page_watcher`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lycosa.core.records import Visit


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
