"""Availability as pages and as JSON (`/api/v1/uptime`): all monitors, the history of one; with a
token also adding and removing.

Reading requires a token too. Commands and files as notification targets, and private addresses, can
only be set on the machine itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.config.monitor import Monitor
from lycosa.core.errors import UsageError
from lycosa.serve.services import READER, WRITER, Services, ServicesDep, WriterForm
from lycosa.serve.web.i18n import Interface, message
from lycosa.serve.web.problems import ERRORS, INVALID, WRITE_ERRORS
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.uptime.monitors import MonitorInfo, add_monitor, monitors_of, remove_monitor
from lycosa.uptime.outages import Outage
from lycosa.uptime.report import (
    HourSummary,
    MonitorReport,
    UptimeReport,
    report_host,
    report_monitors,
    report_outages,
    urgency,
)
from lycosa.url.normalise import MAX_URL_LENGTH

_STATES = {
    "up": message("up"),
    "down": message("down"),
    "failing": message("failing"),
    "new": message("not checked yet"),
}
Duration = Annotated[
    str, Field(max_length=40, examples=["60s"], description="Duration with its unit.")
]
Target = Annotated[str, Field(max_length=4_000, pattern=r"^webhook \S+$")]
WhatQuery = Annotated[
    str,
    Query(alias="url", max_length=MAX_URL_LENGTH, description="A URL, or a host without a scheme."),
]
OfMonitor = Annotated[str, Query(max_length=MAX_URL_LENGTH, description="URL of the monitor.")]


def _setting(name: str, **limits: Any) -> Any:
    """Return a field with the description of this setting of a monitor."""
    return Field(None, description=Monitor.model_fields[name].description, **limits)


class NewMonitor(JsonBody):
    """A URL to monitor. Omitted fields have the defaults of `[[monitor]]`."""

    url: str = Field(max_length=MAX_URL_LENGTH, description="URL to check.")
    name: str | None = _setting("name", max_length=200)
    every: Duration | None = _setting("every")
    expect: str | None = Field(
        None, max_length=10_000, description="Text that the response must contain."
    )
    status: list[str] | None = Field(
        None, max_length=20, description="Accepted statuses, for example 200 or 2xx."
    )
    timeout: Duration | None = _setting("timeout")
    confirm: int | None = _setting("confirm", ge=0, le=10)
    confirm_after: Duration | None = _setting("confirm_after")
    pause: Duration | None = _setting("pause")
    certificate: Duration | None = _setting("certificate")
    notify: list[Target] | None = Field(
        None, max_length=10, description="Notification targets: `webhook URL`."
    )


router = APIRouter()
errors = {**ERRORS, **INVALID, **WRITE_ERRORS}


@router.get("/api/v1/uptime", responses=errors, dependencies=[READER], tags=["uptime"])
def uptime(services: ServicesDep, what: WhatQuery = "") -> UptimeReport:
    """Return the availability of all monitors in the last 24 hours, or of one host or URL in
    the last 30 days.
    """
    config = services.config()
    return (
        report_host(services.root, config, what) if what else report_monitors(services.root, config)
    )


@router.get("/api/v1/uptime/outages", responses=errors, dependencies=[READER], tags=["uptime"])
def outages(services: ServicesDep, what: WhatQuery = "") -> list[Outage]:
    """List the outages of the last 30 days, newest first."""
    return report_outages(services.root, services.config(), what)


@router.post(
    "/api/v1/uptime", responses=errors, status_code=201, dependencies=[WRITER], tags=["uptime"]
)
def add(services: ServicesDep, new: NewMonitor) -> MonitorInfo:
    """Add a monitor. A running process starts its checks within seconds."""
    settings = new.model_dump(exclude_none=True)
    return add_monitor(services.root, services.config(), settings, private=False)


@router.delete(
    "/api/v1/uptime", responses=errors, status_code=204, dependencies=[WRITER], tags=["uptime"]
)
def remove(services: ServicesDep, url: OfMonitor) -> None:
    """Remove a monitor. Its history is kept."""
    remove_monitor(services.root, services.config(), url)


@router.get("/uptime", response_class=HTMLResponse, dependencies=[READER], include_in_schema=False)
def overview(services: ServicesDep, request: Request) -> HTMLResponse:
    return _overview(services, request)


def _overview(services: Services, request: Request, problem: str = "") -> HTMLResponse:
    stored = monitors_of(services.storage, services.config())
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


@router.get(
    "/uptime/of", response_class=HTMLResponse, dependencies=[READER], include_in_schema=False
)
def monitor_page(
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


@router.post("/uptime", include_in_schema=False)
def add_from_form(services: ServicesDep, request: Request, fields: WriterForm) -> Response:
    entries = {key: fields.get(key, "").strip() for key in ("url", "name", "every", "expect")}
    settings: dict[str, object] = {key: value for key, value in entries.items() if value}
    if fields.get("webhook", "").strip():
        settings["notify"] = [f"webhook {fields['webhook'].strip()}"]
    try:
        add_monitor(services.root, services.config(), settings, private=False)
    except UsageError as error:
        return _overview(services, request, str(error))
    return RedirectResponse("/uptime", 303)


@router.post("/uptime/remove", include_in_schema=False)
def remove_from_form(services: ServicesDep, fields: WriterForm) -> Response:
    remove_monitor(services.root, services.config(), fields.get("url", ""))
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
