"""A worker's collection, and data that several parts of a crawl share."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import field

from lycosa.config.settings import Collection
from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
from lycosa.core.records import UrlId, UrlRow
from lycosa.crawl.admission.link_gate import LinkGate
from lycosa.crawl.admission.url_filter import FREE_SUSPECTS, free_suspects
from lycosa.crawl.state.events import CrawlListeners
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Task
from lycosa.frontier.politeness.delay import DelayRules
from lycosa.frontier.recrawl.change_rate import DEFAULT_PRIOR, RatePrior
from lycosa.frontier.recrawl.due import Policy, RecrawlRules
from lycosa.frontier.seen import SeenUrls


@dataclass(slots=True)
class Assignment:
    """One collection of a worker: link gate, seen URLs, delays and counts.

    `depth_decreased`: url_key -> host_key of visited URLs with a decreased depth; their stored
    links are walked again; `unstored_depths`: keys of those whose row is only in the tables, with a
    depth limit. `pages`: number of stored pages, for the budget; `suspects`: number of
    fetched URLs that looked like traps, of at most `free_suspects`; `in_flight`: number of requests
    in flight, `unparsed`: those of them with a response that waits to be parsed. `grant`: number of
    pages that this claim may add (None: no coordinator), `added`: number that it has added.
    """

    collection: Collection
    gate: LinkGate
    seen: SeenUrls
    pace: DelayRules
    pages: int = 0
    suspects: int = 0
    in_flight: int = 0
    unparsed: int = 0
    grant: int | None = None
    added: int = 0
    depth_decreased: dict[int, int] = field(default_factory=dict)
    unstored_depths: set[int] = field(default_factory=set)
    prior: RatePrior = DEFAULT_PRIOR

    @property
    def name(self) -> str:
        return self.collection.name

    def resume(self, pages: int, suspects: int) -> None:
        """Set the committed counts."""
        self.pages, self.suspects = pages, suspects

    def count_page(self) -> None:
        """Count one more stored page."""
        self.pages += 1
        self.added += 1

    def count_suspect(self) -> None:
        """Count a fetch of a URL that looks like a trap."""
        self.suspects += 1

    def set_quota(self, pages: int | None) -> None:
        """Set how many pages this claim may add; None: no limit."""
        self.grant = pages

    def set_prior(self, prior: RatePrior) -> None:
        """Set the prior of change rates that the daily ranking computed."""
        self.prior = prior

    def may_fetch_suspect(self) -> bool:
        """Return whether another suspected trap may be fetched on a host of a seed."""
        return self.suspects < free_suspects(
            self.gate.admission.named_hosts, self.pages, FREE_SUSPECTS
        )

    def depth_of(self, identity: UrlId) -> int | None:
        """Return the least depth of a known URL; None if it is unknown.

        A URL is also unknown if another URL has its key.
        """
        try:
            return self.seen.depth(identity)
        except KeyError:
            return None

    def knows(self, identity: UrlId) -> bool:
        """Return whether a URL is known. It is not if another URL has its key."""
        return self.depth_of(identity) is not None


def recrawl_rules(collection: Collection, once_since_ms: int | None = None) -> RecrawlRules:
    """Return a collection's settings as the rules of its schedule.

    Until the schedule is computed, `fresh` fetches nothing again.
    """
    hours, minutes = collection.daily_at.split(":")
    return RecrawlRules(
        policy=Policy(collection.recrawl),
        max_age_ms=collection.max_age,
        timer="timer" in collection.recrawl_triggers,
        on_link="on_link" in collection.recrawl_triggers,
        daily_at=int(hours) * 60 + int(minutes),
        budget_per_day=collection.fetches_per_day,
        threshold=math.inf,
        once_since_ms=once_since_ms,
    )


@dataclass(slots=True, frozen=True)
class CrawlData:
    """Data that several parts of a crawl share.

    `prerequisites`: requests that precede the pages of their host (robots.txt, logins).
    `in_flight`: rows of URLs that are being fetched, by row key. `assignments`: by collection.
    """

    clock: Clock
    progress: Progress
    listeners: CrawlListeners = field(default_factory=list)
    prerequisites: deque[Task] = field(default_factory=deque)
    in_flight: dict[int, tuple[UrlRow, ...]] = field(default_factory=dict)
    assignments: dict[str, Assignment] = field(default_factory=dict)
