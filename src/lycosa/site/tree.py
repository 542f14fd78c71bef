"""A site as folders: what lies below each path."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(slots=True, frozen=True)
class Folder:
    """A folder by the paths of URLs. `pages` and `bytes` of all that lie in and below it,
    `own_pages` right in it; `broken`: URLs below without a good answer. `level` counts from 0, the
    site's root.
    """

    path: str
    level: int
    pages: int
    own_pages: int
    bytes: int
    broken: int


def tree(nodes: pl.DataFrame) -> list[Folder]:
    """All folders, each before those in it, by path. Schemes and ports are not told apart.

    `nodes`: url, is_page, size, verdict. Memory: the folders, and one row a URL for each level.
    """
    path = (
        pl.col("url")
        .str.replace(r"^[a-z]+://[^/?]*", "")
        .str.replace(r"\?.*$", "")
        .str.replace(r"[^/]*$", "")
    )
    rows = nodes.select(
        folder=pl.when(path == "").then(pl.lit("/")).otherwise(path),
        page=pl.col("is_page").cast(pl.Int64),
        bytes=pl.when("is_page").then(pl.col("size").fill_null(0)).otherwise(0),
        bad=(pl.col("verdict") != "").cast(pl.Int64),
    )
    own = rows.group_by("folder").agg(
        pl.col("page").sum(), pl.col("bytes").sum(), pl.col("bad").sum()
    )
    sums: dict[str, list[int]] = {}
    for folder, pages, size, bad in own.iter_rows():
        above = folder
        while True:
            total = sums.setdefault(above, [0, 0, 0, 0])
            total[0] += pages
            total[2] += size
            total[3] += bad
            if above == "/":
                break
            above = above[: above.rstrip("/").rfind("/") + 1] or "/"
        sums[folder][1] += pages
    ordered = sorted(sums.items(), key=lambda item: item[0].split("/"))
    return [
        Folder(path, path.count("/") - 1, pages, own_pages, size, bad)
        for path, (pages, own_pages, size, bad) in ordered
    ]
