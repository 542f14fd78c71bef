"""What a worker is given to do: collections to crawl, and single fetches."""

from __future__ import annotations

from dataclasses import dataclass

from lycosa.config.settings import Collection
from lycosa.core.records import UrlId, UrlRow, VisitKind


@dataclass(slots=True)
class Task:
    """One fetch on its way. `rows` are the URL's rows, one a collection; empty for a robots.txt.
    `origin` is whose robots.txt it is about.
    """

    identity: UrlId
    rows: tuple[UrlRow, ...]
    origin: str
    kind: VisitKind
    attempt: int = 1
    hop: int = 0
    collection: str = ""  # whose it is, where there are no rows to say it (a log-in, a requisite)

    referrer: str = ""  # likewise: the page that it is for

    @property
    def key(self) -> int:
        """The key of its rows, which all are of one operation."""
        return self.rows[0].key if self.rows else 0


@dataclass(slots=True, frozen=True)
class Job:
    """A collection to be worked, with all its seeds, those of earlier calls included."""

    collection: Collection
    seeds: tuple[str, ...]
