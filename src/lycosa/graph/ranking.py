"""Compute `graph/<generation>/pages.parquet`: link ranks, anchor texts and near-duplicate groups.

Each row contains the generation of its last change, so that the index reads changed rows only.

PageRank (Page, Brin, Motwani, Winograd 1999) reads a mapped file of edges. Its memory is three
numbers a node and one part of the edges.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from lycosa.graph.link_graph import Keys, Lookup, PageKeys, gather, stored_pages
from lycosa.graph.near_duplicates import near_groups
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT

COLUMNS = {
    "partition": pl.UInt16(),
    "host_key": pl.UInt64(),
    "url_key": pl.UInt64(),
    "prior": pl.Float32(),  # factor of the score: 1 to 1 + PAGE_SHARE + HOST_SHARE
    "anchors": pl.String(),  # anchor texts, one a line, repeated by number of hosts
    "copy": pl.Boolean(),  # whether it is a duplicate by redirect
    # near-duplicate group (`lycosa.graph.near_duplicates`); 0: none
    "group": pl.Int64(),
    "canonical": pl.UInt64(),  # URL key of the page that represents the group; 0: none
    "text": pl.UInt64(),  # digest of its text in the group; 0: none
    "since": pl.Int64(),  # generation of the last change of the row
}

PAGE_SHARE, HOST_SHARE = 0.3, 0.2
_DECADES = 3.0  # powers of ten above the mean rank that give the full share
_STEPS = 8  # of each share, so that small changes do not reindex a page
MAX_ANCHORS = 40  # distinct texts of a page
MAX_TIMES = 8  # maximum repetitions of a text
_ANCHORS_AT_ONCE = 1_000_000  # texts of links that are counted together

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
DAMPING = 0.85
MAX_ROUNDS = 40
_CONVERGED = 1e-4  # sum of changes at which to stop
_PART = 4_000_000  # edges at a time


def page_ranks(
    tables: LiveTables,
    copies: pl.DataFrame,
    before: pl.DataFrame | None,
    generation: int,
    folder: Path,
) -> pl.DataFrame:
    """Return the table of `COLUMNS`, by key.

    `before`: the table of the previous generation. `folder`: for temporary files.

    Memory: about 100 bytes a page, the texts in `anchors`, and `_ANCHORS_AT_ONCE` texts of links.

    Raises:
        FileNotFoundError: a table's file was deleted some time after a compaction: refresh the
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
    # Links to a copy count for the group: among copies on a host, language and URL decide.
    shared = pl.col("prior").max().over("group", "host_key")
    rows = rows.with_columns(prior=pl.when(pl.col("group") != 0).then(shared).otherwise("prior"))
    return (
        _since(rows, before, generation)
        .select([pl.col(name).cast(kind) for name, kind in COLUMNS.items()])
        .sort(SORT)
    )


def _priors(pages: PageKeys, edges: Path, work: Path) -> Floats:
    """Return the priors from the ranks of pages and of their hosts."""
    hosts, host_of = np.unique(pages.host_key, return_inverse=True)
    between = work / "hosts"
    _host_edges(edges, host_of.astype(np.int32), between)
    by_page = _share(page_rank(edges, pages.count))
    by_host = _share(page_rank(between, hosts.size))
    return np.asarray(1.0 + PAGE_SHARE * by_page + HOST_SHARE * by_host[host_of])


def _share(rank: Floats) -> Floats:
    """Return 0 for an average rank, 1 for a thousand times that, in steps."""
    above = np.log10(np.maximum(rank * rank.size, 1.0)) / _DECADES
    return np.round(np.minimum(above, 1.0) * _STEPS) / _STEPS


def _host_edges(
    edges: Path, host_of: np.ndarray[tuple[int], np.dtype[np.int32]], target: Path
) -> None:
    """Write each pair of linked hosts once."""
    between = np.zeros(0, np.int64)
    for part in edge_parts(edges):
        source, end = host_of[part[:, 0]].astype(np.int64), host_of[part[:, 1]].astype(np.int64)
        between = np.union1d(between, (source << 32 | end)[source != end])
    np.stack([between >> 32, between & 0xFFFFFFFF], axis=1).astype(np.int32).tofile(target)


def _anchors(folder: Path, pages: PageKeys) -> pl.DataFrame:
    """Return page, anchors: texts of more hosts first and repeated; the own host counts once."""
    links = pl.scan_parquet(folder / "*.parquet", glob=True)
    count = links.select(pl.len()).collect().item() if any(folder.iterdir()) else 0
    step = max(1, pages.count * _ANCHORS_AT_ONCE // max(1, count))
    return pl.concat(
        [
            pl.DataFrame(schema={"page": pl.Int32, "anchors": pl.String}),
            *(
                _anchors_of(links, pages.host_key[first : first + step], first)
                for first in range(0, pages.count if count else 0, step)
            ),
        ]
    )


def _anchors_of(links: pl.LazyFrame, host_keys: Keys, first: int) -> pl.DataFrame:
    """Return `_anchors` of the pages from number `first` on. `host_keys`: their hosts."""
    numbers = np.arange(first, first + len(host_keys), dtype=np.int32)
    own = pl.LazyFrame({"page": numbers, "own": host_keys})
    times = pl.min_horizontal(
        pl.lit(MAX_TIMES),
        pl.col("inside").cast(pl.Int32)
        + (2 * (1 + pl.col("hosts") - pl.col("inside")).log(2)).round().cast(pl.Int32),
    )
    texts = (
        links.filter(pl.col("page").is_between(first, first + len(host_keys) - 1))
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
    """Add the generation of the last change of each row; new pages count as changed."""
    if before is None or not before.height or not set(before.columns) >= set(COLUMNS):
        return rows.with_columns(since=pl.lit(generation, pl.Int64))
    place = Lookup(before["url_key"].to_numpy()).find(rows["url_key"].to_numpy())
    old = before[np.maximum(place, 0)]
    same = pl.Series(place >= 0)
    for name in ("prior", "anchors", "copy", "group", "text"):
        same &= rows[name].cast(COLUMNS[name]) == old[name]
    return rows.with_columns(
        since=pl.when(same).then(old["since"]).otherwise(pl.lit(generation, pl.Int64))
    )


def page_rank(edges: Path, nodes: int) -> Floats:
    """Return the rank of each node; their sum is 1.

    `edges`: a file of pairs of int32 (from, to), which may repeat.
    """
    if not nodes:
        return np.zeros(0)
    out = np.zeros(nodes)
    for part in edge_parts(edges):
        out += np.bincount(part[:, 0], minlength=nodes)
    rank = np.full(nodes, 1 / nodes)
    for _ in range(MAX_ROUNDS):
        share = np.divide(rank, out, out=np.zeros(nodes), where=out > 0)
        flow = np.zeros(nodes)
        for part in edge_parts(edges):
            flow += np.bincount(part[:, 1], weights=share[part[:, 0]], minlength=nodes)
        following = DAMPING * (flow + rank[out == 0].sum() / nodes) + (1 - DAMPING) / nodes
        moved = float(np.abs(following - rank).sum())
        rank = following
        if moved < _CONVERGED:
            break
    return rank


def edge_parts(edges: Path) -> Iterator[np.ndarray[tuple[int, int], np.dtype[np.int32]]]:
    """Return the edges in parts of bounded size."""
    if not edges.stat().st_size:
        return
    pairs = np.memmap(edges, dtype=np.int32, mode="r").reshape(-1, 2)
    for start in range(0, len(pairs), _PART):
        yield pairs[start : start + _PART]
