"""`reparse`: run the archive through today's parser, without fetching.

A batch job under a claim of its own. Pages come in the order of the archive; those that read otherwise than before get new
rows of `pages` and `links`; when nothing changed, nothing is written. New links are admitted by the next crawl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl
import polars.selectors as cs

from lycosa.archive.reader import read_response
from lycosa.core.records import Exchange, Link, Page, Visit
from lycosa.crawl.understand import Reader
from lycosa.fetch.decode import parse_head
from lycosa.store.claim import Claim
from lycosa.store.live import LiveTables
from lycosa.store.rows import page_row
from lycosa.store.schema import TABLES
from lycosa.store.tables import Buffers

_SLICE = 500
_COMMIT_PAGES = 2_000
_NAMES = TABLES["pages"].names
_LINK = ("target", "anchor", "rel", "kind", "position")


@dataclass(slots=True)
class Reparsed:
    """What a run did. `changed`: pages whose rows or links read otherwise than before; `text_changed` of those, the text."""

    pages: int = 0
    changed: int = 0
    text_changed: int = 0
    unreadable: int = 0  # no longer understood, or without a full record


def reparse(
    claim: Claim,
    tables: LiveTables,
    reader: Reader,
    locate: Callable[[str], str],
    *,
    collection: str | None = None,
    since_ms: int | None = None,
    observer: Callable[[Reparsed], None] | None = None,
) -> Reparsed:
    """Parse again what is live. `locate` gives the absolute path of a workspace-relative one.

    Raises:
        ArchiveError: a record cannot be read.
        ClaimLost: somebody else took the partitions.
    """
    report = Reparsed()
    buffers, held = Buffers(), 0
    for rows, links in _slices(tables, collection, since_ms):
        for row in rows:
            report.pages += 1
            visit = _visit(row)
            page = _read(row, reader, locate)
            if page is None:
                report.unreadable += 1
                continue
            if not _differs(row, visit, page, links.get((visit.host_key, visit.url_key), [])):
                continue
            report.changed += 1
            report.text_changed += page.text_digest != row["text_digest"]
            buffers.add_page(visit, page, str(row["redirect_from"] or ""))
            buffers.links.add_links(visit, page.links)
            held += 1
        if held >= _COMMIT_PAGES:
            claim.commit(claim.next_folder(), buffers.mapping(), counters={"reparsed": held})
            buffers, held = Buffers(), 0
        if observer is not None:
            observer(report)
    if held:
        claim.commit(claim.next_folder(), buffers.mapping(), counters={"reparsed": held})
    return report


_Links = dict[tuple[int, int], list[tuple[object, ...]]]


def _slices(tables: LiveTables, collection: str | None, since_ms: int | None) -> Iterator[tuple[list[dict[str, object]], _Links]]:
    """Pages with their records' places, 500 at a time, and the stored links of each."""
    pages = tables.scan("pages")
    if collection is not None:
        pages = pages.filter(pl.col("collection") == collection)
    if since_ms is not None:
        pages = pages.filter(pl.col("fetched_at") >= pl.lit(since_ms).cast(pl.Datetime("ms", "UTC")))
    places = tables.scan("visits").select(
        "record_id", "warc_file", "warc_offset", "warc_length", "kind", "content_length", "duration_ms", "truncated"
    )
    order = (
        pages.select("host_key", "url_key", "collection", "record_id")
        .join(places.unique("record_id", keep="last"), on="record_id")
        .sort("warc_file", "warc_offset")
        .collect()
    )
    for part in order.iter_slices(_SLICE):
        keys = part.lazy().select("host_key", "url_key").unique()
        stored = pages.join(part.lazy().drop("host_key", "url_key", "collection"), on="record_id").with_columns(
            cs.datetime().dt.epoch("ms")
        )
        links: _Links = {}
        frame = tables.scan("links").join(keys, on=["host_key", "url_key"], how="semi").select("host_key", "url_key", *_LINK)
        for row in frame.sort("position", maintain_order=True).collect().iter_rows():
            links.setdefault((row[0], row[1]), []).append(row[2:])
        yield stored.collect().to_dicts(), links


def _visit(row: dict[str, object]) -> Visit:
    """As much of the visit as a page's rows need."""
    take = {name: row[name] for name in ("url", "partition", "host_key", "url_key", "collection", "fetched_at", "record_id", "kind")}
    return Visit(host="", depth=0, duration_ms=0, **take)  # type: ignore[arg-type]


def _read(row: dict[str, object], reader: Reader, locate: Callable[[str], str]) -> Page | None:
    response = read_response(locate(str(row["warc_file"])), int(str(row["warc_offset"])), int(str(row["warc_length"])))
    if not response.head:
        return None
    exchange = Exchange(
        str(row["url"]), str(row["kind"]), int(str(row["fetched_at"])), 0, response_head=response.head, body=response.body,
        status=response.status, truncated="" if row["truncated"] == "decoded" else str(row["truncated"]),
    )  # fmt: skip
    return reader(exchange, parse_head(response.head)).page


def _differs(row: dict[str, object], visit: Visit, page: Page, links: list[tuple[object, ...]]) -> bool:
    fresh = page_row(visit, page, str(row["redirect_from"] or ""))
    if any(row[name] != value for name, value in zip(_NAMES, fresh, strict=True)):
        return True
    return [_plain(link) for link in page.links] != links


def _plain(link: Link) -> tuple[object, ...]:
    return tuple(str(value) if isinstance(value, str) else value for value in link)
