"""The documents of the library, from the tables, or from the archive for older versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl

from lycosa.archive.warc.reader import read_response
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Link, Page
from lycosa.crawl.processing.page_reader import ParseFunction
from lycosa.export.declared import DECLARED, exported
from lycosa.export.library.editions import IDENTITY, PLACE

LINK_COLUMNS = ("host_key", "url_key", "target", "anchor", "kind", "position")
_LINKS_SCHEMA = {
    "doc": pl.UInt32(),
    "kind": pl.String(),
    "target": pl.String(),
    "anchor": pl.String(),
}
_OMITTED_KINDS = ["image", "requisite"]


class LibraryDocuments(NamedTuple):
    """`rows` in the order of `PLACE` and day, numbered in the column `doc`; `links` in the order of
    `doc` and of the page. `unreadable` older versions have no record that can be parsed.
    """

    rows: pl.DataFrame
    links: pl.DataFrame
    unreadable: int = 0


def documents(
    chosen: pl.DataFrame,
    links: pl.DataFrame,
    parse: ParseFunction,
    locate: Callable[[str], str],
    fields: Sequence[str],
    *,
    linked: bool,
) -> LibraryDocuments:
    """Return the documents of rows of `lycosa.export.library.editions.editions`. `locate` returns
    the path of a file of the workspace.
    """
    columns = [*PLACE, "library", "day", "at", "seen_in", *fields]
    old = chosen.filter(~pl.col("live"))
    if not old.height:
        rows = chosen.select(columns).with_row_index("doc")
        return LibraryDocuments(rows, _stored_links(rows, links) if linked else _no_links())
    parsed = [
        (row, page)
        for row in old.iter_rows(named=True)
        if (page := _parse_record(row, parse, locate)) is not None
    ]
    restored = pl.DataFrame(
        [_values(row, page, columns) for row, page in parsed],
        schema={name: chosen.schema[name] for name in columns},
    )
    live = chosen.filter("live").select(columns)
    parts = (live.with_columns(old=False), restored.with_columns(old=True))
    rows = (
        pl.concat(part.with_row_index("place") for part in parts)
        .sort([*PLACE, "day"], maintain_order=True)
        .with_row_index("doc")
    )
    all_links = _no_links()
    if linked:
        numbers = dict(rows.filter("old").select("place", "doc").iter_rows())
        page_links = ((numbers[place], page.links) for place, (_, page) in enumerate(parsed))
        all_links = pl.concat(
            [_stored_links(rows.filter(~pl.col("old")), links), _parsed_links(page_links)]
        ).sort("doc", maintain_order=True)
    return LibraryDocuments(rows.drop("place", "old"), all_links, old.height - len(parsed))


def _values(row: dict[str, Any], page: Page, columns: Sequence[str]) -> dict[str, Any]:
    values = {name: getattr(page, name, row[name]) for name in columns}
    if DECLARED in values:
        values[DECLARED] = exported(page.metadata)
    return values


def _stored_links(rows: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    if not links.height:
        return _no_links()
    exported = links.filter(~pl.col("kind").is_in(_OMITTED_KINDS))
    return (
        rows.select("doc", *IDENTITY)
        .join(exported, on=["host_key", "url_key"])
        .sort("doc", "position")
        .select(list(_LINKS_SCHEMA))
    )


def _parsed_links(pages: Iterable[tuple[int, Sequence[Link]]]) -> pl.DataFrame:
    rows = [
        (doc, link.kind, link.target, link.anchor)
        for doc, links in pages
        for link in links
        if link.kind not in _OMITTED_KINDS
    ]
    return pl.DataFrame(rows, schema=_LINKS_SCHEMA, orient="row")


def _no_links() -> pl.DataFrame:
    return pl.DataFrame(schema=_LINKS_SCHEMA)


def _parse_record(
    row: dict[str, Any], parse: ParseFunction, locate: Callable[[str], str]
) -> Page | None:
    """Return the page of an older version; None without a readable record, or with noindex."""
    if not row["warc_file"]:
        return None
    try:
        response = read_response(locate(row["warc_file"]), row["warc_offset"], row["warc_length"])
    except (ArchiveError, FileNotFoundError):
        return None
    if not response.head or response.headers.get("warc-type") == "revisit":
        return None
    started_at = round(row["at"].timestamp() * 1000)
    exchange = response.exchange(row["url"], started_at=started_at, truncated=row["truncated"])
    page = parse(exchange).page
    return page if page is not None and page.may_index else None
