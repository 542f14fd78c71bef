"""`/api/v1/uptime`: list monitors, their availability and outages; add and remove monitors.

Reading requires a token too. Commands and files as notification targets, and private addresses, can
only be set on the machine itself.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from lycosa.crawl.session.workspace_config import read_config
from lycosa.serve.access import WRITE_ERRORS, Access
from lycosa.serve.api import ERRORS
from lycosa.serve.problems import Problem
from lycosa.uptime.current import all_outages, host_report, list_monitors
from lycosa.uptime.monitors import add_monitor, remove_monitor
from lycosa.uptime.text import with_dates
from lycosa.url.normalise import MAX_URL_LENGTH

_WRONG: dict[int | str, dict[str, Any]] = {
    400: {
        "model": Problem,
        "content": {"application/problem+json": {}},
        "description": "The request is invalid; nothing was changed",
    }
}

Duration = Annotated[
    str, Field(max_length=40, examples=["60s"], description="Duration with its unit.")
]
Target = Annotated[str, Field(max_length=4_000, pattern=r"^webhook \S+$")]
WhatQuery = Annotated[
    str,
    Query(alias="url", max_length=MAX_URL_LENGTH, description="A URL, or a host without a scheme."),
]


class NewMonitor(BaseModel):
    """A URL to monitor. Omitted fields have the defaults of `[[monitor]]` in docs/settings.md."""

    url: str = Field(max_length=MAX_URL_LENGTH)
    name: str | None = Field(None, max_length=200)
    every: Duration | None = None
    expect: str | None = Field(
        None, max_length=10_000, description="Text that the response must contain."
    )
    status: list[str] | None = Field(
        None, max_length=20, description="Accepted statuses, for example 200 or 2xx."
    )
    timeout: Duration | None = None
    confirm: int | None = Field(None, ge=0, le=10)
    confirm_after: Duration | None = None
    pause: Duration | None = None
    certificate: Duration | None = None
    notify: list[Target] | None = Field(
        None, max_length=10, description="Notification targets: `webhook URL`."
    )


class Watched(BaseModel):
    """A new monitor. `running`: whether a process runs checks in the workspace now."""

    url: str
    running: bool


class OutageAnswer(BaseModel):
    """An outage."""

    url: str
    since: str = Field(description="UTC, ISO 8601.")
    until: str | None = Field(description="UTC, ISO 8601; null: ongoing.")
    cause: Literal["dns", "connect", "tls", "timeout", "status", "content"]
    text: str
    checks: int = Field(description="Number of failed checks.")
    offline: bool = Field(description="The network of this server was down.")


class WindowAnswer(BaseModel):
    """A time window that ends now."""

    availability: float | None = Field(
        description="Share of `known_ms` in which it was available, 0 to 1; null: not monitored."
    )
    known_ms: int = Field(
        description="Monitored time in milliseconds, without outages of the network of this server."
    )
    checks: int
    failed: int


class LatencyAnswer(BaseModel):
    """Response times of the successful checks of the last 24 hours."""

    p50_ms: float | None
    p95_ms: float | None
    steps: dict[str, float | None] = Field(
        description="Medians by phase: dns, connect, tls, first_byte."
    )


class SparkAnswer(BaseModel):
    """One hour."""

    up: float | None
    p50_ms: float | None


class LastAnswer(BaseModel):
    """The last committed check."""

    at: str
    verdict: str
    http_status: int
    error: str
    duration_ms: int
    digest: str
    certificate_until: str | None


class MonitorAnswer(BaseModel):
    """Availability of one URL."""

    url: str
    name: str
    watched: bool
    every_ms: int
    windows: dict[str, WindowAnswer]
    latency: LatencyAnswer
    sparkline: list[SparkAnswer] = Field(description="The last 24 hours, oldest first.")
    outages: list[OutageAnswer]
    last: LastAnswer | None


class PageAnswer(BaseModel):
    """A page, measured by the fetches of the crawl."""

    url: str
    visits: int
    answered: int
    last_status: int
    last_error: str
    last_at: str
    p50_ms: float
    p95_ms: float


class PagesAnswer(BaseModel):
    """The pages of a host, measured by the fetches of the crawl."""

    pages: int
    visits: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None
    worst: list[PageAnswer]


class UptimeAnswer(BaseModel):
    """Monitors; for a host also its pages."""

    name: str = Field("", description="URL or host of the request.")
    monitors: list[MonitorAnswer]
    pages: PagesAnswer | None = None
    live: dict[str, Any] | None = Field(
        description="Current state reported by the process that runs the checks; null: no process "
        "runs checks."
    )


def create_uptime(root: str, access: Access) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/api/v1", tags=["uptime"])
    errors = {**ERRORS, **_WRONG, **WRITE_ERRORS}

    @router.get("/uptime", responses=errors, dependencies=[Depends(access.reader)])
    def uptime(what: WhatQuery = "") -> UptimeAnswer:
        """Return the availability of all monitors in the last 24 hours, or of one host or URL in
        the last 30 days.
        """
        config = read_config(root)
        report = host_report(root, config, what) if what else list_monitors(root, config)
        return UptimeAnswer.model_validate(with_dates(asdict(report)))

    @router.get("/uptime/outages", responses=errors, dependencies=[Depends(access.reader)])
    def outages(what: WhatQuery = "") -> list[OutageAnswer]:
        """List the outages of the last 30 days, newest first."""
        found = all_outages(root, read_config(root), what)
        return [OutageAnswer.model_validate(with_dates(asdict(each))) for each in found]

    @router.post(
        "/uptime", responses=errors, status_code=201, dependencies=[Depends(access.writer)]
    )
    def add(new: NewMonitor) -> Watched:
        """Add a monitor. A running process starts its checks within seconds."""
        added = add_monitor(
            root, read_config(root), new.model_dump(exclude_none=True), private=False
        )
        return Watched(url=added.monitor.url, running=added.owner is not None)

    @router.delete(
        "/uptime", responses=errors, status_code=204, dependencies=[Depends(access.writer)]
    )
    def remove(url: Annotated[str, Query(max_length=MAX_URL_LENGTH)]) -> None:
        """Remove a monitor. Its history is kept."""
        remove_monitor(root, read_config(root), url)

    return router
