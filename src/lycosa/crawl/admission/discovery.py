"""Discovery of pages by sitemaps and feeds.

Sitemaps are named by robots.txt, feeds by pages, and both by the configuration. A sitemap or feed
is a row of `urls` of its own, with the operation `sitemap` or `feed`: it survives a kill, waits in
the same queue under the same politeness, and is read again on a schedule of its own. Its entries
are admitted like links; its dates of change make known pages due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lycosa.core.errors import Refusal
from lycosa.core.records import (
    Exchange,
    Link,
    LinkKind,
    UrlId,
    UrlRow,
    UrlState,
    Visit,
    VisitKind,
    operation_key,
)
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.waiting import SCHEDULED
from lycosa.fetch.robots_txt import robots_url
from lycosa.http.decode import content_type_of, decode_body
from lycosa.page.feeds.sitemap import may_list, read_sitemap
from lycosa.url.normalise import LinkResolver, normalise
from lycosa.url.scope import hostname

SITEMAP, FEED = "sitemap", "feed"
KINDS = {"": VisitKind.PAGE, SITEMAP: VisitKind.SITEMAP, FEED: VisitKind.FEED}
"""Operation -> kind of its visits."""

MAX_SITEMAPS = 50
"""Maximum sitemaps of one robots.txt; further ones are counted."""

MAX_INDEXED = 1_000
"""Maximum sitemaps in the indexes of one robots.txt, in one run."""

MAX_HOPS = 5
"""Maximum length of a chain of indexes and redirects to a sitemap or feed."""

MAX_FEEDS = 5
"""Feeds of one page that are read."""

MAX_FEEDS_PER_HOST = 50
"""Feeds of one host that are read, in one run: many sites have one of comments for each page."""

_COUNTED = 10_000  # robots.txt files and hosts with counts; then counts restart

_FEED_LINK = LinkKind.FEED.value
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_INTERVALS = {
    FEED: (5 * _MINUTE_MS, 30 * _MINUTE_MS, _DAY_MS),
    SITEMAP: (_HOUR_MS, _DAY_MS, 7 * _DAY_MS),
}
# Least, first and longest interval between reads: halved if the file had new URLs, else doubled.


class Discovery:
    """Admits and reads sitemaps and feeds."""

    def __init__(self, crawl: CrawlState) -> None:
        self._crawl = crawl
        self._max_decoded = crawl.config.fetch.max_decoded
        # (collection, robots.txt) -> sitemaps that its indexes led to
        self._indexed: Counter[tuple[str, str]] = Counter()
        self._feeds: Counter[tuple[str, int]] = Counter()  # (collection, host) -> its feeds

    def configured(self) -> None:
        """Admit the configured feeds and sitemaps.

        Raises:
            UrlError: one of their URLs cannot be used.
        """
        for name, assignment in self._crawl.assignments.items():
            for url in assignment.collection.feed_urls:
                identity = self._crawl.identifier.identify(normalise(url))
                if assignment.gate.holds(identity):  # every worker has the configuration
                    self.admit(name, identity, FEED, "", 0)

    def from_robots(self, origin: str, sitemaps: Sequence[str]) -> None:
        """Admit the sitemaps in an origin's robots.txt.

        They are admitted for each collection with URLs of the origin in its scope.
        """
        if not sitemaps:
            return
        names = [
            name
            for name, each in self._crawl.assignments.items()
            if each.collection.sitemaps
            and each.gate.takes(f"{origin}/")
            and self._has_urls(name, origin)
        ]
        resolver = LinkResolver(robots_url(origin))
        for number, line in enumerate(sitemaps):
            target = resolver.resolve(line)
            for name in names:
                gate = self._crawl.assignments[name].gate
                if isinstance(target, Refusal):
                    gate.refuse(target)
                elif number >= MAX_SITEMAPS:
                    gate.refuse("too_many_sitemaps")
                else:
                    self.admit(
                        name,
                        self._crawl.identifier.identify(target),
                        SITEMAP,
                        robots_url(origin),
                        0,
                    )

    def from_page(self, row: UrlRow, links: Iterable[Link]) -> None:
        """Admit the feeds that a page links to, if the collection's scope allows."""
        assignment = self._crawl.assignments[row.collection]
        if not assignment.collection.feeds:
            return
        feeds = [target for target, _, _, kind, _ in links if kind == _FEED_LINK]
        if len(self._feeds) > _COUNTED:
            self._feeds.clear()
        for target in feeds[:MAX_FEEDS]:
            if not assignment.gate.takes(target):
                continue
            identity = self._crawl.identifier.identify(target)
            key = (row.collection, identity.host_key)
            if self._feeds[key] < MAX_FEEDS_PER_HOST:
                self._feeds[key] += self.admit(
                    row.collection, identity, FEED, row.id.url, row.depth
                )
            else:
                assignment.gate.refuse("too_many_feeds")

    def read(self, exchange: Exchange, row: UrlRow, visit: Visit) -> None:
        """Apply the entries of a fetched sitemap or feed."""
        crawl = self._crawl
        decoded = decode_body(exchange, self._max_decoded)
        sitemap = read_sitemap(decoded.payload, row.id.url, content_type=content_type_of(exchange))
        gate = crawl.assignments[row.collection].gate
        now_ms = crawl.clock.now_ms()
        before = gate.admitted_count
        claims: dict[UrlId, int] = {}
        named_by = [hostname(row.referrer)] if row.referrer.startswith("http") else []
        entries = sitemap.entries
        if row.operation == SITEMAP:
            entries = [each for each in entries if may_list(row.id.url, each.url, named_by)]
            if len(entries) < len(sitemap.entries):
                gate.refuse("foreign_sitemap", len(sitemap.entries) - len(entries))
        targets = (
            (
                each.url,
                Provenance(row.id.url, kind=row.operation, modified_at=each.last_modified_at or 0),
            )
            for each in entries
        )
        refusals = gate.admit_all(targets, row.depth + 1, now_ms)
        for entry, refusal in zip(entries, refusals, strict=True):
            modified_at = 0 if refusal else entry.last_modified_at or 0
            if modified_at and gate.holds(identity := crawl.identifier.identify(entry.url)):
                claims[identity] = modified_at
        self._follow_index(
            row,
            [each.url for each in sitemap.sitemaps if may_list(row.id.url, each.url, named_by)],
        )
        visit.record_content(
            len(sitemap.entries) + len(sitemap.sitemaps), changed=gate.admitted_count > before
        )
        crawl.urls.apply_claims(row.collection, claims)

    def redirect(self, row: UrlRow, target: str) -> None:
        """Admit the redirect target of a sitemap or feed, with the same operation.

        A feed that a page links to must not leave the collection's scope.
        """
        gate = self._crawl.assignments[row.collection].gate
        if row.redirects >= MAX_HOPS:
            gate.refuse("sitemap_hops")
        elif row.operation == SITEMAP or not row.referrer or gate.takes(target):
            identity = self._crawl.identifier.identify(target)
            self.admit(
                row.collection, identity, row.operation, row.referrer, row.depth, row.redirects + 1
            )

    def _follow_index(self, row: UrlRow, sitemaps: list[str]) -> None:
        """Admit the sitemaps of an index, up to the limit."""
        gate = self._crawl.assignments[row.collection].gate
        if row.redirects >= MAX_HOPS:
            gate.refuse("sitemap_hops", len(sitemaps))
            return
        if len(self._indexed) > _COUNTED:
            self._indexed.clear()
        key = (row.collection, row.referrer)
        for url in sitemaps:
            if self._indexed[key] >= MAX_INDEXED:
                gate.refuse("too_many_sitemaps")
                continue
            identity = self._crawl.identifier.identify(url)
            self._indexed[key] += self.admit(
                row.collection, identity, SITEMAP, row.referrer, row.depth, row.redirects + 1
            )

    def settle(self, row: UrlRow, *, changed: bool) -> None:
        """Schedule the next read of a sitemap or feed.

        It is not read again if the collection refetches nothing.
        """
        crawl = self._crawl
        collection = crawl.assignments[row.collection].collection
        if collection.recrawl == "never":
            crawl.urls.settle(row, UrlState.VISITED)
            return
        least, first, longest = _INTERVALS[row.operation]
        before = row.history[0] if row.history else 2 * first
        interval = (
            max(least, before / 2)
            if changed
            else min(longest, before * 2 if row.history else first)
        )
        row.learn_changes((interval,), row.change_rate)
        row.defer_until(crawl.clock.now_ms() + round(interval))
        crawl.urls.settle(row, UrlState.KNOWN, SCHEDULED)

    def _has_urls(self, name: str, origin: str) -> bool:
        """Return whether a collection has URLs of the origin's host.

        If not, for example if the host only redirects, its sitemaps are not read.
        """
        queue = self._crawl.frontier.hosts.get(
            self._crawl.identifier.identify(f"{origin}/").host_key
        )
        # In a replay no URL is active yet; the replayed robots.txt was requested for a collection.
        return queue is not None and (
            not queue.heads or name in queue.heads or len(self._crawl.assignments) == 1
        )

    def admit(
        self, name: str, identity: UrlId, operation: str, referrer: str, depth: int, hops: int = 0
    ) -> bool:
        """Add a row for a sitemap or feed. Return whether it is new.

        `hops`: number of indexes and redirects that led to it.
        """
        crawl = self._crawl
        gate, seen = crawl.assignments[name].gate, crawl.assignments[name].seen
        if gate.remote_links is not None and not gate.holds(identity):
            provenance = Provenance(referrer, hops, kind=operation, priority=1.0)
            return gate.remote_links.send(
                identity, depth, crawl.clock.now_ms(), provenance, operation
            )
        as_key = identity._replace(url_key=operation_key(identity.url_key, operation))
        try:
            if seen.depth(as_key) is not None:
                return False
        except KeyError:
            return False
        seen.put(as_key, depth)
        now_ms = crawl.clock.now_ms()
        row = UrlRow(
            identity,
            name,
            depth,
            operation,
            state_at=now_ms,
            first_seen_at=now_ms,
            referrer=referrer,
            redirects=hops,
            priority=1.0,
        )
        crawl.urls.admitted((row,))
        return True
