"""Links of a site that lead nowhere, and what a page sent over TLS takes in without it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lycosa.core.records import LinkKind
from lycosa.site.pages_of_site import Redirects, SiteFacts
from lycosa.store.tables.live import LiveTables
from lycosa.url.site_name import SiteName

_TAKEN_IN = [
    kind.value for kind in (LinkKind.IMAGE, LinkKind.REQUISITE, LinkKind.IFRAME, LinkKind.FRAME)
]
_LINK = ("target", "source", "anchor", "kind")


@dataclass(slots=True, frozen=True)
class BrokenLink:
    """A link of a page to what has no good answer. `answer`: `http_404`, `timeout`, `gone`. `end`:
    where redirects ended that the target leads to, "" if it does not redirect: it is their end that
    has no good answer then.
    """

    target: str
    answer: str
    end: str
    source: str
    anchor: str
    kind: str


@dataclass(slots=True, frozen=True)
class MixedContent:
    """An https page that takes in something by http. Images are shown by browsers (`active` false),
    scripts, styles, frames refused.
    """

    source: str
    target: str
    kind: str
    active: bool


def broken_links(tables: LiveTables, facts: SiteFacts) -> list[BrokenLink]:
    """Those of the site's pages, by target. Only what was fetched is known to be broken; redirects
    are told as chains.
    """
    kinds = facts.links.filter(pl.col("kind") != LinkKind.REDIRECT.value)
    targets = kinds.select(hash="target").unique()
    ends = targets.with_columns(
        end=pl.Series(Redirects(facts.answers).ends(targets["hash"].to_numpy()), dtype=pl.UInt64)
    )
    bad = facts.answers.filter(pl.col("verdict") != "").select(
        end="hash", end_url="url", verdict="verdict"
    )
    broken = ends.join(bad.unique("end"), on="end")
    if not broken.height:
        return []
    # A page that is gone keeps its last links; nobody reads them any more.
    dead = facts.nodes.filter((pl.col("verdict") != "") | ~pl.col("is_page")).select(source="url")
    links = tables.scan("links").filter(
        facts.name.rows("source") & (pl.col("kind") != LinkKind.REDIRECT.value)
    )
    # A filter goes down to the files, a join does not: only these links are ever in memory.
    links = links.filter(pl.col("target").hash().is_in(broken["hash"].implode()))
    held = (
        links.select(*_LINK, hash=pl.col("target").hash())
        .join(broken.lazy(), on="hash")
        .join(dead.lazy(), on="source", how="anti")
    )
    end = pl.when(pl.col("end") == pl.col("hash")).then(pl.lit("")).otherwise(pl.col("end_url"))
    rows = (
        held.select("target", "verdict", end.alias("end"), "source", "anchor", "kind")
        .unique()
        .sort("target", "source", "anchor", "kind")
    )
    return [BrokenLink(*row) for row in rows.collect().iter_rows()]


def mixed_content(tables: LiveTables, name: SiteName) -> list[MixedContent]:
    """Images, scripts, styles and frames by http in pages by https."""
    secure = pl.col("source").str.starts_with("https://") & pl.col("target").str.starts_with(
        "http://"
    )
    links = tables.scan("links").filter(
        name.rows("source") & secure & pl.col("kind").is_in(_TAKEN_IN)
    )
    rows = links.select("source", "target", "kind", active=pl.col("kind") != LinkKind.IMAGE.value)
    return [
        MixedContent(*row)
        for row in rows.unique().sort("source", "target", "kind").collect().iter_rows()
    ]
