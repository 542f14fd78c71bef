"""`/versions` and `/api/v1/versions`: what is archived of a page, and what changed between two of
its versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from lycosa.captures.captures import Capture, NoVersion, capture_at, iso, parse_at, written_at
from lycosa.captures.content import Compared, Versions
from lycosa.page.html.markdown import MarkdownMode
from lycosa.serve.captures.cached import MAX_AT, At, Url, cached_address
from lycosa.serve.search.views import readable_url, web_href
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.problems import ERRORS, error_responses
from lycosa.text.difference import Piece

MAX_VERSIONS = 1_000
_SHOWN = 100  # on the page

_ERRORS = {**ERRORS, **error_responses({404: "No copy of this page is archived"})}
Before = Annotated[
    str,
    Query(
        max_length=MAX_AT,
        description="Only versions before this time. To continue a "
        "list, use `at` of its last version.",
    ),
]


class ArchivedVersion(BaseModel):
    """An archived capture of a page."""

    at: str = Field(description="Time as used by the parameter `at`: UTC, in milliseconds.")
    fetched_at: str = Field(description="The same time, ISO 8601.")
    status: int
    content_type: str = Field(description="Media type stated by the server.")
    size: int = Field(description="Size of the body as transferred, in bytes.")
    digest: str = Field(
        description="`sha1:BASE32` of the body as transferred; for a revisit, that of the original."
    )
    changed: bool = Field(description="Whether the text differs from that of the previous visit.")
    original: str | None = Field(
        description="For a revisit (status 304, or the same bytes): time "
        "of the original capture, ISO 8601."
    )
    redirect_to: str
    truncated: str = Field(description="Reason for a truncated body; empty: complete.")
    collections: list[str]
    cached: str = Field(description="Path of the cached copy on this server.")


class ArchivedVersions(BaseModel):
    """Captures of a page, newest first."""

    url: str
    total: int
    versions: list[ArchivedVersion]


class VersionsDifference(BaseModel):
    """Changes between two versions."""

    url: str
    before: ArchivedVersion
    after: ArchivedVersion
    titles: tuple[str, str]
    of: str = Field(
        description="Compared text: `main text`, `all text`, `title`; empty: no difference."
    )
    gone: int = Field(description="Number of removed text blocks.")
    came: int
    cut: bool = Field(description="Whether the list of changes is incomplete.")
    stretches: tuple[tuple[Piece, ...], ...] = Field(
        description="Changes with their surroundings; `kind`: ` ` unchanged, `-` removed, "
        "`+` added; `old` and `new`: position of its first block in the two texts, from 0."
    )


class VersionText(BaseModel):
    """The text of one version."""

    url: str
    version: ArchivedVersion
    title: str
    main_text: str
    text: str


class VersionMarkdown(BaseModel):
    """One version as Markdown."""

    url: str
    version: ArchivedVersion
    title: str
    mode: MarkdownMode
    markdown: str


router = APIRouter()


@router.get("/api/v1/versions", responses=_ERRORS, tags=["archive"])
def list_versions(
    services: ServicesDep,
    url: Url,
    n: Annotated[int, Query(ge=1, le=MAX_VERSIONS, description="Number of versions.")] = 50,
    before: Before = "",
    changed: Annotated[bool, Query(description="Only versions with a changed text.")] = False,
) -> ArchivedVersions:
    """Captures of a page, newest first."""
    captures = _captures(services.archive.versions(), url)
    chosen = _chosen(captures, before, changed=changed)
    return ArchivedVersions(
        url=captures[0].url,
        total=len(captures),
        versions=[archived(each) for each in chosen[:n]],
    )


@router.get("/api/v1/versions/diff", responses=_ERRORS, tags=["archive"])
def difference(services: ServicesDep, url: Url, a: At, b: At = "") -> VersionsDifference:
    """Compare the versions of two times; without `b`, compare with the newest version."""
    compared = _compared(services.archive.versions(), url, a, b)
    difference = compared.difference
    return VersionsDifference(
        url=compared.before.url,
        before=archived(compared.before),
        after=archived(compared.after),
        titles=compared.titles,
        of=compared.of,
        gone=difference.gone,
        came=difference.came,
        cut=difference.cut,
        stretches=difference.stretches,
    )


@router.get("/api/v1/versions/text", responses=_ERRORS, tags=["archive"])
def text(services: ServicesDep, url: Url, at: At = "") -> VersionText:
    """Return the extracted text of a version."""
    opened = services.archive.versions()
    captures = _captures(opened, url)
    capture = capture_at(captures, parse_at(at) if at else None)
    try:
        texts = opened.texts(captures, capture)
    except NoVersion as error:
        raise _not_found(error) from None
    return VersionText(
        url=capture.url,
        version=archived(capture),
        title=texts.title,
        main_text=texts.main_text,
        text=texts.text,
    )


@router.get("/api/v1/versions/markdown", responses=_ERRORS, tags=["archive"])
def markdown(
    services: ServicesDep, url: Url, at: At = "", mode: MarkdownMode = MarkdownMode.MAIN
) -> VersionMarkdown:
    """Return a version as Markdown: main text, complete page, or with numbered references."""
    opened = services.archive.versions()
    captures = _captures(opened, url)
    capture = capture_at(captures, parse_at(at) if at else None)
    try:
        texts = opened.texts(captures, capture)
        written = opened.markdown(captures, capture, texts, mode)
    except NoVersion as error:
        raise _not_found(error) from None
    return VersionMarkdown(
        url=capture.url, version=archived(capture), title=texts.title, mode=mode, markdown=written
    )


@router.get("/versions", response_class=HTMLResponse, include_in_schema=False)
def page(
    services: ServicesDep, request: Request, url: Url, a: At = "", b: At = "", before: Before = ""
) -> HTMLResponse:
    opened = services.archive.versions()
    if a:
        return services.pages.page(
            request, "difference.html", **_difference(_compared(opened, url, a, b))
        )
    captures = _captures(opened, url)
    chosen = _chosen(captures, before, changed=False)
    shown = chosen[:_SHOWN]
    rest = (
        f"/versions?{urlencode({'url': captures[0].url, 'before': written_at(shown[-1].at)})}"
        if len(chosen) > _SHOWN
        else ""
    )
    return services.pages.page(
        request,
        "versions.html",
        url=captures[0].url,
        address=readable_url(captures[0].url),
        href=web_href(captures[0].url),
        total=len(captures),
        versions=[_view(each) for each in shown],
        rest=rest,
    )


def archived(capture: Capture) -> ArchivedVersion:
    """A capture as the API's document."""
    return ArchivedVersion(
        at=written_at(capture.at),
        fetched_at=iso(capture.at),
        status=capture.status,
        content_type=capture.content_type,
        size=capture.size,
        digest=capture.digest,
        changed=capture.changed,
        original=None if capture.original is None else iso(capture.original),
        redirect_to=capture.redirect_to,
        truncated=capture.truncated,
        collections=list(capture.collections),
        cached=cached_address(capture.url, capture.at),
    )


def _view(capture: Capture) -> dict[str, object]:
    return {
        "at": written_at(capture.at),
        "when": iso(capture.at),
        "status": capture.status,
        "type": capture.content_type,
        "size": capture.size,
        "changed": capture.changed,
        "same_as": capture.original,
        "redirect_to": readable_url(capture.redirect_to),
        "href": cached_address(capture.url, capture.at),
    }


def _difference(compared: Compared) -> dict[str, object]:
    return {
        "address": readable_url(compared.before.url),
        "before": _view(compared.before),
        "after": _view(compared.after),
        "titles": compared.titles,
        "of": compared.of,
        "difference": compared.difference,
        "versions_address": f"/versions?{urlencode({'url': compared.before.url})}",
    }


def _captures(versions: Versions, url: str) -> list[Capture]:
    try:
        return versions.history.captures(url)
    except NoVersion as error:
        raise _not_found(error) from None


def _chosen(captures: Sequence[Capture], before: str, *, changed: bool) -> list[Capture]:
    limit = parse_at(before) if before else None
    return [
        each
        for each in captures
        if (limit is None or each.at < limit) and (each.changed or not changed)
    ]


def _compared(versions: Versions, url: str, a: str, b: str) -> Compared:
    captures = _captures(versions, url)
    chosen = [capture_at(captures, parse_at(each) if each else None) for each in (a, b)]
    before, after = sorted(chosen, key=lambda each: each.at)
    try:
        return versions.compare(captures, before, after)
    except NoVersion as error:
        raise _not_found(error) from None


def _not_found(error: NoVersion) -> HTTPException:
    return HTTPException(404, error.reason[:1].upper() + error.reason[1:])
