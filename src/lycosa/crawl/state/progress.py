"""Counters of a crawl, for display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field

from lycosa.core.dataclass import dataclass
from lycosa.core.records import Visit
from lycosa.url.scope import url_origin

_MAX_FAILURES = 100


@dataclass(slots=True)
class Progress:
    """Counters of this call. `states` counts all URLs of the collection by stored state."""

    started_ms: int  # monotonic
    pages: int = 0  # added rows of `pages`
    visits: int = 0
    bytes: int = 0
    replayed: int = 0  # exchanges from orphaned WARC files of an earlier run
    # unreadable ranges of orphaned WARC files of an earlier run, by file
    damaged: Counter[str] = field(default_factory=Counter)
    # URL of a seed or robots.txt that could not be fetched -> reason; the first 100
    failures: dict[str, str] = field(default_factory=dict)
    seed_origins: set[str] = field(default_factory=set)  # of hosts with unvisited URLs
    errors: Counter[str] = field(default_factory=Counter)  # by FetchError or http_NNN
    refused: Counter[str] = field(default_factory=Counter)  # links, by Refusal
    statuses: Counter[int] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    # URLs that remain at the end of the crawl, by reason
    later: Counter[str] = field(default_factory=Counter)
    queue: int = 0
    in_flight: int = 0
    hosts: int = 0
    commits: int = 0
    public_pages: int = 0  # pages from public addresses
    ended_ms: int = 0  # monotonic
    ended: str = ""  # finished | max_pages | max_time | stopped

    def add_visit(self, visit: Visit) -> None:
        """Count a finished exchange."""
        self.visits += 1
        self.bytes += visit.content_length
        self.statuses[visit.http_status] += 1

    def add_page(self, language: str, *, public: bool) -> None:
        """Count a page. `public`: its address is not a private one."""
        self.pages += 1
        self.public_pages += public
        self.languages[language] += 1

    def add_commit(self) -> None:
        """Count a commit."""
        self.commits += 1

    def add_replayed(self, exchanges: int) -> None:
        """Count exchanges that an earlier run had archived."""
        self.replayed += exchanges

    def measure(self, queue: int, in_flight: int, hosts: int) -> None:
        """Set the current sizes: URLs that wait, fetches in flight, hosts."""
        self.queue, self.in_flight, self.hosts = queue, in_flight, hosts

    def end(self, reason: str) -> None:
        """Set the reason of the end: finished, max_pages, max_time or stopped."""
        self.ended = reason

    def stop_clock(self, now_ms: int) -> None:
        """Record that everything is committed."""
        self.ended_ms = now_ms

    def defer(self, reasons: Counter[str]) -> None:
        """Set the number of URLs that remain at the end of the crawl, by reason."""
        self.later = reasons

    def fail(self, url: str, why: str) -> None:
        """Record that a seed, or the robots.txt of a host, could not be fetched."""
        if len(self.failures) < _MAX_FAILURES:
            self.failures.setdefault(url, why)

    def start_only_from(self, urls: Iterable[str]) -> None:
        """Replace the seeds by these URLs in `all_failed`."""
        self.seed_origins = set(map(url_origin, urls))

    @property
    def all_failed(self) -> bool:
        """Whether no page was fetched and a request to each seed's origin failed."""
        return self.has_nothing and self.seed_origins <= set(map(url_origin, self.failures))

    @property
    def has_nothing(self) -> bool:
        """Whether this call has fetched no page because requests failed."""
        return bool(self.failures) and not (self.pages or self.replayed or self.statuses[304])

    def summary(self, now_ms: int) -> Mapping[str, object]:
        """Return the counters as plain data for `--json`; times in seconds."""
        seconds = max(now_ms - self.started_ms, 1) / 1000
        return {
            "ended": self.ended,
            "pages": self.pages,
            "visits": self.visits,
            "bytes": self.bytes,
            "seconds": round(seconds, 3),
            "pages_per_second": round(self.pages / seconds, 1),
            "hosts": self.hosts,
            "replayed": self.replayed,
            "damaged": dict(self.damaged),
            "commits": self.commits,
            "states": {state: number for state, number in self.states.items() if number},
            "statuses": {str(status): number for status, number in sorted(self.statuses.items())},
            "errors": dict(self.errors),
            "failures": self.failures,
            "refused": dict(self.refused),
            "languages": dict(self.languages.most_common()),
            "left_for_later": dict(self.later),
        }
