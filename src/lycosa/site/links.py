"""List stored links: to a URL, from a URL, or broken, of a site or of all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from lycosa.core.records import LinkKind, UrlState
from lycosa.site.facts import newest_answers, redirects
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.url.keys import url_key
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.site_name import site_name

_COLUMNS = ("source", "target", "anchor", "rel", "kind", "found_at")


@dataclass(slots=True, frozen=True)
class StoredLink:
    """A stored link.

    `answer`: the error of its target; "" if there is none, or the target was not fetched. `end`:
    the end of the target's redirects, "" if it does not redirect.
    """

    source: str
    target: str
    anchor: str
    rel: str
    kind: str
    found_at: datetime
    answer: str
    end: str


def links_of(root: str, to: str, source: str, *, broken: bool, site: str) -> list[StoredLink]:
    """List links by source and position.

    Args:
        root: the workspace.
        to: only links to this URL; "": to any.
        source: only links in this page; "": in any.
        broken: only links whose target has an error, in pages that still exist.
        site: only links in pages of this site; "": of all.

    A redirect counts as a link to its target; with `broken`, links to the redirect are listed.

    Raises:
        UsageError: a URL is invalid.
        WorkError: table files were deleted repeatedly while they were read.
    """
    conditions = []
    if to:
        conditions.append(pl.col("target") == normalise(typed_url(to)))
    if source:
        url = normalise(typed_url(source))
        conditions.append(pl.col("url_key") == pl.lit(url_key(url), pl.UInt64))
        conditions.append(pl.col("source") == url)
    if site:
        conditions.append(site_name(site).rows("source"))
    if broken:
        conditions.append(pl.col("kind") != LinkKind.REDIRECT.value)
    return read_live(root, lambda tables: _links(tables, conditions, broken=broken))


def _links(tables: LiveTables, conditions: list[pl.Expr], *, broken: bool) -> list[StoredLink]:
    rows = tables.scan("links").filter(conditions)
    targets = rows.select(hash=pl.col("target").hash()).unique().collect(engine="streaming")
    answers = newest_answers(tables, targets)
    judged = targets.with_columns(
        end_hash=pl.Series(redirects(answers).ends(targets["hash"].to_numpy()), dtype=pl.UInt64)
    ).join(
        answers.select(end_hash="hash", end="url", answer="verdict"),
        on="end_hash",
        how="inner" if broken else "left",
    )
    links = rows.select(*_COLUMNS, "position", hash=pl.col("target").hash())
    if broken:
        judged = judged.filter(pl.col("answer") != "")
        # A filter is pushed down to the files, a join is not: only these links are in memory.
        links = links.filter(pl.col("target").hash().is_in(judged["hash"].implode()))
        links = links.join(_gone_pages(tables), on="source", how="anti")
    end = pl.when(pl.col("end_hash") != pl.col("hash")).then("end").fill_null("")
    lines = (
        links.join(judged.lazy(), on="hash", how="inner" if broken else "left")
        .sort("source", "position")
        .select(*_COLUMNS, pl.col("answer").fill_null(""), end.alias("end"))
    )
    return [StoredLink(*row) for row in lines.collect().iter_rows()]


def _gone_pages(tables: LiveTables) -> pl.LazyFrame:
    """Return the gone pages; their last links are stored, but no reader sees them."""
    urls = tables.scan("urls").filter(pl.col("operation") == "")
    states = urls.group_by("url").agg(gone=(pl.col("state") == UrlState.GONE.value).all())
    return states.filter("gone").select(source="url")
