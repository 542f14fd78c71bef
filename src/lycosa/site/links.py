"""Links as they are stored: to a URL, from a URL, or those that lead nowhere, of a site or of
all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from lycosa.core.records import LinkKind
from lycosa.site.pages_of_site import Redirects, newest_answers
from lycosa.store.tables.live import LiveTables
from lycosa.url.keys import url_key
from lycosa.url.site_name import SiteName

_COLUMNS = ("source", "target", "anchor", "rel", "kind", "found_at")


@dataclass(slots=True, frozen=True)
class FoundLink:
    """A stored link. `answer`: why its target has no good answer; "" if it has, or was not fetched.
    `end`: where the target's redirects end, "" if it does not redirect.
    """

    source: str
    target: str
    anchor: str
    rel: str
    kind: str
    found_at: datetime
    answer: str
    end: str


def links_between(
    tables: LiveTables,
    to: str = "",
    source: str = "",
    *,
    broken: bool = False,
    site: SiteName | None = None,
) -> list[FoundLink]:
    """Live links, by source and place. `to` and `source`: normalised URLs, "" for any; with
    `broken` only those that lead nowhere, of pages that are there; with `site` only those of its
    pages.

    Redirects count as links to where they lead, save with `broken`, where the links to them do.
    """
    rows = tables.scan("links")
    if to:
        rows = rows.filter(pl.col("target") == to)
    if source:
        rows = rows.filter(
            (pl.col("url_key") == pl.lit(url_key(source), pl.UInt64)) & (pl.col("source") == source)
        )
    if site is not None:
        rows = rows.filter(site.rows("source"))
    if broken:
        rows = rows.filter(pl.col("kind") != LinkKind.REDIRECT.value)
    wanted = rows.select(hash=pl.col("target").hash()).unique().collect(engine="streaming")
    answers = newest_answers(tables, wanted)
    ends = wanted.with_columns(
        end_hash=pl.Series(Redirects(answers).ends(wanted["hash"].to_numpy()), dtype=pl.UInt64)
    )
    judged = ends.join(
        answers.select(end_hash="hash", end="url", answer="verdict"),
        on="end_hash",
        how="inner" if broken else "left",
    )
    found = rows.select(*_COLUMNS, "position", hash=pl.col("target").hash())
    if broken:
        judged = judged.filter(pl.col("answer") != "")
        # A filter goes down to the files, a join does not: only these links are ever in memory.
        found = found.filter(pl.col("target").hash().is_in(judged["hash"].implode()))
        found = found.join(_dead(tables), on="source", how="anti")
    moved = (
        pl.when(pl.col("end_hash") == pl.col("hash"))
        .then(pl.lit(""))
        .otherwise(pl.col("end").fill_null(""))
    )
    listed = found.join(judged.lazy(), on="hash", how="inner" if broken else "left").sort(
        "source", "position"
    )
    lines = listed.select(*_COLUMNS, pl.col("answer").fill_null(""), moved.alias("end")).collect()
    return [FoundLink(*row) for row in lines.iter_rows()]


def _dead(tables: LiveTables) -> pl.LazyFrame:
    """Pages that are gone: their last links are kept, and nobody reads them any more."""
    urls = tables.scan("urls").filter(pl.col("operation") == "")
    there = urls.group_by("url").agg(gone=(pl.col("state") == "gone").all())
    return there.filter("gone").select(source="url")
