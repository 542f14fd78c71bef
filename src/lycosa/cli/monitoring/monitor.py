"""`lycosa monitor`: monitor the availability of URLs."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lycosa.cli.options import InWorkspace, NotifyOption, values_of
from lycosa.cli.output import Output, note, timed_note
from lycosa.config.monitor import Monitor
from lycosa.core.dataclass import dataclass
from lycosa.core.units import format_duration, format_time, number_of
from lycosa.notify.transports import redacted_target
from lycosa.uptime.notifications import format_length
from lycosa.uptime.outages import Outage
from lycosa.uptime.report import (
    HostPages,
    HourSummary,
    LastCheck,
    MonitorReport,
    UptimeReport,
    urgency,
)

SHOW = "show"
_BARS = "▁▂▃▄▅▆▇█"
_DAY_MS = 86_400_000
_WARN_MS = 30 * _DAY_MS
_MAX_OUTAGES = 20


class _Group(TyperGroup):
    """`lycosa monitor example.org` means `lycosa monitor show example.org`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_show = not args or (args[0] not in self.commands and args[0] not in ("-h", "--help"))
        return super().parse_args(ctx, [SHOW, *args] if is_show else args)


app = typer.Typer(cls=_Group, help="Monitor the availability of URLs.", no_args_is_help=False)

UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="URL to monitor.")]


@dataclass(frozen=True)
class MonitorSettings:
    """The settings of a monitor, named as in [[monitor]]."""

    every: Annotated[
        str, typer.Option("--every", metavar="T", help="Interval between two checks.")
    ] = "60s"
    expect: Annotated[
        str, typer.Option("--expect", metavar="TEXT", help="Text that the page must contain.")
    ] = ""
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status", metavar="NNN", help="Accepted status, for example 200 or 2xx; repeatable."
        ),
    ] = None
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="T", help="Time limit of a check (default 12 % of the interval)."
        ),
    ] = ""
    confirm: Annotated[
        int,
        typer.Option(
            "--confirm",
            metavar="N",
            min=0,
            max=10,
            help="Number of repeated checks that must fail before an outage is reported.",
        ),
    ] = 3
    pause: Annotated[
        str,
        typer.Option("--pause", metavar="T", help="Minimum delay between two checks of the host."),
    ] = ""
    certificate: Annotated[
        str,
        typer.Option(
            "--certificate", metavar="T", help="Warn this long before the certificate expires."
        ),
    ] = ""
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name used in notifications.")
    ] = ""
    notify: NotifyOption = None


@app.command(SHOW)
def show(
    where: InWorkspace,
    target: Annotated[
        str, typer.Argument(metavar="HOST|URL", help="Host or URL (default: list all monitors).")
    ] = "",
) -> Output:
    """Show availability, response times and outages.

    For a host, crawl visits to its pages are included. `lycosa monitor HOST` is short for `lycosa
    monitor show HOST`.
    """
    report = where.open().monitors.report(target)
    return Output(report, lambda: print(_host_text(report) if target else _list_text(report)))


@app.command()
def add(where: InWorkspace, settings: MonitorSettings, url: UrlArgument) -> Output:
    """Add a monitor."""
    added = where.open().monitors.add(url, **values_of(settings))
    who = "`lycosa run` or `lycosa monitor run` runs the checks"
    if added.running:
        who = "the running crawl starts within seconds"
    return Output(added, f"{added.monitor.url} is monitored; {who}")


@app.command()
def remove(where: InWorkspace, url: UrlArgument) -> None:
    """Remove a monitor and keep its history."""
    where.open().monitors.remove(url)
    note(f"{url} is no longer monitored; its history is kept")


@app.command("list")
def list_(where: InWorkspace) -> Output:
    """List monitors with their settings."""
    monitors = where.open().monitors.list()
    lines = (_settings_text(each.monitor, configured=each.configured) for each in monitors)
    return Output(monitors, "\n".join(lines) or "no monitors")


@app.command()
def run(where: InWorkspace) -> None:
    """Run the checks without a crawl.

    `lycosa run` runs them during its crawl.
    """
    gc.freeze()
    where.open().monitors.run(timed_note)


def _list_text(report: UptimeReport) -> str:
    """Return one line per monitor, those that are down first."""
    if not report.monitors:
        return "there are no monitors: add one with `lycosa monitor add URL`"
    width = max(len(each.name or each.url) for each in report.monitors)
    lines = []
    for each in sorted(report.monitors, key=urgency):
        times = "no response times yet"
        if each.latency.p50_ms is not None:
            times = f"p50 {_ms(each.latency.p50_ms)}, p95 {_ms(each.latency.p95_ms)}"
        lines.append(
            f"{each.state:<8}{each.name or each.url:<{width}}  "
            f"{_share(each.windows['24h'].availability):>8}  {_sparkline(each.sparkline)}  "
            f"{times}{_certificate(each.last)}"
        )
    return "\n".join([*lines, *_notes(report)])


def _host_text(report: UptimeReport) -> str:
    """Return the details of a host or URL."""
    parts = [_monitor_text(each, report) for each in report.monitors]
    if report.pages is not None and report.pages.visits:
        parts.append(_pages_text(report.name, report.pages))
    return "\n\n".join(["\n\n".join(parts), *_notes(report)])


def _settings_text(monitor: Monitor, *, configured: bool) -> str:
    """Return the settings of a monitor in one line."""
    parts = [
        f"every {format_duration(monitor.every)}",
        f"expects {monitor.expect!r}" if monitor.expect else "",
        *(f"notifies {redacted_target(target)}" for target in monitor.notify),
        "in lycosa.toml" if configured else "",
    ]
    return f"{monitor.url}  {', '.join(filter(None, parts))}"


def _sparkline(hours: Sequence[HourSummary]) -> str:
    """Return one character per hour: response time, `x` outage, `·` not monitored."""
    highest = max((hour.p50_ms for hour in hours if hour.p50_ms), default=1.0)
    steps = len(_BARS) - 1
    return "".join(
        "·"
        if hour.up is None
        else "x"
        if hour.up < 1
        else _BARS[min(steps, int((hour.p50_ms or 0) / highest * steps + 0.5))]
        for hour in hours
    )


def _monitor_text(each: MonitorReport, report: UptimeReport) -> str:
    title = each.url + (f" ({each.name})" if each.name else "") + f": {each.state}"
    live = report.live.monitors.get(each.url) if report.live is not None else None
    if live is not None and live.text and live.state != "up":
        title += f", {live.text}" + (f", since {format_time(live.since)}" if live.since else "")
    shares = [f"{name} {_share(window.availability)}" for name, window in each.windows.items()]
    day, times, last = each.windows["24h"], each.latency, each.last
    medians = ", ".join(
        f"{name.replace('_', ' ')} {_ms(value)}"
        for name, value in times.steps.items()
        if value is not None
    )
    lines = [
        title,
        f"  last check   {format_time(last.at)}: {last.verdict}, "
        f"{_response(last.http_status, last.error)}, {last.duration_ms}ms{_certificate(last)}"
        if last is not None
        else "",
        f"  available    {'   '.join(shares)}",
        f"  checks       {day.checks:,} in 24h, of which {day.failed:,} failed"
        + ("" if each.watched else "; no longer monitored"),
        f"  times        p50 {_ms(times.p50_ms)}, p95 {_ms(times.p95_ms)}; medians: {medians}"
        if times.p50_ms is not None
        else "",
        f"  24 hours     {_sparkline(each.sparkline)}",
        f"  outages      {len(each.outages)} in 30d" if each.outages else "",
        *map(_outage_text, each.outages[:_MAX_OUTAGES]),
    ]
    return "\n".join(filter(None, lines))


def _outage_text(outage: Outage) -> str:
    length = f"for {format_length(outage.until - outage.since)}" if outage.until else "ongoing"
    reason = f"{outage.cause}, {outage.text}"
    if outage.offline:
        reason = "the network of this machine was down"
    return f"    {format_time(outage.since)} {length}: {reason}"


def _pages_text(name: str, pages: HostPages) -> str:
    lines = [
        f"{name}, crawl requests of the last 30d: {number_of(pages.pages, 'page')}, "
        f"{number_of(pages.visits, 'request')}, {_share(pages.answered / pages.visits)} "
        f"successful, p50 {_ms(pages.p50_ms)}, p95 {_ms(pages.p95_ms)}"
    ]
    lines += [
        f"  {page.visits - page.answered:>5,} of {page.visits:,} failed  p95 "
        f"{_ms(page.p95_ms):>7}  last {_response(page.last_status, page.last_error)}  {page.url}"
        for page in pages.worst
    ]
    return "\n".join(lines)


def _notes(report: UptimeReport) -> list[str]:
    if report.live is None:
        watched = any(each.watched for each in report.monitors)
        note = "no checks are running: start them with `lycosa run` or `lycosa monitor run`"
        return [note] if watched else []
    since = report.live.offline_since
    return [f"the network of this machine has been down since {format_time(since)}"] * (since > 0)


def _certificate(last: LastCheck | None) -> str:
    if last is None or last.certificate_until is None:
        return ""
    left_ms = last.certificate_until - last.at
    if left_ms > _WARN_MS:
        return ""
    return f"; the certificate expires in {number_of(max(0, left_ms // _DAY_MS), 'day')}"


def _response(http_status: int, error: str) -> str:
    return f"http {http_status}" if http_status else error


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.3%}" if share < 1 else "100%"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}ms" if value >= 10 else f"{value:.1f}ms"
