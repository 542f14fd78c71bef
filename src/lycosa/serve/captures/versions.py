"""`/versions` and `/api/v1/versions`: archived versions of a page, and their differences."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from lycosa.commands.feature_models import VersionComparison
from lycosa.commands.inspection.versions import (
    compare_versions,
    list_versions,
    version_content,
    version_markdown,
)
from lycosa.commands.page_models import VersionContent, VersionList, VersionMarkdown
from lycosa.page.html.markdown import MarkdownMode
from lycosa.serve.captures.cached import MAX_AT, Url
from lycosa.serve.search.views import readable_url, web_href
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.problems import ERRORS, error_responses

MAX_VERSIONS = 1_000
_MAX_SHOWN = 100  # on the page

_ERRORS = {**ERRORS, **error_responses({404: "No copy of this page is archived"})}
At = Annotated[
    str,
    Query(
        max_length=MAX_AT,
        description="Number of a version, or the newest one up to this time (UTC); default: the "
        "newest.",
    ),
]
Before = Annotated[
    str,
    Query(
        max_length=MAX_AT,
        description="Only versions before this time. To continue a "
        "list, use `at` of its last version.",
    ),
]

router = APIRouter()


@router.get("/api/v1/versions", responses=_ERRORS, tags=["archive"])
def versions(
    services: ServicesDep,
    url: Url,
    n: Annotated[int, Query(ge=1, le=MAX_VERSIONS, description="Number of versions.")] = 50,
    before: Before = "",
    changed: Annotated[bool, Query(description="Only versions with a changed text.")] = False,
) -> VersionList:
    """List the captures of a page, newest first."""
    archive = services.archive.versions()
    return list_versions(archive, url, count=n, before=before, changed=changed)


@router.get("/api/v1/versions/diff", responses=_ERRORS, tags=["archive"])
def difference(services: ServicesDep, url: Url, a: At, b: At = "") -> VersionComparison:
    """Compare two versions; without `b`, compare with the newest version."""
    return compare_versions(services.archive.versions(), url, a, b)


@router.get("/api/v1/versions/text", responses=_ERRORS, tags=["archive"])
def text(services: ServicesDep, url: Url, at: At = "") -> VersionContent:
    """Return the extracted text of a version."""
    return version_content(services.archive.versions(), url, at)


@router.get("/api/v1/versions/markdown", responses=_ERRORS, tags=["archive"])
def markdown(
    services: ServicesDep, url: Url, at: At = "", mode: MarkdownMode = MarkdownMode.MAIN
) -> VersionMarkdown:
    """Return a version as Markdown: main text, complete page, or with numbered references."""
    return version_markdown(services.archive.versions(), url, at, mode)


@router.get("/versions", response_class=HTMLResponse, include_in_schema=False)
def page(
    services: ServicesDep, request: Request, url: Url, a: At = "", b: At = "", before: Before = ""
) -> HTMLResponse:
    archive = services.archive.versions()
    if a:
        comparison = compare_versions(archive, url, a, b)
        return services.pages.page(
            request,
            "difference.html",
            comparison=comparison,
            versions_address=f"/versions?{urlencode({'url': comparison.url})}",
        )
    listed = list_versions(archive, url, before=before)
    shown = listed.versions[:_MAX_SHOWN]
    rest = ""
    if len(listed.versions) > _MAX_SHOWN:
        rest = f"/versions?{urlencode({'url': listed.url, 'before': shown[-1].at})}"
    return services.pages.page(
        request,
        "versions.html",
        url=listed.url,
        address=readable_url(listed.url),
        href=web_href(listed.url),
        total=listed.total,
        versions=shown,
        rest=rest,
    )
