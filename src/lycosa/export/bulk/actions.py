"""What a bulk export has to say: a document for each live page, a deletion for what is live no
longer, in the order of the keys.

`pages` and `urls` lie sorted by the same keys, so both are read side by side, and memory holds a
few blocks of each however many pages there are. A page is live until the row of its URL says gone
or excluded, its own says noindex, or an exclusion names it: the rule of the search index.
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

from lycosa.core.records import UrlState
from lycosa.core.units import format_time
from lycosa.export.bulk.join import Key, side_by_side
from lycosa.store.log.state import LogState
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname

START: Key = (0, 0, 0)
PAGES_BYTES, URLS_BYTES = 24 * 2**20, 12 * 2**20  # of rows in memory
_ROWS_AT_ONCE = 100  # that are Python objects
_GONE = [UrlState.GONE.value, UrlState.EXCLUDED.value]
_IDENTITY = ["collection", "host_key", "url_key"]
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
    """Which pages are exported; empty: all. `since`: fetched then or later, milliseconds since
    1970.
    """

    collection: str = ""
    language: str = ""
    since: int = 0


class Action(NamedTuple):
    """A document to be put, or (without one) deleted. `version` is the log entry it comes with: a
    later one outranks it.
    """

    key: Key
    id: str
    url: str
    version: int
    document: bytes | None  # one JSON object, UTF-8, without a line end


def actions(
    workspace: Workspace, state: LogState, chosen: BulkSelection, after: int, start: Key = START
) -> Iterator[Action]:
    """Everything that log entries later than `after` changed, up to `state`; from a key on. With
    `after` 0: all live pages.

    Raises:
        FileNotFoundError: a merge or purge replaced a file and its time was over: read the log
        again and go on.
    """
    news = replace(
        state,
        files={
            name: [file for file in files if file.entry > after]
            for name, files in state.files.items()
        },
    )
    tables = LiveTables(workspace, news)
    pages = tables.ordered("pages", _PAGE_COLUMNS, memory_bytes=PAGES_BYTES)
    columns = (*SORT, "collection", "operation", "url", "state", ENTRY)
    urls = tables.ordered("urls", columns, memory_bytes=URLS_BYTES)
    everything = LiveTables(workspace, state) if after else None
    streams = [_later(pages, after, start), _later(urls, after, start)]
    for page_rows, url_rows in side_by_side(streams):
        yield from _judge(
            page_rows if page_rows.height else None,
            url_rows if url_rows.height else None,
            chosen,
            everything,
        )


def document_id(host_key: int, url_key: int, collection: str) -> str:
    """A page's id, the same in every export: at most 97 bytes."""
    return f"{host_key:016x}{url_key:016x}-{collection}"


_IPV4 = re.compile(r"[0-9.]+")


def domains_of(host: str) -> list[str]:
    """A host and every name above it, so that a domain can be looked up as one word."""
    if host.startswith("[") or _IPV4.fullmatch(host):
        return [host]
    labels = host.removesuffix(".").split(".")
    return [".".join(labels[place:]) for place in range(len(labels))]


def _later(frames: Iterator[pl.DataFrame], after: int, start: Key) -> Iterator[pl.DataFrame]:
    """Yield rows from a key on with later entries; compacted files hold older rows too."""
    reached = pl.lit(True)
    for name, value in zip(reversed(SORT), reversed(start), strict=True):
        reached = (pl.col(name) > value) | ((pl.col(name) == value) & reached)
    for frame in frames:
        rows = frame.filter((pl.col(ENTRY) > after) & reached)
        if rows.height:
            yield rows


def _judge(
    pages: pl.DataFrame | None,
    urls: pl.DataFrame | None,
    chosen: BulkSelection,
    everything: LiveTables | None,
) -> Iterator[Action]:
    """Documents and deletions of one range of keys, in its order. `everything`: all tables, if
    deletions are wanted.
    """
    if urls is not None:
        urls = urls.filter(pl.col("operation") == "")
        if chosen.collection:
            urls = urls.filter(pl.col("collection") == chosen.collection)
    if pages is not None and chosen.collection:
        pages = pages.filter(pl.col("collection") == chosen.collection)
    doomed: list[pl.DataFrame] = []
    if urls is not None and everything is not None:
        doomed.append(
            urls.filter(pl.col("state").is_in(_GONE)).select(*SORT, "collection", "url", ENTRY)
        )
    kept: pl.DataFrame | None = None
    if pages is not None and pages.height:
        pages = pages.join(
            _states(pages, urls, everything), on=_IDENTITY, how="left", maintain_order="left"
        )
        if chosen.since:
            pages = pages.filter(pl.col("fetched_at").dt.epoch("ms") >= chosen.since)
        test = pl.col("may_index") & ~pl.col("state").is_in(_GONE).fill_null(False)
        if chosen.language:
            test &= pl.col("language") == chosen.language
        kept = pages.filter(test).drop("state")
        if everything is not None:
            doomed.append(pages.filter(~test).select(*SORT, "collection", "url", ENTRY))
    documents = _documents(kept) if kept is not None else iter(())
    yield from heapq.merge(_deletions(doomed), documents, key=attrgetter("key"))


def _states(
    pages: pl.DataFrame, urls: pl.DataFrame | None, everything: LiveTables | None
) -> pl.DataFrame:
    """The state of each page's URL. A page that was parsed again has its URL's row elsewhere, from
    before.
    """
    columns = [*_IDENTITY, "state"]
    known = (
        urls.select(columns)
        if urls is not None
        else pl.DataFrame(
            schema={**{name: pages.schema[name] for name in _IDENTITY}, "state": pl.String()}
        )
    )
    if everything is None:
        return known
    missing = pages.join(known, on=_IDENTITY, how="anti")
    if missing.is_empty():
        return known
    wanted = pl.col("host_key").is_in(missing["host_key"].unique().implode()) & pl.col(
        "url_key"
    ).is_in(missing["url_key"].implode())
    older = (
        everything.scan("urls")
        .filter(wanted & (pl.col("operation") == ""))
        .select(columns)
        .collect()
    )
    return pl.concat([known, older.join(missing, on=_IDENTITY, how="semi")])


def _deletions(doomed: list[pl.DataFrame]) -> list[Action]:
    """In the order of their keys."""
    rows = [frame for frame in doomed if frame.height]
    if not rows:
        return []
    once = (
        pl.concat(rows).sort(ENTRY, maintain_order=True).unique(_IDENTITY, keep="last").sort(SORT)
    )
    return [
        Action(
            (partition, host_key, url_key),
            document_id(host_key, url_key, collection),
            url,
            entry,
            None,
        )
        for partition, host_key, url_key, collection, url, entry in once.iter_rows()
    ]


def _documents(pages: pl.DataFrame) -> Iterator[Action]:
    times = [pl.col(name).dt.epoch("ms") for name in ("fetched_at", "published_at")]
    for part in pages.iter_slices(_ROWS_AT_ONCE):
        for row in part.with_columns(times).iter_rows(named=True):
            key = (row["partition"], row["host_key"], row["url_key"])
            name = document_id(row["host_key"], row["url_key"], row["collection"])
            yield Action(key, name, row["url"], row[ENTRY], _encode(_document(name, row)).encode())


def _document(name: str, row: dict[str, Any]) -> dict[str, object]:
    """The canonical fields, the same for every target."""
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
    }
