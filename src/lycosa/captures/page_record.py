"""The stored record of one page: its columns, its links, and links to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from lycosa.core.errors import UrlError
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise

MAX_LINKS = 200

_DATED = pl.when(pl.col("published_at").dt.year().is_between(1, 9999)).then(pl.col("published_at"))


@dataclass(slots=True, frozen=True)
class StoredPage:
    """A page. `row` is its row in `pages`; `published_at` is null for impossible years.

    The links are the first of `out` and `into`; `held`: those other ends that are pages.
    """

    row: dict[str, Any]
    out: int
    out_links: list[dict[str, Any]]
    into: int
    in_links: list[dict[str, Any]]
    held: frozenset[str]


def page_record(root: str, url: str) -> StoredPage | None:
    """Return the record of a page, None if it does not exist or is excluded.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    try:
        plain = normalise(url)
        identity = Identifier(workspace.domains, workspace.partitions).identify(plain)
    except UrlError:
        return None
    if state.excluded(plain, identity.host):
        return None
    tables = LiveTables(workspace, state)
    here = (pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)) & (
        pl.col("url_key") == pl.lit(identity.url_key, pl.UInt64)
    )
    links = tables.scan("links")
    out = links.filter(here & (pl.col("source") == plain))
    into = links.filter(pl.col("target") == plain)
    pages, out_count, out_rows, in_count, in_rows = pl.collect_all(
        [
            tables.scan("pages")
            .filter(here & (pl.col("url") == plain))
            .with_columns(_DATED)
            .sort("fetched_at")
            .tail(1),
            out.select(pl.len()),
            out.sort("position").select("target", "anchor", "kind", "rel").head(MAX_LINKS),
            into.select(pl.len()),
            into.sort("found_at").select("source", "anchor", "kind").head(MAX_LINKS),
        ]
    )
    if not pages.height:
        return None
    ends = pl.concat([out_rows["target"], in_rows["source"].rename("target")]).unique()
    held = frozenset(
        tables.scan("pages")
        .filter(pl.col("url").is_in(ends.implode()))
        .select("url")
        .collect()["url"]
    )
    return StoredPage(
        pages.row(0, named=True),
        int(out_count.item()),
        out_rows.to_dicts(),
        int(in_count.item()),
        in_rows.to_dicts(),
        held,
    )
