"""`reparse`: parse archived pages again, without fetching.

A batch job under a claim of its own. Pages are read in the order of the archive; those with changed
results get new rows of `pages`, `metadata`, `items` and `links`; without changes, nothing is
written. The next crawl admits new links. `extract_items` extracts only items.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import polars.selectors as cs

from lycosa.archive.warc.reader import read_rendered, read_response
from lycosa.core.records import Exchange, Item, Page, Visit
from lycosa.crawl.processing.page_reader import FAULT_RENDERED, Reader
from lycosa.hooks.plugins import Plugins, installed_plugins
from lycosa.page.html.markdown import MarkdownMode
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers, LinksBuffer, TableBuffer
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import Row, item_rows, metadata_row, page_row
from lycosa.store.tables.schema import TABLES
from lycosa.store.tables.visible import is_removed

_SLICE = 500
_COMMIT_PAGES = 2_000
_COMMIT_ITEMS = 20_000
_NAMES = TABLES["pages"].names
_KEY = ("collection", "host_key", "url_key")
_VISIT = ("url", "partition", "host_key", "url_key", "collection", "fetched_at", "record_id")
_PAGE = (*_VISIT, "faults")
_LINK = ("target", "anchor", "rel", "kind", "position")


@dataclass(slots=True)
class Reparsed:
    """Counts of a run.

    `changed`: pages with changed rows or links; `text_changed`: those of them with a changed text.
    """

    pages: int = 0
    changed: int = 0
    text_changed: int = 0
    unreadable: int = 0  # cannot be parsed any more, or have no complete record
    kept_values: int = 0  # pages that keep values of plug-ins that failed or are not installed


def reparse(
    claim: Claim,
    tables: LiveTables,
    reader: Reader,
    locate: Callable[[str], str],
    *,
    collection: str | None = None,
    since_ms: int | None = None,
    with_markdown: Collection[str] = (),
) -> Reparsed:
    """Parse the live pages again.

    `locate` returns the absolute path of a workspace-relative one; `with_markdown`: collections
    that store pages as Markdown too.

    Raises:
        ArchiveError: a record cannot be read.
        ClaimLost: another worker took the partitions.
    """
    plugins = installed_plugins()
    counts: Counter[str] = Counter()
    buffers = Buffers()
    places = _places(tables)
    stored_links = _hash_links(tables.scan("links"))
    stored = [_hashes(tables.scan(name)) for name in ("metadata", "items")]
    for rows in _slices(tables, places, collection, since_ms):
        parsed = []
        for row in rows:
            counts["pages"] += 1
            mode = MarkdownMode.MAIN if row["collection"] in with_markdown else None
            page = _read(row, reader, locate, mode)
            if page is None:
                counts["unreadable"] += 1
            else:
                parsed.append((row, _visit(row), page))
        visited = [(visit, page) for _, visit, page in parsed]
        fresh_links = _fresh_links(visited)
        fresh = [
            _fresh("metadata", (metadata_row(visit, page.metadata) for visit, page in visited)),
            _fresh("items", (r for visit, page in visited for r in item_rows(visit, page.items))),
        ]
        for row, visit, page in parsed:
            values = _values(row, visit, page, plugins, counts)
            key = (visit.host_key, visit.url_key)
            of_collection = (visit.collection, *key)
            is_same = fresh_links.get(key) == stored_links.get(key) and all(
                new.get(of_collection) == old.get(of_collection)
                for new, old in zip(fresh, stored, strict=True)
            )
            if is_same and not _differs(row, visit, page, values):
                continue
            counts["changed"] += 1
            counts["text_changed"] += page.text_digest != row["text_digest"]
            buffers.add_page(visit, page, str(row["redirect_from"] or ""), values)
            buffers.links.add_links(visit, page.links)
        if buffers.pages.rows >= _COMMIT_PAGES:
            _commit(claim, buffers)
            buffers = Buffers()
    _commit(claim, buffers)
    return Reparsed(**counts)


def extract_items(
    claim: Claim,
    tables: LiveTables,
    reader: Reader,
    locate: Callable[[str], str],
    *,
    collection: str | None = None,
    since_ms: int | None = None,
) -> Reparsed:
    """Extract the items of the live pages again.

    Arguments and errors are those of `reparse`.
    """
    counts: Counter[str] = Counter()
    buffers = Buffers()
    stored = _hashes(tables.scan("items"))
    for rows in _slices(tables, _places(tables), collection, since_ms, _PAGE):
        extracted = []
        for row in rows:
            counts["pages"] += 1
            exchange = _exchange(row, locate)
            if exchange is None:
                counts["unreadable"] += 1
                continue
            visit = _visit(row)
            extracted.append((visit, reader.items(exchange, [visit.collection])))
        fresh = _fresh("items", (r for visit, items in extracted for r in item_rows(visit, items)))
        for visit, items in extracted:
            key = (visit.collection, visit.host_key, visit.url_key)
            if fresh.get(key) != stored.get(key):
                counts["changed"] += 1
                none = Item(visit.collection, "", None)  # replaces the stored ones
                buffers.items.extend(item_rows(visit, items or [none]))
        if buffers.items.rows >= _COMMIT_ITEMS:
            _commit(claim, buffers)
            buffers = Buffers()
    _commit(claim, buffers)
    return Reparsed(**counts)


def _values(
    row: dict[str, object], visit: Visit, page: Page, plugins: Plugins, counts: Counter[str]
) -> dict[str, Any]:
    """Return the values of plug-ins, with those stored in columns of no working plug-in."""
    fresh = plugins.merged("page_parsed", page=page, visit=visit)
    if not row["plugin_values"]:
        return fresh
    columns = plugins.merged("page_columns")  # after the call, in which a plug-in may have failed
    values = {
        name: value
        for name, value in {**json.loads(str(row["plugin_values"])), **fresh}.items()
        if name in fresh or name not in columns
    }
    counts["kept_values"] += len(values) > len(fresh)
    return values


def _commit(claim: Claim, buffers: Buffers) -> None:
    if buffers.pages.rows or buffers.items.rows:
        counters = {"reparsed": buffers.pages.rows}
        claim.commit(claim.next_folder(), buffers.mapping(), CommitContents(counters=counters))


_LinkHashes = dict[tuple[int, int], int]


def _places(tables: LiveTables) -> pl.DataFrame:
    """Return the location of each live page's record: 100 bytes per page.

    Removed pages are omitted: a new row would restore them.
    """
    key = list(_KEY)
    visits = tables.scan("visits").select(
        "record_id", "warc_file", "warc_offset", "warc_length", "kind", "truncated"
    )
    removed = tables.scan("urls").filter(is_removed())
    pages = (
        tables.scan("pages")
        .select("record_id", *key)
        .join(removed.select(key), on=key, how="anti")
        .select("record_id", "collection")
    )
    return visits.unique("record_id", keep="last").join(pages, on="record_id").collect()


def _slices(
    tables: LiveTables,
    places: pl.DataFrame,
    collection: str | None,
    since_ms: int | None,
    columns: Sequence[str] = (),
) -> Iterator[list[dict[str, object]]]:
    """Yield live pages with the locations of their records.

    They are in the order of the archive. At most 500 at a time.
    """
    for pages in tables.batches("pages", columns):
        if collection is not None:
            pages = pages.filter(pl.col("collection") == collection)
        if since_ms is not None:
            pages = pages.filter(
                pl.col("fetched_at") >= pl.lit(since_ms).cast(pl.Datetime("ms", "UTC"))
            )
        placed = (
            pages.join(places, on=["record_id", "collection"])
            .sort("warc_file", "warc_offset")
            .with_columns(cs.datetime().dt.epoch("ms"))
        )
        for part in placed.iter_slices(_SLICE):
            yield part.to_dicts()


def _hash_links(links: pl.LazyFrame) -> _LinkHashes:
    """Return a 64-bit hash per source of its set of links, valid in this process."""
    hashed = links.select("host_key", "url_key", pl.struct(_LINK).hash().alias("hash"))
    rows = hashed.group_by("host_key", "url_key").agg(pl.col("hash").sum()).collect().iter_rows()
    return {(host, url): number for host, url, number in rows}


def _fresh_links(read: Iterable[tuple[Visit, Page]]) -> _LinkHashes:
    buffer = LinksBuffer()
    for visit, page in read:
        buffer.add_links(visit, page.links)
    return _hash_links(buffer.frame().lazy())


def _hashes(rows: pl.LazyFrame) -> dict[tuple[str, int, int], int]:
    """Return a hash per page of its rows of a table, valid in this process."""
    hashed = rows.select(*_KEY, pl.struct(pl.all()).hash().alias("hash"))
    return {
        (collection, host, url): number
        for collection, host, url, number in hashed.group_by(_KEY)
        .agg(pl.col("hash").sum())
        .collect()
        .iter_rows()
    }


def _fresh(table: str, rows: Iterable[Row]) -> dict[tuple[str, int, int], int]:
    buffer = TableBuffer(table)
    buffer.extend(rows)
    frame = buffer.frame().lazy()
    if table == "items":  # the stored ones have been filtered in the same way
        frame = frame.filter(pl.col("position").is_not_null())
    return _hashes(frame)


def _visit(row: dict[str, object]) -> Visit:
    """Return a visit with the fields that the rows of a page need."""
    take = {name: row[name] for name in (*_VISIT, "kind")}
    return Visit(host="", depth=0, duration_ms=0, **take)  # type: ignore[arg-type]


def _read(
    row: dict[str, object],
    reader: Reader,
    locate: Callable[[str], str],
    markdown: MarkdownMode | None,
) -> Page | None:
    exchange = _exchange(row, locate)
    if exchange is None:
        return None
    return reader(exchange, [str(row["collection"])], markdown=markdown).page


def _exchange(row: dict[str, object], locate: Callable[[str], str]) -> Exchange | None:
    """Return the archived exchange of a page; None without a complete record."""
    path, offset, length = (
        locate(str(row["warc_file"])),
        int(str(row["warc_offset"])),
        int(str(row["warc_length"])),
    )
    response = read_response(path, offset, length)
    if not response.head:
        return None
    was_rendered = FAULT_RENDERED in row["faults"]  # type: ignore[operator]
    return response.exchange(
        str(row["url"]),
        kind=str(row["kind"]),
        started_at=int(str(row["fetched_at"])),
        truncated=str(row["truncated"]),
        rendered=read_rendered(path, offset + length) if was_rendered else b"",
    )


def _differs(row: dict[str, object], visit: Visit, page: Page, values: Mapping[str, Any]) -> bool:
    fresh = page_row(visit, page, str(row["redirect_from"] or ""), values)
    return any(row[name] != value for name, value in zip(_NAMES, fresh, strict=True))
