"""Reads rows of `matches` as notifications, from the position of each target in the log.

A match is notified if its page is new, or if the previous version of the page did not contain the
text. The tables decide which it is, and the archive if that version is older than the watch, so the
answer is the same after a kill and after a compaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple

import polars as pl

from lycosa.core.records import VisitKind
from lycosa.crawl.documents.pool import document_reader
from lycosa.crawl.documents.wire import DocumentLimits
from lycosa.crawl.processing.archived_texts import ArchivedPlace, archived_text
from lycosa.crawl.processing.page_reader import FAULT_RENDERED
from lycosa.matching.orders import SearchOrder
from lycosa.matching.page_watcher import PatternGroup
from lycosa.notify.transports import Notice
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname

_COLUMNS = (
    "host_key",
    "url_key",
    "url",
    "watch",
    "text",
    "positions",
    "found_at",
    "collection",
    "count",
    "context",
)
_PLACE = ("warc_file", "warc_offset", "warc_length", "truncated")
_SHOWN_TEXTS = 10
_LOAD_MS = 60_000
"""A crawl applies a new watch within this time."""


@dataclass(slots=True, frozen=True, order=True)
class FeedPosition:
    """The notified part of the log: all entries before `entry`, and of it all rows up to `key`."""

    entry: int
    key: str = ""

    def __str__(self) -> str:
        return f"{self.entry}:{self.key}"

    @classmethod
    def of(cls, text: str) -> FeedPosition:
        """Parse a position. Raises ValueError."""
        entry, _, key = text.partition(":")
        return cls(int(entry), key)


_VERSIONS = pl.col("changed") & (pl.col("kind") == VisitKind.PAGE.value)
_Earlier = dict[tuple[int, int, str], list[tuple[datetime, str]]]
"""By host key, URL key and watch: times and texts of matches."""


class _Match(NamedTuple):
    """A row of `matches` with its entry: `_COLUMNS` and `entry`."""

    host_key: int
    url_key: int
    url: str
    watch: str
    text: str
    positions: list[int]
    found_at: datetime
    collection: str | None  # null in older rows
    number: int | None  # number of occurrences
    context: str | None
    entry: int

    @property
    def page(self) -> tuple[int, int, str]:
        return self.host_key, self.url_key, self.watch

    @property
    def position(self) -> FeedPosition:
        return FeedPosition(
            self.entry,
            f"{self.host_key:016x}{self.url_key:016x}{self.watch}{_ms(self.found_at):015d}",
        )


class MatchFeed:
    """Reads the matches of a workspace as notifications. Not thread-safe."""

    def __init__(self, workspace: Workspace, limits: DocumentLimits) -> None:
        self._workspace = workspace
        self._limits = limits
        self._state = workspace.state()

    @property
    def head(self) -> int:
        return self._state.head

    def refresh(self) -> bool:
        """Read new log entries; return whether there are any. Raises WorkspaceError."""
        before = self._state.head
        self._state.refresh()
        return self._state.head != before

    def excluded(self) -> Callable[[str], bool]:
        """Return a function that tests whether a URL is excluded now."""
        return lambda url: self._state.excluded(url, hostname(url))

    def after(
        self, position: FeedPosition, orders: Mapping[str, SearchOrder], limit: int
    ) -> tuple[list[Notice], FeedPosition]:
        """Return at most `limit` notifications for these watches, oldest first, and the position
        after the last of them; with fewer than `limit` it is the head of the log.
        """
        tables = LiveTables(self._workspace, self._state)
        mine = pl.col("watch").is_in(list(orders))
        frames = [
            frame.filter(mine) for frame in tables.changes("matches", position.entry - 1, _COLUMNS)
        ]
        rows = (
            [row for row in _matches(pl.concat(frames)) if row.position > position]
            if frames
            else []
        )
        earlier = self._earlier(tables, rows)
        older = self._older_than_watches(tables, rows, orders)
        notices: list[Notice] = []
        last = position
        for where, of_page in groupby(rows, key=lambda row: row.position):
            if len(notices) == limit:
                return notices, last
            fresh = list(of_page)
            page, order = fresh[0].page, orders[fresh[0].watch]
            matches = [each for each in earlier[page] if each[0] < fresh[0].found_at]
            if matches or page[:2] in older:
                fresh = self._new_matches(tables, fresh, matches, order)
            if fresh:
                notices.append(notice_of(order, fresh))
            last = where
        return notices, FeedPosition(self._state.head + 1)

    def _earlier(self, tables: LiveTables, rows: Sequence[_Match]) -> _Earlier:
        """Return all matches of these watches and pages."""
        matches: _Earlier = defaultdict(list)
        if rows:
            keys = {"host_key": pl.UInt64, "url_key": pl.UInt64, "watch": pl.String}
            pages = pl.LazyFrame(sorted({row.page for row in rows}), schema=keys, orient="row")
            every = (
                tables.scan("matches")
                .select(*keys, "text", "found_at")
                .join(pages, on=list(keys), how="semi")
                .collect()
            )
            for host_key, url_key, watch, text, found_at in every.iter_rows():
                matches[host_key, url_key, watch].append((found_at, text))
        return matches

    def _older_than_watches(
        self, tables: LiveTables, rows: Sequence[_Match], orders: Mapping[str, SearchOrder]
    ) -> set[tuple[int, int]]:
        """Return the host and URL keys of pages that were fetched before a watch was applied."""
        if not rows:
            return set()
        last = max(order.created_at for order in orders.values()) + _LOAD_MS
        keys = {"host_key": pl.UInt64, "url_key": pl.UInt64}
        pages = pl.LazyFrame(sorted({row.page[:2] for row in rows}), schema=keys, orient="row")
        visits = tables.scan("visits").filter(_VERSIONS & (pl.col("fetched_at") < _time(last)))
        return set(visits.select(*keys).join(pages, on=list(keys), how="semi").collect().rows())

    def _new_matches(
        self,
        tables: LiveTables,
        rows: Sequence[_Match],
        matches: Sequence[tuple[datetime, str]],
        order: SearchOrder,
    ) -> list[_Match]:
        """Return the matches in a version of a page that the previous version did not have.

        `matches`: times and texts of the earlier matches of the watch in the page.
        """
        first = rows[0]
        of_page = (
            (pl.col("host_key") == first.host_key)
            & (pl.col("url_key") == first.url_key)
            & (pl.col("collection") == first.collection)
        )
        before = of_page & _VERSIONS & (pl.col("fetched_at") < pl.lit(first.found_at))
        version = (
            tables.scan("visits")
            .filter(before)
            .select("fetched_at", *_PLACE)
            .top_k(1, by="fetched_at")
            .collect()
            .rows()
        )
        at = version[0][0] if version else None
        previous_texts = {text for found_at, text in matches if at is None or found_at >= at}
        if at is not None and _ms(at) < order.created_at + _LOAD_MS:
            faults = tables.scan("pages").filter(of_page).select("faults").collect().rows()
            with document_reader(self._limits) as parse:
                text = archived_text(
                    first.url,
                    ArchivedPlace(*version[0][1:]),
                    parse,
                    self._workspace.path,
                    with_rendered=any(FAULT_RENDERED in (row[0] or ()) for row in faults),
                )
            group = PatternGroup([order], order.folding)
            previous_texts.update(pattern for _, pattern, _ in group.match(text or ""))
        return [row for row in rows if row.text not in previous_texts]


def _matches(frame: pl.DataFrame) -> list[_Match]:
    """Return the rows in the order of `FeedPosition`."""
    return sorted((_Match(*row) for row in frame.iter_rows()), key=lambda row: row.position)


def notice_of(order: SearchOrder, rows: Sequence[_Match]) -> Notice:
    """Return the notification of the texts of a watch in one version of a page."""
    matches = sorted(rows, key=lambda row: (row.positions[:1], row.text))
    first = matches[0]
    at, context = first.found_at.astimezone(UTC), first.context or ""
    more = f" and {len(matches) - 1} more" if len(matches) > 1 else ""
    return Notice(
        sha256(f"{order.id}\n{first.url}\n{_ms(at)}".encode()).hexdigest()[:32],
        "match",
        order.name,
        first.url,
        at,
        f"“{first.text}”{more} found in {first.url}: {context}",
        {
            "watch": order.id,
            "text": first.text,
            "texts": "\n".join(row.text for row in matches[:_SHOWN_TEXTS]),
            "count": sum(row.number or len(row.positions) for row in matches),
            "position": first.positions[0] if first.positions else 0,
            "context": context,
            "collection": first.collection or "",
        },
    )


def _time(at_ms: int) -> pl.Expr:
    return pl.lit(at_ms).cast(pl.Datetime("ms", "UTC"))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
