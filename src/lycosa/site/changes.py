"""List new, gone and changed pages since a time, with differences between archived versions.

A version begins with each visit that returned another text. In memory are the rows of the pages
that were visited since, and one pair of texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import polars as pl

from lycosa.config.settings import Config
from lycosa.core.records import UrlState, VisitKind
from lycosa.crawl.documents.pool import document_limits, document_reader
from lycosa.crawl.processing.archived_texts import ArchivedPlace, archived_text
from lycosa.crawl.processing.page_reader import FAULT_RENDERED, ParseFunction
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.store.workspace import Workspace
from lycosa.text.difference import difference
from lycosa.url.site_name import SiteName, site_name, unknown_site

_READ = [VisitKind.PAGE.value, VisitKind.DOCUMENT.value]
_KEY = ["collection", "url"]
_PLACE = ("record_id", "warc_file", "warc_offset", "warc_length", "truncated")
_TEXTS_AT_ONCE = 500


@dataclass(slots=True, frozen=True)
class PageChange:
    """A page that is `new`, `gone` or `changed`.

    `at`: when that was first seen; the time of the newest version for a changed page. `before`:
    the time of the version that it is compared with. `reason`: `http_404` or `redirects to URL`
    for a gone page; why the difference is missing or incomplete for a changed one. `difference`:
    lines of a unified diff, one block of the page a line, without file names.
    """

    kind: str
    url: str
    collection: str
    title: str
    at: datetime
    before: datetime | None = None
    reason: str = ""
    difference: tuple[str, ...] = ()


def changes_of(
    root: str, config: Config, since: datetime, site: str = "", *, differences: bool = True
) -> list[PageChange]:
    """List new, then gone, then changed pages of a site or of all, each by collection and URL.

    A page whose text is the one from before `since` has not changed. Without `differences` the
    archive is not read, and such pages are listed.

    Raises:
        UsageError: the name of the site is invalid, or there is no data about it.
        WorkError: table files were deleted repeatedly while they were read.
    """
    name = site_name(site) if site else None
    workspace = Workspace.open(root)
    with document_reader(document_limits(config)) as reader:
        texts = _ArchivedTexts(workspace, reader) if differences else None
        return read_live(root, lambda tables: list(_changes(tables, since, name, texts)))


def _changes(
    tables: LiveTables, since: datetime, site: SiteName | None, archived: _ArchivedTexts | None
) -> Iterator[PageChange]:
    if site is not None and tables.scan("urls").filter(site.rows()).head(1).collect().is_empty():
        raise unknown_site(site)
    pages = _summaries(tables, since, site)
    recent = pl.lit(since).cast(pl.Datetime("ms", "UTC"))
    ended = pl.col("ended_at").is_not_null()
    for row in pages.filter((pl.col("first_at") >= recent) & ~ended).iter_rows(named=True):
        yield _change("new", row, row["first_at"])
    for row in pages.filter(pl.col("ended_at") >= recent).iter_rows(named=True):
        reason = (
            f"redirects to {row['ended_to']}" if row["ended_to"] else f"http_{row['ended_status']}"
        )
        change = _change("gone", row, row["ended_at"], row["new_at"] or row["old_at"])
        yield replace(change, reason=reason)
    both = pl.col("old_at").is_not_null() & pl.col("new_at").is_not_null()
    for part in pages.filter(both & ~ended).iter_slices(_TEXTS_AT_ONCE):
        live = _live_texts(tables, part) if archived is not None else {}
        for row in part.iter_rows(named=True):
            change = _change("changed", row, row["new_at"], row["old_at"])
            if archived is None:
                yield change
                continue
            new_text = live.get(row["new_record_id"])
            if new_text is None:
                new_text = archived.text(row, "new")
            compared = _compared(change, archived.text(row, "old"), new_text)
            if compared is not None:
                yield compared


def _change(
    kind: str, row: dict[str, Any], at: datetime, before: datetime | None = None
) -> PageChange:
    return PageChange(kind, row["url"], row["collection"], row["title"] or "", at, before)


def _summaries(tables: LiveTables, since: datetime, site: SiteName | None) -> pl.DataFrame:
    """Return a row for each page visited since: first visit, old and new version, end."""
    visits = tables.scan("visits").filter(pl.col("kind").is_in(_READ))
    if site is not None:
        visits = visits.filter(site.rows())
    recent = pl.lit(since).cast(pl.Datetime("ms", "UTC"))
    touched = visits.filter(pl.col("fetched_at") >= recent).select(_KEY).unique()
    columns = (*_KEY, "fetched_at", "http_status", "redirect_to", "changed", *_PLACE)
    rows = (
        visits.select(columns)
        .join(touched, on=_KEY, how="semi")
        .sort("fetched_at", maintain_order=True)
    )
    whole = pl.col("http_status").is_between(200, 299) & (pl.col("redirect_to") == "")
    version = whole & pl.col("changed")
    old, new = version & (pl.col("fetched_at") < recent), version & (pl.col("fetched_at") >= recent)
    held = rows.group_by(_KEY).agg(
        pl.col("fetched_at").filter(whole).first().alias("first_at"),
        pl.col("fetched_at").filter(whole | (pl.col("http_status") == 304)).last().alias("last_at"),
        *(
            pl.col("fetched_at").filter(when).last().alias(f"{name}_at")
            for name, when in (("old", old), ("new", new))
        ),
        *(
            pl.col(each).filter(when).last().alias(f"{name}_{each}")
            for name, when in (("old", old), ("new", new))
            for each in _PLACE
        ),
    )
    gone = (
        tables.scan("urls")
        .filter((pl.col("operation") == "") & (pl.col("state") == UrlState.GONE.value))
        .select(_KEY)
        .unique()
    )
    ended = rows.join(held.select(*_KEY, "last_at"), on=_KEY).filter(
        pl.col("fetched_at") > pl.col("last_at")
    )
    refused = ended.filter(pl.col("http_status").is_between(400, 499)).join(
        gone, on=_KEY, how="semi"
    )
    moved = ended.filter(pl.col("redirect_to") != "")
    ends = pl.concat([refused, moved]).sort("fetched_at").group_by(_KEY).agg(
        pl.col("fetched_at").first().alias("ended_at"),
        pl.col("redirect_to").first().alias("ended_to"),
        pl.col("http_status").first().alias("ended_status"),
    )  # fmt: skip
    titles = tables.scan("pages").select(*_KEY, "title", "faults")
    summaries = (
        held.filter(pl.col("first_at").is_not_null())
        .join(ends, on=_KEY, how="left")
        .join(titles, on=_KEY, how="left")
    )
    return summaries.sort(_KEY).collect()


def _live_texts(tables: LiveTables, rows: pl.DataFrame) -> dict[str, str]:
    """Return the texts of live pages, by record; these need no archive."""
    records = rows.select(record_id="new_record_id").lazy()
    return dict(
        tables.scan("pages")
        .select("record_id", "text")
        .join(records, on="record_id", how="semi")
        .collect()
        .iter_rows()
    )


def _compared(change: PageChange, before: str | None, after: str | None) -> PageChange | None:
    """Return the change with its difference; None if the texts are equal."""
    if before is None or after is None:
        missing = "the previous version" if before is None else "the latest version"
        return replace(change, reason=f"{missing} is no longer in the archive")
    if before == after:
        return None
    result = difference(before, after)
    more = (
        f"{result.gone:,} blocks removed and {result.came:,} added: the list is incomplete"
        if result.cut
        else ""
    )
    return replace(change, reason=more, difference=tuple(result.lines()))


class _ArchivedTexts:
    """Reads the texts of archived versions of pages."""

    def __init__(self, workspace: Workspace, parse: ParseFunction) -> None:
        self._workspace = workspace
        self._parse = parse

    def text(self, row: dict[str, Any], version: str) -> str | None:
        """Return the text of the `old` or `new` version; None if it cannot be read any more."""
        place = ArchivedPlace(*(row[f"{version}_{name}"] for name in _PLACE[1:]))
        return archived_text(
            row["url"],
            place,
            self._parse,
            self._workspace.path,
            with_rendered=FAULT_RENDERED in (row["faults"] or []),
        )
