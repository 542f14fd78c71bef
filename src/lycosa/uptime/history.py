"""What the tables say of checks: runs of equal ones, outages as intervals, and how a monitor stood
at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lycosa.config.monitor import Monitor
from lycosa.core.records import VisitKind
from lycosa.store.tables.live import LiveTables
from lycosa.uptime.outages import HOLD_MS, authority
from lycosa.uptime.state import Change, Standing
from lycosa.uptime.verdict import OF_NETWORK, UP
from lycosa.url.keys import url_key

MAX_CONFIRM = 10
DEFAULT_CONFIRM = 3
"""For what is no longer watched."""

_MAX_WINDOWS = 100
_STATES = ("url", "fetched_at", "verdict", "http_status", "error", "ip")


@dataclass(slots=True, frozen=True)
class Interval:
    """An outage. `until` 0: it goes on; `offline`: our own network was down, as far as the other
    monitors tell. Times in ms since 1970.
    """

    url: str
    since: int
    until: int
    cause: str
    text: str
    checks: int
    offline: bool = False


@dataclass(slots=True, frozen=True)
class _Run:
    """Neighbouring checks of one URL that all went well, or all failed. `times`: when the first few
    began.
    """

    url: str
    first: int
    last: int
    count: int
    verdict: str
    http_status: int
    error: str
    times: Sequence[int]


def checks(tables: LiveTables, urls: Iterable[str] | None, since_ms: int) -> pl.LazyFrame:
    """The checks since a time, of these URLs or of all."""
    at = pl.col("fetched_at") >= pl.lit(since_ms).cast(pl.Datetime("ms", "UTC"))
    rows = tables.scan("visits").filter((pl.col("kind") == VisitKind.CHECK.value) & at)
    if urls is None:
        return rows
    wanted = list(urls)
    keys = pl.Series([url_key(url) for url in wanted], dtype=pl.UInt64)
    return rows.filter(pl.col("url_key").is_in(keys.implode()) & pl.col("url").is_in(wanted))


def runs(rows: pl.LazyFrame) -> dict[str, list[_Run]]:
    """The runs of each URL, in order of time."""
    well = pl.col("verdict") == UP
    at = pl.col("fetched_at").dt.epoch("ms")
    ordered = (
        rows.select(_STATES)
        .sort("url", "fetched_at")
        .with_columns(at=at, run=pl.struct("url", well.alias("well")).rle_id())
    )
    grouped = ordered.group_by("run", maintain_order=True).agg(
        pl.col("url").first(),
        pl.col("at").first().alias("first"),
        pl.col("at").last().alias("last"),
        pl.len().alias("count"),
        pl.col("verdict").first(),
        pl.col("http_status").first(),
        pl.col("error").first(),
        pl.col("at").head(MAX_CONFIRM + 1).alias("times"),
    )
    found: dict[str, list[_Run]] = {}
    for row in grouped.drop("run").collect().iter_rows():
        found.setdefault(row[0], []).append(_Run(*row))
    return found


def outages(
    history: Mapping[str, Sequence[_Run]], monitors: Mapping[str, Monitor]
) -> list[tuple[Interval, int]]:
    """Outages with the time at which each was confirmed, in order of their beginning."""
    found: list[tuple[Interval, int]] = []
    for url, its in history.items():
        standing, confirmed_at, failed = Standing(), 0, 0
        confirm = monitors[url].confirm if url in monitors else DEFAULT_CONFIRM
        for run in its:
            since, cause, text = standing.since, standing.cause, standing.text
            change = _take(standing, run, confirm)
            failed += run.count if run.verdict != UP else 0
            if change is Change.DOWN:
                confirmed_at = run.times[min(confirm, len(run.times) - 1)]
            elif change is Change.UP:
                found.append(
                    (Interval(url, since, standing.up_at, cause, text, failed), confirmed_at)
                )
            if not standing.down:
                failed = 0
        if standing.down:
            found.append(
                (
                    Interval(url, standing.since, 0, standing.cause, standing.text, failed),
                    confirmed_at,
                )
            )
    return sorted(found, key=lambda entry: (entry[0].since, entry[0].url))


def with_blame(tables: LiveTables, found: Sequence[tuple[Interval, int]]) -> list[Interval]:
    """The outages, with those marked at whose beginning nothing that is watched elsewhere answered:
    our own network was down.
    """
    doubtful = [entry for entry in found if entry[0].cause in OF_NETWORK][-_MAX_WINDOWS:]
    if not doubtful:
        return [interval for interval, _ in found]
    at = pl.col("fetched_at").dt.epoch("ms")
    windows = [
        at.is_between(interval.since, confirmed_at + HOLD_MS) for interval, confirmed_at in doubtful
    ]
    rows = checks(tables, None, doubtful[0][0].since).filter(pl.any_horizontal(windows))
    frame = rows.select(
        at.alias("at"), "host_key", "url", answered=pl.col("http_status") > 0
    ).collect()
    offline: set[Interval] = set()
    for interval, confirmed_at in doubtful:
        others = frame.filter(
            pl.col("at").is_between(interval.since, confirmed_at)
            & (pl.col("url").str.extract(r"^[a-z]+://([^/]*)", 1) != authority(interval.url))
        )
        if others.height and not others["answered"].any():
            offline.add(interval)
    return [_blamed(interval) if interval in offline else interval for interval, _ in found]


def standings(
    history: Mapping[str, Sequence[_Run]], monitors: Mapping[str, Monitor]
) -> dict[str, Standing]:
    """How each monitor stood after its last check."""
    found: dict[str, Standing] = {}
    for url, its in history.items():
        standing = found[url] = Standing()
        for run in its:
            _take(standing, run, monitors[url].confirm if url in monitors else DEFAULT_CONFIRM)
    return found


def reason(verdict: str, http_status: int, error: str) -> str:
    """Why a check failed, from its row: shorter than what was said at the time."""
    if error:
        return error
    return "the expected text is missing" if verdict == "content" else f"http {http_status}"


def _take(standing: Standing, run: _Run, confirm: int) -> Change:
    return standing.take(
        run.verdict,
        reason(run.verdict, run.http_status, run.error),
        run.first,
        confirm,
        count=run.count,
        last_at=run.last,
    )


def _blamed(interval: Interval) -> Interval:
    return Interval(
        interval.url,
        interval.since,
        interval.until,
        interval.cause,
        interval.text,
        interval.checks,
        offline=True,
    )
