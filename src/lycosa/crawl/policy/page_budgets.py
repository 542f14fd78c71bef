"""Page budgets: a collection's limits for hosts, their parts and domains.

Only new pages of a collection count, not repeated visits. The counts of a host are read from the
tables at its first URL, and cached for some thousand hosts; those of registrable domains are read
once, at a resume.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import polars as pl
from cachetools import LRUCache

from lycosa.config.settings import Collection
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlRow
from lycosa.frontier.scheduler.parked_hosts import RowReaders

HOST_BUDGET, PREFIX_BUDGET, DOMAIN_BUDGET = "host_budget", "prefix_budget", "domain_budget"

_HOSTS = 4_000  # hosts with cached counts; those of other hosts are read from the tables again
_HELD = (pl.col("text_digest").fill_null(0) != 0) & (pl.col("operation") == "")
"""Condition for a row of `urls` of a stored page."""


def is_held(row: UrlRow) -> bool:
    """Return whether the collection has a stored page of this URL."""
    return bool(row.text_digest) and not row.operation


def first_segment(url: str) -> str:
    """Return the first path segment of a normalised URL.

    `a` of `http://h/a/b?c`; "" of `http://h/`.
    """
    path = url.partition("://")[2].partition("/")[2]
    return path.partition("?")[0].partition("/")[0]


class PageBudgets:
    """Counts pages for the budgets, and checks them before each fetch.

    `pending` returns the uncommitted rows of a host's URLs; `row_readers` the readers of the
    tables.
    """

    def __init__(
        self,
        collections: Iterable[Collection],
        row_readers: Callable[[], RowReaders | None],
        pending: Callable[[int], Iterable[UrlRow]],
    ) -> None:
        chosen = list(collections)
        self._by_host = {each.name: each for each in chosen if each.max_pages_per_host is not None}
        self._by_domain = {
            each.name: each for each in chosen if each.max_pages_per_domain is not None
        }
        self.limited = bool(self._by_host or self._by_domain)
        """Whether a collection has a budget of this kind."""
        self._row_readers = row_readers
        self._pending = pending
        self._hosts: LRUCache[int, dict[str, Counter[str]]] = LRUCache(_HOSTS)
        self._domains: dict[str, Counter[str]] = {name: Counter() for name in self._by_domain}

    def load(self) -> None:
        """Count the pages of registrable domains in the tables.

        One pass over `urls` and one over `hosts`; none without a budget.
        """
        row_readers = self._row_readers()
        if not self._by_domain or row_readers is None:
            return
        parts = [
            frame.filter(_HELD & pl.col("collection").is_in(list(self._by_domain)))
            .group_by("collection", "host_key")
            .len()
            for frame in row_readers.urls.live(("text_digest",))
        ]
        if not parts:
            return
        pages = pl.concat(parts)
        self._domains = {name: Counter() for name in self._by_domain}
        for hosts in row_readers.hosts.live(("host", "registrable_domain")):
            of_domains = pages.join(hosts.filter(pl.col("host") != ""), on="host_key").group_by(
                "collection", "registrable_domain"
            )
            for name, domain, number in of_domains.agg(pl.col("len").sum()).iter_rows():
                self._domains[name][domain] += number

    def objection(
        self, row: UrlRow, host: HostRow, in_flight: Callable[[], Iterable[UrlRow]]
    ) -> tuple[str, bool]:
        """Return the budget that a new page would exceed, and whether it is sure.

        The budget is "" if there is none. The result is not sure if it depends on requests in
        flight; `in_flight` returns their rows.
        """
        name = row.collection
        if is_held(row) or row.operation:
            return "", True
        doubtful = ""
        for reason, limit, pages, concerns in self._limits(row, host):
            if pages >= limit:
                return reason, True
            if not doubtful:
                more = sum(
                    other.collection == name
                    and not is_held(other)
                    and not other.operation
                    and concerns(other)
                    for other in in_flight()
                )
                doubtful = reason if pages + more >= limit else ""
        return doubtful, not doubtful

    def _limits(
        self, row: UrlRow, host: HostRow
    ) -> Iterator[tuple[str, int, int, Callable[[UrlRow], bool]]]:
        """Yield the budgets of a row: reason, limit, number of pages, and a test.

        The test returns whether another row counts for the same budget.
        """
        name = row.collection
        if name in self._by_domain:
            limit = self._by_domain[name].max_pages_per_domain or 0
            yield DOMAIN_BUDGET, limit, self._domains[name][host.registrable_domain], lambda _: True
        if name in self._by_host:
            settings = self._by_host[name]
            limit = settings.max_pages_per_host or 0
            counts = self._counts(host)[name]
            yield (
                HOST_BUDGET,
                limit,
                counts.total(),
                lambda other: other.id.host_key == host.host_key,
            )
            if settings.max_prefix_share < 1:
                segment = first_segment(row.id.url)
                share = math.ceil(settings.max_prefix_share * limit)
                yield (
                    PREFIX_BUDGET,
                    share,
                    counts[segment],
                    lambda other: (
                        other.id.host_key == host.host_key
                        and first_segment(other.id.url) == segment
                    ),
                )

    def count(self, row: UrlRow, host: HostRow) -> None:
        """Count a page that is new in its collection."""
        if row.collection in self._by_domain:
            self._domains[row.collection][host.registrable_domain] += 1
        if row.collection in self._by_host and host.host_key in self._hosts:
            self._hosts[host.host_key][row.collection][first_segment(row.id.url)] += 1

    def pages(self, collection: str, host: HostRow) -> tuple[int, int]:
        """Return the number of pages of a host and of its registrable domain.

        The numbers are 0 without such a budget.
        """
        of_host = self._counts(host)[collection].total() if collection in self._by_host else 0
        of_domain = self._domains.get(collection, Counter())[host.registrable_domain]
        return of_host, of_domain

    def _counts(self, host: HostRow) -> Mapping[str, Counter[str]]:
        counts = self._hosts.get(host.host_key)
        if counts is not None:
            return counts
        counts = {name: Counter() for name in self._by_host}
        fresh = {
            (row.collection, row.operation, row.id.url_key): row
            for row in self._pending(host.host_key)
        }
        row_readers = self._row_readers()
        if row_readers is not None:
            where = _HELD & pl.col("collection").is_in(list(self._by_host))
            frame = row_readers.urls.rows(
                np.array([host.partition], np.uint16), np.array([host.host_key], np.uint64), where
            )
            for name, operation, url_key, url in frame.select(
                "collection", "operation", "url_key", "url"
            ).iter_rows():
                if (name, operation, url_key) not in fresh:
                    counts[name][first_segment(url)] += 1
        for row in fresh.values():
            if row.collection in counts and is_held(row):
                counts[row.collection][first_segment(row.id.url)] += 1
        self._hosts[host.host_key] = counts
        return counts
