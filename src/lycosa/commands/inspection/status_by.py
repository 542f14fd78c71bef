"""`status --by`: counts by language, collection, type or host.

Counts are exact, and memory is bounded. They are computed from the live tables in the order of
their keys. Only live pages are counted. A fetch is a page visit with a complete response (2xx, no
redirect) of a live page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal, cast

import polars as pl

from lycosa.commands.models import GroupHost, GroupRow, GroupTable
from lycosa.config.settings import Config
from lycosa.core.dataclass import list_lengths
from lycosa.core.errors import UsageError
from lycosa.core.records import VisitKind
from lycosa.export.bulk.join import side_by_side
from lycosa.export.library.editions import IDENTITY, UNKNOWN, library_languages
from lycosa.store.tables.live import LiveTables, retried
from lycosa.store.tables.schema import SORT
from lycosa.store.workspace import Workspace

By = Literal["language", "collection", "type", "host"]
WAYS: tuple[By, ...] = ("language", "collection", "type", "host")

_HOST = r"^[a-z]+://([^/?#]*)"
_PAGES = (*SORT, "collection", "url", "language", "fetched_at", "size", "record_id")
_VISITS = (
    *SORT,
    "collection",
    "kind",
    "http_status",
    "redirect_to",
    "fetched_at",
    "content_length",
    "content_type",
    "record_id",
)
_FRAME_BYTES = 12 * 2**20
_READ = [VisitKind.PAGE.value, VisitKind.DOCUMENT.value]

_PERIOD = (pl.col("first").min(), pl.col("newest").max())
_STORED = (pl.col("pages", "bytes").sum(), *_PERIOD)
_SUMMED = (*_STORED, pl.col("host_key").n_unique().alias("sites"))
_VISITED = (pl.col("fetched", "fetched_bytes").sum(), *_PERIOD)
_MAX_WAITING = 200_000  # rows of parts before they are aggregated


def groups_of(workspace: Workspace, by: By, config: Config, *, sites: bool = False) -> GroupTable:
    """Return the table by language, collection or type.

    Of a type, `pages` are live pages of that type; its other responses count as fetched.

    Raises:
        WorkspaceError: the log is damaged.
        FileNotFoundError: compaction removed a file of a table: call again.
    """
    state = workspace.state()
    tables = LiveTables(workspace, state)
    languages = library_languages(config, state)
    held = Tally(["name", "host_key"], [*_STORED, pl.col("host").first()])
    fetched = Tally(["name"], _VISITED)
    for pages, visits in _ranges(tables):
        named = _named(pages, visits, by, languages)
        if named.height:
            held.add(
                named.group_by("name", "host_key").agg(
                    pl.len().cast(pl.Int64).alias("pages"),
                    pl.col("size").sum().alias("bytes"),
                    pl.col("fetched_at").min().alias("first"),
                    pl.col("fetched_at").max().alias("newest"),
                    pl.col("url")
                    .first()
                    .str.extract(_HOST, 1)
                    .str.replace(r":\d+$", "")
                    .alias("host"),
                )
            )
        if visits.height:
            fetched.add(_fetched(named, visits, by))
    return _table(by, held.result(), fetched.result(), sites=sites)


def read_groups(root: str, config: Config, by: str, *, sites: bool = False) -> GroupTable:
    """Return the table by language, collection or type.

    Compaction may replace table files at the same time.

    Raises:
        UsageError: there is no such table.
        WorkError: table files were replaced repeatedly while they were read.
    """
    if by not in ("language", "collection", "type"):
        raise UsageError(f"--by {by!r}: choose {', '.join(WAYS)}")
    workspace = Workspace.open(root)
    return retried(lambda: groups_of(workspace, cast("By", by), config, sites=sites))


def _ranges(tables: LiveTables) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    whole = (
        pl.col("http_status").is_between(200, 299)
        & (pl.col("redirect_to") == "")
        & pl.col("kind").is_in(_READ)
    )
    pages = tables.ordered("pages", _PAGES, memory_bytes=_FRAME_BYTES)
    visits = (
        frame.filter(whole)
        for frame in tables.ordered("visits", _VISITS, memory_bytes=_FRAME_BYTES)
    )
    for rows in side_by_side([pages, (frame for frame in visits if frame.height)]):
        yield rows[0], rows[1]


def _named(
    pages: pl.DataFrame, visits: pl.DataFrame, by: By, languages: Mapping[str, str]
) -> pl.DataFrame:
    """Return the pages with the `name` of their group."""
    if not pages.height:
        return pages
    if by == "collection":
        return pages.with_columns(pl.col("collection").alias("name"))
    if by == "language":
        language = pl.col("collection").replace_strict(
            dict(languages), default="", return_dtype=pl.String
        )
        name = pl.coalesce(
            *(pl.when(each != "").then(each) for each in (language, pl.col("language"))),
            pl.lit(UNKNOWN),
        )
        return pages.with_columns(name.alias("name"))
    if not visits.height:
        return pages.with_columns(pl.lit("").alias("name"))
    types = visits.select(*IDENTITY, "record_id", pl.col("content_type").alias("name")).unique(
        [*IDENTITY, "record_id"], keep="last"
    )
    return pages.join(types, on=[*IDENTITY, "record_id"], how="left").with_columns(
        pl.col("name").fill_null("")
    )


def _fetched(pages: pl.DataFrame, visits: pl.DataFrame, by: By) -> pl.DataFrame:
    """Return the number, bytes and first and last time of the fetches by name."""
    if by == "type":
        rows = visits.with_columns(pl.col("content_type").alias("name"))
    elif pages.height:
        rows = visits.join(pages.select(*IDENTITY, "name"), on=IDENTITY)
    else:
        return pl.DataFrame()
    return rows.group_by("name").agg(
        pl.len().cast(pl.Int64).alias("fetched"),
        pl.col("content_length").sum().alias("fetched_bytes"),
        pl.col("fetched_at").min().alias("first"),
        pl.col("fetched_at").max().alias("newest"),
    )


def _table(
    by: By, held: pl.DataFrame | None, fetched: pl.DataFrame | None, *, sites: bool
) -> GroupTable:
    pages = (
        {}
        if held is None
        else {row["name"]: row for row in held.group_by("name").agg(*_SUMMED).iter_rows(named=True)}
    )
    visits = {} if fetched is None else {row["name"]: row for row in fetched.iter_rows(named=True)}
    rows = [_group(name, pages.get(name, {}), visits.get(name, {})) for name in {*pages, *visits}]
    everything = {} if held is None else held.select(*_SUMMED).row(0, named=True)
    every_visit = {} if fetched is None else fetched.select(*_VISITED).row(0, named=True)
    listed = []
    if sites and held is not None:
        shown = held.sort(["name", "pages", "host"], descending=[False, True, False])
        listed = [
            GroupHost(*row)
            for row in shown.select("name", "host", "pages", "bytes", "newest").iter_rows()
        ]
    rows.sort(key=lambda row: (-row.pages, -row.fetched, row.name))
    table = GroupTable(by, rows, _group("", everything, every_visit), listed)
    return replace(table, totals=list_lengths(table))


def _group(name: str, pages: Mapping[str, object], visits: Mapping[str, object]) -> GroupRow:
    times = [
        at
        for row in (pages, visits)
        for at in (row.get("first"), row.get("newest"))
        if isinstance(at, datetime)
    ]
    first, newest = (min(times), max(times)) if times else (None, None)
    days = (
        (newest.date() - first.date()).days + 1 if first is not None and newest is not None else 0
    )
    fetched, size = _number(visits, "fetched"), _number(visits, "fetched_bytes")
    per_day = max(days, 1)
    return GroupRow(
        name,
        _number(pages, "pages"),
        _number(pages, "sites"),
        _number(pages, "bytes"),
        first,
        newest,
        days,
        fetched,
        size,
        round(fetched / per_day, 1),
        round(size / per_day, 1),
    )


def _number(row: Mapping[str, object], name: str) -> int:
    value = row.get(name, 0)
    return value if isinstance(value, int) else 0


class Tally:
    """Aggregates parts by `keys`. Parts have the keys and the columns of the `sums`."""

    def __init__(self, keys: Sequence[str], sums: Sequence[pl.Expr]) -> None:
        self._keys, self._sums = keys, sums
        self._parts: list[pl.DataFrame] = []
        self._waiting = 0

    def add(self, part: pl.DataFrame) -> None:
        """Add one part; several of its rows may have the same keys."""
        if part.height:
            self._parts.append(part)
            self._waiting += part.height
            if self._waiting > _MAX_WAITING:
                self._parts = [self._added()]
                self._waiting = 0

    def result(self) -> pl.DataFrame | None:
        """Return one row per key, in the order of the keys; None without rows."""
        return self._added().sort(self._keys) if self._parts else None

    def _added(self) -> pl.DataFrame:
        return pl.concat(self._parts, how="vertical_relaxed").group_by(self._keys).agg(self._sums)
