"""Pages of a site that say the same, and translations that do not answer each other."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from xxhash import xxh3_64_intdigest

from lycosa.site.pages_of_site import Redirects, SiteFacts
from lycosa.store.tables.live import LiveTables

_NO_TEXT = [0, xxh3_64_intdigest(b"")]


@dataclass(slots=True, frozen=True)
class Duplicates:
    """Pages with the same text of which none names another one's URL as canonical."""

    title: str
    urls: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Unanswered:
    """A page that names another one as its translation, which does not name it (hreflang has to be
    mutual).

    `reason`: `no_return` (it names others, or nobody), or why it has no good answer (`http_404`).
    """

    source: str
    language: str
    target: str
    reason: str


def duplicates(pages: pl.DataFrame) -> list[Duplicates]:
    """Groups of pages with one text; the largest first. Those that name another as canonical are
    answered for.
    """
    own = pl.col("canonical").is_null() | (pl.col("canonical") == pl.col("url"))
    texts = pages.filter(own & ~pl.col("text_digest").is_in(_NO_TEXT))
    groups = (
        texts.sort("url")
        .group_by("text_digest", maintain_order=True)
        .agg("url", pl.col("title").first())
    )
    shared = groups.filter(pl.col("url").list.len() > 1).with_columns(
        first=pl.col("url").list.first(), size=pl.col("url").list.len()
    )
    rows = shared.sort(["size", "first"], descending=[True, False]).select("title", "url")
    return [Duplicates(title, tuple(urls)) for title, urls in rows.iter_rows()]


def unanswered(tables: LiveTables, facts: SiteFacts) -> list[Unanswered]:
    """Declared translations among the site's pages that do not name the page that declares them;
    unfetched ones say nothing.
    """
    live = facts.nodes.filter("is_page").select("url")
    rows = tables.scan("pages").filter(facts.name.rows() & (pl.col("alternates").list.len() > 0))
    newest = (
        rows.select("url", "fetched_at", "alternates").sort("fetched_at").unique("url", keep="last")
    )
    declared = (
        newest.join(live.lazy(), on="url", how="semi")
        .select("url", "alternates")
        .explode("alternates")
        .unnest("alternates", separator=".")
    )
    pairs = declared.select(
        source=pl.col("url"), language=pl.col("alternates.language"),
        target=pl.col("alternates.url"),
    ).collect()  # fmt: skip
    if not pairs.height:
        return []
    # A translation by the address of a redirect is that of the page it leads to.
    ends = Redirects(facts.answers).ends(pairs["target"].hash().to_numpy())
    pairs = pairs.with_columns(end=pl.Series(ends, dtype=pl.UInt64), own=pl.col("source").hash())
    pairs = pairs.filter((pl.col("end") != pl.col("own")) & (pl.col("language") != "x-default"))
    back = pairs.select(own="end", end="own")
    alone = pairs.join(back, on=["own", "end"], how="anti").unique(["source", "target"])
    states = facts.nodes.select("hash", "is_page", "verdict")
    judged = alone.join(states, left_on="end", right_on="hash").filter(
        pl.col("is_page") | (pl.col("verdict") != "")
    )
    reason = pl.when(pl.col("verdict") != "").then(pl.col("verdict")).otherwise(pl.lit("no_return"))
    listed = judged.select("source", "language", "target", reason.alias("reason")).sort(
        "source", "language", "target"
    )
    return [Unanswered(*row) for row in listed.iter_rows()]
