"""Sites as pages: the list of sites, the audit of one (tree, map, reports), and its changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from lycosa.core.dataclass import with_list_part
from lycosa.core.errors import UsageError
from lycosa.serve.crawl.pages import host_page
from lycosa.serve.services import Services, ServicesDep
from lycosa.serve.web.i18n import Interface, message
from lycosa.serve.web.problems import ERRORS, error_responses
from lycosa.site.changes import PageChange, changes_of
from lycosa.site.picture import picture_size, site_picture
from lycosa.site.report import SiteReport

ROWS = 100
_MAX_ENTRIES = 1_000  # entries of a list in one response of the API
_MAX_FOLDERS = 60
_MAX_DAYS = 3_650
_MAP_POLICY = (
    # the picture's style sheet; it has no script, and none would run
    "default-src 'none'; style-src 'unsafe-inline'; sandbox"
)

_ERRORS = {**ERRORS, **error_responses({404: "Unknown site"})}

Name = Annotated[
    str,
    Query(
        alias="name",
        min_length=1,
        max_length=300,
        description="Host, host:port or URL of the site.",
    ),
]


@dataclass(slots=True, frozen=True)
class Listing:
    """One of the report's lists: its field there, a title, its columns' names, and a row's cells.
    The first cell is a URL.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    cells: Callable[[Any], tuple[object, ...]]


LISTS: tuple[Listing, ...] = (
    Listing(
        "broken",
        message("Broken links"),
        (message("Page"), message("Target"), message("Response"), message("Anchor text")),
        lambda each: (each.source, each.target, each.answer, each.anchor),
    ),
    Listing(
        "orphans",
        message("Orphan pages (in the sitemap, not linked)"),
        (message("URL"), message("Listed in"), message("State")),
        lambda each: (each.url, each.listed_in, each.state),
    ),
    Listing(
        "chains",
        message("Redirect chains"),
        (message("From"), message("Redirects to"), message("Result")),
        lambda each: (each.urls[0], " → ".join(each.urls[1:]), each.end),
    ),
    Listing(
        "duplicates",
        message("Duplicate content"),
        (message("Page"), message("Same text as"), message("Title")),
        lambda each: (each.urls[0], " ".join(each.urls[1:]), each.title),
    ),
    Listing(
        "untitled", message("Pages without a title"), (message("Page"),), lambda each: (each.url,)
    ),
    Listing(
        "slow",
        message("Slow pages"),
        (message("Page"), message("Response time (ms)"), message("Title")),
        lambda each: (each.url, each.duration_ms, each.title),
    ),
    Listing(
        "large",
        message("Large pages"),
        (message("Page"), message("Size (bytes)"), message("Title")),
        lambda each: (each.url, each.size, each.title),
    ),
    Listing(
        "hreflang",
        message("hreflang without return link"),
        (message("Page"), message("Language"), message("Linked translation"), message("Reason")),
        lambda each: (each.source, each.language, each.target, each.reason),
    ),
    Listing(
        "mixed",
        message("Mixed content"),
        (message("Page"), message("Resource"), message("Resource type")),
        lambda each: (each.source, each.target, each.kind),
    ),
    Listing(
        "faults",
        message("Document errors"),
        (message("Page"), message("Error")),
        lambda each: (each.url, each.fault),
    ),
    Listing(
        "page_list",
        message("All pages"),
        (
            message("Page"),
            message("Title"),
            message("Click depth"),
            message("Inlinks"),
            message("Outlinks"),
            message("Size (bytes)"),
        ),
        lambda each: (each.url, each.title, each.depth, each.in_links, each.out_links, each.size),
    ),
)
_BY_KEY = {each.key: each for each in LISTS}


router = APIRouter()


@router.get("/sites", response_class=HTMLResponse, include_in_schema=False)
def sites(
    services: ServicesDep,
    request: Request,
    like: Annotated[str, Query(max_length=255)] = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> HTMLResponse:
    return host_page(services, request, "sites.html", like.strip(), page)


@router.get("/site", response_class=HTMLResponse, include_in_schema=False)
def site(
    services: ServicesDep,
    request: Request,
    name: Name,
    show: Annotated[str, Query(max_length=16)] = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> HTMLResponse:
    report = _report(services, name)
    words = services.pages.words(request)
    lists = [(each.key, words.t(each.title), len(getattr(report, each.key))) for each in LISTS]
    listing = _BY_KEY.get(show)
    rows: Sequence[Any] = getattr(report, listing.key) if listing is not None else ()
    return services.pages.page(
        request,
        "site.html",
        name=name,
        report=report,
        lists=lists,
        show=listing.key if listing is not None else "",
        title=words.t(listing.title) if listing is not None else "",
        heads=[words.t(each) for each in listing.columns] if listing is not None else [],
        rows=[listing.cells(each) for each in rows[(page - 1) * ROWS : page * ROWS]]
        if listing is not None
        else [],
        total=len(rows),
        page=page,
        a_page=ROWS,
        folders=sorted(
            sorted(report.tree, key=lambda each: -each.pages)[:_MAX_FOLDERS],
            key=lambda each: each.path,
        ),
        columns=_depth_columns(report, words),
        map_size=picture_size(report) if listing is None else (0, 0),
    )


@router.get("/site/map.svg", include_in_schema=False)
def picture(services: ServicesDep, request: Request, name: Name) -> Response:
    drawn = site_picture(_report(services, name), services.pages.words(request).plain)
    return Response(
        drawn, media_type="image/svg+xml", headers={"content-security-policy": _MAP_POLICY}
    )


@router.get("/site/changes", response_class=HTMLResponse, include_in_schema=False)
def changed(
    services: ServicesDep,
    request: Request,
    name: Name,
    days: Annotated[int, Query(ge=1, le=_MAX_DAYS, description="Changes of these days.")] = 7,
) -> HTMLResponse:
    page_changes = _changes(services, name, days)
    return services.pages.page(
        request,
        "site_changes.html",
        name=name,
        days=days,
        changes=page_changes[:ROWS],
        total=len(page_changes),
    )


@router.get("/api/v1/site", responses=_ERRORS, tags=["sites"])
def site_json(
    services: ServicesDep,
    name: Name,
    offset: Annotated[
        int, Query(ge=0, le=10_000_000, description="Entries of each list to skip.")
    ] = 0,
    count: Annotated[
        int,
        Query(ge=1, le=_MAX_ENTRIES, description="Maximum number of entries of each list."),
    ] = _MAX_ENTRIES,
) -> SiteReport:
    """Return the audit of a site, as printed by `lycosa site --json`."""
    return with_list_part(_report(services, name), offset, count)


@router.get("/api/v1/changes", responses=_ERRORS, tags=["sites"])
def changes_json(
    services: ServicesDep,
    name: Name,
    days: Annotated[int, Query(ge=1, le=_MAX_DAYS, description="Changes of these days.")] = 7,
    offset: Annotated[
        int, Query(ge=0, le=10_000_000, description="Number of entries to skip.")
    ] = 0,
    n: Annotated[
        int, Query(ge=1, le=_MAX_ENTRIES, description="Maximum number of entries.")
    ] = _MAX_ENTRIES,
) -> list[PageChange]:
    """List new, gone and changed pages of a site, as printed by `lycosa changes --no-diff
    --json`.
    """
    return _changes(services, name, days)[offset : offset + n]


def _report(services: Services, name: str) -> SiteReport:
    """Return the report. Raises HTTPException 404 for an unknown site."""
    report = services.site_reports.get(name)
    if report is None:
        raise HTTPException(404, "Unknown site")
    return report


def _changes(services: Services, name: str, days: int) -> list[PageChange]:
    try:
        return changes_of(
            services.root,
            services.config(),
            datetime.now(UTC) - timedelta(days=days),
            name,
            differences=False,
        )
    except UsageError:
        raise HTTPException(404, "Unknown site") from None


def _depth_columns(report: SiteReport, words: Interface) -> list[tuple[str, int, int]]:
    return [
        (
            words.t(
                "{depth, plural, =-1 {Not reachable from the home page} other {Depth #}}: {n, "
                "plural, one {# page} other {# pages}}",
                depth=depth,
                n=pages,
            ),
            pages,
            pages if depth < 0 else 0,
        )
        for depth, pages in sorted(report.by_depth.items(), key=lambda item: (item[0] < 0, item[0]))
    ]
