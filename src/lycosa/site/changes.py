"""List new, gone and changed pages since a time, with differences between archived versions.

A version begins with each visit that returned another text. Memory holds the rows of the pages
that were visited since, and one pair of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from lycosa.archive.warc.reader import read_rendered, read_response
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, UrlState, VisitKind
from lycosa.crawl.processing.page_reader import FAULT_RENDERED, ParseFunction
from lycosa.http.decode import parse_head
from lycosa.store.tables.live import LiveTables
from lycosa.text.difference import difference
from lycosa.url.site_name import SiteName

_READ = [VisitKind.PAGE.value, VisitKind.DOCUMENT.value]
_KEY = ["collection", "url"]
_PLACE = ("record_id", "warc_file", "warc_offset", "warc_length", "truncated")
_TEXTS_AT_ONCE = 500


@dataclass(slots=True, frozen=True)
class PageChange:
    """A page that is `new`, `gone` or `changed`.

    `at`: when that was seen first; of a changed page, the newest version's. `before`: the version
    that it is compared with. `reason` of a gone page: `http_404`, or `redirects to URL`; of a
    changed one, why there is no difference, or only a part of it. `difference`: lines of a unified
    diff of the texts, one block of the page a line, without file names.
    """

    kind: str
    url: str
    collection: str
    title: str
    at: datetime
    before: datetime | None = None
    reason: str = ""
    difference: tuple[str, ...] = ()


class _Version(NamedTuple):
    record_id: str
    warc_file: str
    warc_offset: int
    warc_length: int
    truncated: str


def changes(
    tables: LiveTables,
    since: datetime,
    understand: ParseFunction,
    locate: Callable[[str], str],
    site: SiteName | None = None,
    *,
    differences: bool = True,
) -> Iterator[PageChange]:
    """New pages, then gone ones, then changed ones, each by collection and URL.

    A page that says again what it said before `since` has not changed. Without `differences` no
    archive is read, and such pages are told all the same. `locate` gives the absolute path of a
    workspace's file.

    Raises:
        FileNotFoundError: a table's file went away (a merge replaced it long ago): call again.
    """
    pages = _summaries(tables, since, site)
    recent = pl.lit(since).cast(pl.Datetime("ms", "UTC"))
    for row in pages.filter(
        (pl.col("first_at") >= recent) & pl.col("ended_at").is_null()
    ).iter_rows(named=True):
        yield _change("new", row, row["first_at"])
    for row in pages.filter(pl.col("ended_at") >= recent).iter_rows(named=True):
        reason = (
            f"redirects to {row['ended_to']}" if row["ended_to"] else f"http_{row['ended_status']}"
        )
        before = row["new_at"] or row["old_at"]
        yield replace(_change("gone", row, row["ended_at"], before), reason=reason)
    stayed = pages.filter(
        pl.col("old_at").is_not_null()
        & pl.col("new_at").is_not_null()
        & pl.col("ended_at").is_null()
    )
    for part in stayed.iter_slices(_TEXTS_AT_ONCE):
        texts = _live_texts(tables, part) if differences else {}
        for row in part.iter_rows(named=True):
            change = _change("changed", row, row["new_at"], row["old_at"])
            if not differences:
                yield change
                continue
            old, new = (
                _Version(*(row[f"{when}_{name}"] for name in _PLACE)) for when in ("old", "new")
            )
            was_rendered = FAULT_RENDERED in (row["faults"] or [])
            earlier = _read(row["url"], old, understand, locate, rendered=was_rendered)
            later = texts.get(new.record_id)
            if later is None:
                later = _read(row["url"], new, understand, locate, rendered=was_rendered)
            compared = _compared(change, earlier, later)
            if compared is not None:
                yield compared


def _change(
    kind: str, row: dict[str, Any], at: datetime, before: datetime | None = None
) -> PageChange:
    return PageChange(kind, row["url"], row["collection"], row["title"] or "", at, before)


def _summaries(tables: LiveTables, since: datetime, site: SiteName | None) -> pl.DataFrame:
    """One row a page that was visited since: when it came, the version before and the newest one
    since, when it ended.
    """
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
    found = (
        held.filter(pl.col("first_at").is_not_null())
        .join(ends, on=_KEY, how="left")
        .join(titles, on=_KEY, how="left")
    )
    return found.sort(_KEY).collect()


def _live_texts(tables: LiveTables, rows: pl.DataFrame) -> dict[str, str]:
    """Texts of the live pages, by record: those need no archive."""
    wanted = rows.select(record_id="new_record_id").lazy()
    return dict(
        tables.scan("pages")
        .select("record_id", "text")
        .join(wanted, on="record_id", how="semi")
        .collect()
        .iter_rows()
    )


def _compared(change: PageChange, before: str | None, after: str | None) -> PageChange | None:
    """The change with its difference; None if there is none."""
    if before is None or after is None:
        missing = "the previous version" if before is None else "the latest version"
        return replace(change, reason=f"{missing} is no longer in the archive")
    if before == after:
        return None
    found = difference(before, after)
    more = (
        f"{found.gone:,} blocks removed and {found.came:,} added: the list is incomplete"
        if found.cut
        else ""
    )
    return replace(change, reason=more, difference=tuple(found.lines()))


def _read(
    url: str,
    version: _Version,
    understand: ParseFunction,
    locate: Callable[[str], str],
    *,
    rendered: bool,
) -> str | None:
    """The text of an archived version; None if its record is not there any more, or is not
    understood.
    """
    try:
        path = locate(version.warc_file)
        if not version.warc_file or not Path(path).exists():
            return None
        response = read_response(path, version.warc_offset, version.warc_length)
        document = (
            read_rendered(path, version.warc_offset + version.warc_length) if rendered else b""
        )
    except (ArchiveError, FileNotFoundError):
        return None
    if not response.head or response.headers.get("warc-type") == "revisit":
        return None
    exchange = Exchange(
        url,
        VisitKind.PAGE,
        0,
        0,
        response_head=response.head,
        body=response.body,
        status=response.status,
        truncated="" if version.truncated == "decoded" else version.truncated,
        rendered=document,
    )
    page = understand(exchange, parse_head(response.head)).page
    return None if page is None else page.text
