"""`/api/v1/uptime`: what is watched, how it fared, outages; adding and removing.

What somebody watches is nobody else's business: reading takes a token too. Commands and files as targets, and addresses that are not
public, are for who sits at the machine.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from lycosa.app.configuring import read_config
from lycosa.app.uptime import add_monitor, remove_monitor
from lycosa.app.uptime_report import all_outages, host_report, list_monitors
from lycosa.monitor.uptime_text import with_dates
from lycosa.serve.access import WRITE_ERRORS, Access
from lycosa.serve.api import ERRORS
from lycosa.serve.problems import Problem

MAX_URL = 2_000

_WRONG: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "content": {"application/problem+json": {}}, "description": "It cannot be done as asked; nothing was"}
}

Duration = Annotated[str, Field(max_length=40, examples=["60s"], description="With its unit.")]
Target = Annotated[str, Field(max_length=4_000, pattern=r"^webhook \S+$")]
WhatQuery = Annotated[str, Query(alias="url", max_length=MAX_URL, description="A URL, or a host without a scheme.")]


class NewMonitor(BaseModel):
    """A page to watch; what is left out is as docs/settings.md has it for [[monitor]]."""

    url: str = Field(max_length=MAX_URL)
    name: str | None = Field(None, max_length=200)
    every: Duration | None = None
    expect: str | None = Field(None, max_length=10_000, description="A text that the page must hold.")
    status: list[str] | None = Field(None, max_length=20, description="Good statuses: 200, 2xx.")
    timeout: Duration | None = None
    confirm: int | None = Field(None, ge=0, le=10)
    confirm_after: Duration | None = None
    pause: Duration | None = None
    certificate: Duration | None = None
    notify: list[Target] | None = Field(None, max_length=10, description="`webhook URL`: who is told.")


class Watched(BaseModel):
    """A page that is watched from now on. `running`: somebody makes checks in the workspace now."""

    url: str
    running: bool


class OutageAnswer(BaseModel):
    """An outage."""

    url: str
    since: str = Field(description="UTC, ISO 8601.")
    until: str | None = Field(description="Null: it goes on.")
    cause: Literal["dns", "connect", "tls", "timeout", "status", "content"]
    text: str
    checks: int = Field(description="Those that failed.")
    offline: bool = Field(description="Our own network was down.")


class WindowAnswer(BaseModel):
    """A stretch of time up to now."""

    availability: float | None = Field(description="0 to 1; null: it was not watched.")
    known_ms: int = Field(description="How much of it was watched.")
    checks: int
    failed: int


class LatencyAnswer(BaseModel):
    """Of the good checks of 24 hours."""

    p50_ms: float | None
    p95_ms: float | None
    steps: dict[str, float | None] = Field(description="Medians: dns, connect, tls, first_byte.")


class SparkAnswer(BaseModel):
    """One hour."""

    up: float | None
    p50_ms: float | None


class LastAnswer(BaseModel):
    """The last check that was committed."""

    at: str
    verdict: str
    http_status: int
    error: str
    duration_ms: int
    digest: str
    certificate_until: str | None


class MonitorAnswer(BaseModel):
    """One URL."""

    url: str
    name: str
    watched: bool
    every_ms: int
    windows: dict[str, WindowAnswer]
    latency: LatencyAnswer
    sparkline: list[SparkAnswer] = Field(description="24 hours, the last one at the end.")
    outages: list[OutageAnswer]
    last: LastAnswer | None


class PageAnswer(BaseModel):
    """A page by the crawl's own visits."""

    url: str
    visits: int
    answered: int
    last_status: int
    last_error: str
    last_at: str
    p50_ms: float
    p95_ms: float


class PagesAnswer(BaseModel):
    """A host's pages by the crawl's own visits."""

    pages: int
    visits: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None
    worst: list[PageAnswer]


class UptimeAnswer(BaseModel):
    """Monitors; of a host its pages too."""

    name: str = Field("", description="The URL or host that was asked for.")
    monitors: list[MonitorAnswer]
    pages: PagesAnswer | None = None
    live: dict[str, Any] | None = Field(description="What the process says that makes checks; null: nobody does.")


def create_uptime(root: str, access: Access) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/api/v1", tags=["uptime"])
    errors = {**ERRORS, **_WRONG, **WRITE_ERRORS}

    @router.get("/uptime", responses=errors, dependencies=[Depends(access.reader)])
    def uptime(what: WhatQuery = "") -> UptimeAnswer:
        """How everything that is watched fared in 24 hours, or one host or URL in 30 days."""
        config = read_config(root)
        report = host_report(root, config, what) if what else list_monitors(root, config)
        return UptimeAnswer.model_validate(with_dates(asdict(report)))

    @router.get("/uptime/outages", responses=errors, dependencies=[Depends(access.reader)])
    def outages(what: WhatQuery = "") -> list[OutageAnswer]:
        """The outages of 30 days, the newest first."""
        found = all_outages(root, read_config(root), what)
        return [OutageAnswer.model_validate(with_dates(asdict(each))) for each in found]

    @router.post("/uptime", responses=errors, status_code=201, dependencies=[Depends(access.writer)])
    def add(new: NewMonitor) -> Watched:
        """Watch a page. Who makes checks takes it up within seconds."""
        added = add_monitor(root, read_config(root), new.model_dump(exclude_none=True), private=False)
        return Watched(url=added.monitor.url, running=added.owner is not None)

    @router.delete("/uptime", responses=errors, status_code=204, dependencies=[Depends(access.writer)])
    def remove(url: Annotated[str, Query(max_length=MAX_URL)]) -> None:
        """Watch a page no more. Its history stays."""
        remove_monitor(root, read_config(root), url)

    return router
