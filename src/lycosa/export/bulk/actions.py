"""The actions of a bulk export, in key order.

These are a document per live page, and deletions of former ones. `pages` and `urls` are sorted by
the same keys and read in parallel, so that only a few blocks of each are in memory. A page is live
unless the state of its URL is gone or excluded, its own row has noindex, or an exclusion covers it.
The search index has the same rule.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import polars as pl

from lycosa.core.units import format_time
from lycosa.export.bulk.join import Key, side_by_side
from lycosa.export.declared import DECLARED, METADATA_COLUMNS, stated, with_metadata
from lycosa.store.log.state import LogState
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT
from lycosa.store.tables.visible import is_removed
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname

START: Key = (0, 0, 0)
PAGES_BYTES, URLS_BYTES, METADATA_BYTES = 24 * 2**20, 12 * 2**20, 8 * 2**20  # of rows in memory
_ROWS_AT_ONCE = 100  # rows that are Python objects at a time
_IDENTITY = ["collection", "host_key", "url_key"]
_DELETION = [*SORT, "collection", "url", ENTRY]
_FIELDS = (
    "url",
    "title",
    "headline",
    "description",
    "headings",
    "main_text",
    "text",
    "language",
    "canonical",
    "size",
    "record_id",
)
_PAGE_COLUMNS = (
    *SORT,
    "collection",
    "fetched_at",
    "published_at",
    "may_index",
    "text_digest",
    *_FIELDS,
    ENTRY,
)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(slots=True, frozen=True)
class BulkSelection:
    """Pages to export; empty: all. `since`: earliest fetch (ms since 1970)."""

    collection: str = ""
    language: str = ""
    since: int = 0


class BulkAction(NamedTuple):
    """A document to write, or to delete if `document` is None.

    `version`: its log entry; a higher one supersedes it.
    """

    key: Key
    id: str
    url: str
    version: int
    document: bytes | None  # one JSON object, UTF-8, without a line end


def actions(
    workspace: Workspace, state: LogState, chosen: BulkSelection, after: int, start: Key = START
) -> Iterator[BulkAction]:
    """Yield the actions for changes after log entry `after`, up to `state`.

    `after` 0: for all live pages. `start`: only for keys from this one on.

    Raises:
        FileNotFoundError: a replaced file was deleted meanwhile; read the log again and continue.
    """
    newer = {
        name: [file for file in files if file.entry > after] for name, files in state.files.items()
    }
    tables = LiveTables(workspace, replace(state, files=newer))
    pages = tables.ordered("pages", _PAGE_COLUMNS, memory_bytes=PAGES_BYTES)
    columns = (*SORT, "collection", "operation", "url", "state", "reason", ENTRY)
    urls = tables.ordered("urls", columns, memory_bytes=URLS_BYTES)
    all_tables = LiveTables(workspace, state) if after else None
    declared = tables.ordered("metadata", (*METADATA_COLUMNS, ENTRY), memory_bytes=METADATA_BYTES)
    streams = [_later(rows, after, start) for rows in (pages, urls, declared)]
    for page_rows, url_rows, metadata_rows in side_by_side(streams):
        if page_rows.height:
            page_rows = with_metadata(page_rows, metadata_rows)
        yield from _range_actions(page_rows, url_rows, chosen, all_tables)


def document_id(host_key: int, url_key: int, collection: str) -> str:
    """Return the document ID of a page, the same in every export (at most 97 bytes)."""
    return f"{host_key:016x}{url_key:016x}-{collection}"


_IPV4 = re.compile(r"[0-9.]+")


def domains_of(host: str) -> list[str]:
    """Return a host and each domain above it, so that one term query matches a domain."""
    if host.startswith("[") or _IPV4.fullmatch(host):
        return [host]
    labels = host.removesuffix(".").split(".")
    return [".".join(labels[place:]) for place in range(len(labels))]


def _later(frames: Iterator[pl.DataFrame], after: int, start: Key) -> Iterator[pl.DataFrame]:
    """Yield rows with later entries and keys.

    Compacted files also have older rows.
    """
    reached = pl.lit(True)
    for name, value in zip(reversed(SORT), reversed(start), strict=True):
        reached = (pl.col(name) > value) | ((pl.col(name) == value) & reached)
    for frame in frames:
        rows = frame.filter((pl.col(ENTRY) > after) & reached)
        if rows.height:
            yield rows


def _range_actions(
    pages: pl.DataFrame,
    urls: pl.DataFrame,
    chosen: BulkSelection,
    all_tables: LiveTables | None,
) -> Iterator[BulkAction]:
    """Yield the actions of one range of keys in order; deletions only with `all_tables`."""
    deleted: list[pl.DataFrame] = []
    documents: Iterator[BulkAction] = iter(())
    if urls.height:
        urls = urls.filter((pl.col("operation") == "") & _in_collection(chosen))
        deleted.append(urls.filter(is_removed()).select(_DELETION))
    if pages.height:
        pages = pages.filter(_in_collection(chosen))
        removals = _removals(pages, urls, all_tables)
        pages = pages.join(removals, on=_IDENTITY, how="left", maintain_order="left")
        if chosen.since:
            pages = pages.filter(pl.col("fetched_at").dt.epoch("ms") >= chosen.since)
        live = pl.col("may_index") & ~pl.col("removed").fill_null(False)
        if chosen.language:
            live &= pl.col("language") == chosen.language
        documents = _documents(pages.filter(live))
        deleted.append(pages.filter(~live).select(_DELETION))
    deletions = _deletions(deleted) if all_tables is not None else []
    yield from heapq.merge(deletions, documents, key=attrgetter("key"))


def _in_collection(chosen: BulkSelection) -> pl.Expr:
    return pl.col("collection") == chosen.collection if chosen.collection else pl.lit(True)


def _removals(
    pages: pl.DataFrame, urls: pl.DataFrame, all_tables: LiveTables | None
) -> pl.DataFrame:
    """Return whether the pages are removed, by their URLs.

    The URL row of a page that was parsed again is older than the rows of this export.
    """
    columns = [*_IDENTITY, is_removed().alias("removed")]
    schema = {**{name: pages.schema[name] for name in _IDENTITY}, "removed": pl.Boolean()}
    newer = urls.select(columns) if urls.width else pl.DataFrame(schema=schema)
    if all_tables is None:
        return newer
    missing = pages.join(newer, on=_IDENTITY, how="anti")
    if missing.is_empty():
        return newer
    older = (
        all_tables.scan("urls")
        .filter(
            pl.col("host_key").is_in(missing["host_key"].unique().implode())
            & pl.col("url_key").is_in(missing["url_key"].implode())
            & (pl.col("operation") == "")
        )
        .select(columns)
        .collect()
    )
    return pl.concat([newer, older.join(missing, on=_IDENTITY, how="semi")])


def _deletions(parts: list[pl.DataFrame]) -> list[BulkAction]:
    """Return the deletions in the order of their keys."""
    rows = [frame for frame in parts if frame.height]
    if not rows:
        return []
    newest = pl.concat(rows).sort(ENTRY, maintain_order=True).unique(_IDENTITY, keep="last")
    return [
        BulkAction(
            (partition, host_key, url_key),
            document_id(host_key, url_key, collection),
            url,
            entry,
            None,
        )
        for partition, host_key, url_key, collection, url, entry in newest.sort(SORT).iter_rows()
    ]


def _documents(pages: pl.DataFrame) -> Iterator[BulkAction]:
    times = [pl.col(name).dt.epoch("ms") for name in ("fetched_at", "published_at")]
    for part in pages.iter_slices(_ROWS_AT_ONCE):
        for row in part.with_columns(times).iter_rows(named=True):
            key = (row["partition"], row["host_key"], row["url_key"])
            name = document_id(row["host_key"], row["url_key"], row["collection"])
            yield BulkAction(
                key, name, row["url"], row[ENTRY], _encode(_document(name, row)).encode()
            )


def _document(name: str, row: dict[str, Any]) -> dict[str, object]:
    """Return the fields of a document, which are the same for every target."""
    published_at, host = row["published_at"], hostname(row["url"])
    return {
        "id": name,
        "collection": row["collection"],
        "host": host,
        "domains": domains_of(host),
        "fetched_at": format_time(row["fetched_at"]),
        "published_at": None if published_at is None else format_time(published_at),
        "text_digest": f"{row['text_digest']:016x}",
        "log_entry": row[ENTRY],
        **{field: row[field] for field in _FIELDS},
        DECLARED: stated(row[DECLARED]),
    }
