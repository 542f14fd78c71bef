"""Stored pages with their links, for processing a page again without fetching it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field

import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.core.records import Link, LinkKind, UrlId, Visit, VisitKind
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_KEY = ("host_key", "url_key")
_LINK = ("target", "anchor", "rel", "kind", "position")


@dataclass(slots=True)
class Copy:
    """A stored page, or a stored redirect.

    `visit`: has the fields that rows about the page need; None: the copy is a redirect, and its
    target is the only link.
    """

    visit: Visit | None = None
    text: str = ""
    # empty if the page has the rule nofollow
    links: list[Link] = field(default_factory=list)


class StoredPages:
    """Reads pages from the current live tables of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._read: LiveTables | None = None

    @property
    def _tables(self) -> LiveTables:
        """Live tables with their own state: that of the worker may change."""
        if self._read is None:
            self._read = LiveTables(self._workspace)
        return self._read

    def copies(self, collection: str, pages: Sequence[UrlId]) -> dict[int, Copy]:
        """Return URL key -> stored copy, for URLs with a stored page or redirect.

        Each call reads the tables: pass many pages of a host at once.
        """
        if not pages:
            return {}
        self._tables.state.refresh()
        keys = pl.LazyFrame(
            [(page.host_key, page.url_key) for page in pages],
            schema=dict.fromkeys(_KEY, pl.UInt64),
            orient="row",
        )
        hosts = pl.col("host_key").is_in(list({page.host_key for page in pages}))
        is_requested = hosts & pl.col("url_key").is_in([page.url_key for page in pages])
        content = ("url", "fetched_at", "record_id", "text", "may_follow")
        columns = ("partition", *_KEY, *content, ENTRY)
        rows = (
            self._tables.all_rows("pages")
            .filter(is_requested & (pl.col("collection") == collection))
            .select(columns)
        )
        # In a scan the last row of a key is the newest.
        live = (
            rows.join(keys, on=_KEY, how="semi", maintain_order="left")
            .unique(_KEY, keep="last", maintain_order=True)
            .collect()
        )
        every = (
            self._tables.all_rows("links")
            .filter(is_requested)
            .select(*_KEY, ENTRY, pl.col("found_at"), *_LINK)
        )
        stored_links = every.join(keys, on=_KEY, how="semi", maintain_order="left").collect()
        of_page = _latest_links(stored_links, live.select(*_KEY, ENTRY))
        latest_copies: dict[int, Copy] = {}
        for row in live.iter_rows(named=True):
            key = row["host_key"], row["url_key"]
            at_ms = round(row["fetched_at"].timestamp() * 1000)
            place = (row["url"], "", row["partition"], *key)
            visit = Visit(
                *place, VisitKind.PAGE, collection, 0, at_ms, 0, record_id=row["record_id"]
            )
            links = of_page[key] if row["may_follow"] else []
            latest_copies[row["url_key"]] = Copy(visit, row["text"], links)
        for (_, url_key), targets in of_page.items():
            if targets and targets[0].kind == LinkKind.REDIRECT:
                latest_copies[url_key] = Copy(links=targets[:1])
        return latest_copies


def _latest_links(links: pl.DataFrame, parsed: pl.DataFrame) -> dict[tuple[int, int], list[Link]]:
    """Return the links of the newest parse of each page, by host and URL key.

    `parsed`: the log entries of the pages, because the newest parse may have no links.
    """
    newest = links.group_by(_KEY).agg(pl.col(ENTRY).max())
    latest = pl.concat([newest, parsed]).group_by(_KEY).agg(pl.col(ENTRY).max())
    of_latest = links.join(latest, on=[*_KEY, ENTRY], how="semi", maintain_order="left")
    last = of_latest.group_by(_KEY).agg(pl.col("found_at").max())
    of_page: dict[tuple[int, int], list[Link]] = defaultdict(list)
    for host_key, url_key, *link in (
        of_latest.join(last, on=[*_KEY, "found_at"], how="semi", maintain_order="left")
        .select(*_KEY, *_LINK)
        .rows()
    ):
        of_page[host_key, url_key].append(Link(*link))
    return of_page
