"""Find pages that were fetched twice because of redirects, by their text.

A redirect may end at another URL of a known page (a session, a campaign, a mirror). Among pages of
a collection with the same text, those reached by a redirect are copies of one that was not, or else
of the one with the shortest URL.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT
from lycosa.text.digest import text_digest

COLUMNS = (*SORT, "collection", "url", "canonical_of")
"""Columns of the table of copies; `canonical_of`: URL of the page that represents the copy."""

_TEXT = ("collection", "text_digest")
_READ = (*SORT, "collection", "url", "redirect_from", "text_digest")
_FRAME_BYTES = 16 * 2**20


def find_duplicates(tables: LiveTables) -> pl.DataFrame:
    """Return the copies in the order of their keys, with the columns of `COLUMNS`.

    Memory: 30 bytes for each page that a redirect led to, and the rows of those that share a text
    with one.

    Raises:
        FileNotFoundError: a table's file went away (a merge replaced it long ago): refresh the
        tables and try again.
    """
    redirected = _collected(
        frame.filter(
            pl.col("redirect_from").is_not_null() & (pl.col("text_digest") != text_digest(""))
        ).select(_TEXT)
        for frame in tables.ordered("pages", _READ, memory_bytes=_FRAME_BYTES)
    )
    if redirected is None:
        return no_duplicates()
    texts = redirected.unique()
    alike = _collected(
        frame.join(texts, on=_TEXT, how="semi")
        for frame in tables.ordered("pages", _READ, memory_bytes=_FRAME_BYTES)
    )
    if alike is None:
        return no_duplicates()
    order = [pl.col("redirect_from").is_not_null(), pl.col("url").str.len_bytes(), pl.col("url")]
    marked = alike.sort(order).with_columns(pl.col("url").first().over(_TEXT).alias("canonical_of"))
    copies = marked.filter(
        pl.col("redirect_from").is_not_null() & (pl.col("url") != pl.col("canonical_of"))
    )
    return copies.select(COLUMNS).sort([*SORT, "collection"])


def _collected(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    rows = [frame for frame in frames if frame.height]
    return pl.concat(rows) if rows else None


def no_duplicates() -> pl.DataFrame:
    """Return the table of copies without rows."""
    keys = dict(zip(SORT, (pl.UInt16(), pl.UInt64(), pl.UInt64()), strict=True))
    return pl.DataFrame(schema={**keys, **{name: pl.String() for name in COLUMNS[len(SORT) :]}})
