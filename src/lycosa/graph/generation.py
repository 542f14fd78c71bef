"""Generations of data derived from all tables, in `graph/<generation>/`.

A generation is published completely and never changed; `rank` makes a new one (`graph.builder`).

    info.json                  format, and the log entry that it was made from
    duplicates.parquet         copies: partition, host_key, url_key, collection, url, canonical_of
    pages.parquet              link data of each page (`lycosa.graph.ranking`)
    translations-en-de.sqlite  one file per pair of languages, learned from pages in both
                               (`lycosa.translation.training`)
    training.json                digest of the pages that each of them was learned from
                               (`lycosa.translation.training`)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.store.storage.staging import newest_generations, read_info
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT
from lycosa.store.workspace import Workspace
from lycosa.text.digest import text_digest

FOLDER = "graph"
FORMAT = 1
DUPLICATES = "duplicates.parquet"
PAGES = "pages.parquet"
INFO = "info.json"
MAX_GENERATIONS = 2  # that are stored: a reader may have the older one open

DUPLICATE_COLUMNS = (*SORT, "collection", "url", "canonical_of")
"""Columns of the table of copies; `canonical_of`: URL of the page that represents the copy."""
_SAME_TEXT = ("collection", "text_digest")
_DUPLICATE_READ = (*SORT, "collection", "url", "redirect_from", "text_digest")
_FRAME_BYTES = 16 * 2**20


@dataclass(slots=True, frozen=True)
class GraphInfo:
    """The description of a generation.

    `log_entry`: the state of the tables. `made_at` in ms. `changed`: pages whose row changed.
    `translations`: languages with a learned table. `grouped`: near-duplicate pages, in `groups`.
    """

    format: int
    generation: int
    log_entry: int
    duplicates: int
    pages: int = 0
    changed: int = 0
    made_at: int = 0
    translations: int = 0
    grouped: int = 0
    groups: int = 0


def newest(workspace: Workspace) -> tuple[GraphInfo, Path] | None:
    """Return the newest generation and its local folder; None if there is none.

    Raises:
        WorkspaceError: it is damaged, or of an unknown format.
    """
    for _, path in newest_generations(workspace.storage, FOLDER):
        with suppress(FileNotFoundError):  # removed meanwhile
            return read_info(path / INFO, GraphInfo, FORMAT, "run `lycosa rank`"), path
    return None


def current_duplicates(workspace: Workspace) -> pl.DataFrame:
    """Return the duplicates in the newest generation, with the columns of `DUPLICATE_COLUMNS`."""
    latest = newest(workspace)
    if latest is None:
        return no_duplicates()
    return pl.read_parquet(latest[1] / DUPLICATES, columns=list(DUPLICATE_COLUMNS))


@dataclass(slots=True, frozen=True)
class LinkSignals:
    """The link data of some partitions in the newest generation, read on demand."""

    workspace: Workspace
    generation: int
    partitions: range

    def pages(
        self,
        only: pl.Series | None = None,
        *,
        inside: range | None = None,
        since: int = -1,
        columns: Sequence[str] = (),
    ) -> pl.DataFrame:
        """Return rows with the columns of `lycosa.graph.ranking.COLUMNS` or some of them.

        Args:
            only: keys of URLs; None: all pages.
            inside: some of the partitions.
            since: only pages that changed in a later generation.

        Raises:
            WorkspaceError: it is damaged, or of an unknown format.
        """
        return self._read(
            PAGES, only, inside, columns, pl.col("since") > since if since >= 0 else None
        )

    def copies(self, only: pl.Series | None = None, *, inside: range | None = None) -> pl.DataFrame:
        """Return the duplicates with `DUPLICATE_COLUMNS`; arguments as of `pages`."""
        return self._read(DUPLICATES, only, inside, DUPLICATE_COLUMNS, None)

    def _read(
        self,
        name: str,
        only: pl.Series | None,
        inside: range | None,
        columns: Sequence[str],
        condition: pl.Expr | None,
    ) -> pl.DataFrame:
        chosen = inside or self.partitions
        for _ in range(MAX_GENERATIONS + 1):
            # a newer generation may be used: its changes are read again later
            latest = newest(self.workspace)
            if latest is None:
                break
            try:
                rows = pl.scan_parquet(latest[1] / name, glob=False)
                rows = rows.filter(pl.col("partition").is_between(chosen.start, chosen.stop - 1))
                if condition is not None:
                    rows = rows.filter(condition)
                if only is not None:
                    rows = rows.join(only.to_frame("url_key").lazy(), on="url_key", how="semi")
                return (rows.select(columns) if columns else rows).collect(engine="streaming")
            except FileNotFoundError:
                continue  # removed after two further rankings
        raise WorkspaceError(
            f"{self.workspace.root}: the ranking was deleted while the index was "
            "updated: run the update again"
        )


def link_signals_of(workspace: Workspace, partitions: range) -> LinkSignals | None:
    """Return the link data of partitions; None if there is no generation.

    Raises:
        WorkspaceError: it is damaged, or of an unknown format.
    """
    latest = newest(workspace)
    if latest is None or not (latest[1] / PAGES).exists():
        return None
    return LinkSignals(workspace, latest[0].generation, partitions)


def find_duplicates(tables: LiveTables) -> pl.DataFrame:
    """Return the pages that were fetched twice because of redirects, by their text, in the order
    of their keys, with the columns of `DUPLICATE_COLUMNS`.

    A redirect may end at another URL of a known page (a session, a campaign, a mirror). Among pages
    of a collection with the same text, those reached by a redirect are copies of one that was not,
    or else of the one with the shortest URL.

    Memory: 30 bytes for each page that a redirect led to, and the rows of those that share a text
    with one.

    Raises:
        FileNotFoundError: a table's file was deleted some time after a compaction: refresh the
        tables and try again.
    """
    redirected = _collected(
        frame.filter(
            pl.col("redirect_from").is_not_null() & (pl.col("text_digest") != text_digest(""))
        ).select(_SAME_TEXT)
        for frame in tables.ordered("pages", _DUPLICATE_READ, memory_bytes=_FRAME_BYTES)
    )
    if redirected is None:
        return no_duplicates()
    texts = redirected.unique()
    alike = _collected(
        frame.join(texts, on=_SAME_TEXT, how="semi")
        for frame in tables.ordered("pages", _DUPLICATE_READ, memory_bytes=_FRAME_BYTES)
    )
    if alike is None:
        return no_duplicates()
    order = [pl.col("redirect_from").is_not_null(), pl.col("url").str.len_bytes(), pl.col("url")]
    marked = alike.sort(order).with_columns(
        pl.col("url").first().over(_SAME_TEXT).alias("canonical_of")
    )
    copies = marked.filter(
        pl.col("redirect_from").is_not_null() & (pl.col("url") != pl.col("canonical_of"))
    )
    return copies.select(DUPLICATE_COLUMNS).sort([*SORT, "collection"])


def _collected(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    rows = [frame for frame in frames if frame.height]
    return pl.concat(rows) if rows else None


def no_duplicates() -> pl.DataFrame:
    """Return the table of copies without rows."""
    keys = dict(zip(SORT, (pl.UInt16(), pl.UInt64(), pl.UInt64()), strict=True))
    return pl.DataFrame(
        schema={**keys, **{name: pl.String() for name in DUPLICATE_COLUMNS[len(SORT) :]}}
    )
