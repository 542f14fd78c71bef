"""Read the matches of watches and `find` from the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from lycosa.store.tables.live import LiveTables
from lycosa.url.site_name import SiteScope

_COLUMNS = ("url", "watch", "text", "positions", "count", "found_at", "collection", "context")


@dataclass(slots=True, frozen=True)
class StoredMatch:
    """A text in a page.

    `positions`: character offsets in the page's text at `found_at`, the first 1,000 of `count`.
    `context`: the text around the first position.
    """

    url: str
    watch: str
    text: str
    positions: tuple[int, ...]
    count: int
    found_at: datetime
    collection: str
    context: str


def matches_of(
    tables: LiveTables,
    watches: Collection[str] = (),
    *,
    since: datetime | None = None,
    site: SiteScope | None = None,
    most: int | None = None,
    every: bool = False,
) -> tuple[list[StoredMatch], int]:
    """Return the matches, the latest first, and their total number.

    Args:
        tables: the live tables.
        watches: IDs of orders; (): all.
        since: no earlier matches.
        site: only pages of this site.
        most: maximum number of matches to return.
        every: all versions of a page instead of the newest.
    """
    rows = tables.scan("matches")
    if watches:
        rows = rows.filter(pl.col("watch").is_in(list(watches)))
    if since is not None:
        rows = rows.filter(pl.col("found_at") >= pl.lit(since))
    if site is not None:
        rows = rows.filter(site.holds())
    if not every:
        rows = rows.unique(
            subset=["watch", "text", "host_key", "url_key"], keep="last", maintain_order=True
        )
    ordered = rows.sort(
        "found_at", "url", "text", descending=[True, False, False], maintain_order=True
    )
    total = int(rows.select(pl.len()).collect().item())
    frame = (ordered if most is None else ordered.head(most)).collect()
    return list(_stored_matches(frame)), total


def matches_in(frames: Iterable[pl.DataFrame], watch: str) -> Iterator[StoredMatch]:
    """Return the matches of an order among rows of `matches`."""
    for frame in frames:
        yield from _stored_matches(frame.filter(pl.col("watch") == watch))


def _stored_matches(frame: pl.DataFrame) -> Iterator[StoredMatch]:
    for url, watch, text, positions, count, found_at, collection, context in frame.select(
        _COLUMNS
    ).iter_rows():
        yield StoredMatch(
            url,
            watch,
            text,
            tuple(positions),
            count or len(positions),
            found_at,
            collection or "",
            context or "",
        )
