"""Signals of pages that are not in their `pages` row: media type, declared metadata, links, link
signals.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from lycosa.core.records import FOLLOWED_KINDS
from lycosa.graph.generation import LinkSignals
from lycosa.index.schema import DEFAULT_TYPE, link_key
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables, in_partitions
from lycosa.url.keys import host_key

_FRAME_BYTES = 8 * 2**20
_FOLLOWED = [kind.value for kind in FOLLOWED_KINDS]

_TYPES: Mapping[str, str] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/plain": "txt",
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/epub+zip": "epub",
    "application/rtf": "rtf",
    "text/rtf": "rtf",
    "text/markdown": "md",
    "text/csv": "csv",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/json": "json",
}
_BY_NAME = frozenset(_TYPES.values()) - {"html"}

Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]


class PageSignals:
    """Signals of the pages of a part of an update.

    Memory: 8 bytes per link, 100 per page, and the anchors of its pages.
    """

    def __init__(
        self,
        tables: LiveTables,
        after: int,
        partitions: range | None,
        links: LinkSignals | None,
        only: pl.Series | None = None,
    ) -> None:
        """Read the rows after a log entry; with `only`, all rows of pages with these keys.

        Raises:
            FileNotFoundError, polars.exceptions.PolarsError: a file cannot be read.
        """

        def rows(name: str, columns: tuple[str, ...]) -> Iterator[pl.DataFrame]:
            if only is None:
                return tables.changes(
                    name, after, columns, memory_bytes=_FRAME_BYTES, partitions=partitions
                )
            chosen = tables.all_rows(name).filter(pl.col("url_key").is_in(only.implode()))
            if partitions is not None:
                chosen = chosen.filter(in_partitions(partitions))
            return iter([chosen.select(*columns, ENTRY).collect()])

        sources, self._targets = _links(
            rows("links", ("host_key", "url_key", "target", "kind", "found_at"))
        )
        # bisecting a memoryview takes a fifth of the time of numpy's search
        self._sources = np.ascontiguousarray(sources).data
        self._types = _types(rows("visits", ("url_key", "content_type", "http_status")))
        self._declared = _declared(rows("metadata", ("url_key", "type", "authors")))
        keys = only
        if only is None and after:
            changed = [frame["url_key"] for frame in rows("pages", ("url_key",))]
            keys = (pl.concat(changed) if changed else pl.Series(dtype=pl.UInt64)).unique()
        self._read_graph(links, keys, partitions)

    def links(self, url_key: int) -> Sequence[int]:
        """Return the `link_key`s of the targets of a page."""
        first = bisect_left(self._sources, url_key)
        targets: list[int] = self._targets[
            first : bisect_right(self._sources, url_key, lo=first)
        ].tolist()
        return targets

    def type(self, url_key: int, url: str) -> str:
        """Return the type by the media type of the response, else by the name."""
        return self._types.get(url_key) or type_by_name(url)

    def declared(self, url_key: int) -> tuple[str, Sequence[str]]:
        """Return the declared type and the authors."""
        return self._declared.get(url_key, ("", ()))

    def prior(self, url_key: int) -> float:
        place = self._place(url_key)
        return 1.0 if place < 0 else float(self._prior[place])

    def anchors(self, url_key: int) -> str:
        place = self._place(url_key)
        return "" if place < 0 else str(self._anchors[place])

    def group(self, url_key: int, digest: int) -> int:
        """Return the group of near duplicates; 0: none, or the text has changed since."""
        text, group = self._groups.get(url_key, (0, 0))
        return group if text == digest else 0

    def copied_in(self, url_key: int) -> frozenset[str]:
        """Return the collections in which it is a copy that a redirect led to."""
        return self._copied_in.get(url_key, frozenset())

    def _read_graph(
        self, links: LinkSignals | None, only: pl.Series | None, inside: range | None
    ) -> None:
        self._keys: Keys = np.zeros(0, np.uint64)
        self._copied_in: dict[int, frozenset[str]] = {}
        self._groups: dict[int, tuple[int, int]] = {}
        if links is None:
            return
        rows = links.pages(only, inside=inside).sort("url_key")
        self._keys = rows["url_key"].to_numpy()
        self._prior, self._anchors = rows["prior"].to_numpy(), rows["anchors"]
        grouped = rows.filter(pl.col("group") != 0).select("url_key", "text", "group")
        self._groups = {url_key: (text, group) for url_key, text, group in grouped.iter_rows()}
        copies = links.copies(only, inside=inside)
        for url_key, collection in copies.select("url_key", "collection").iter_rows():
            self._copied_in[url_key] = self.copied_in(url_key) | {collection}

    def _place(self, url_key: int) -> int:
        if not self._keys.size:
            return -1
        key = np.uint64(url_key)
        place = int(np.searchsorted(self._keys, key))
        return place if place < self._keys.size and self._keys[place] == key else -1


def type_by_name(url: str) -> str:
    """Return the type by the file name: `http://h/a.PDF?x` -> `pdf`; others are HTML."""
    name = url.partition("?")[0].rpartition("/")[2]
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    return ending if ending in _BY_NAME else DEFAULT_TYPE


def _links(
    frames: Iterator[pl.DataFrame],
) -> tuple[Keys, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return sorted sources, and for each link a key of its target.

    Links to another host also have a key of the host. Only the newest parse of a source counts.
    """
    parts = []
    for frame in frames:
        followed = frame.filter(pl.col("kind").is_in(_FOLLOWED))
        if not followed.height:
            continue
        targets = followed.select("target").unique()
        # most links of a site lead to the same pages: hash each once
        texts = targets["target"].to_list()
        hosts = [text.partition("://")[2].partition("/")[0] for text in texts]
        names = {host: _without_port(host) for host in set(hosts)}
        keys_of = {host: (host_key(name), link_key(f"//{name}")) for host, name in names.items()}
        targets = targets.with_columns(
            page=pl.Series([link_key(text) for text in texts], dtype=pl.Int64),
            target_host=pl.Series([keys_of[host][0] for host in hosts], dtype=pl.UInt64),
            site=pl.Series([keys_of[host][1] for host in hosts], dtype=pl.Int64),
        )
        joined = followed.join(targets, on="target", how="left")
        parse = ("url_key", ENTRY, "found_at")
        pages = joined.select(*parse, key="page")
        sites = joined.filter(pl.col("target_host") != pl.col("host_key")).select(
            *parse, key="site"
        )
        parts.append(pl.concat([pages, sites]).unique())
    if not parts:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    rows = pl.concat(parts)
    for stamp in (ENTRY, "found_at"):
        rows = rows.filter(pl.col(stamp) == pl.col(stamp).max().over("url_key"))
    rows = rows.sort("url_key")
    return rows["url_key"].to_numpy(), rows["key"].to_numpy()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _declared(frames: Iterator[pl.DataFrame]) -> dict[int, tuple[str, Sequence[str]]]:
    """Return the declared type and the authors of pages that have one of them, by key."""
    declared: dict[int, tuple[str, Sequence[str]]] = {}
    for frame in frames:
        columns = frame.select("url_key", "type", "authors").iter_rows()
        declared.update((url_key, (kind, authors)) for url_key, kind, authors in columns)
    return {key: values for key, values in declared.items() if values[0] or values[1]}


def _types(frames: Iterator[pl.DataFrame]) -> dict[int, str]:
    """Return the media types of responses, by key."""
    types: dict[int, str] = {}
    for frame in frames:
        rows = frame.filter(
            (pl.col("http_status") == 200) & pl.col("content_type").is_in(list(_TYPES))
        ).select("url_key", "content_type")
        types.update((url_key, _TYPES[content_type]) for url_key, content_type in rows.iter_rows())
    return types
