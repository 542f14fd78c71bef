"""The stored pages: records one by one, or as a table of Arrow or Polars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

import polars as pl

from lycosa.commands.page_models import PageRecord
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteScope

if TYPE_CHECKING:
    import pyarrow

_COLUMNS = tuple(field.name for field in fields(PageRecord))


class PageTable:
    """The stored pages that match a selection. Iterating yields a `PageRecord` for each page.

    At most 50 MB of rows are in memory while it is iterated.
    """

    def __init__(self, root: str, collection: str = "", language: str = "", site: str = "") -> None:
        self._tables = LiveTables(Workspace.open(root))
        conditions = {"collection": collection, "language": language}
        self._filter = pl.lit(True)
        for column, value in conditions.items():
            if value:
                self._filter &= pl.col(column) == value
        if site:
            self._filter &= SiteScope.of(site).holds()

    def __iter__(self) -> Iterator[PageRecord]:
        needed = (*_COLUMNS, "host_key")
        for frame in self._tables.batches("pages", needed):
            rows = frame.filter(self._filter).with_columns(pl.col("markdown").fill_null(""))
            for row in rows.select(_COLUMNS).iter_rows():
                yield PageRecord(*row)

    def polars(self) -> pl.LazyFrame:
        """Return all columns of the table `pages` as a lazy frame."""
        return self._tables.scan("pages").filter(self._filter)

    def arrow(self) -> pyarrow.Table:
        """Return all columns of the table `pages` as an Arrow table, in memory."""
        return self.polars().collect().to_arrow()


def page_text(root: str, url: str, collection: str, column: str = "text") -> str:
    """Return the text or main text of a stored page; "" if it is not stored.

    `collection`: "" is any.
    """
    pages = LiveTables(Workspace.open(root)).scan("pages").filter(pl.col("url") == url)
    if collection:
        pages = pages.filter(pl.col("collection").is_in(collection.split(", ")))
    texts = pages.select(column).head(1).collect()
    return str(texts.item()) if texts.height else ""
