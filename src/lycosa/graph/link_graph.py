"""The links between stored pages: edges and anchor texts in files, with bounded memory.

A link to a redirect counts for the page at its end. Links with rel nofollow, ugc or sponsored are
ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from lycosa.core.records import FOLLOWED_KINDS, LinkKind
from lycosa.store.tables.files import writing
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT

Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]
Places = np.ndarray[tuple[int], np.dtype[np.int64]]

MAX_ANCHOR = 120  # characters of an anchor text
_MAX_HOPS = 5  # of redirects
_FRAME_BYTES = 48 * 2**20  # 76 overlapping files merge four times as fast as with 16 MiB
_GROUP_ROWS = 8_192  # of a file of anchors: a range of pages is read without the others
_DISOWNED = r"\b(?:nofollow|ugc|sponsored)\b"
_FOLLOWED = [kind.value for kind in FOLLOWED_KINDS]


@dataclass(slots=True, frozen=True)
class PageKeys:
    """The stored pages, each once, in the order of their keys. 27 bytes a page."""

    partition: np.ndarray[tuple[int], np.dtype[np.uint16]]
    host_key: Keys
    url_key: Keys
    text_hash: Keys  # of the URL as polars hashes it: links name their target by its text

    @property
    def count(self) -> int:
        return int(self.url_key.size)


class Lookup:
    """Finds the positions of keys in an array of distinct keys."""

    def __init__(self, keys: Keys) -> None:
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]

    def find(self, keys: Keys) -> Places:
        """Return the positions; -1 for absent keys."""
        if not self._sorted.size:
            return np.full(keys.size, -1, np.int64)
        place = np.minimum(np.searchsorted(self._sorted, keys), self._sorted.size - 1)
        return np.where(self._sorted[place] == keys, self._order[place], -1)


class RedirectMap:
    """The targets of redirects, by the hashes of URLs. 16 bytes a redirect."""

    def __init__(self, sources: Keys, targets: Keys, *, max_hops: int) -> None:
        """`sources`: hashes of the redirecting URLs, distinct."""
        self._targets = targets
        self._lookup = Lookup(sources)
        self._max_hops = max_hops

    def ends(self, urls: Keys) -> Keys:
        """Return the end of each URL's redirects; in a loop, a URL of the loop."""
        if not self._targets.size:
            return urls
        for _ in range(self._max_hops):
            place = self._lookup.find(urls)
            if (place < 0).all():
                break
            urls = np.where(place >= 0, self._targets[place], urls)
        return urls


def stored_pages(tables: LiveTables) -> PageKeys:
    """Return all pages of all collections. Raises the same errors as `LiveTables.ordered`."""
    frames = [
        frame.unique(["host_key", "url_key"], keep="first", maintain_order=True).select(
            *SORT, text_hash=pl.col("url").hash()
        )
        for frame in tables.ordered("pages", (*SORT, "url"), memory_bytes=_FRAME_BYTES)
    ]
    if not frames:
        nothing = np.zeros(0, np.uint64)
        return PageKeys(np.zeros(0, np.uint16), nothing, nothing, nothing)
    rows = pl.concat(frames)
    return PageKeys(
        *(rows[name].to_numpy() for name in ("partition", "host_key", "url_key", "text_hash"))
    )


@dataclass(slots=True, frozen=True)
class Linked:
    """`edges`: a file of pairs of int32 (from, to), places of pages; `anchors`: a folder of Parquet
    files of page, host_key, anchor, sorted by page; each triple about once.
    """

    edges: Path
    anchors: Path


def gather(tables: LiveTables, pages: PageKeys, folder: Path) -> Linked:
    """Write the links between pages to files. Raises the same errors as `LiveTables.ordered`."""
    edges, anchors = folder / "edges", folder / "anchors"
    anchors.mkdir()
    redirects = _redirects(tables)
    by_text, by_key = Lookup(pages.text_hash), Lookup(pages.url_key)
    with edges.open("wb") as file:
        for number, frame in enumerate(_links(tables)):
            source = by_key.find(frame["url_key"].to_numpy())
            target = by_text.find(redirects.ends(frame["target"].hash().to_numpy()))
            internal = (source >= 0) & (target >= 0) & (source != target)
            links = frame.select(
                "host_key", anchor=pl.col("anchor").str.slice(0, MAX_ANCHOR).str.strip_chars()
            ).with_columns(
                page=pl.Series(target.astype(np.int32)), source=pl.Series(source.astype(np.int32))
            )
            links = links.filter(pl.Series(internal))
            pairs = links.select("source", "page").unique(maintain_order=True)
            file.write(
                np.stack([pairs["source"].to_numpy(), pairs["page"].to_numpy()], axis=1).tobytes()
            )
            anchors_of_links = (
                links.filter(pl.col("anchor") != "")
                .select("page", "host_key", "anchor")
                .unique()
                .sort("page")
            )
            if anchors_of_links.height:
                with writing(path := anchors / f"{number:06d}.parquet"):
                    anchors_of_links.write_parquet(
                        path, compression="zstd", row_group_size=_GROUP_ROWS
                    )
    return Linked(edges, anchors)


def _redirects(tables: LiveTables) -> RedirectMap:
    """Return all redirects, by hashes of the text of URLs."""
    hops = (
        tables.scan("links")
        .filter(pl.col("kind") == LinkKind.REDIRECT.value)
        .select(source=pl.col("source").hash(), target=pl.col("target").hash())
        .collect(engine="streaming")
        .sort("source", "target")
        .unique("source", keep="last", maintain_order=True)
    )
    return RedirectMap(hops["source"].to_numpy(), hops["target"].to_numpy(), max_hops=_MAX_HOPS)


def _links(tables: LiveTables) -> Iterator[pl.DataFrame]:
    columns = ("host_key", "url_key", "target", "anchor", "rel", "kind")
    for frame in tables.ordered("links", columns, memory_bytes=_FRAME_BYTES):
        followed = frame.filter(
            pl.col("kind").is_in(_FOLLOWED) & ~pl.col("rel").str.contains(_DISOWNED)
        )
        if followed.height:
            yield followed
