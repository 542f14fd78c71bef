"""Apply changed table rows to an index that is being built.

Rows of `pages` become documents that replace the document of their URL. Then URLs whose live row of
`urls` is gone or excluded, or redirects, lose theirs. Applying a row twice changes nothing. A URL
in several collections is one document that names all of them.

Memory is bounded: tables are read by groups of partitions with at most `PART_ROWS` pages, and their
texts in batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

import polars as pl
import polars.selectors as cs

from lycosa.graph.generation import LinkSignals
from lycosa.index.builder import IndexBuilder
from lycosa.index.page_signals import PageSignals
from lycosa.index.schema import IndexedPage, outside
from lycosa.page.metadata.entities import type_names
from lycosa.store.tables.live import LiveTables, in_partitions
from lycosa.store.tables.visible import is_removed
from lycosa.text.fold import name_words
from lycosa.url.scope import hostname

BATCH_BYTES = 12 * 2**20  # rows that are read at once
BATCH_ROWS = 500
OBJECT_ROWS = 50  # of them as Python objects
PART_ROWS = 100_000  # pages whose links are in memory at once, about 40 MB
REREAD_ROWS = 5_000  # pages that are read again at once
_KEYS = pl.Schema({"url_key": pl.UInt64})


class PageRow(NamedTuple):
    """A row of `pages`, times in ms, with the log entry of its commit."""

    url_key: int
    url: str
    collection: str
    fetched_at: int
    title: str
    headline: str
    description: str
    headings: list[str]
    main_text: str
    main_lines: list[int]
    text: str
    language: str
    published_at: int | None
    may_index: bool
    text_digest: int
    language_share: float
    page_type: str
    entry: int


_COLUMNS = PageRow._fields[:-1]


class IndexUpdate:
    """One update of an index.

    Args:
        partitions: partitions of the shard.
        whole: whether these are all partitions of the workspace.
        links: link signals of the pages; None: none.
        collections: collections of the index so far.
    """

    def __init__(
        self,
        tables: LiveTables,
        builder: IndexBuilder,
        partitions: range,
        links: LinkSignals | None,
        collections: set[str],
        *,
        whole: bool,
    ) -> None:
        self._tables = tables
        self._builder = builder
        self._partitions = partitions
        self._only = None if whole else partitions
        self._links = links
        self._collections = collections
        self.put = 0
        self.removed = 0

    def apply(self, after: int, reread: pl.Series) -> None:
        """Apply the rows after a log entry, then read pages with these keys again."""
        for names in self._tables.changes("pages", after, ["collection"], partitions=self._only):
            # before any page: rows of a URL may be in several frames
            self._collections.update(names["collection"].unique())
        for partitions in self._parts(after):
            self._apply_pages(after, partitions)
        self._builder.commit()
        remaining = self._apply_removals(after)
        self._reread(pl.concat([reread, remaining]).unique())
        self._builder.commit()

    def _apply_pages(self, after: int, partitions: range | None) -> None:
        tables = self._tables
        signals = PageSignals(tables, after, partitions, self._links)
        repeated = _repeated(tables, after, partitions)
        uncommitted: dict[int, set[str]] = {}  # collections of repeated URLs
        for frame in tables.changes(
            "pages", after, _COLUMNS, memory_bytes=BATCH_BYTES, partitions=partitions
        ):
            # files are sorted by key: rows of one URL are adjacent within a frame
            for url_key, group in itertools.groupby(_rows(frame), key=attrgetter("url_key")):
                rows = list(group)
                row = max(rows, key=attrgetter("entry", "fetched_at"))
                collections = {other.collection for other in rows}
                if row.may_index and len(self._collections) > 1:
                    earlier = uncommitted.get(url_key)
                    if earlier is None:
                        earlier = set(self._builder.collections(url_key) or ())
                    collections |= earlier
                first = url_key not in repeated
                left = self._put(row, collections, signals, first=first)
                if not first:
                    uncommitted[url_key] = left

    def _put(
        self, row: PageRow, collections: set[str], signals: PageSignals, *, first: bool = False
    ) -> set[str]:
        """Index a page, or remove it if it may not be indexed. Return its collections then.

        A copy that a redirect led to is not in the collection. `first` as in `IndexBuilder.put`.
        """
        left = collections - signals.copied_in(row.url_key) if row.may_index else set[str]()
        if left:
            self._builder.put(_indexed_page(row, sorted(left), signals), first=first)
            self.put += 1
        else:
            self._builder.remove(row.url_key, first=first)
            self.removed += 1
        return left

    def _apply_removals(self, after: int) -> pl.Series:
        """Remove the documents of gone URLs. Return those that another collection still has."""
        remaining: list[int] = []
        for partitions in self._parts(after):
            for url_key, gone in (
                removed_pages(self._tables, after, partitions)
                .group_by("url_key", maintain_order=True)
                .agg("collection")
                .iter_rows()
            ):
                if len(self._collections) > 1:
                    held = set(self._builder.collections(url_key) or ())
                    if held.difference(gone):
                        remaining.append(url_key)
                        continue
                self._builder.remove(url_key)
                self.removed += 1
        return pl.Series("url_key", remaining, dtype=pl.UInt64)

    def _reread(self, keys: pl.Series) -> None:
        """Index pages with these keys as the tables have them now."""
        if keys.is_empty():
            return
        for partitions in self._parts(0):
            pages = _inside(self._tables.all_rows("pages"), partitions)
            changed = pages.filter(pl.col("url_key").is_in(keys.implode()))
            part = changed.select(pl.col("url_key").unique().sort()).collect()["url_key"]
            if part.is_empty():
                continue
            signals = PageSignals(self._tables, 0, partitions, self._links, part)
            gone = set(_removed(self._tables, part, partitions).iter_rows())
            for start in range(0, len(part), REREAD_ROWS):
                batch = part.slice(start, REREAD_ROWS)
                live = (
                    pages.filter(pl.col("url_key").is_in(batch.implode()))
                    .select(*PageRow._fields)
                    .unique(["collection", "url_key"], keep="last", maintain_order=True)
                    .sort("url_key", maintain_order=True)
                    .collect()
                )
                for url_key, group in itertools.groupby(_rows(live), key=attrgetter("url_key")):
                    rows = [row for row in group if (url_key, row.collection) not in gone]
                    if rows:
                        newest = max(rows, key=attrgetter("entry", "fetched_at"))
                        self._put(newest, {row.collection for row in rows}, signals)
                    else:
                        self._builder.remove(url_key)
                        self.removed += 1

    def _parts(self, after: int) -> list[range | None]:
        """Return the groups of partitions to read one by one; [None]: everything at once."""
        files = self._tables.state.files.get("pages", [])
        rows = sum(file.rows for file in files if file.entry > after)
        count = min(-(-rows // PART_ROWS), len(self._partitions))
        if count <= 1:
            return [self._only]
        first, total = self._partitions.start, len(self._partitions)
        return [
            range(first + number * total // count, first + (number + 1) * total // count)
            for number in range(count)
        ]


def removed_pages(tables: LiveTables, after: int, partitions: range | None) -> pl.DataFrame:
    """Return url_key and collection of pages that were removed after a log entry, and still are."""
    columns = ("url_key", "collection", "operation", "state", "reason")
    parts = [
        frame.filter(is_removed()).select("url_key")
        for frame in tables.changes("urls", after, columns, partitions=partitions)
    ]
    keys = pl.concat([pl.DataFrame(schema=_KEYS), *parts])["url_key"].unique()
    return _removed(tables, keys, partitions)


def _removed(tables: LiveTables, keys: pl.Series, partitions: range | None) -> pl.DataFrame:
    """Return url_key and collection, sorted, of the live rows of these URLs that are removed."""
    if keys.is_empty():
        return pl.DataFrame(schema=_KEYS | {"collection": pl.String()})
    rows = _inside(tables.all_rows("urls"), partitions)
    return (
        rows.filter(pl.col("url_key").is_in(keys.implode()) & (pl.col("operation") == ""))
        .select("url_key", "collection", "operation", "state", "reason", "entry")
        .sort("entry", maintain_order=True)
        .unique(subset=["url_key", "collection"], keep="last", maintain_order=True)
        .filter(is_removed())
        .select("url_key", "collection")
        .sort("url_key", "collection")
        .collect()
    )


def _inside(rows: pl.LazyFrame, partitions: range | None) -> pl.LazyFrame:
    return rows if partitions is None else rows.filter(in_partitions(partitions))


def _rows(frame: pl.DataFrame) -> Iterator[PageRow]:
    """Yield rows, few as Python objects at a time."""
    for batch in frame.iter_slices(BATCH_ROWS):
        rows = batch.with_columns(cs.datetime().dt.epoch("ms"))
        yield from map(PageRow._make, rows.iter_rows(buffer_size=OBJECT_ROWS))


def _repeated(tables: LiveTables, after: int, partitions: range | None) -> set[int]:
    """Return the keys with several rows of pages after a log entry."""
    frames = tables.changes("pages", after, ("url_key",), partitions=partitions)
    keys = pl.concat([pl.DataFrame(schema=_KEYS), *(frame.select("url_key") for frame in frames)])
    return set(keys["url_key"].filter(keys["url_key"].is_duplicated()).to_list())


def _indexed_page(row: PageRow, collections: list[str], signals: PageSignals) -> IndexedPage:
    declared, authors = signals.declared(row.url_key)
    return IndexedPage(
        url=row.url,
        host=hostname(row.url),
        url_key=row.url_key,
        collections=collections,
        title=row.title or row.headline,
        description=row.description,
        headings=row.headings,
        body=row.main_text,
        full=outside(row.text, row.main_text, row.main_lines),
        language=row.language,
        fetched_at=row.fetched_at,
        published_at=row.published_at,
        type=signals.type(row.url_key, row.url),
        links=signals.links(row.url_key),
        anchors=signals.anchors(row.url_key),
        prior=signals.prior(row.url_key),
        group=signals.group(row.url_key, row.text_digest) or text_group(row.text, row.text_digest),
        language_share=row.language_share,
        kinds=type_names(declared, row.page_type),
        authors=[word for author in authors for word in name_words(author)],
    )


def text_group(text: str, digest: int) -> int:
    """Return the group of pages with the same text; 0 for pages without text."""
    return digest - 2**63 if text and digest else 0
