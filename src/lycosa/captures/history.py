"""Counts of visits over time, for a chart."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lycosa.core.records import VisitKind
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_MINUTES = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720),
    *(1_440, 2_880, 10_080, 20_160, 43_200, 129_600, 525_600),
)
STEPS_MS = tuple(minutes * 60_000 for minutes in _MINUTES)
"""Interval lengths: minutes, hours, days, weeks, a month, a quarter, a year."""


@dataclass(slots=True, frozen=True)
class Bucket:
    """The visits of one interval from `at_ms` (since 1970). `pages` are responses with a page or
    document, `errors` failures and responses with status 4xx or 5xx.
    """

    at_ms: int
    visits: int
    pages: int
    errors: int
    bytes: int


@dataclass(slots=True, frozen=True)
class History:
    """Consecutive intervals of equal length; the last one contains the newest visit."""

    step_ms: int
    buckets: list[Bucket]


def visits_over_time(root: str, most: int = 60, host: str = "", collection: str = "") -> History:
    """Count the visits of a workspace, host or collection in at most `most` intervals, without
    availability checks.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    visits = (
        LiveTables(Workspace.open(root))
        .scan("visits")
        .filter(pl.col("kind") != VisitKind.CHECK.value)
    )
    if host:
        visits = visits.filter(pl.col("host") == host)
    if collection:
        visits = visits.filter(pl.col("collection") == collection)
    at = pl.col("fetched_at").dt.epoch("ms")
    first, last = visits.select(at.min().alias("first"), at.max().alias("last")).collect().row(0)
    if first is None:
        return History(STEPS_MS[0], [])
    step = next(
        (step for step in STEPS_MS if last // step - first // step < most),
        (last - first) // (most - 1) + 1,
    )
    failed = (pl.col("error") != "") | (pl.col("http_status") >= 400)
    page = (
        pl.col("http_status").is_between(200, 299)
        & (pl.col("error") == "")
        & (pl.col("redirect_to") == "")
    )
    counted = (
        visits.group_by((at // step).alias("bucket"))
        .agg(
            pl.len().alias("visits"),
            (page & pl.col("kind").is_in([VisitKind.PAGE.value, VisitKind.DOCUMENT.value]))
            .sum()
            .alias("pages"),
            failed.sum().alias("errors"),
            pl.col("content_length").fill_null(0).clip(lower_bound=0).sum().alias("bytes"),
        )
        .collect()
    )
    counts = {row[0]: row[1:] for row in counted.iter_rows()}
    numbers = range(first // step, last // step + 1)
    return History(
        step, [Bucket(number * step, *counts.get(number, (0, 0, 0, 0))) for number in numbers]
    )
