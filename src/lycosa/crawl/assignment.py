"""One collection as a worker works on it: what it takes, what it knows, how it paces and when it looks again."""

from __future__ import annotations

from dataclasses import dataclass, field

from lycosa.core.config import Collection
from lycosa.crawl.links import LinkGate
from lycosa.frontier.known import KnownUrls
from lycosa.frontier.politeness import Pace


@dataclass(slots=True)
class Assignment:
    """`fallen`: visited URLs (url_key -> host_key) that turned out to lie at less depth; their stored links are walked again.
    `pages` counts what it holds, for its budget; `in_flight` its fetches under way."""

    collection: Collection
    gate: LinkGate
    known: KnownUrls
    pace: Pace
    pages: int = 0
    in_flight: int = 0
    fallen: dict[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.collection.name
