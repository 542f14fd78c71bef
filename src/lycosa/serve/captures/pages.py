"""Cached copies, and the archived versions of a page with their differences, as pages and as JSON.

A cached copy is a frame around an untrusted document. The frame has origin and time; the document
has no capabilities.

The content comes from `/cached/raw` with a policy of its own: sandboxed (an origin of its own, no
script, no form, no plug-in), and nothing is loaded except styles and images that are part of the
document. Links open outside of the frame: our own copy of the same time where the index has the
page, else the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import unquote_to_bytes, urlencode, urlsplit

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response

from lycosa.captures.captures import Capture, parse_at, written_at
from lycosa.captures.content import Show, Version, Versions
from lycosa.commands.feature_models import VersionComparison
from lycosa.commands.inspection.versions import (
    compare_versions,
    list_versions,
    version_content,
    version_markdown,
)
from lycosa.commands.page_models import VersionContent, VersionList, VersionMarkdown
from lycosa.commands.search_models import cached_path
from lycosa.page.documents.kinds import Kind, kind_of
from lycosa.page.encoding import decode
from lycosa.page.html.markdown import MarkdownMode
from lycosa.serve.captures.sanitizer import MAX_BYTES, safe_page
from lycosa.serve.search.views import readable_url, web_href
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.problems import ERRORS, error_responses
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_AT = 40
MAX_VERSIONS = 1_000
_MAX_SHOWN = 100  # versions on the page
_ERRORS = {**ERRORS, **error_responses({404: "No copy of this page is archived"})}
_SANDBOX = "allow-top-navigation-by-user-activation"
RAW_POLICY = (
    f"sandbox {_SANDBOX}; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
RAW_HEADERS = {
    "content-security-policy": RAW_POLICY,
    "x-frame-options": "SAMEORIGIN",
    "x-dns-prefetch-control": "off",
    "referrer-policy": "no-referrer",
}
FRAME_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_MAX_PARAGRAPHS = 20_000
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_DOCUMENT_NAMES = frozenset(
    {
        Kind.PDF,
        Kind.DOCX,
        Kind.PPTX,
        Kind.XLSX,
        Kind.XLSB,
        Kind.EPUB,
        Kind.DOC,
        Kind.PPT,
        Kind.XLS,
        Kind.RTF,
    }
)

Url = Annotated[str, Query(min_length=1, max_length=MAX_URL_LENGTH, description="URL of the page.")]
Until = Annotated[
    str,
    Query(
        max_length=MAX_AT,
        description="Newest copy up to this time (UTC); default: the newest copy.",
    ),
]


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


@router.get("/cached", response_class=HTMLResponse, include_in_schema=False)
def cached(
    services: ServicesDep, request: Request, url: Url, at: Until = "", text: bool = False
) -> HTMLResponse:
    opened = services.versions()
    version, captures = version_at(opened, url, at)
    texts = None
    if text or version.show is Show.FILE:
        candidates = captures if version.capture is version.source else [version.source]
        texts = opened.texts(candidates, version.source)
    page = services.pages.page(
        request,
        "cached.html",
        url=version.capture.url,
        address=readable_url(version.capture.url),
        href=web_href(version.capture.url),
        at=version.capture.at,
        same_as=version.capture.original,
        status=version.capture.status,
        redirect_href=cached_address(version.capture.redirect_to, version.capture.at)
        if version.capture.redirect_to
        else "",
        redirect_to=readable_url(version.capture.redirect_to),
        cut=version.cut
        or (version.show in (Show.PAGE, Show.TEXT) and len(version.payload) > MAX_BYTES),
        rendered=version.rendered,
        show=version.show.value,
        texts=texts,
        paragraphs=texts.text.split("\n")[:_MAX_PARAGRAPHS] if texts is not None else [],
        raw=raw_address(version.capture),
        text_address=cached_address(version.capture.url, version.capture.at, text="1"),
        page_address=cached_address(version.capture.url, version.capture.at),
        versions_address=f"/versions?{urlencode({'url': version.capture.url})}",
        count=len(captures),
        sandbox=_SANDBOX,
    )
    page.headers["content-security-policy"] = FRAME_POLICY
    return page


@router.get("/cached/raw", include_in_schema=False)
def raw(services: ServicesDep, url: Url, at: Until = "") -> Response:
    version, _ = version_at(services.versions(), url, at)

    def refer(target: str) -> str:
        return (
            cached_address(target, version.capture.at) if services.source.holds(target) else target
        )

    return raw_response(version, refer)


def version_at(versions: Versions, url: str, at: str) -> tuple[Version, list[Capture]]:
    """Return the version that a request names, and all captures of that page.

    Raises:
        UsageError: the URL or the time is invalid.
        NoVersion: there is no such version.
    """
    return versions.at(url, parse_at(at) if at else None)


def raw_response(version: Version, refer: Callable[[str], str]) -> Response:
    """Return the content of a version in the only form that a browser may receive. The server's
    declarations are ignored.
    """
    if version.show is Show.PAGE:
        return Response(
            safe_page(version.payload, version.content_type, version.source.url, refer),
            media_type="text/html; charset=utf-8",
            headers=RAW_HEADERS,
        )
    if version.show is Show.IMAGE:
        return Response(version.payload, media_type=version.media_type, headers=RAW_HEADERS)
    if version.show is Show.TEXT:
        text = decode(version.payload[:MAX_BYTES], version.content_type).data
        return Response(text, headers={**RAW_HEADERS, "content-type": "text/plain; charset=utf-8"})
    name = file_name(version.source.url, version.payload)
    headers = {
        **RAW_HEADERS,
        "content-disposition": f'attachment; filename="{name}"',
        "content-type": "application/octet-stream",
    }
    return Response(version.payload, headers=headers)


def file_name(url: str, payload: bytes) -> str:
    """Return a file name: safe letters of the URL's last part, and the extension that fits its
    bytes.
    """
    last = unquote_to_bytes(urlsplit(url).path.rpartition("/")[2]).decode("utf-8", "replace")
    kind = kind_of(payload)
    ending = kind.value if kind in _DOCUMENT_NAMES else "bin"
    stem = _NAME.sub("_", last.removesuffix(f".{ending}")).strip("._-")[:60]
    return f"{stem or 'file'}.{ending}"


def cached_address(url: str, at_ms: int | None = None, **more: str) -> str:
    """Return the address of the stored copy of a page: that of a time, or the newest."""
    at = {"at": written_at(at_ms)} if at_ms is not None else {}
    return cached_path(url, **at, **more)


def raw_address(capture: Capture) -> str:
    return f"/cached/raw?{urlencode({'url': capture.url, 'at': written_at(capture.at)})}"


@router.get("/api/v1/versions", responses=_ERRORS, tags=["archive"])
def versions(
    services: ServicesDep,
    url: Url,
    n: Annotated[int, Query(ge=1, le=MAX_VERSIONS, description="Number of versions.")] = 50,
    before: Before = "",
    changed: Annotated[bool, Query(description="Only versions with a changed text.")] = False,
) -> VersionList:
    """List the captures of a page, newest first."""
    archive = services.versions()
    return list_versions(archive, url, count=n, before=before, changed=changed)


@router.get("/api/v1/versions/diff", responses=_ERRORS, tags=["archive"])
def difference(services: ServicesDep, url: Url, a: At, b: At = "") -> VersionComparison:
    """Compare two versions; without `b`, compare with the newest version."""
    return compare_versions(services.versions(), url, a, b)


@router.get("/api/v1/versions/text", responses=_ERRORS, tags=["archive"])
def text(services: ServicesDep, url: Url, at: At = "") -> VersionContent:
    """Return the extracted text of a version."""
    return version_content(services.versions(), url, at)


@router.get("/api/v1/versions/markdown", responses=_ERRORS, tags=["archive"])
def markdown(
    services: ServicesDep, url: Url, at: At = "", mode: MarkdownMode = MarkdownMode.MAIN
) -> VersionMarkdown:
    """Return a version as Markdown: main text, complete page, or with numbered references."""
    return version_markdown(services.versions(), url, at, mode)


@router.get("/versions", response_class=HTMLResponse, include_in_schema=False)
def page(
    services: ServicesDep, request: Request, url: Url, a: At = "", b: At = "", before: Before = ""
) -> HTMLResponse:
    archive = services.versions()
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
