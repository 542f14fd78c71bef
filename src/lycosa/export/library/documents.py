"""The documents of the library: what is said of a page, whether it stands in the tables or is read
from the archive again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl

from lycosa.archive.warc.reader import read_response
from lycosa.core.records import Exchange, Link, Page, VisitKind
from lycosa.crawl.processing.page_reader import ParseFunction
from lycosa.export.library.editions import IDENTITY, PLACE
from lycosa.http.decode import parse_head

FIELDS = (
    *(
        "url",
        "redirect_from",
        "charset",
        "language",
        "language_score",
        "other_languages",
        "title",
        "headline",
        "description",
    ),
    *("published_at", "main_text", "text"),
)
"""Of a document, beside `at` (when it was fetched), `collection`, `library`, `day` and `seen_in`
(its record).
"""

LINK_COLUMNS = ("host_key", "url_key", "target", "anchor", "kind", "position")
_LINKS_SCHEMA = {
    "doc": pl.UInt32(),
    "kind": pl.String(),
    "target": pl.String(),
    "anchor": pl.String(),
}
_LEFT_OUT = ["image", "requisite"]


class LibraryDocuments(NamedTuple):
    """`rows` in the order of `PLACE` and day, with a column `doc` that counts them; `links` in the
    order of `doc` and of the page.

    `unread` could not be read from the archive: their record is not there, or is not understood any
    more.
    """

    rows: pl.DataFrame
    links: pl.DataFrame
    unread: int = 0


def documents(
    chosen: pl.DataFrame,
    links: pl.DataFrame,
    understand: ParseFunction,
    locate: Callable[[str], str],
    fields: Sequence[str],
    *,
    linked: bool,
) -> LibraryDocuments:
    """The documents that `lycosa.export.library.editions.editions` has chosen. `locate` gives the
    absolute path of a workspace's file.

    Raises:
        ArchiveError: a record is damaged.
    """
    wanted = [*PLACE, "library", "day", "at", "seen_in", *fields]
    old = chosen.filter(~pl.col("live"))
    if not old.height:
        rows = chosen.select(wanted).with_row_index("doc")
        return LibraryDocuments(
            rows, _of_live(rows.select("doc", *IDENTITY), links) if linked else _no_links()
        )
    read = [
        (row, page)
        for row in old.iter_rows(named=True)
        if (page := _read(row, understand, locate)) is not None
    ]
    revived = pl.DataFrame(
        [_restored(row, page, wanted) for row, page in read],
        schema={name: chosen.schema[name] for name in wanted},
    )
    live = chosen.filter("live").select(wanted)
    rows = (
        pl.concat(
            [
                live.with_row_index("place").with_columns(old=False),
                revived.with_row_index("place").with_columns(old=True),
            ]
        )
        .sort([*PLACE, "day"], maintain_order=True)
        .with_row_index("doc")
    )
    found = _no_links()
    if linked:
        places = dict(rows.filter("old").select("place", "doc").iter_rows())
        found = pl.concat(
            [
                _of_live(rows.filter(~pl.col("old")).select("doc", *IDENTITY), links),
                _of_read((places[number], page.links) for number, (_, page) in enumerate(read)),
            ]
        ).sort("doc", maintain_order=True)
    return LibraryDocuments(rows.drop("place", "old"), found, old.height - len(read))


def _of_live(rows: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """The stored links of documents."""
    if not links.height:
        return _no_links()
    kept = links.filter(~pl.col("kind").is_in(_LEFT_OUT))
    return (
        rows.join(kept, on=["host_key", "url_key"])
        .sort("doc", "position")
        .select(list(_LINKS_SCHEMA))
    )


def _of_read(pages: Iterable[tuple[int, Sequence[Link]]]) -> pl.DataFrame:
    rows = [
        (doc, link.kind, link.target, link.anchor)
        for doc, links in pages
        for link in links
        if link.kind not in _LEFT_OUT
    ]
    return pl.DataFrame(rows, schema=_LINKS_SCHEMA, orient="row")


def _no_links() -> pl.DataFrame:
    return pl.DataFrame(schema=_LINKS_SCHEMA)


def _read(
    row: dict[str, Any], understand: ParseFunction, locate: Callable[[str], str]
) -> Page | None:
    """What the page was when its version began; None if that cannot be told any more, or was not to
    be indexed.
    """
    if not row["warc_file"]:
        return None
    response = read_response(locate(row["warc_file"]), row["warc_offset"], row["warc_length"])
    if not response.head or response.headers.get("warc-type") == "revisit":
        return None
    exchange = Exchange(
        row["url"],
        VisitKind.PAGE,
        0,
        0,
        response_head=response.head,
        body=response.body,
        status=response.status,
        truncated="" if row["truncated"] == "decoded" else row["truncated"],
    )
    page = understand(exchange, parse_head(response.head)).page
    return page if page is not None and page.may_index else None


def _restored(row: dict[str, Any], page: Page, wanted: Sequence[str]) -> dict[str, Any]:
    """The columns of a document, those that the page says taken from it."""
    return {name: getattr(page, name, row[name]) for name in wanted}
