"""Select the pages of each day of the library, from the tables alone.

A page belongs to the days on which it changed: each visit with a new text starts a version, and a
day has its last version. With `full` it belongs to every day on which it was fetched, with the text
of that day. The text of the live version is in `pages`; older ones are read from the archive.

Excluded pages, pages with noindex, and copies behind redirects are omitted
(`lycosa.graph.generation`). Pages that no longer exist remain on their former days.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import polars as pl

from lycosa.config.settings import Config
from lycosa.core.parameters import check_period
from lycosa.core.records import UrlState, VisitKind
from lycosa.store.log.state import LogState
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
    *(*SORT, "collection", "url", "fetched_at", "language", "may_index", "record_id"),
    *("text_digest", "title", "headline", "charset", "published_at", "redirect_from"),
)
URL_COLUMNS = (*SORT, "collection", "operation", "state")
UNKNOWN = "und"
"""The language of pages without an identified language (ISO 639-2)."""

_READ = [VisitKind.PAGE.value, VisitKind.DOCUMENT.value]


@dataclass(slots=True, frozen=True)
class LibrarySelection:
    """The part of the library to export; empty: all. `since` and `until` are inclusive.

    `languages`: collection -> language of its pages; others have their identified language.

    Raises:
        UsageError: `since` is later than `until`.
    """

    language: str = ""
    collection: str = ""
    since: date | None = None
    until: date | None = None
    full: bool = False
    languages: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_period(self.since, self.until)


def editions(
    pages: pl.DataFrame,
    visits: pl.DataFrame,
    urls: pl.DataFrame,
    duplicates: pl.DataFrame,
    chosen: LibrarySelection,
) -> pl.DataFrame:
    """Return the documents of one range of keys, in the order of `PLACE` and day.

    The columns are those of `pages` (of the live row) and `library` (the language of the day),
    `day`, `at` (fetch time of the version), `live` (whether the row has the text of the version),
    `seen_in` (record ID of the visit), and the `RECORD_COLUMNS` of `visits`.
    """
    if not pages.height:
        return pages
    configured = pl.col("collection").replace_strict(
        dict(chosen.languages), default="", return_dtype=pl.String
    )
    languages = (pl.when(name != "").then(name) for name in (configured, pl.col("language")))
    selected = pages.filter("may_index").with_columns(
        pl.coalesce(*languages, pl.lit(UNKNOWN)).alias("library")
    )
    if chosen.collection:
        selected = selected.filter(pl.col("collection") == chosen.collection)
    if chosen.language:
        selected = selected.filter(pl.col("library") == chosen.language)
    if urls.height:
        excluded = (pl.col("operation") == "") & (pl.col("state") == UrlState.EXCLUDED.value)
        selected = selected.join(urls.filter(excluded), on=IDENTITY, how="anti")
    if duplicates.height:
        selected = selected.join(duplicates, on=IDENTITY, how="anti")
    if not selected.height:
        return selected
    dated = _versions(selected, visits, full=chosen.full)
    day = pl.col("at").dt.date()
    if chosen.since is not None:
        dated = dated.filter(day >= chosen.since)
    if chosen.until is not None:
        dated = dated.filter(day <= chosen.until)
    return dated.with_columns(day.alias("day")).sort([*PLACE, "day"])


def _versions(pages: pl.DataFrame, visits: pl.DataFrame, *, full: bool) -> pl.DataFrame:
    """Return one row per page and day."""
    if not visits.height:
        return pages.with_columns(
            at=pl.col("fetched_at"), live=pl.lit(True), seen_in=pl.col("record_id")
        )
    records = [name for name in RECORD_COLUMNS if name in visits.columns]
    whole = pl.col("http_status").is_between(200, 300) & (pl.col("redirect_to") == "")
    begins = whole & pl.col("changed")
    seen = (
        visits.lazy()
        .filter(pl.col("kind").is_in(_READ) & (whole | (pl.col("http_status") == 304)))
        .rename({"fetched_at": "at", "record_id": "seen_in"})
        .join(pages.lazy().select(*IDENTITY, pl.col("fetched_at").alias("read_at")), on=IDENTITY)
        .sort([*PLACE, "at"], maintain_order=True)
        .with_columns(begins.cum_sum().over(IDENTITY).alias("version"), begins.alias("begins"))
        # the live row is of the last visit with a text, which may be unchanged
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
        # a day without a change has the text of the visit that began the version
        seen = seen.with_columns(
            pl.col(name).first().over(*IDENTITY, "version") for name in (*records, "seen_in")
        )
    else:
        seen = seen.filter("begins")
    daily = (
        seen.with_columns(pl.col("at").dt.date().alias("day"))
        .unique([*IDENTITY, "day"], keep="last", maintain_order=True)
        .select(*IDENTITY, "at", "live", "seen_in", *records)
        .collect()
    )
    rows = pages.join(daily, on=IDENTITY, how="left")
    # without rows in `visits`: the day of its fetch
    return rows.with_columns(
        pl.col("at").fill_null(pl.col("fetched_at")), pl.col("live").fill_null(True)
    )


def library_languages(config: Config, state: LogState) -> Mapping[str, str]:
    """Return the language of each collection that has one: configured, or of its last crawl.

    Pages of other collections have their identified language.
    """
    languages: dict[str, str] = {}
    settings: dict[str, Mapping[str, Any]] = {**state.settings}
    configured = {collection.name: collection.language for collection in config.collection}
    for name in {*settings, *configured}:
        language = configured.get(name) or str(settings.get(name, {}).get("language") or "")
        if language:
            languages[name] = language
    return languages
