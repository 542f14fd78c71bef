"""Plain data of a crawl that several parts read and change."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lycosa.core.clock import Clock
from lycosa.core.records import UrlRow
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.events import CrawlEvents
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Task


@dataclass(slots=True, frozen=True)
class CrawlData:
    """`prerequisites`: what has to be fetched before the pages of its host (robots.txt, logins).
    `in_flight`: rows of URLs that are being fetched, by row key. `assignments`: by collection.
    """

    clock: Clock
    progress: Progress
    events: CrawlEvents = field(default_factory=CrawlEvents)
    prerequisites: deque[Task] = field(default_factory=deque)
    in_flight: dict[int, tuple[UrlRow, ...]] = field(default_factory=dict)
    assignments: dict[str, Assignment] = field(default_factory=dict)
