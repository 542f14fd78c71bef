"""The crawl as pages: activity, history, hosts, the state of a URL; with a token also adding,
pausing, excluding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.captures.history import History, visits_over_time
from lycosa.commands.inspection.explain import explain_url
from lycosa.commands.inspection.explain_state import explain_reason
from lycosa.commands.inspection.hosts import host_facts, list_hosts
from lycosa.commands.maintenance.exclude import exclude_and_purge, pages_named
from lycosa.core.errors import UsageError
from lycosa.crawl.session.pausing import paused, set_paused
from lycosa.crawl.session.submission import submit
from lycosa.crawl.session.workspace_config import read_config
from lycosa.serve.crawl.explain_labels import OF_SETTINGS, labels
from lycosa.serve.web.access import Access
from lycosa.serve.web.forms import form_fields
from lycosa.serve.web.i18n import Interface, message
from lycosa.serve.web.rendering import Frame
from lycosa.serve.web.ttl_cache import Kept
from lycosa.store.storage.storage import open_storage
from lycosa.url.normalise import MAX_URL_LENGTH

HOSTS_A_PAGE = 100
_STATUS_S, _HISTORY_S = 3.0, 60.0
_MAX_COUNTED = 12

_PARTS = (
    ("exclusion", message("Exclusion")),
    ("collections", message("State and schedule")),
    ("robots", message("robots.txt")),
    ("host_clock", message("Host politeness")),
    ("visits", message("Fetches")),
    ("page", message("Page")),
    ("referrers", message("Inlinks")),
    ("same_text", message("Pages with the same text")),
)
SAID = {
    "added": message("The URLs have been added and are queued for fetching."),
    "paused": message("Paused. Requests in flight are completed."),
    "resumed": message("Resumed."),
    "excluded": message("Excluded."),
}


def create_crawl_pages(
    root: str, frame: Frame, access: Access, status: Callable[[], Mapping[str, object]]
) -> APIRouter:
    """The routes under /crawl. `status` gives the workspace's counts."""
    router = APIRouter(include_in_schema=False)
    now = Kept[str, Mapping[str, Any]](lambda _: status(), _STATUS_S)
    history = Kept[str, History](lambda host: visits_over_time(root, host=host), _HISTORY_S)

    @router.get("/crawl", response_class=HTMLResponse)
    def crawl(request: Request, said: Annotated[str, Query(max_length=16)] = "") -> HTMLResponse:
        known = now.get("")
        words = frame.words(request)
        over_time = history.get("")
        index = known["index"]
        return frame.page(
            request,
            "crawl.html",
            status=known,
            lag=known["log_entry"] - index["log_entry"] if index else known["log_entry"],
            paused=paused(open_storage(root)),
            history=over_time,
            columns=time_columns(over_time, words),
            counts=[
                (words.t("HTTP status"), *most_of(statuses(known["statuses"], words))),
                (words.t("Errors"), *most_of(known["errors"])),
                (words.t("Languages"), *most_of(known["languages"])),
                (words.t("Refused links"), *most_of(known["refused_links"])),
            ],
            said=words.t(SAID[said]) if said in SAID else "",
        )

    @router.get("/crawl/hosts", response_class=HTMLResponse)
    def hosts(
        request: Request,
        like: Annotated[str, Query(max_length=255)] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    ) -> HTMLResponse:
        total, rows = list_hosts(root, like.strip(), (page - 1) * HOSTS_A_PAGE, HOSTS_A_PAGE)
        return frame.page(
            request,
            "hosts.html",
            hosts=rows,
            total=total,
            like=like.strip(),
            page=page,
            a_page=HOSTS_A_PAGE,
        )

    @router.get("/crawl/host", response_class=HTMLResponse)
    def host(
        request: Request, name: Annotated[str, Query(min_length=1, max_length=255)]
    ) -> HTMLResponse:
        facts = host_facts(root, name)
        if facts is None:
            raise HTTPException(404, "Unknown host")
        return frame.page(
            request,
            "host.html",
            host=facts.row,
            queue=told(facts.queue),
            waiting=facts.waiting,
            visits=facts.visits,
            robots=facts.row["robots"] or [],
            columns=time_columns(history.get(name), frame.words(request)),
        )

    @router.get("/crawl/explain", response_class=HTMLResponse)
    def explain(
        request: Request, url: Annotated[str, Query(max_length=MAX_URL_LENGTH)] = ""
    ) -> HTMLResponse:
        parts: list[tuple[str, object]] = []
        if url.strip():
            facts = explain_url(root, read_config(root), url.strip())
            words = frame.words(request)
            own = {name: facts[name] for name in ("url", "host", "partition", "url_key")}
            parts = [
                (words.t("Identity"), own),
                *((words.t(label), facts[name]) for name, label in _PARTS if facts[name]),
            ]
        return frame.page(
            request,
            "explain.html",
            url=url.strip(),
            parts=parts,
            labels=labels(frame.words(request)),
            of_settings=OF_SETTINGS,
        )

    @router.get(
        "/crawl/exclude", response_class=HTMLResponse, dependencies=[Depends(access.reader)]
    )
    def ask_to_exclude(
        request: Request, rule: Annotated[str, Query(min_length=1, max_length=MAX_URL_LENGTH)]
    ) -> Response:
        return frame.page(
            request, "exclude.html", rule=rule.strip(), pages=pages_named(root, rule.strip())
        )

    _create_changes(router, root, access)
    return router


def _create_changes(router: APIRouter, root: str, access: Access) -> None:
    @router.post("/crawl/add")
    async def add(request: Request, _: str = Depends(access.writer)) -> Response:
        fields = await form_fields(request)
        urls = [line.strip() for line in fields.get("urls", "").splitlines() if line.strip()]
        if not urls:
            raise UsageError("the form contains no URL: enter at least one, one URL per line")
        await run_in_threadpool(
            lambda: submit(root, read_config(root), urls, fields.get("collection", ""))
        )
        return RedirectResponse("/crawl?said=added", 303)

    @router.post("/crawl/pause")
    async def pause(request: Request, name: str = Depends(access.writer)) -> Response:
        fields = await form_fields(request)
        wanted = fields.get("paused") == "yes"
        await run_in_threadpool(
            lambda: set_paused(root, fields.get("collection", ""), paused=wanted, by=name)
        )
        collection = fields.get("collection", "")
        place = (
            f"/crawl/collection/{collection}" if fields.get("back") == "collection" else "/crawl"
        )
        return RedirectResponse(f"{place}?said={'paused' if wanted else 'resumed'}", 303)

    @router.post("/crawl/exclude")
    async def exclude(request: Request, _: str = Depends(access.writer)) -> Response:
        fields = await form_fields(request)
        purge = fields.get("purge") == "yes"
        await run_in_threadpool(
            lambda: exclude_and_purge(
                root, read_config(root), [fields.get("rule", "")], remove=purge
            )
        )
        return RedirectResponse("/crawl?said=excluded", 303)


def told(queue: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `urls` that wait, each with `why`: a sentence, or the reason's code where that says
    all.
    """
    return [{**row, "why": explain_reason(row["reason"]) or row["reason"]} for row in queue]


def time_columns(history: History, words: Interface) -> list[tuple[str, int, int]]:
    """For the chart: what a column says, fetches, failed ones."""
    return [
        (
            words.t(
                "{time}: {n, plural, one {# fetch} other {# fetches}}, {bad, number} failed",
                time=words.time(bucket.at_ms),
                n=bucket.visits,
                bad=bucket.errors,
            ),
            bucket.visits,
            bucket.errors,
        )
        for bucket in history.buckets
    ]


def statuses(counted: Mapping[str, int], words: Interface) -> dict[str, int]:
    """Return counts by HTTP status with a label for status 0, which stands for no response."""
    return {
        words.t("no response") if status == "0" else status: number
        for status, number in counted.items()
    }


def most_of(counted: Mapping[str, int]) -> tuple[list[tuple[str, int]], int]:
    """The greatest of some counts, and their sum."""
    ordered = sorted(counted.items(), key=lambda pair: -pair[1])
    return ordered[:_MAX_COUNTED], sum(counted.values())
