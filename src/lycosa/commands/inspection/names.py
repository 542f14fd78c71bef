"""Names in a workspace, for the completion of options in a shell."""

from __future__ import annotations

import polars as pl

from lycosa.config.settings import Config
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_MAX_NAMES = 1_000


def names_of(root: str, config: Config, kind: str) -> list[str]:
    """Return the names of collections, hosts or languages, hosts with most pages first."""
    workspace = Workspace.open(root)
    if kind == "collections":
        configured = (collection.name for collection in config.collection)
        return sorted({*configured, *workspace.state().settings})
    if kind == "languages":
        pages = LiveTables(workspace).scan("pages").select(pl.col("language").unique().sort())
        return [language for language in pages.collect()["language"] if language]
    hosts = LiveTables(workspace).scan("hosts").filter(pl.col("host") != "")
    return hosts.sort("pages", descending=True).head(_MAX_NAMES).collect()["host"].to_list()
