"""How monitors fared: availability over windows, response times, outages; and a host's pages by the
visits of the crawl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from lycosa.config.monitor import Monitor
from lycosa.core.records import KINDS_WITHOUT_ROWS
from lycosa.store.tables.live import LiveTables
from lycosa.uptime.history import Interval, checks, outages, runs, with_blame
from lycosa.uptime.verdict import UP
from lycosa.url.keys import host_key

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WINDOWS = {"24h": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}
SPARKS = 24
"""Hours that a sparkline shows, one letter each."""

_GAP = 3  # intervals without a check after which nobody watched
_DEFAULT_EVERY_MS = 60_000  # of what is no longer watched
_MOST_PAGES = 20
_OTHERS = [kind.value for kind in KINDS_WITHOUT_ROWS]
_STEPS = ("dns_ms", "connect_ms", "tls_ms", "first_byte_ms")


@dataclass(slots=True, frozen=True)
class Window:
    """One stretch of time up to now. `availability`: 0 to 1, of the time in which it was watched
    and our own network worked; None: it was not. `known_ms`: that time.
    """

    availability: float | None
    known_ms: int
    checks: int
    failed: int  # checks, those that were no outage too


@dataclass(slots=True, frozen=True)
class Latency:
    """Of the good checks of the last 24 hours, in milliseconds. `steps`: medians of dns, connect,
    tls, first byte; None: there is none.
    """

    p50_ms: float | None
    p95_ms: float | None
    steps: Mapping[str, float | None]


@dataclass(slots=True, frozen=True)
class Spark:
    """One hour: its share of time up (None: not watched) and the median response time."""

    up: float | None
    p50_ms: float | None


@dataclass(slots=True, frozen=True)
class Last:
    """The last check that the tables hold."""

    at: int
    verdict: str
    http_status: int
    error: str
    duration_ms: int
    digest: str
    certificate_until: int | None


@dataclass(slots=True, frozen=True)
class Availability:
    """One URL. Outages: the newest first."""

    url: str
    name: str
    watched: bool
    every_ms: int
    windows: Mapping[str, Window]
    latency: Latency
    sparkline: Sequence[Spark]
    outages: Sequence[Interval]
    last: Last | None


@dataclass(slots=True, frozen=True)
class PageRecord:
    """A page by the crawl's own visits."""

    url: str
    visits: int
    answered: int  # with a status that is no failure
    last_status: int
    last_error: str
    last_at: int
    p50_ms: float
    p95_ms: float


@dataclass(slots=True, frozen=True)
class Pages:
    """A host's pages by the crawl's own visits: those that failed most, then the slowest, come
    first.
    """

    pages: int
    visits: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None
    worst: Sequence[PageRecord]


@dataclass(slots=True, frozen=True)
class Listed:
    """All that is watched. `live`: how it stands now, by URL under `monitors`, from the process
    that makes checks; None: nobody does. What was found since its last commit, two minutes at most,
    stands there alone.
    """

    monitors: Sequence[Availability]
    live: Mapping[str, Any] | None


@dataclass(slots=True, frozen=True)
class HostReport:
    """A host, or one URL: the monitors there, and of a host its pages by the crawl's own visits."""

    name: str
    monitors: Sequence[Availability]
    pages: Pages | None
    live: Mapping[str, Any] | None


def availability(
    tables: LiveTables,
    urls: Sequence[str],
    monitors: Mapping[str, Monitor],
    now_ms: int,
    *,
    longest_ms: int = WINDOWS["30d"],
) -> list[Availability]:
    """How these URLs fared, in windows up to `longest_ms` long."""
    rows = checks(tables, urls, now_ms - longest_ms)
    found = with_blame(tables, outages(runs(rows), monitors))
    at = pl.col("fetched_at").dt.epoch("ms").alias("at")
    columns = (
        "at",
        "verdict",
        "http_status",
        "error",
        "duration_ms",
        "digest",
        pl.col("certificate_until").dt.epoch("ms"),
    )
    newest = (
        rows.with_columns(at)
        .group_by("url")
        .agg(pl.struct(columns).sort_by("at").last().alias("last"))
        .unnest("last")
    )
    every_row = rows.select(at, "url", "duration_ms", *_STEPS, up=pl.col("verdict") == UP).sort(
        "url", "at"
    )
    frame, latest = pl.collect_all([every_row, newest])
    last = {row[0]: Last(*row[1:]) for row in latest.iter_rows()}
    parts = {str(key[0]): part for key, part in frame.partition_by("url", as_dict=True).items()}
    by_url: dict[str, list[Interval]] = {}
    for each in found:
        by_url.setdefault(each.url, []).append(each)
    windows = {name: length for name, length in WINDOWS.items() if length <= longest_ms}
    listed = []
    for url in urls:
        monitor = monitors.get(url)
        every = monitor.every if monitor is not None else _DEFAULT_EVERY_MS
        own = by_url.get(url, [])
        listed.append(
            _availability(
                url,
                monitor,
                every,
                parts.get(url, frame.clear()),
                last.get(url),
                own,
                windows,
                now_ms,
            )
        )
    return listed


def urls_of_host(tables: LiveTables, host: str, since_ms: int) -> list[str]:
    """The URLs of a host that were checked since a time."""
    here = pl.col("host_key") == pl.lit(host_key(host), pl.UInt64)
    return (
        checks(tables, None, since_ms)
        .filter(here)
        .select(pl.col("url").unique().sort())
        .collect()["url"]
        .to_list()
    )


def pages_of_host(tables: LiveTables, host: str, since_ms: int) -> Pages:
    """What the crawl's own visits say of a host's pages."""
    here = (pl.col("host_key") == pl.lit(host_key(host), pl.UInt64)) & ~pl.col("kind").is_in(
        _OTHERS
    )
    since = pl.col("fetched_at") >= pl.lit(since_ms).cast(pl.Datetime("ms", "UTC"))
    # one exchange may serve several collections
    visits = tables.scan("visits").filter(here & since).unique("record_id")
    well = pl.col("http_status").is_between(200, 399) & (pl.col("error") == "")
    latest = {
        f"last_{name}": pl.col(name).sort_by("fetched_at").last()
        for name in ("http_status", "error")
    }
    grouped = (
        visits.group_by("url")
        .agg(
            pl.len().alias("visits"),
            well.sum().cast(pl.Int64).alias("answered"),
            **latest,
            last_at=pl.col("fetched_at").max().dt.epoch("ms"),
            p50_ms=pl.col("duration_ms").median(),
            p95_ms=pl.col("duration_ms").quantile(0.95),
        )
        .sort(
            pl.col("visits") - pl.col("answered"), "p95_ms", "url", descending=[True, True, False]
        )
    )
    total = visits.select(
        pl.len(),
        well.sum().cast(pl.Int64),
        pl.col("duration_ms").median(),
        pl.col("duration_ms").quantile(0.95).alias("q"),
    )
    frame, totals = pl.collect_all([grouped, total])
    number, answered, p50, p95 = totals.row(0)
    return Pages(
        frame.height,
        number,
        answered,
        p50,
        p95,
        [PageRecord(*row) for row in frame.head(_MOST_PAGES).iter_rows()],
    )


@dataclass(slots=True, frozen=True)
class _Spans:
    """The checks of one URL in order of time, and until when each speaks: up to the next one, or a
    few intervals. Arrays of one length.
    """

    at: Any  # ms since 1970
    end: Any
    up: Any
    duration: Any

    def watched(self, start: int, end: int) -> int:
        """How much of a stretch of time was watched, in ms."""
        first, last = (
            np.searchsorted(self.end, start, "right"),
            np.searchsorted(self.at, end, "left"),
        )
        if first >= last or start >= end:
            return 0
        whole = int((self.end[first:last] - self.at[first:last]).sum())
        return whole - max(0, start - int(self.at[first])) - max(0, int(self.end[last - 1]) - end)

    def between(self, start: int, end: int) -> slice:
        """The checks that began in a stretch of time."""
        return slice(
            int(np.searchsorted(self.at, start, "left")), int(np.searchsorted(self.at, end, "left"))
        )


def _availability(
    url: str,
    monitor: Monitor | None,
    every: int,
    rows: pl.DataFrame,
    last: Last | None,
    own: Sequence[Interval],
    windows: Mapping[str, int],
    now_ms: int,
) -> Availability:
    at = rows["at"].to_numpy()
    end = np.minimum(np.append(at[1:], now_ms), at + every * _GAP)
    spans = _Spans(at, end, rows["up"].to_numpy(), rows["duration_ms"].to_numpy())
    down = [(each.since, each.until or now_ms) for each in own if not each.offline]
    unknown = [(each.since, each.until or now_ms) for each in own if each.offline]
    day = spans.between(now_ms - DAY_MS, now_ms + 1)
    good = rows[day].filter("up")
    latency = Latency(
        _number(good["duration_ms"].median()),
        _number(good["duration_ms"].quantile(0.95)),
        {name.removesuffix("_ms"): _number(good[name].median()) for name in _STEPS},
    )
    sparks = []
    for hour in range(SPARKS):
        ending = now_ms - (SPARKS - 1 - hour) * HOUR_MS
        within = spans.between(ending - HOUR_MS, ending)
        times = spans.duration[within][spans.up[within]]
        share = _window(spans, down, unknown, ending - HOUR_MS, ending).availability
        sparks.append(Spark(share, round(float(np.median(times)), 3) if times.size else None))
    return Availability(
        url,
        monitor.name if monitor is not None else "",
        monitor is not None,
        every,
        {
            name: _window(spans, down, unknown, now_ms - length, now_ms)
            for name, length in windows.items()
        },
        latency,
        sparks,
        sorted(own, key=lambda each: -each.since),
        last,
    )


def _window(
    spans: _Spans,
    down: Sequence[tuple[int, int]],
    unknown: Sequence[tuple[int, int]],
    start: int,
    end: int,
) -> Window:
    known = spans.watched(start, end) - sum(
        spans.watched(max(since, start), min(until, end)) for since, until in unknown
    )
    lost = min(
        known, sum(spans.watched(max(since, start), min(until, end)) for since, until in down)
    )
    began = spans.between(start, end)
    failed = int((~spans.up[began]).sum())
    return Window(
        1 - lost / known if known > 0 else None, max(0, known), began.stop - began.start, failed
    )


def _number(value: object) -> float | None:
    return round(float(value), 3) if isinstance(value, (int, float)) else None
