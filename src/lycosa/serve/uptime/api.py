"""`/api/v1/uptime`: list monitors, their availability and outages; add and remove monitors.

Reading requires a token too. Commands and files as notification targets, and private addresses, can
only be set on the machine itself.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from lycosa.config.monitor import Monitor
from lycosa.crawl.session.workspace_config import read_config
from lycosa.serve.services import READER, WRITER, ServicesDep
from lycosa.serve.web.problems import ERRORS, INVALID, WRITE_ERRORS
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.uptime.monitors import MonitorInfo, add_monitor, remove_monitor
from lycosa.uptime.outages import Outage
from lycosa.uptime.report import UptimeReport, report_host, report_monitors, report_outages
from lycosa.url.normalise import MAX_URL_LENGTH

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


router = APIRouter(prefix="/api/v1", tags=["uptime"])
errors = {**ERRORS, **INVALID, **WRITE_ERRORS}


@router.get("/uptime", responses=errors, dependencies=[READER])
def uptime(services: ServicesDep, what: WhatQuery = "") -> UptimeReport:
    """Return the availability of all monitors in the last 24 hours, or of one host or URL in
    the last 30 days.
    """
    config = read_config(services.root)
    return (
        report_host(services.root, config, what) if what else report_monitors(services.root, config)
    )


@router.get("/uptime/outages", responses=errors, dependencies=[READER])
def outages(services: ServicesDep, what: WhatQuery = "") -> list[Outage]:
    """List the outages of the last 30 days, newest first."""
    return report_outages(services.root, read_config(services.root), what)


@router.post("/uptime", responses=errors, status_code=201, dependencies=[WRITER])
def add(services: ServicesDep, new: NewMonitor) -> MonitorInfo:
    """Add a monitor. A running process starts its checks within seconds."""
    settings = new.model_dump(exclude_none=True)
    return add_monitor(services.root, read_config(services.root), settings, private=False)


@router.delete("/uptime", responses=errors, status_code=204, dependencies=[WRITER])
def remove(services: ServicesDep, url: OfMonitor) -> None:
    """Remove a monitor. Its history is kept."""
    remove_monitor(services.root, read_config(services.root), url)
