"""From rows of `matches` to notices: what the log brings, read on from where each target's outbox
stands.

Of a watch and a page only news is told: that the text stands in a page that is new, or in one whose
version before did not hold it. Rows of a page that changes and still holds the text are stored, and
nobody is told. Which it is, the tables say, so that it is the same after a kill, after a merge, and
whoever asks.
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

from lycosa.matching.orders import SearchOrder
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
_SHOWN_TEXTS = 10


@dataclass(slots=True, frozen=True, order=True)
class Place:
    """How far a target has been told: all of the entries before `entry`, and of it what comes up to
    `key` ("": nothing).
    """

    entry: int
    key: str = ""

    def __str__(self) -> str:
        return f"{self.entry}:{self.key}"

    @classmethod
    def of(cls, text: str) -> Place:
        """Raises ValueError if it is none."""
        entry, _, key = text.partition(":")
        return cls(int(entry), key)


_Earlier = dict[tuple[int, int, str], list[tuple[datetime, str]]]
"""By host key, URL key and watch: when which text was found."""


class _Match(NamedTuple):
    """A row of `matches` with its entry: `_COLUMNS` and `entry`."""

    host_key: int
    url_key: int
    url: str
    watch: str
    text: str
    positions: list[int]
    found_at: datetime
    collection: str | None  # null in rows of before there was such a column
    number: int | None  # how often the text stands there
    context: str | None
    entry: int

    @property
    def page(self) -> tuple[int, int, str]:
        return self.host_key, self.url_key, self.watch

    @property
    def place(self) -> Place:
        return Place(
            self.entry,
            f"{self.host_key:016x}{self.url_key:016x}{self.watch}{_ms(self.found_at):015d}",
        )


class MatchFeed:
    """Reads a workspace's matches as notices. Not for several threads at once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._state = workspace.state()

    @property
    def head(self) -> int:
        return self._state.head

    def refresh(self) -> bool:
        """Read on in the log; whether there is more. Raises WorkspaceError if it is damaged."""
        before = self._state.head
        self._state.refresh()
        return self._state.head != before

    def excluded(self) -> Callable[[str], bool]:
        """Whether a page's URL is excluded now."""
        return lambda url: self._state.excluded(url, hostname(url))

    def after(
        self, place: Place, orders: Mapping[str, SearchOrder], most: int
    ) -> tuple[list[Notice], Place]:
        """At most `most` notices for these watches, oldest first, and the place behind the last of
        them; with fewer than `most` it is the head of the log.
        """
        tables = LiveTables(self._workspace, self._state)
        mine = pl.col("watch").is_in(list(orders))
        frames = [
            frame.filter(mine) for frame in tables.changes("matches", place.entry - 1, _COLUMNS)
        ]
        rows = [row for row in _matches(pl.concat(frames)) if row.place > place] if frames else []
        earlier = self._earlier(tables, rows)
        notices: list[Notice] = []
        last = place
        for where, of_page in groupby(rows, key=lambda row: row.place):
            if len(notices) == most:
                return notices, last
            fresh = self._news(tables, list(of_page), earlier)
            if fresh:
                notices.append(notice_of(orders[fresh[0].watch], fresh))
            last = where
        return notices, Place(self._state.head + 1)

    def _earlier(self, tables: LiveTables, rows: Sequence[_Match]) -> _Earlier:
        """Of these watches and pages, all matches that there are."""
        found: _Earlier = defaultdict(list)
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
                found[host_key, url_key, watch].append((found_at, text))
        return found

    def _news(self, tables: LiveTables, rows: Sequence[_Match], earlier: _Earlier) -> list[_Match]:
        """Those of the matches of a watch in a version of a page that the version before did not
        have.
        """
        first = rows[0]
        held = [
            (found_at, text) for found_at, text in earlier[first.page] if found_at < first.found_at
        ]
        if not held:
            return list(rows)
        of_page = (
            (pl.col("host_key") == first.host_key)
            & (pl.col("url_key") == first.url_key)
            & (pl.col("collection") == first.collection)
        )
        versions = (
            of_page
            & pl.col("changed")
            & (pl.col("kind") == "page")
            & (pl.col("fetched_at") < pl.lit(first.found_at))
        )
        version = (
            tables.scan("visits")
            .filter(versions)
            .select(pl.col("fetched_at").max())
            .collect()
            .item()
        )
        known = {text for found_at, text in held if version is None or found_at >= version}
        return [row for row in rows if row.text not in known]


def _matches(frame: pl.DataFrame) -> list[_Match]:
    """In the order of the log, within an entry in that of `Place`."""
    return sorted((_Match(*row) for row in frame.iter_rows()), key=lambda row: row.place)


def notice_of(order: SearchOrder, rows: Sequence[_Match]) -> Notice:
    """The notice of a watch's texts in one version of a page."""
    found = sorted(rows, key=lambda row: (row.positions[:1], row.text))
    first = found[0]
    at, context = first.found_at.astimezone(UTC), first.context or ""
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
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
            "texts": "\n".join(row.text for row in found[:_SHOWN_TEXTS]),
            "count": sum(row.number or len(row.positions) for row in found),
            "position": first.positions[0] if first.positions else 0,
            "context": context,
            "collection": first.collection or "",
        },
    )


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
