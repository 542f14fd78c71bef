"""Availability as pages: all monitors, the history of one; with a token also adding and
removing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.core.errors import UsageError
from lycosa.crawl.session.workspace_config import read_config
from lycosa.serve.access import Access
from lycosa.serve.forms import form_fields
from lycosa.serve.frame import Frame
from lycosa.serve.interface import Interface, message
from lycosa.serve.kept import Kept
from lycosa.store.storage.storage import open_storage
from lycosa.uptime.current import host_report, list_monitors
from lycosa.uptime.monitors import add_monitor, monitors_of, remove_monitor
from lycosa.uptime.report import Availability, Spark
from lycosa.uptime.text import state_of
from lycosa.url.normalise import MAX_URL_LENGTH

_KEPT_S = 10.0
_STATES = {
    "up": message("up"),
    "down": message("down"),
    "failing": message("failing"),
    "new": message("not checked yet"),
}


def create_uptime_pages(root: str, frame: Frame, access: Access) -> APIRouter:
    """The routes under /uptime."""
    router = APIRouter(include_in_schema=False)
    listed = Kept[tuple[str, ...], Any](lambda _: list_monitors(root, read_config(root)), _KEPT_S)
    reports = Kept[str, Any](lambda name: host_report(root, read_config(root), name), _KEPT_S)

    @router.get("/uptime", response_class=HTMLResponse, dependencies=[Depends(access.reader)])
    def overview(request: Request) -> HTMLResponse:
        # who adds one sees it at once
        found = listed.get(tuple(sorted(monitors_of(open_storage(root), read_config(root)))))
        words = frame.words(request)
        rows = [_row(each, found.live, words) for each in found.monitors]
        rows.sort(
            key=lambda row: (
                ("down", "failing").index(row["state"])
                if row["state"] in ("down", "failing")
                else 2,
                row["monitor"].url,
            )
        )
        return frame.page(request, "uptime.html", rows=rows, live=found.live)

    @router.get("/uptime/of", response_class=HTMLResponse, dependencies=[Depends(access.reader)])
    def of(
        request: Request, name: Annotated[str, Query(min_length=1, max_length=MAX_URL_LENGTH)]
    ) -> HTMLResponse:
        try:
            found = reports.get(name)
        except UsageError:
            raise HTTPException(404, "Unknown host or URL") from None
        words = frame.words(request)
        return frame.page(
            request,
            "uptime_of.html",
            report=found,
            rows=[_row(each, found.live, words) for each in found.monitors],
            name=found.name,
        )

    @router.post("/uptime")
    async def add(request: Request, _: str = Depends(access.writer)) -> Response:
        fields = await form_fields(request)
        given = {key: fields.get(key, "").strip() for key in ("url", "name", "every", "expect")}
        settings: dict[str, object] = {key: value for key, value in given.items() if value}
        if fields.get("webhook", "").strip():
            settings["notify"] = [f"webhook {fields['webhook'].strip()}"]
        await run_in_threadpool(
            lambda: add_monitor(root, read_config(root), settings, private=False)
        )
        return RedirectResponse("/uptime", 303)

    @router.post("/uptime/remove")
    async def remove(request: Request, _: str = Depends(access.writer)) -> Response:
        fields = await form_fields(request)
        await run_in_threadpool(
            lambda: remove_monitor(root, read_config(root), fields.get("url", ""))
        )
        return RedirectResponse("/uptime", 303)

    return router


def _row(each: Availability, live: Mapping[str, Any] | None, words: Interface) -> dict[str, Any]:
    monitors = (live or {}).get("monitors")
    now = monitors.get(each.url) if isinstance(monitors, dict) else None
    state = state_of(each, now)
    return {
        "monitor": each,
        "state": state,
        "said": words.t(_STATES[state]) if state in _STATES else state,
        "spark": _spark(each.sparkline, words),
    }


def _spark(sparks: Sequence[Spark], words: Interface) -> list[tuple[str, float, bool]]:
    """For the picture: what an hour says, its height (0 to 1), and whether it was down for a
    part.
    """
    highest = max((spark.p50_ms for spark in sparks if spark.p50_ms), default=1.0)
    found = []
    for hours, spark in enumerate(reversed(sparks), 1):
        if spark.up is None:
            found.append(
                (
                    words.t(
                        "{n, plural, one {# hour ago} other {# hours ago}}: not monitored", n=hours
                    ),
                    0.0,
                    False,
                )
            )
            continue
        said = words.t(
            "{n, plural, one {# hour ago} other {# hours ago}}: availability {share, number, "
            "percent}, median {ms, number, ::.} ms",
            n=hours,
            share=spark.up,
            ms=spark.p50_ms or 0.0,
        )
        found.append((said, max(0.08, (spark.p50_ms or 0.0) / highest), spark.up < 1))
    return found[::-1]
