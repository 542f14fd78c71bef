"""Which pages the library holds on which day, decided from the tables alone.

A page appears on the day it changed: each visit that found another text begins a version, and the
last version of a day is that day's. With `full` it appears on every day on which it was fetched,
with the text that it had then. The text of the version that is live is in `pages`; that of an older
one is read from its record in the archive.

Left out: what is excluded, what says noindex, and the copies that redirects led to
(`lycosa.graph.redirect_duplicates`). What is gone stays on the days when it was there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import polars as pl

from lycosa.core.records import UrlState, VisitKind
from lycosa.store.tables.schema import SORT

IDENTITY = ("collection", "host_key", "url_key")
PLACE = (*SORT, "collection")
"""The order of documents within a day."""

VISIT_COLUMNS = (
    *SORT,
    "collection",
    "kind",
    "http_status",
    "redirect_to",
    "fetched_at",
    "changed",
    "record_id",
)
RECORD_COLUMNS = ("warc_file", "warc_offset", "warc_length", "truncated")
PAGE_COLUMNS = (
    *(
        *SORT,
        "collection",
        "url",
        "fetched_at",
        "language",
        "may_index",
        "record_id",
        "text_digest",
        "title",
        "headline",
        "charset",
    ),
    *("published_at", "redirect_from"),
)
URL_COLUMNS = (*SORT, "collection", "operation", "state")
UNKNOWN = "und"
"""Where pages go whose language nobody knows (ISO 639-2)."""

_READ = [VisitKind.PAGE.value, VisitKind.DOCUMENT.value]


@dataclass(slots=True, frozen=True)
class LibrarySelection:
    """Which part of the library; empty: all. `language` is that of the shelf; `since` and `until`
    are days, themselves included.
    """

    language: str = ""
    collection: str = ""
    since: date | None = None
    until: date | None = None
    full: bool = False


def editions(
    pages: pl.DataFrame,
    visits: pl.DataFrame,
    urls: pl.DataFrame,
    duplicates: pl.DataFrame,
    chosen: LibrarySelection,
    languages: Mapping[str, str],
) -> pl.DataFrame:
    """The documents of one range of keys, in the order of `PLACE` and day.

    The columns of `pages` (of the live row), and: `library` (the shelf's language), `day`, `at`
    (when that version was fetched), `live` (whether the row's text is that version's), `seen_in`
    (the record of that visit) and those of `RECORD_COLUMNS` that `visits` has. `languages`:
    collection -> language; pages of others go by what was identified.
    """
    if not pages.height:
        return pages
    shelf = pl.col("collection").replace_strict(dict(languages), default="", return_dtype=pl.String)
    shelf = pl.coalesce(
        *(pl.when(name != "").then(name) for name in (shelf, pl.col("language"))), pl.lit(UNKNOWN)
    )
    known = pages.filter(_wanted(chosen, pl.col("collection")) & pl.col("may_index")).with_columns(
        shelf.alias("library")
    )
    if chosen.language:
        known = known.filter(pl.col("library") == chosen.language)
    if urls.height:
        stopped = urls.filter(
            (pl.col("operation") == "") & (pl.col("state") == UrlState.EXCLUDED.value)
        )
        known = known.join(stopped, on=IDENTITY, how="anti")
    if duplicates.height:
        known = known.join(duplicates, on=IDENTITY, how="anti")
    if not known.height:
        return known
    dated = _versions(known, visits, full=chosen.full)
    day = pl.col("at").dt.date()
    if chosen.since is not None:
        dated = dated.filter(day >= chosen.since)
    if chosen.until is not None:
        dated = dated.filter(day <= chosen.until)
    return dated.with_columns(day.alias("day")).sort([*PLACE, "day"])


def _wanted(chosen: LibrarySelection, collection: pl.Expr) -> pl.Expr:
    return collection == chosen.collection if chosen.collection else pl.lit(True)


def _versions(pages: pl.DataFrame, visits: pl.DataFrame, *, full: bool) -> pl.DataFrame:
    """One row for each page and day."""
    if not visits.height:
        return _undated(pages)
    whole = pl.col("http_status").is_between(200, 300) & (pl.col("redirect_to") == "")
    begins = whole & pl.col("changed")
    seen = (
        visits.lazy()
        .filter(pl.col("kind").is_in(_READ) & (whole | (pl.col("http_status") == 304)))
        .rename({"fetched_at": "at", "record_id": "seen_in"})
        .join(pages.lazy().select(*IDENTITY, pl.col("fetched_at").alias("read_at")), on=IDENTITY)
        .sort([*PLACE, "at"], maintain_order=True)
        .with_columns(begins.cum_sum().over(IDENTITY).alias("version"), begins.alias("begins"))
        # The live row is of the last visit that had a text, which may have found the same as the
        # visits before.
        .with_columns(
            pl.when(pl.col("at") <= pl.col("read_at"))
            .then("version")
            .max()
            .over(IDENTITY)
            .alias("live_version"),
        )
        .with_columns((pl.col("version") == pl.col("live_version")).fill_null(True).alias("live"))
    )
    if full:
        # The text of a day without a change is that of the visit that began the version.
        seen = seen.with_columns(
            pl.col(name).first().over(*IDENTITY, "version")
            for name in RECORD_COLUMNS
            if name in visits.columns
        ).with_columns(pl.col("seen_in").first().over(*IDENTITY, "version"))
    else:
        seen = seen.filter("begins")
    chosen = (
        seen.with_columns(pl.col("at").dt.date().alias("day"))
        .unique([*IDENTITY, "day"], keep="last", maintain_order=True)
        .select(
            *IDENTITY,
            "at",
            "live",
            "seen_in",
            *(name for name in RECORD_COLUMNS if name in visits.columns),
        )
        .collect()
    )
    rows = pages.join(chosen, on=IDENTITY, how="left")
    # A page whose visits are no longer there, or never were: on the day it was read.
    return rows.with_columns(
        pl.col("at").fill_null(pl.col("fetched_at")), pl.col("live").fill_null(True)
    )


def _undated(pages: pl.DataFrame) -> pl.DataFrame:
    return pages.with_columns(
        at=pl.col("fetched_at"), live=pl.lit(True), seen_in=pl.col("record_id")
    )
