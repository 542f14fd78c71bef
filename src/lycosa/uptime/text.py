"""Reports of availability for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lycosa.config.monitor import Monitor
from lycosa.core.units import format_duration, format_time, number_of
from lycosa.notify.transports import told
from lycosa.uptime.report import Availability, HostReport, Listed, Pages, Spark
from lycosa.uptime.verdict import UP

_BARS = "▁▂▃▄▅▆▇█"
_DAY_MS = 86_400_000
_WARN_MS = 30 * _DAY_MS
_MAX_OUTAGES = 20
_TIMES = frozenset({"at", "since", "until", "last_at", "certificate_until"})


def list_text(listed: Listed) -> str:
    """All that is watched, a line each: those that are down first."""
    if not listed.monitors:
        return "there are no monitors: add one with `lycosa uptime add URL`"
    live = _live(listed.live)
    lines = sorted(
        (_line(each, live.get(each.url)) for each in listed.monitors), key=lambda line: line[0]
    )
    width = max(len(name) for _, _, name, _ in lines)
    text = [f"{state:<8}{name:<{width}}  {rest}" for _, state, name, rest in lines]
    return "\n".join([*text, *_footnotes(listed.monitors, listed.live)])


def host_text(report: HostReport) -> str:
    """A host or URL in full."""
    live = _live(report.live)
    parts = [_whole(each, live.get(each.url)) for each in report.monitors]
    if report.pages is not None and report.pages.visits:
        parts.append(_pages(report.name, report.pages))
    return "\n\n".join(["\n\n".join(parts), *_footnotes(report.monitors, report.live)])


def settings_text(monitor: Monitor, *, configured: bool) -> str:
    """A monitor's settings in one line."""
    parts = [f"every {format_duration(monitor.every)}"]
    parts += [f"expects {monitor.expect!r}"] if monitor.expect else []
    parts += [f"notifies {told(target)}" for target in monitor.notify] + (
        ["in lycosa.toml"] if configured else []
    )
    return f"{monitor.url}  {', '.join(parts)}"


def with_dates(document: dict[str, Any]) -> dict[str, Any]:
    """A report as plain data (`dataclasses.asdict`) with its times in ISO 8601; null where there is
    none.
    """

    def told_as(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: told_as(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [told_as(name, each) for each in value]
        return (
            (format_time(value) if value else None)
            if name in _TIMES and isinstance(value, int)
            else value
        )

    return {key: told_as(key, value) for key, value in document.items()}


def sparkline(sparks: Sequence[Spark]) -> str:
    """An hour a letter: its height is the response time, `x` an hour with an outage, `·` one that
    was not watched.
    """
    highest = max((spark.p50_ms for spark in sparks if spark.p50_ms), default=1.0)
    letters = []
    for spark in sparks:
        if spark.up is None:
            letters.append("·")
        elif spark.up < 1:
            letters.append("x")
        else:
            letters.append(
                _BARS[
                    min(len(_BARS) - 1, int((spark.p50_ms or 0) / highest * (len(_BARS) - 1) + 0.5))
                ]
            )
    return "".join(letters)


def _line(
    each: Availability, now: Mapping[str, Any] | None
) -> tuple[tuple[int, str], str, str, str]:
    state = state_of(each, now)
    day = each.windows["24h"]
    latency = each.latency
    times = (
        f"p50 {_ms(latency.p50_ms)}, p95 {_ms(latency.p95_ms)}"
        if latency.p50_ms is not None
        else "no response times yet"
    )
    rest = (
        f"{_share(day.availability):>8}  {sparkline(each.sparkline)}  {times}{_certificate(each)}"
    )
    rank = {"down": 0, "failing": 1}.get(state, 2)
    return (rank, each.url), state, each.name or each.url, rest


def _whole(each: Availability, now: Mapping[str, Any] | None) -> str:
    title = f"{each.url}" + (f" ({each.name})" if each.name else "") + f": {state_of(each, now)}"
    if now and now.get("text") and now["state"] != "up":
        title += f", {now['text']}" + (f", since {now['since']}" if now.get("since") else "")
    lines = [title]
    if each.last is not None:
        last = each.last
        said = f"http {last.http_status}" if last.http_status else last.error
        lines.append(
            f"  last check   {format_time(last.at)}: {last.verdict}, {said}, "
            f"{last.duration_ms}ms{_certificate(each)}"
        )
    shares = "   ".join(
        f"{name} {_share(window.availability)}" for name, window in each.windows.items()
    )
    lines.append(f"  available    {shares}")
    day = each.windows["24h"]
    lines.append(
        f"  checks       {day.checks:,} in 24h, of which {day.failed:,} failed"
        + ("" if each.watched else "; no longer monitored")
    )
    if each.latency.p50_ms is not None:
        steps = ", ".join(
            f"{name.replace('_', ' ')} {_ms(value)}"
            for name, value in each.latency.steps.items()
            if value is not None
        )
        lines.append(
            f"  times        p50 {_ms(each.latency.p50_ms)}, p95 "
            f"{_ms(each.latency.p95_ms)}; medians: {steps}"
        )
    lines.append(f"  24 hours     {sparkline(each.sparkline)}")
    if each.outages:
        lines.append(f"  outages      {len(each.outages)} in 30d")
    for outage in each.outages[:_MAX_OUTAGES]:
        length = f"for {_length(outage.until - outage.since)}" if outage.until else "ongoing"
        why = (
            "the network of this machine was down"
            if outage.offline
            else f"{outage.cause}, {outage.text}"
        )
        lines.append(f"    {format_time(outage.since)} {length}: {why}")
    return "\n".join(lines)


def _pages(name: str, pages: Pages) -> str:
    share = pages.answered / pages.visits
    lines = [
        f"{name}, crawl requests of the last 30d: {number_of(pages.pages, 'page')}, "
        f"{number_of(pages.visits, 'request')}, "
        f"{_share(share)} successful, "
        f"p50 {_ms(pages.p50_ms)}, p95 {_ms(pages.p95_ms)}"
    ]
    for page in pages.worst:
        failed = page.visits - page.answered
        said = f"http {page.last_status}" if page.last_status else page.last_error
        lines.append(
            f"  {failed:>5,} of {page.visits:,} failed  p95 {_ms(page.p95_ms):>7}  last "
            f"{said}  {page.url}"
        )
    return "\n".join(lines)


def state_of(each: Availability, now: Mapping[str, Any] | None) -> str:
    """`up`, `down`, `failing` (not yet an outage) or `new`, and what else a process that makes
    checks may say. `now`: of `Listed.live`.
    """
    if now is not None:
        return str(now["state"])
    if each.outages and not each.outages[0].until and not each.outages[0].offline:
        return "down"
    if each.last is None:
        return "new"
    return "up" if each.last.verdict == UP else "failing"


def _live(document: Mapping[str, Any] | None) -> Mapping[str, Any]:
    monitors = document.get("monitors") if document is not None else None
    return monitors if isinstance(monitors, dict) else {}


def _footnotes(monitors: Sequence[Availability], live: Mapping[str, Any] | None) -> list[str]:
    notes = []
    if live is None and any(each.watched for each in monitors):
        notes.append("no checks are running: start them with `lycosa run` or `lycosa uptime watch`")
    if live is not None and live.get("offline_since"):
        notes.append(f"the network of this machine has been down since {live['offline_since']}")
    return notes


def _certificate(each: Availability) -> str:
    last = each.last
    if (
        last is None
        or last.certificate_until is None
        or last.certificate_until - last.at > _WARN_MS
    ):
        return ""
    days = max(0, (last.certificate_until - last.at) // _DAY_MS)
    return f"; the certificate expires in {days} {'day' if days == 1 else 'days'}"


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.3%}" if share < 1 else "100%"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}ms" if value >= 10 else f"{value:.1f}ms"


def _length(duration_ms: int) -> str:
    return format_duration(max(1_000, round(duration_ms, -3)))
