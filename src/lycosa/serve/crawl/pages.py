"""The crawl as pages and as JSON: activity, history, hosts, the state of a URL; with a token also
adding, pausing, excluding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.captures.history import History
from lycosa.commands.crawl_models import AddedUrls
from lycosa.commands.crawling.submissions import submit_urls
from lycosa.commands.inspection.explain import explain_url
from lycosa.commands.inspection.explain_state import explain_reason
from lycosa.commands.inspection.hosts import host_facts, list_hosts
from lycosa.commands.maintenance.exclude import exclude_and_purge, pages_named
from lycosa.commands.models import ExclusionReport, HostTable, UrlExplanation
from lycosa.core.errors import UsageError
from lycosa.crawl.session.pausing import paused, set_paused
from lycosa.crawl.session.submission import submit
from lycosa.serve.crawl.explain_labels import OF_SETTINGS, labels
from lycosa.serve.services import READER, WRITER, Services, ServicesDep, Writer, WriterForm
from lycosa.serve.web.i18n import Interface, language_name, message
from lycosa.serve.web.problems import ERRORS, INVALID, WRITE_ERRORS
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_URLS = 1_000
HOSTS_A_PAGE = 100
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
NOTICES = {
    "added": message("The URLs have been added and are queued for fetching."),
    "paused": message("Paused. Requests in flight are completed."),
    "resumed": message("Resumed."),
    "excluded": message("Excluded."),
}

CollectionName = Annotated[str, Path(description="Name of the collection.")]
Url = Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH)]


class NewUrls(JsonBody):
    """URLs for the crawl. Either all are accepted or none."""

    urls: list[Url] = Field(
        min_length=1,
        max_length=MAX_URLS,
        description="URLs within the scope of the collection. A known URL is fetched again.",
    )
    collection: str = Field(
        "", max_length=64, description="Name of the collection; optional if there is only one."
    )


class NewExclusion(JsonBody):
    """Rules for URLs to exclude."""

    rules: list[Url] = Field(
        min_length=1, max_length=100, description="`host:NAME`, `domain:NAME` or `prefix:URL`."
    )
    purge: bool = Field(False, description="Also delete the stored data.")


@dataclass(frozen=True)
class Paused:
    """Whether a collection is paused."""

    collection: str
    paused: bool


router = APIRouter()
errors = {**ERRORS, **INVALID, **WRITE_ERRORS}


@router.get("/crawl", response_class=HTMLResponse, include_in_schema=False)
def crawl_page(
    services: ServicesDep, request: Request, notice: Annotated[str, Query(max_length=16)] = ""
) -> HTMLResponse:
    return _crawl_page(services, request, notice)


def _crawl_page(
    services: Services, request: Request, notice: str = "", problem: str = ""
) -> HTMLResponse:
    status = services.recent_status.get("")
    words = services.pages.words(request)
    over_time = services.host_visits.get("")
    index = status.index
    return services.pages.page(
        request,
        "crawl.html",
        400 if problem else 200,
        problem=problem,
        status=status,
        lag=status.log_entry - index.log_entry if index else status.log_entry,
        paused=paused(services.storage),
        history=over_time,
        columns=time_columns(over_time, words),
        counts=[
            (words.t("HTTP status"), *most_of(statuses(status.statuses, words))),
            (words.t("Errors"), *most_of(status.errors)),
            (words.t("Languages"), *most_of(_named(status.languages))),
            (words.t("Refused links"), *most_of(status.refused_links)),
        ],
        notice=words.t(NOTICES[notice]) if notice in NOTICES else "",
    )


@router.get("/crawl/hosts", response_class=HTMLResponse, include_in_schema=False)
def hosts_page(
    services: ServicesDep,
    request: Request,
    like: Annotated[str, Query(max_length=255)] = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> HTMLResponse:
    return host_page(services, request, "hosts.html", like.strip(), page)


def host_page(
    services: Services, request: Request, template: str, like: str, page: int
) -> HTMLResponse:
    """Return a page of hosts whose name contains `like`."""
    table = list_hosts(services.root, like, (page - 1) * HOSTS_A_PAGE, HOSTS_A_PAGE)
    return services.pages.page(
        request,
        template,
        hosts=table.hosts,
        total=table.total,
        like=like,
        page=page,
        a_page=HOSTS_A_PAGE,
    )


@router.get("/crawl/host", response_class=HTMLResponse, include_in_schema=False)
def host(
    services: ServicesDep,
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=255)],
) -> HTMLResponse:
    facts = host_facts(services.root, name)
    if facts is None:
        raise HTTPException(404, "Unknown host")
    return services.pages.page(
        request,
        "host.html",
        host=facts.row,
        queue=with_reasons(facts.queue),
        waiting=facts.waiting,
        visits=facts.visits,
        robots=facts.row["robots"] or [],
        columns=time_columns(services.host_visits.get(name), services.pages.words(request)),
    )


@router.get("/crawl/explain", response_class=HTMLResponse, include_in_schema=False)
def explain_page(
    services: ServicesDep,
    request: Request,
    url: Annotated[str, Query(max_length=MAX_URL_LENGTH)] = "",
) -> HTMLResponse:
    parts: list[tuple[str, object]] = []
    if url.strip():
        facts = asdict(explain_url(services.root, services.config(), url.strip()))
        words = services.pages.words(request)
        own = {name: facts[name] for name in ("url", "host", "partition", "url_key")}
        parts = [
            (words.t("Identity"), own),
            *((words.t(label), facts[name]) for name, label in _PARTS if facts[name]),
        ]
    return services.pages.page(
        request,
        "explain.html",
        url=url.strip(),
        parts=parts,
        labels=labels(services.pages.words(request)),
        of_settings=OF_SETTINGS,
    )


@router.get(
    "/crawl/exclude", response_class=HTMLResponse, dependencies=[READER], include_in_schema=False
)
def ask_to_exclude(
    services: ServicesDep,
    request: Request,
    rule: Annotated[str, Query(min_length=1, max_length=MAX_URL_LENGTH)],
) -> Response:
    return services.pages.page(
        request, "exclude.html", rule=rule.strip(), pages=pages_named(services.root, rule.strip())
    )


@router.post("/crawl/add", include_in_schema=False)
def add_from_form(services: ServicesDep, request: Request, form: WriterForm) -> Response:
    urls = [line.strip() for line in form.get("urls", "").splitlines() if line.strip()]
    try:
        if not urls:
            raise UsageError("the form contains no URL: enter at least one, one URL per line")
        submit(services.root, services.config(), urls, form.get("collection", ""))
    except UsageError as error:
        return _crawl_page(services, request, problem=str(error))
    return RedirectResponse("/crawl?notice=added", 303)


@router.post("/crawl/pause", include_in_schema=False)
def pause_from_form(services: ServicesDep, form: WriterForm, name: Writer) -> Response:
    pausing = form.get("paused") == "yes"
    collection = form.get("collection", "")
    set_paused(services.root, collection, paused=pausing, by=name)
    place = f"/crawl/collection/{collection}" if form.get("back") == "collection" else "/crawl"
    return RedirectResponse(f"{place}?notice={'paused' if pausing else 'resumed'}", 303)


@router.post("/crawl/exclude", include_in_schema=False)
def exclude_from_form(services: ServicesDep, form: WriterForm) -> Response:
    rules, purge = [form.get("rule", "")], form.get("purge") == "yes"
    exclude_and_purge(services.root, services.config(), rules, remove=purge)
    return RedirectResponse("/crawl?notice=excluded", 303)


def with_reasons(queue: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to waiting rows of `urls` the column `why`: a sentence, or the code of the reason if that
    suffices.
    """
    return [{**row, "why": explain_reason(row["reason"]) or row["reason"]} for row in queue]


def time_columns(history: History, words: Interface) -> list[tuple[str, int, int]]:
    """Return the columns of the chart: label, fetches, failed fetches."""
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
    """Return counts by HTTP status with a label for 0 (no response)."""
    return {
        words.t("no response") if status == "0" else status: number
        for status, number in counted.items()
    }


def _named(counted: Mapping[str, int]) -> dict[str, int]:
    """Return counts by language with the names of the languages."""
    return {language_name(code) if code else "": number for code, number in counted.items()}


def most_of(counted: Mapping[str, int]) -> tuple[list[tuple[str, int]], int]:
    """Return the greatest of some counts, and their sum."""
    ordered = sorted(counted.items(), key=lambda pair: -pair[1])
    return ordered[:_MAX_COUNTED], sum(counted.values())


@router.post(
    "/api/v1/urls", responses=errors, status_code=202, dependencies=[WRITER], tags=["crawl"]
)
def add(services: ServicesDep, new: NewUrls) -> AddedUrls:
    """Add URLs to a crawl. The crawl need not be running."""
    return submit_urls(services.root, services.config(), new.urls, new.collection)


@router.post("/api/v1/exclusions", responses=errors, dependencies=[WRITER], tags=["crawl"])
def exclude(services: ServicesDep, new: NewExclusion) -> ExclusionReport:
    """Exclude sites permanently from crawling and search."""
    return exclude_and_purge(services.root, services.config(), new.rules, remove=new.purge)


@router.post("/api/v1/collections/{name}/pause", responses=errors, tags=["crawl"])
def pause(services: ServicesDep, name: CollectionName, by: Writer) -> Paused:
    """Pause a collection: nothing is fetched for it until it is resumed."""
    set_paused(services.root, name, paused=True, by=by)
    return Paused(name, paused=True)


@router.post(
    "/api/v1/collections/{name}/resume", responses=errors, dependencies=[WRITER], tags=["crawl"]
)
def resume(services: ServicesDep, name: CollectionName) -> Paused:
    """Resume a paused collection."""
    set_paused(services.root, name, paused=False)
    return Paused(name, paused=False)


@router.get("/api/v1/hosts", responses=ERRORS, tags=["crawl"])
def hosts(
    services: ServicesDep,
    like: Annotated[
        str, Query(max_length=255, description="Only hosts whose name contains this text.")
    ] = "",
    offset: Annotated[int, Query(ge=0, le=10_000_000, description="Number of hosts to skip.")] = 0,
    n: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of hosts.")] = 100,
) -> HostTable:
    """List the known hosts, as `lycosa status --by host --json`."""
    return list_hosts(services.root, like, offset, n)


@router.get("/api/v1/explain", responses={**ERRORS, 400: INVALID[400]}, tags=["crawl"])
def explain(
    services: ServicesDep,
    url: Annotated[
        str, Query(min_length=1, max_length=MAX_URL_LENGTH, description="URL to explain.")
    ],
) -> UrlExplanation:
    """Return the state of a URL and why it was or was not fetched, as printed by `lycosa
    explain --json`.
    """
    return explain_url(services.root, services.config(), url)
