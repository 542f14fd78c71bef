"""The visited pages of a workspace with which a hunt starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from lycosa.core.records import Link, Page
from lycosa.graph.generation import PAGES, newest
from lycosa.index.shards.shards import newest_numbers
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier

MAX_START_PAGES = 30
"""Pages of the index, or well-linked pages, whose links are queued at the start."""

_PAGE_COLUMNS = [
    *("url", "title", "headline", "headings", "main_text", "text"),
    *("language", "published_at", "may_follow"),
]


@dataclass(slots=True, frozen=True)
class VisitedPages:
    """The visited pages of a workspace, from its index and tables."""

    workspace: Workspace
    tables: LiveTables

    def matching(self, text: str) -> list[str]:
        """Return the URLs of the best pages of the index for a query."""
        if not newest_numbers(self.workspace.storage):
            return []
        request = SearchRequest(
            text, count=MAX_START_PAGES, per_host=0, spelling=False, snippets=False
        )
        return [hit.url for hit in Searcher(self.workspace.root).search(request).hits]

    def well_linked(self) -> list[str]:
        """Return the pages with the highest rank; without ranks those nearest to a seed."""
        ranks = newest(self.workspace)
        if ranks is not None:
            pages = self.tables.scan("pages").select("partition", "host_key", "url_key", "url")
            best = pl.scan_parquet(ranks[1] / PAGES).select("url_key", "prior")
            joined = pages.join(best.top_k(MAX_START_PAGES, by="prior"), on="url_key").unique("url")
            urls = joined.sort("prior", "url", descending=[True, False]).collect()["url"].to_list()
            if urls:
                return list(urls)
        nearest = self.tables.scan("urls").filter(
            (pl.col("state") == "visited") & (pl.col("operation") == "") & (pl.col("reason") == "")
        )
        best = nearest.select("url", "depth").bottom_k(MAX_START_PAGES, by="depth")
        return best.collect()["url"].unique(maintain_order=True).to_list()

    def read(self, urls: Sequence[str]) -> list[tuple[str, Page]]:
        """Return visited URLs with the page of the last parse, and its links; omit all others."""
        identifier = Identifier(self.workspace.domains, self.workspace.partitions)
        ids = [identifier.identify(url) for url in dict.fromkeys(urls)]

        def among(name: str, values: Iterable[int], kind: pl.DataType) -> pl.Expr:
            return pl.col(name).is_in(pl.Series(sorted(set(values)), dtype=kind).implode())

        # skips the row groups that cannot contain these keys
        here = (
            among("partition", (each.partition for each in ids), pl.UInt16())
            & among("host_key", (each.host_key for each in ids), pl.UInt64())
            & among("url_key", (each.url_key for each in ids), pl.UInt64())
        )
        pages, links = self._pages(here), self._links(here)
        return [
            (url, replace(pages.get(url) or Page(), links=links.get(url, [])))
            for url in dict.fromkeys(urls)
            if url in pages or url in links
        ]

    def _pages(self, here: pl.Expr) -> dict[str, Page]:
        rows = self.tables.all_rows("pages").filter(here).select("url_key", *_PAGE_COLUMNS, ENTRY)
        newest_rows = (
            rows.collect()
            .sort(ENTRY, maintain_order=True)
            .unique("url_key", keep="last")
            .select(*_PAGE_COLUMNS)
            .with_columns(pl.col("published_at").dt.epoch("ms"))
        )
        return {row.pop("url"): Page(**row) for row in newest_rows.iter_rows(named=True)}

    def _links(self, here: pl.Expr) -> dict[str, list[Link]]:
        columns = ("source", "target", "anchor", "rel", "kind", "position")
        rows = self.tables.all_rows("links").filter(here).select(*columns, "found_at", ENTRY)
        newest_rows = rows.collect()
        for column in (ENTRY, "found_at"):
            newest_rows = newest_rows.filter(pl.col(column) == pl.col(column).max().over("source"))
        links: dict[str, list[Link]] = {}
        for source, *link in newest_rows.sort("position").select(columns).iter_rows():
            links.setdefault(source, []).append(Link(*link))
        return links
