"""`/versions` and `/api/v1/versions`: what is archived of a page, and what changed between two of its versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from lycosa.search.versions import Capture, NoVersion, capture_at, iso, parse_at, written_at
from lycosa.search.versions_read import Compared, Versions
from lycosa.serve.api import ERRORS
from lycosa.serve.cached import MAX_AT, At, Url, cached_address
from lycosa.serve.frame import Frame
from lycosa.serve.present import readable_url, web_href
from lycosa.serve.problems import Problem

MAX_VERSIONS = 1_000
_SHOWN = 100  # on the page

NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "content": {"application/problem+json": {}}, "description": "Nothing is kept of that page"}
}
Before = Annotated[str, Query(max_length=MAX_AT, description="Only versions from before this time: to go on, the `at` of the last one.")]


class ArchivedVersion(BaseModel):
    """One exchange that was archived."""

    at: str = Field(description="When, as the parameter `at` takes it: UTC, to the millisecond.")
    fetched_at: str = Field(description="The same, ISO 8601.")
    status: int
    content_type: str = Field(description="What the server claimed.")
    size: int = Field(description="Bytes of the body as transferred.")
    digest: str = Field(description="`sha1:BASE32` of the body as transferred; of a repetition that of the original.")
    changed: bool = Field(description="Whether its text was another than at the visit before.")
    original: str | None = Field(description="Of a repetition (status 304, or the same bytes): when its bytes were archived, ISO 8601.")
    redirect_to: str
    truncated: str = Field(description="Why the body was cut; empty: it was not.")
    collections: list[str]
    cached: str = Field(description="Where the copy is shown on this server.")


class ArchivedVersions(BaseModel):
    """What is archived of a page, newest first."""

    url: str
    total: int
    versions: list[ArchivedVersion]


class DifferencePiece(BaseModel):
    """Blocks of text that follow each other."""

    kind: str = Field(description="` ` the same, `-` gone, `+` come.")
    old: int = Field(description="The place of the first one in the older text, from 0.")
    new: int
    blocks: list[str]


class VersionsDifference(BaseModel):
    """What changed between two versions."""

    url: str
    before: ArchivedVersion
    after: ArchivedVersion
    titles: tuple[str, str]
    of: str = Field(description="Which texts differ: `main text`, `all text`, `title`; empty: none.")
    gone: int = Field(description="Blocks of text that are gone.")
    came: int
    cut: bool = Field(description="There is more than is told here.")
    stretches: list[list[DifferencePiece]]


class VersionText(BaseModel):
    """The text of one version."""

    url: str
    version: ArchivedVersion
    title: str
    main_text: str
    text: str


def create_versions(frame: Frame, versions: Callable[[], Versions]) -> APIRouter:
    """The routes."""
    router = APIRouter()
    errors = {**ERRORS, **NOT_FOUND}

    @router.get("/api/v1/versions", responses=errors, tags=["archive"])
    def list_versions(
        url: Url,
        n: Annotated[int, Query(ge=1, le=MAX_VERSIONS, description="How many.")] = 50,
        before: Before = "",
        changed: Annotated[bool, Query(description="Only those whose text was another than before.")] = False,
    ) -> ArchivedVersions:
        """What is archived of a page, newest first."""
        captures = _captures(versions(), url)
        chosen = _chosen(captures, before, changed=changed)
        return ArchivedVersions(url=captures[0].url, total=len(captures), versions=[archived(each) for each in chosen[:n]])

    @router.get("/api/v1/versions/diff", responses=errors, tags=["archive"])
    def difference(url: Url, a: At, b: At = "") -> VersionsDifference:
        """What changed between the versions of two times; without `b` up to the newest page."""
        compared = _compared(versions(), url, a, b)
        found = compared.difference
        return VersionsDifference(
            url=compared.before.url,
            before=archived(compared.before),
            after=archived(compared.after),
            titles=compared.titles,
            of=compared.of,
            gone=found.gone,
            came=found.came,
            cut=found.cut,
            stretches=[
                [DifferencePiece(kind=piece.kind, old=piece.old, new=piece.new, blocks=list(piece.blocks)) for piece in stretch]
                for stretch in found.stretches
            ],
        )

    @router.get("/api/v1/versions/text", responses=errors, tags=["archive"])
    def text(url: Url, at: At = "") -> VersionText:
        """The text that was read in a version."""
        opened = versions()
        captures = _captures(opened, url)
        capture = capture_at(captures, parse_at(at) if at else None)
        try:
            texts = opened.texts(captures, capture)
        except NoVersion as error:
            raise _not_found(error) from None
        return VersionText(url=capture.url, version=archived(capture), title=texts.title, main_text=texts.main_text, text=texts.text)

    @router.get("/versions", response_class=HTMLResponse, include_in_schema=False)
    def page(request: Request, url: Url, a: At = "", b: At = "", before: Before = "") -> HTMLResponse:
        opened = versions()
        if a:
            return frame.page(request, "difference.html", **_difference(_compared(opened, url, a, b)))
        captures = _captures(opened, url)
        chosen = _chosen(captures, before, changed=False)
        shown = chosen[:_SHOWN]
        rest = f"/versions?{urlencode({'url': captures[0].url, 'before': written_at(shown[-1].at)})}" if len(chosen) > _SHOWN else ""
        return frame.page(
            request,
            "versions.html",
            url=captures[0].url,
            address=readable_url(captures[0].url),
            href=web_href(captures[0].url),
            total=len(captures),
            versions=[_view(each) for each in shown],
            rest=rest,
        )

    return router


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
    return [each for each in captures if (limit is None or each.at < limit) and (each.changed or not changed)]


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
