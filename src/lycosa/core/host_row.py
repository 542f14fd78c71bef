"""The row of a host, and its robots.txt files."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from lycosa.core.dataclass import dataclass
from lycosa.core.records import Exchange, UrlState


class RobotsEntry(NamedTuple):
    """The robots.txt of an origin as last fetched (element of `hosts.robots`)."""

    origin: str  # scheme://host[:port]
    status: int  # 0: no response
    fetched_at: int
    expires_at: int
    body: str  # at most 512 KiB, decoded as UTF-8 with replacement


@dataclass(slots=True)
class HostRow:
    """A row of `hosts`."""

    host: str
    partition: int
    host_key: int
    registrable_domain: str
    first_seen_at: int
    last_visit_at: int = 0
    ip: str = ""
    server: str = ""
    robots: list[RobotsEntry] = field(default_factory=list)
    delay_ms: int = 0  # usual delay, without back-off and Retry-After
    not_before: int = 0
    latency_ms: float = 0.0  # moving mean of the transfer time
    fails: int = 0  # failures in a row
    known: int = 0
    visited: int = 0
    pages: int = 0
    bytes: int = 0
    budget: int | None = None
    traps: dict[str, int] = field(default_factory=dict)
    # announced changes (lastmod in sitemaps and feeds) confirmed by a visit
    claims_right: float = 0.0
    claims_wrong: float = 0.0
    claims_missed: float = 0.0  # unannounced changes of listed pages

    def record_visit(self, exchange: Exchange, server: str, fails: int) -> None:
        """Record a finished fetch from the host. `fails`: failures in a row, this one included."""
        self.last_visit_at = exchange.started_at
        self.ip = exchange.ip or self.ip
        self.server = server or self.server
        self.fails = fails

    def set_pause(self, delay_ms: int, not_before: int) -> None:
        """Set the usual delay, and when the host may be requested again."""
        self.delay_ms = delay_ms
        self.not_before = not_before

    def defer_until(self, not_before: int, delay_ms: int = 0) -> None:
        """Allow no request before that time; increase the delay to `delay_ms`."""
        self.not_before = max(self.not_before, not_before)
        self.delay_ms = max(self.delay_ms, delay_ms)

    def record_latency(self, latency_ms: float) -> None:
        """Record the usual latency, refined by a response."""
        self.latency_ms = latency_ms

    def change_state(self, before: str, after: str) -> None:
        """Count a changed state of one of the host's URLs."""
        self.visited += (after == UrlState.VISITED) - (before == UrlState.VISITED)
        self.known += (after == UrlState.KNOWN) - (before == UrlState.KNOWN)

    def add_urls(self, number: int) -> None:
        """Count new URLs of the host."""
        self.known += number

    def add_page(self) -> None:
        """Count a page that a collection stored for the first time."""
        self.pages += 1

    def add_bytes(self, size: int) -> None:
        """Count the bytes of a response body."""
        self.bytes += size

    def replace_robots(self, entry: RobotsEntry) -> None:
        """Store the robots.txt of one of the host's origins."""
        others = (old for old in self.robots if old.origin != entry.origin)
        self.robots = [*others, entry]

    def record_claims(self, right: float, wrong: float, missed: float) -> None:
        """Record whether sitemaps and feeds announced changes correctly."""
        self.claims_right, self.claims_wrong, self.claims_missed = right, wrong, missed

    def record_traps(self, counters: dict[str, int]) -> None:
        """Store new counters of trap detection."""
        self.traps = counters
