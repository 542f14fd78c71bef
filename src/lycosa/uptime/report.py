"""Reports on monitors: availability, response times, outages, and pages by visits of the crawl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import polars as pl
from pydantic import Field, ValidationError

from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.records import KINDS_WITHOUT_ROWS
from lycosa.core.units import format_time
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.store.workspace import Workspace
from lycosa.uptime.history import mark_offline, read_checks, replay_checks
from lycosa.uptime.monitors import monitors_of
from lycosa.uptime.outages import Outage, ReportModel, Timestamp
from lycosa.uptime.results import UP
from lycosa.url.keys import host_key
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.scope import hostname

LIVE = "run/uptime.json"
"""The current state of the monitors: a `LiveStatus`."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WINDOWS = {"24h": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}

_MAX_GAP = 3  # intervals without a check after which a URL counts as not monitored
_DEFAULT_EVERY_MS = 60_000  # for URLs that are no longer monitored
_MAX_PAGES = 20
_PHASES = ("dns_ms", "connect_ms", "tls_ms", "first_byte_ms")
_DOWN, _OFFLINE = 1, 2


class LiveMonitor(ReportModel):
    """The current state of a monitor."""

    state: str
    """up, down, failing (not confirmed) or new."""
    since: Timestamp = 0
    text: str = ""
    checked_at: Timestamp = 0
    duration_ms: int | None = None
    certificate_until: Timestamp = 0


class LiveStatus(ReportModel):
    """The current state, from the process that runs the checks."""

    written_at: Timestamp
    offline_since: Timestamp = 0
    """Start of an outage of the network of this machine."""
    monitors: dict[str, LiveMonitor]


class AvailabilityWindow(ReportModel):
    """A time window that ends now."""

    availability: float | None
    """Share of `known_ms` in which it was available, 0 to 1; null: not monitored."""
    known_ms: int
    """Monitored time in milliseconds, without outages of the network of this machine."""
    checks: int
    failed: int


class ResponseTimes(ReportModel):
    """Response times of the successful checks of the last 24 hours."""

    p50_ms: float | None
    p95_ms: float | None
    steps: dict[str, float | None]
    """Medians by phase: dns, connect, tls, first_byte."""


class HourSummary(ReportModel):
    """One hour: its availability (null: not monitored) and the median response time."""

    up: float | None
    p50_ms: float | None


class LastCheck(ReportModel):
    """The last committed check."""

    at: Timestamp
    verdict: str
    http_status: int
    error: str
    duration_ms: int
    digest: str
    certificate_until: Timestamp | None


class MonitorReport(ReportModel):
    """Availability of one URL."""

    url: str
    name: str
    watched: bool
    every_ms: int
    state: str
    """up, down, failing (not confirmed) or new."""
    windows: dict[str, AvailabilityWindow]
    latency: ResponseTimes
    sparkline: list[HourSummary]
    """The last 24 hours, oldest first."""
    outages: list[Outage]
    """Newest first."""
    last: LastCheck | None


class PageAvailability(ReportModel):
    """A page, measured by the fetches of the crawl."""

    url: str
    visits: int
    answered: int
    """With a status of 200 to 399."""
    last_status: int
    last_error: str
    last_at: Timestamp
    p50_ms: float
    p95_ms: float


class HostPages(ReportModel):
    """The pages of a host, measured by the fetches of the crawl."""

    pages: int
    visits: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None
    worst: list[PageAvailability]
    """Those with most failures, then the slowest."""


class UptimeReport(ReportModel):
    """Monitors; for a host also its pages."""

    name: str = ""
    """URL or host of the request."""
    monitors: list[MonitorReport]
    pages: HostPages | None = None
    live: LiveStatus | None = Field()
    """Null: no process runs checks. Includes checks that are not committed yet."""


def report_monitors(
    root: str, config: Config, clock: Clock | None = None, *, days: int = 1
) -> UptimeReport:
    """Report on all monitors over the last days.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    builder = _ReportBuilder(Workspace.open(root), config, clock or SystemClock(), days)
    return UptimeReport(monitors=builder.build(list(builder.monitors)), live=builder.live)


def report_host(root: str, config: Config, target: str, clock: Clock | None = None) -> UptimeReport:
    """Report on a host or a URL over the last 30 days.

    The URL of a front page that is not monitored selects its host.

    Raises:
        UsageError: there are no data about it.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    builder = _ReportBuilder(Workspace.open(root), config, clock or SystemClock(), 30)
    pages: HostPages | None = None
    url = normalise(typed_url(target))
    if (url in builder.monitors and "://" in target) or urlsplit(url).path not in ("", "/"):
        name, urls = url, [url]
    else:
        name, since_ms = hostname(url), builder.since_ms
        checked = read_live(root, lambda tables: _checked_urls(tables, name, since_ms))
        urls = sorted({*checked, *(each for each in builder.monitors if hostname(each) == name)})
        pages = read_live(root, lambda tables: _host_pages(tables, name, since_ms))
    reports = builder.build(urls)
    if not (pages and pages.visits) and not any(each.last or each.watched for each in reports):
        raise UsageError(
            f"no data about {name}: it is not monitored (`lycosa monitor add`) and "
            "was not visited in the last 30 days"
        )
    return UptimeReport(name=name, monitors=reports, pages=pages, live=builder.live)


def report_outages(
    root: str, config: Config, target: str = "", clock: Clock | None = None
) -> list[Outage]:
    """Return the outages of 30 days, newest first: of all monitors, or of a host or URL.

    Raises:
        UsageError, WorkspaceError: as `report_host`.
    """
    report = (
        report_host(root, config, target, clock)
        if target
        else report_monitors(root, config, clock, days=30)
    )
    outages = [outage for each in report.monitors for outage in each.outages]
    return sorted(outages, key=lambda each: (-each.since, each.url))


def urgency(monitor: MonitorReport) -> tuple[int, str]:
    """Order monitors: those that are down, those that fail, all others."""
    return {"down": 0, "failing": 1}.get(monitor.state, 2), monitor.url


def live_status(workspace: Workspace) -> LiveStatus | None:
    """Return the state that the process which runs the checks has written; None without one."""
    owner = workspace.owner()
    if owner is None:
        return None
    try:
        status = LiveStatus.model_validate_json(workspace.storage.read(LIVE) or b"")
    except ValidationError:
        return None
    # `lycosa crawl` makes no checks: then the file is of an earlier process
    return status if format_time(status.written_at) >= owner.started_at else None


class _ReportBuilder:
    """Builds the reports of URLs over the last days."""

    def __init__(self, workspace: Workspace, config: Config, clock: Clock, days: int) -> None:
        stored = monitors_of(workspace.storage, config)
        self.monitors = {url: each.monitor for url, each in stored.items()}
        self.live = live_status(workspace)
        self._root, self._now_ms = workspace.root, clock.now_ms()
        self.since_ms = self._now_ms - days * DAY_MS

    def build(self, urls: Sequence[str]) -> list[MonitorReport]:
        return read_live(self._root, lambda tables: self._build(tables, urls))

    def _build(self, tables: LiveTables, urls: Sequence[str]) -> list[MonitorReport]:
        checks = read_checks(tables, urls, self.since_ms)
        outages: dict[str, list[Outage]] = {}
        for outage in mark_offline(tables, replay_checks(checks, self.monitors).outages):
            outages.setdefault(outage.url, []).insert(0, outage)
        fields = ("at", "verdict", "http_status", "error", "duration_ms", "digest")
        until = pl.col("certificate_until").dt.epoch("ms")
        last = pl.struct(*fields, until).sort_by("at").last().alias("last")
        columns = ("url", "at", "duration_ms", *_PHASES)
        frame, newest = pl.collect_all(
            [
                checks.select(*columns, up=pl.col("verdict") == UP).sort("url", "at"),
                checks.group_by("url").agg(last),
            ]
        )
        last_checks = dict(newest.iter_rows())
        parts = {key[0]: part for key, part in frame.partition_by("url", as_dict=True).items()}
        return [
            self._report(
                url, parts.get(url, frame.clear()), last_checks.get(url), outages.get(url, [])
            )
            for url in urls
        ]

    def _report(
        self, url: str, rows: pl.DataFrame, last: dict[str, Any] | None, outages: list[Outage]
    ) -> MonitorReport:
        monitor, now_ms = self.monitors.get(url), self._now_ms
        every_ms = monitor.every if monitor is not None else _DEFAULT_EVERY_MS
        timeline = _Timeline(rows, outages, every_ms, now_ms)
        recent = rows.filter((pl.col("at") >= now_ms - DAY_MS) & pl.col("up"))
        last_check = LastCheck(**last) if last is not None else None
        ends = [now_ms - hour * HOUR_MS for hour in reversed(range(24))]
        return MonitorReport(
            url=url,
            name=monitor.name if monitor is not None else "",
            watched=monitor is not None,
            every_ms=every_ms,
            state=self._state(url, outages, last_check),
            windows={
                name: timeline.window(now_ms - length, now_ms)
                for name, length in WINDOWS.items()
                if length <= now_ms - self.since_ms
            },
            latency=ResponseTimes(
                p50_ms=_rounded(recent["duration_ms"].median()),
                p95_ms=_rounded(recent["duration_ms"].quantile(0.95)),
                steps={
                    name.removesuffix("_ms"): _rounded(recent[name].median()) for name in _PHASES
                },
            ),
            sparkline=[timeline.hour(end - HOUR_MS, end) for end in ends],
            outages=outages,
            last=last_check,
        )

    def _state(self, url: str, outages: Sequence[Outage], last: LastCheck | None) -> str:
        if self.live is not None and url in self.live.monitors:
            return self.live.monitors[url].state
        if outages and not outages[0].until and not outages[0].offline:
            return "down"
        return "new" if last is None else "up" if last.verdict == UP else "failing"


class _Timeline:
    """The checks of one URL as arrays: each is valid until the next, or for a few intervals."""

    def __init__(
        self, rows: pl.DataFrame, outages: Sequence[Outage], every_ms: int, now_ms: int
    ) -> None:
        self._at = rows["at"].to_numpy()
        self._end = np.minimum(np.append(self._at[1:], now_ms), self._at + every_ms * _MAX_GAP)
        self._up = rows["up"].to_numpy()
        self._duration = rows["duration_ms"].to_numpy()
        self._state = np.zeros(len(self._at), np.int8)
        for outage in outages:  # they begin and end with checks
            first, last = np.searchsorted(self._at, (outage.since, outage.until or now_ms + 1))
            self._state[first:last] = _OFFLINE if outage.offline else _DOWN

    def window(self, start: int, end: int) -> AvailabilityWindow:
        length = np.clip(np.minimum(self._end, end) - np.maximum(self._at, start), 0, None)
        monitored_ms = int(length[self._state != _OFFLINE].sum())
        down = int(length[self._state == _DOWN].sum())
        began = self._between(start, end)
        return AvailabilityWindow(
            availability=1 - down / monitored_ms if monitored_ms else None,
            known_ms=monitored_ms,
            checks=began.stop - began.start,
            failed=int((~self._up[began]).sum()),
        )

    def hour(self, start: int, end: int) -> HourSummary:
        began = self._between(start, end)
        times = self._duration[began][self._up[began]]
        return HourSummary(
            up=self.window(start, end).availability,
            p50_ms=_rounded(float(np.median(times))) if times.size else None,
        )

    def _between(self, start: int, end: int) -> slice:
        first, last = np.searchsorted(self._at, (start, end))
        return slice(int(first), int(last))


def _checked_urls(tables: LiveTables, host: str, since_ms: int) -> list[str]:
    here = pl.col("host_key") == pl.lit(host_key(host), pl.UInt64)
    rows = read_checks(tables, None, since_ms).filter(here)
    return rows.select(pl.col("url").unique().sort()).collect()["url"].to_list()


def _host_pages(tables: LiveTables, host: str, since_ms: int) -> HostPages:
    here = pl.col("host_key") == pl.lit(host_key(host), pl.UInt64)
    since = pl.col("fetched_at") >= pl.lit(since_ms).cast(pl.Datetime("ms", "UTC"))
    page = ~pl.col("kind").is_in([kind.value for kind in KINDS_WITHOUT_ROWS])
    # one exchange may belong to several collections
    visits = tables.scan("visits").filter(here & since & page).unique("record_id")
    successful = pl.col("http_status").is_between(200, 399) & (pl.col("error") == "")
    totals = (
        pl.len().alias("visits"),
        successful.sum().cast(pl.Int64).alias("answered"),
        pl.col("duration_ms").median().alias("p50_ms"),
        pl.col("duration_ms").quantile(0.95).alias("p95_ms"),
    )
    last = pl.col("http_status", "error").sort_by("fetched_at").last()
    by_page = (
        visits.group_by("url")
        .agg(*totals, last, last_at=pl.col("fetched_at").max().dt.epoch("ms"))
        .rename({"http_status": "last_status", "error": "last_error"})
        .sort(
            pl.col("visits") - pl.col("answered"), "p95_ms", "url", descending=[True, True, False]
        )
    )
    pages, total = pl.collect_all([by_page, visits.select(*totals)])
    worst = [PageAvailability(**row) for row in pages.head(_MAX_PAGES).iter_rows(named=True)]
    return HostPages(pages=pages.height, worst=worst, **total.row(0, named=True))


def _rounded(value: object) -> float | None:
    return round(float(value), 3) if isinstance(value, (int, float)) else None
