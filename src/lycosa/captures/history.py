"""What was fetched when: counts of visits over time, for a picture."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lycosa.core.records import VisitKind
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_MINUTE = 60_000
STEPS_MS = tuple(
    minutes * _MINUTE
    for minutes in (
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        180,
        360,
        720,
        1_440,
        2_880,
        10_080,
        20_160,
        43_200,
        129_600,
        525_600,
    )
)
"""Interval lengths: minutes, hours, days, weeks, a month, a quarter, a year."""


@dataclass(slots=True, frozen=True)
class Bucket:
    """What was fetched from `at_ms` (since 1970) on, for the history's `step_ms`. `pages` are
    answers with a page's text in them, `errors` fetches that gave no whole answer or one of 4xx and
    5xx.
    """

    at_ms: int
    visits: int
    pages: int
    errors: int
    bytes: int


@dataclass(slots=True, frozen=True)
class History:
    """Equal steps of time without a gap, the last one that of the newest visit."""

    step_ms: int
    buckets: list[Bucket]


def visits_over_time(root: str, most: int = 60, host: str = "", collection: str = "") -> History:
    """The visits of a workspace, or of one host or collection of it, in at most `most` steps.
    Checks are left out (`lycosa monitor` tells of those).

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
    found = {row[0]: row[1:] for row in counted.iter_rows()}
    numbers = range(first // step, last // step + 1)
    return History(
        step, [Bucket(number * step, *found.get(number, (0, 0, 0, 0))) for number in numbers]
    )
