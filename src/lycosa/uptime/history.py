"""Reads checks from the tables: outages as intervals, and the state of monitors at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from lycosa.config.monitor import Monitor
from lycosa.core.records import VisitKind
from lycosa.store.tables.live import LiveTables
from lycosa.uptime.outages import HOLD_MS, Outage
from lycosa.uptime.results import NETWORK_CAUSES, UP, MonitorState, StateChange
from lycosa.url.keys import url_key

MAX_CONFIRM = 10
DEFAULT_CONFIRM = 3
"""For URLs that are no longer monitored."""

_MAX_WINDOWS = 100


class _Run(NamedTuple):
    """Consecutive checks of a URL that all succeeded, or all failed. `times`: of the first few."""

    url: str
    first: int
    last: int
    checks: int
    verdict: str
    http_status: int
    error: str
    times: Sequence[int]


class MonitorHistory(NamedTuple):
    """Outages with the times at which they were confirmed, oldest first, and the last states."""

    outages: list[tuple[Outage, int]]
    states: dict[str, MonitorState]


def read_checks(tables: LiveTables, urls: Iterable[str] | None, since_ms: int) -> pl.LazyFrame:
    """Return the checks since a time, of these URLs or of all, with their time `at` in ms."""
    since = pl.col("fetched_at") >= pl.lit(since_ms).cast(pl.Datetime("ms", "UTC"))
    rows = tables.scan("visits").filter((pl.col("kind") == VisitKind.CHECK.value) & since)
    if urls is not None:
        selected = list(urls)
        keys = pl.Series([url_key(url) for url in selected], dtype=pl.UInt64)
        rows = rows.filter(pl.col("url_key").is_in(keys.implode()) & pl.col("url").is_in(selected))
    return rows.with_columns(pl.col("fetched_at").dt.epoch("ms").alias("at"))


def replay_checks(rows: pl.LazyFrame, monitors: Mapping[str, Monitor]) -> MonitorHistory:
    """Derive outages and states from checks, in the same way as when they were made."""
    outages: list[tuple[Outage, int]] = []
    states: dict[str, MonitorState] = {}
    ongoing: dict[str, int] = {}  # URL -> when its outage was confirmed
    failed: dict[str, int] = {}

    def add_outage(url: str, state: MonitorState, since: int, until: int = 0) -> None:
        fields = {"cause": state.cause, "text": state.text, "checks": failed[url]}
        outages.append((Outage(url=url, since=since, until=until, **fields), ongoing.pop(url)))

    for run in _runs(rows):
        url = run.url
        confirm = monitors[url].confirm if url in monitors else DEFAULT_CONFIRM
        state = states.setdefault(url, MonitorState())
        since = state.since
        change = state.add(
            run.verdict, _reason(run), run.first, confirm, count=run.checks, last_at=run.last
        )
        if run.verdict != UP:
            failed[url] = failed.get(url, 0) + run.checks
        if change is StateChange.DOWN:
            ongoing[url] = run.times[min(confirm, len(run.times) - 1)]
        elif change is StateChange.UP:
            add_outage(url, state, since, state.up_at)
        if not state.down:
            failed[url] = 0
    for url in [*ongoing]:
        add_outage(url, states[url], states[url].since)
    outages.sort(key=lambda entry: (entry[0].since, entry[0].url))
    return MonitorHistory(outages, states)


def mark_offline(tables: LiveTables, outages: Sequence[tuple[Outage, int]]) -> list[Outage]:
    """Mark the outages at the beginning of which no other monitored host responded."""
    doubtful = [entry for entry in outages if entry[0].cause in NETWORK_CAUSES][-_MAX_WINDOWS:]
    if not doubtful:
        return [outage for outage, _ in outages]
    at = pl.col("at")
    windows = [
        at.is_between(outage.since, confirmed_at + HOLD_MS) for outage, confirmed_at in doubtful
    ]
    rows = read_checks(tables, None, doubtful[0][0].since).filter(pl.any_horizontal(windows))
    host = pl.col("url").str.extract(r"^[a-z]+://([^/]*)", 1)
    checks = rows.select(at, host=host, answered=pl.col("http_status") > 0).collect()
    offline: set[str] = set()
    for outage, confirmed_at in doubtful:
        during = at.is_between(outage.since, confirmed_at)
        others = checks.filter(during & (pl.col("host") != outage.host))
        if others.height and not others["answered"].any():
            offline.add(outage.key)
    return [outage.model_copy(update={"offline": outage.key in offline}) for outage, _ in outages]


def _runs(rows: pl.LazyFrame) -> list[_Run]:
    """Return the runs, by URL and in order of time."""
    succeeded = pl.col("verdict") == UP
    ordered = (
        rows.select("url", "at", "verdict", "http_status", "error")
        .sort("url", "at")
        .with_columns(run=pl.struct("url", succeeded.alias("succeeded")).rle_id())
    )
    grouped = ordered.group_by("run", maintain_order=True).agg(
        pl.col("url").first(),
        pl.col("at").first().alias("first"),
        pl.col("at").last().alias("last"),
        pl.len().alias("checks"),
        pl.col("verdict", "http_status", "error").first(),
        pl.col("at").head(MAX_CONFIRM + 1).alias("times"),
    )
    return [_Run(*row) for row in grouped.drop("run").collect().iter_rows()]


def _reason(run: _Run) -> str:
    """Return why a check failed, by its row, which does not contain the full message."""
    if run.error:
        return run.error
    if run.verdict == "content":
        return "the expected text is missing"
    return f"http {run.http_status}"
