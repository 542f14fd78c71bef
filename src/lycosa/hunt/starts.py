"""Where a hunt starts in what a workspace holds: unvisited links of the pages that answer best,
else of well-linked pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from lycosa.core.records import Link, Page
from lycosa.graph.generation import PAGES, newest
from lycosa.hunt.hunt import Hunt
from lycosa.index.shards.shards import newest_numbers
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier

MAX_PAGES = 30
"""Pages that a hunt starts from."""


@dataclass(slots=True, frozen=True)
class Started:
    """What a hunt has to begin with. `hits`: pages of the index that answer the question;
    `well_linked`: pages with many links to them, whose links are taken where there is none.
    """

    named: int
    hits: int
    well_linked: int
    listed: int


def start_from_index(hunt: Hunt, workspace: Workspace, tables: LiveTables) -> tuple[int, int]:
    """List the links of the pages that the index gives for the question, and say how many pages
    those were; of well-linked pages if there are none, and how many.
    """
    hits = _hits(workspace, hunt.question.text)
    urls = hits or _well_linked(workspace, tables)
    for url, page, links in recall(workspace, tables, urls):
        hunt.recall(url, page, links)
    return (len(hits), 0) if hits else (0, len(urls))


def recall(
    workspace: Workspace, tables: LiveTables, urls: Sequence[str]
) -> list[tuple[str, Page, list[Link]]]:
    """What the tables hold of pages that were visited: as they were parsed last, with their links;
    of a redirect, the link that it is. One read for all of them; what is not there is left out.
    """
    here = _Here(workspace, urls)
    pages, links = dict(here.pages(tables)), dict(here.links(tables))
    return [
        (url, pages.get(url) or Page(), links.get(url, []))
        for url in dict.fromkeys(urls)
        if url in pages or url in links
    ]


def _hits(workspace: Workspace, text: str) -> list[str]:
    if not newest_numbers(workspace.storage):
        return []
    return [
        hit.url
        for hit in Searcher(workspace.root)
        .search(SearchRequest(text, count=MAX_PAGES, per_host=0))
        .hits
    ]


def _well_linked(workspace: Workspace, tables: LiveTables) -> list[str]:
    """The pages with the highest rank, as `lycosa rank` found it; where that never ran, those
    nearest to a seed.
    """
    pages = tables.scan("pages").select("partition", "host_key", "url_key", "url")
    ranked = newest(workspace)
    if ranked is not None:
        best = (
            pl.scan_parquet(ranked[1] / PAGES)
            .select("url_key", "prior")
            .top_k(MAX_PAGES, by="prior")
        )
        found = (
            pages.join(best, on="url_key")
            .unique("url")
            .sort("prior", "url", descending=[True, False])
            .collect()["url"]
            .to_list()
        )
        if found:
            return list(found)
    nearest = tables.scan("urls").filter(
        (pl.col("state") == "visited") & (pl.col("operation") == "") & (pl.col("reason") == "")
    )
    return (
        nearest.select("url", "depth")
        .bottom_k(MAX_PAGES, by="depth")
        .collect()["url"]
        .unique(maintain_order=True)
        .to_list()
    )


class _Here:
    """Some pages of a workspace, as its tables hold them: only the row groups that may hold their
    keys are read.
    """

    def __init__(self, workspace: Workspace, urls: Iterable[str]) -> None:
        identifier = Identifier(workspace.domains, workspace.partitions)
        self._ids = [identifier.identify(url) for url in dict.fromkeys(urls)]

    def pages(self, tables: LiveTables) -> list[tuple[str, Page]]:
        columns = (
            "url",
            "title",
            "headline",
            "headings",
            "main_text",
            "text",
            "language",
            "published_at",
            "may_follow",
        )
        rows = (
            tables.all_rows("pages")
            .filter(self._holds())
            .select("url_key", *columns, ENTRY)
            .collect()
        )
        newest = (
            rows.sort(ENTRY, maintain_order=True)
            .unique("url_key", keep="last")
            .drop("url_key", ENTRY)
        )
        newest = newest.with_columns(pl.col("published_at").dt.epoch("ms"))
        return [
            (row["url"], Page(**{name: value for name, value in row.items() if name != "url"}))
            for row in newest.iter_rows(named=True)
        ]

    def links(self, tables: LiveTables) -> list[tuple[str, list[Link]]]:
        """The links of each page, as it was parsed last."""
        columns = ("source", "target", "anchor", "rel", "kind", "position")
        rows = (
            tables.all_rows("links")
            .filter(self._holds())
            .select(*columns, "found_at", ENTRY)
            .collect()
        )
        newest = rows.filter(pl.col(ENTRY) == pl.col(ENTRY).max().over("source"))
        newest = newest.filter(pl.col("found_at") == pl.col("found_at").max().over("source"))
        found: dict[str, list[Link]] = {}
        for source, *link in newest.sort("position").select(columns).iter_rows():
            found.setdefault(source, []).append(Link(*link))
        return list(found.items())

    def _holds(self) -> pl.Expr:
        def among(name: str, values: Iterable[int], kind: pl.DataType) -> pl.Expr:
            return pl.col(name).is_in(pl.Series(sorted(set(values)), dtype=kind).implode())

        return (
            among("partition", (each.partition for each in self._ids), pl.UInt16())
            & among("host_key", (each.host_key for each in self._ids), pl.UInt64())
            & among("url_key", (each.url_key for each in self._ids), pl.UInt64())
        )
