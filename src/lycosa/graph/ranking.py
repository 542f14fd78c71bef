"""What links say of each page (a prior for its score, the texts of the links to it), and which
pages say nearly the same as it. It is `graph/<generation>/pages.parquet`.

A row says since which generation it is as it is, so that who follows (the index) reads only what
changed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from lycosa.graph.link_graph import Lookup, PageKeys, gather, stored_pages
from lycosa.graph.near_duplicates import near_groups
from lycosa.graph.page_rank import Floats, page_rank
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT

COLUMNS = {
    "partition": pl.UInt16(),
    "host_key": pl.UInt64(),
    "url_key": pl.UInt64(),
    "prior": pl.Float32(),  # what a score is multiplied by: 1 to 1 + PAGE_SHARE + HOST_SHARE
    "anchors": pl.String(),  # texts of links, one a line; those of more hosts come oftener
    "copy": pl.Boolean(),  # it is one of the generation's duplicates
    # what it shares with pages that say the same or nearly; 0: with none
    # (`lycosa.graph.near_duplicates`)
    "group": pl.Int64(),
    "canonical": pl.UInt64(),  # URL key of the page that stands for its group; 0: it is in none
    "text": pl.UInt64(),  # digest of its text when it was put into its group; 0: it is in none
    "since": pl.Int64(),  # the generation that first had the row as it is
}

PAGE_SHARE, HOST_SHARE = 0.3, 0.2
_DECADES = 3.0  # a page that is so many powers of ten above the mean has all of its share
_STEPS = 8  # of each share: a small move must not index a page again
MAX_ANCHORS = 40  # different texts a page
MAX_TIMES = 8  # that a text is repeated


def page_ranks(
    tables: LiveTables,
    copies: pl.DataFrame,
    before: pl.DataFrame | None,
    generation: int,
    folder: Path,
) -> pl.DataFrame:
    """The table of `COLUMNS`, by key. `before` is that of the generation before; `folder` is for
    what does not fit into memory.

    Memory: about 100 bytes a page, and for each page the texts of links to it.

    Raises:
        FileNotFoundError: a table's file went away (a merge replaced it long ago): refresh the
        tables and try again.
    """
    work = Path(tempfile.mkdtemp(prefix="links-", dir=folder))
    try:
        pages = stored_pages(tables)
        linked = gather(tables, pages, work)
        prior = _priors(pages, linked.edges, work)
        rows = pl.DataFrame(
            {
                "partition": pages.partition,
                "host_key": pages.host_key,
                "url_key": pages.url_key,
                "prior": prior.astype(np.float32),
            }
        ).with_row_index("page")
        rows = rows.with_columns(pl.col("page").cast(pl.Int32)).join(
            _anchors(linked.anchors, pages), on="page", how="left"
        )
        groups = near_groups(tables, rows.select("url_key", "prior"), copies["url_key"], work)
    finally:
        shutil.rmtree(work)
    copied = pl.col("url_key").is_in(copies["url_key"].implode())
    rows = (
        rows.with_columns(pl.col("anchors").fill_null(""), copy=copied)
        .drop("page")
        .join(groups, on="url_key", how="left")
    )
    rows = rows.with_columns(pl.col("group", "canonical", "text").fill_null(0))
    # Links to one copy are links to the text: among copies on a host, language and URL decide.
    shared = pl.col("prior").max().over("group", "host_key")
    rows = rows.with_columns(prior=pl.when(pl.col("group") != 0).then(shared).otherwise("prior"))
    return (
        _since(rows, before, generation)
        .select([pl.col(name).cast(kind) for name, kind in COLUMNS.items()])
        .sort(SORT)
    )


def _priors(pages: PageKeys, edges: Path, work: Path) -> Floats:
    """From the ranks of pages and of their hosts, in steps."""
    hosts, host_of = np.unique(pages.host_key, return_inverse=True)
    between = work / "hosts"
    _host_edges(edges, host_of.astype(np.int32), between)
    by_page = _share(page_rank(edges, pages.count))
    by_host = _share(page_rank(between, hosts.size))
    return np.asarray(1.0 + PAGE_SHARE * by_page + HOST_SHARE * by_host[host_of])


def _share(rank: Floats) -> Floats:
    """0 for what is at most average, 1 for a thousand times that, in steps."""
    above = np.log10(np.maximum(rank * rank.size, 1.0)) / _DECADES
    return np.round(np.minimum(above, 1.0) * _STEPS) / _STEPS


def _host_edges(
    edges: Path, host_of: np.ndarray[tuple[int], np.dtype[np.int32]], target: Path
) -> None:
    """Each pair of hosts, one of which links to the other, once."""
    found = np.zeros(0, np.int64)
    size = edges.stat().st_size
    pairs = (
        np.memmap(edges, dtype=np.int32, mode="r").reshape(-1, 2)
        if size
        else np.zeros((0, 2), np.int32)
    )
    for start in range(0, len(pairs), 4_000_000):
        source, end = (
            host_of[pairs[start : start + 4_000_000, column]].astype(np.int64) for column in (0, 1)
        )
        found = np.union1d(found, (source << 32 | end)[source != end])
    np.stack([found >> 32, found & 0xFFFFFFFF], axis=1).astype(np.int32).tofile(target)


def _anchors(folder: Path, pages: PageKeys) -> pl.DataFrame:
    """page, anchors: the texts of links, those of more hosts first and oftener; one's own host
    counts as one.
    """
    if not any(folder.iterdir()):
        return pl.DataFrame(schema={"page": pl.Int32, "anchors": pl.String})
    own = pl.LazyFrame({"page": np.arange(pages.count, dtype=np.int32), "own": pages.host_key})
    times = pl.min_horizontal(
        pl.lit(MAX_TIMES),
        pl.col("inside").cast(pl.Int32)
        + (2 * (1 + pl.col("hosts") - pl.col("inside")).log(2)).round().cast(pl.Int32),
    )
    texts = (
        pl.scan_parquet(folder / "*.parquet", glob=True)
        .unique()
        .join(own, on="page", how="left")
        .group_by("page", "anchor")
        .agg(
            hosts=pl.len().cast(pl.Int32),
            inside=(pl.col("host_key") == pl.col("own")).any().cast(pl.Int32),
        )
        .with_columns(times=times)
        .sort(["page", "times", "anchor"], descending=[False, True, False])
        .with_columns(place=pl.int_range(pl.len()).over("page"))
        .filter(pl.col("place") < MAX_ANCHORS)
        .with_columns(line=(pl.col("anchor") + "\n").repeat_by("times").list.join(""))
        .group_by("page", maintain_order=True)
        .agg(anchors=pl.col("line").str.join(""))
    )
    return texts.collect(engine="streaming")


def _since(rows: pl.DataFrame, before: pl.DataFrame | None, generation: int) -> pl.DataFrame:
    """With the generation since which each row is as it is. A page that is new says nothing that
    the index does not see by itself, but the index may have taken it in before it was ranked.
    """
    if before is None or not set(before.columns) >= set(COLUMNS):
        return rows.with_columns(since=pl.lit(generation, pl.Int64))
    place = Lookup(before["url_key"].to_numpy()).find(rows["url_key"].to_numpy())
    there = np.maximum(place, 0)
    if not before.height:
        return rows.with_columns(since=pl.lit(generation, pl.Int64))
    old = before[there]
    same = pl.Series(place >= 0)
    for name in ("prior", "anchors", "copy", "group", "text"):
        same &= rows[name].cast(COLUMNS[name]) == old[name]
    return rows.with_columns(
        since=pl.when(same).then(old["since"]).otherwise(pl.lit(generation, pl.Int64))
    )
