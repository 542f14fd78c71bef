"""Availability as pages: all monitors, the history of one; with a token also adding and
removing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.core.errors import UsageError
from lycosa.crawl.session.workspace_config import read_config
from lycosa.serve.services import READER, Services, ServicesDep, WriterForm
from lycosa.serve.web.i18n import Interface, message
from lycosa.store.storage.storage import open_storage
from lycosa.uptime.monitors import add_monitor, monitors_of, remove_monitor
from lycosa.uptime.report import HourSummary, MonitorReport, urgency
from lycosa.url.normalise import MAX_URL_LENGTH

_STATES = {
    "up": message("up"),
    "down": message("down"),
    "failing": message("failing"),
    "new": message("not checked yet"),
}


router = APIRouter(include_in_schema=False)


@router.get("/uptime", response_class=HTMLResponse, dependencies=[READER])
def overview(services: ServicesDep, request: Request) -> HTMLResponse:
    return _overview(services, request)


def _overview(services: Services, request: Request, problem: str = "") -> HTMLResponse:
    stored = monitors_of(open_storage(services.root), read_config(services.root))
    # the monitors are part of the key: a new one is shown at once
    report = services.monitors.get(tuple(sorted(stored)))
    words = services.pages.words(request)
    rows = [_row(each, words) for each in sorted(report.monitors, key=urgency)]
    removable = {url for url, each in stored.items() if not each.configured}
    return services.pages.page(
        request,
        "uptime.html",
        400 if problem else 200,
        rows=rows,
        live=report.live,
        removable=removable,
        problem=problem,
    )


@router.get("/uptime/of", response_class=HTMLResponse, dependencies=[READER])
def of(
    services: ServicesDep,
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=MAX_URL_LENGTH)],
) -> HTMLResponse:
    try:
        report = services.host_uptime.get(name)
    except UsageError:
        raise HTTPException(404, "Unknown host or URL") from None
    words = services.pages.words(request)
    return services.pages.page(
        request,
        "uptime_of.html",
        report=report,
        rows=[_row(each, words) for each in report.monitors],
        name=report.name,
    )


@router.post("/uptime")
def add(services: ServicesDep, request: Request, fields: WriterForm) -> Response:
    entries = {key: fields.get(key, "").strip() for key in ("url", "name", "every", "expect")}
    settings: dict[str, object] = {key: value for key, value in entries.items() if value}
    if fields.get("webhook", "").strip():
        settings["notify"] = [f"webhook {fields['webhook'].strip()}"]
    try:
        add_monitor(services.root, read_config(services.root), settings, private=False)
    except UsageError as error:
        return _overview(services, request, str(error))
    return RedirectResponse("/uptime", 303)


@router.post("/uptime/remove")
def remove(services: ServicesDep, fields: WriterForm) -> Response:
    remove_monitor(services.root, read_config(services.root), fields.get("url", ""))
    return RedirectResponse("/uptime", 303)


def _row(monitor: MonitorReport, words: Interface) -> dict[str, Any]:
    return {
        "monitor": monitor,
        "state": monitor.state,
        "label": words.t(_STATES[monitor.state]) if monitor.state in _STATES else monitor.state,
        "spark": _spark(monitor.sparkline, words),
    }


def _spark(hours: Sequence[HourSummary], words: Interface) -> list[tuple[str, float, bool]]:
    """Return the bars of the chart: description, height (0 to 1), and whether it was down."""
    highest = max((hour.p50_ms for hour in hours if hour.p50_ms), default=1.0)
    bars = []
    for ago, hour in enumerate(reversed(hours), 1):
        if hour.up is None:
            text = words.t(
                "{n, plural, one {# hour ago} other {# hours ago}}: not monitored", n=ago
            )
            bars.append((text, 0.0, False))
            continue
        text = words.t(
            "{n, plural, one {# hour ago} other {# hours ago}}: availability {share, number, "
            "percent}, median {ms, number, ::.} ms",
            n=ago,
            share=hour.up,
            ms=hour.p50_ms or 0.0,
        )
        bars.append((text, max(0.08, (hour.p50_ms or 0.0) / highest), hour.up < 1))
    return bars[::-1]
