"""Watches and their matches as pages and as JSON (`/api/v1/watches`, `/api/v1/matches`): text
patterns that are matched against every page.

Reading requires a token too. Over the network only webhooks can be set as notification targets;
commands and files can only be set on the machine itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.commands.feature_models import MatchList
from lycosa.core.errors import NameTaken, UsageError
from lycosa.matching.normalise import NAMES
from lycosa.matching.orders import MAX_TEXT_LENGTH
from lycosa.serve.services import READER, WRITER, Services, ServicesDep, WriterForm
from lycosa.serve.web.problems import (
    ERRORS,
    INVALID,
    WRITE_ERRORS,
    error_responses,
    problem_response,
)
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.url.normalise import MAX_URL_LENGTH
from lycosa.watch.watches import WatchInfo, add_watch, list_watches, matches, remove_watch

MAX_TEXTS = 10_000
MAX_MATCHES = 1_000
_MATCHES_SHOWN = 100

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
Target = Annotated[str, Field(max_length=4_000, pattern=r"^webhook \S+$")]


class NewWatch(JsonBody):
    """Text patterns to match against every page fetched from now on."""

    texts: list[Text] = Field(
        min_length=1,
        max_length=MAX_TEXTS,
        description="Patterns: literal strings of the extracted page text.",
    )
    name: str = Field("", max_length=200, description="Unique name; empty: the first pattern.")
    ignore: list[Literal["case", "accents", "width"]] = Field(
        [], description="Differences to ignore when matching."
    )
    collections: list[str] = Field(
        [], max_length=100, description="Only match pages of these collections; empty: all."
    )
    notify: list[Target] = Field(
        [],
        max_length=10,
        description="Notification targets: `webhook URL`. One notification per matching page.",
    )


router = APIRouter()
errors = {**ERRORS, **INVALID, **WRITE_ERRORS}
_TAKEN = error_responses({409: "Another watch has the name"})


@router.get("/api/v1/watches", responses=errors, dependencies=[READER], tags=["watch"])
def watches(services: ServicesDep) -> list[WatchInfo]:
    """List the watches, oldest first."""
    return list_watches(services.root)


@router.post(
    "/api/v1/watches",
    responses={**errors, **_TAKEN},
    status_code=201,
    response_model=WatchInfo,
    dependencies=[WRITER],
    tags=["watch"],
)
def add(services: ServicesDep, new: NewWatch) -> WatchInfo | Response:
    """Add a watch. A running crawl applies it within seconds."""
    config = services.config()
    try:
        return add_watch(
            services.root,
            config,
            new.texts,
            new.ignore,
            name=new.name,
            collections=new.collections,
            notify=new.notify,
        )
    except NameTaken as error:
        return problem_response(409, "The name is taken", str(error))


@router.delete(
    "/api/v1/watches/{watch}",
    responses=errors,
    status_code=204,
    dependencies=[WRITER],
    tags=["watch"],
)
def remove(
    services: ServicesDep, watch: Annotated[str, Path(description="ID or name of the watch.")]
) -> None:
    """Remove a watch by ID or name. Its matches are kept."""
    remove_watch(services.root, watch)


@router.get("/api/v1/matches", responses=errors, dependencies=[READER], tags=["watch"])
def list_matches(
    services: ServicesDep,
    watch: Annotated[
        str,
        Query(
            max_length=200,
            description="ID or name of a watch, or ID of a `find` call (default: all).",
        ),
    ] = "",
    since: Annotated[
        datetime | None, Query(description="Only matches in pages fetched since this time.")
    ] = None,
    site: Annotated[
        str,
        Query(
            max_length=MAX_URL_LENGTH,
            description="Only pages of this host, or whose URL starts with this URL.",
        ),
    ] = "",
    n: Annotated[
        int,
        Query(ge=1, le=MAX_MATCHES, description="Maximum number of matches, newest first."),
    ] = 100,
    every: Annotated[bool, Query(description="Include older versions of each page.")] = False,
) -> MatchList:
    """List the matches of the patterns."""
    listed, total = matches(services.root, watch, since=since, site=site, most=n, every=every)
    return MatchList(total, listed)


@router.get("/watch", response_class=HTMLResponse, dependencies=[READER], include_in_schema=False)
def watch_page(services: ServicesDep, request: Request) -> Response:
    return _page(services, request)


def _page(services: Services, request: Request, problem: str = "") -> Response:
    collections = sorted(each.name for each in services.config().collection)
    return services.pages.page(
        request,
        "watch.html",
        400 if problem else 200,
        problem=problem,
        watches=list_watches(services.root),
        collections=collections,
        ignored=NAMES,
    )


@router.post("/watch", include_in_schema=False)
def add_from_form(services: ServicesDep, request: Request, fields: WriterForm) -> Response:
    try:
        _add_fields(services, fields)
    except UsageError as error:
        return _page(services, request, str(error))
    return RedirectResponse("/watch", 303)


def _add_fields(services: Services, fields: WriterForm) -> None:
    texts = [line.strip() for line in fields.get("texts", "").splitlines() if line.strip()]
    if not texts:
        raise UsageError("the form contains no pattern: enter at least one, one pattern per line")
    webhook, chosen = fields.get("webhook", "").strip(), fields.get("collection", "")
    targets = [f"webhook {webhook}"] if webhook else []
    add_watch(
        services.root,
        services.config(),
        texts,
        [name for name in NAMES if fields.get(name)],
        name=fields.get("name", "").strip(),
        collections=[chosen] if chosen else [],
        notify=targets,
    )


@router.post("/watch/remove", include_in_schema=False)
def remove_from_form(services: ServicesDep, fields: WriterForm) -> Response:
    remove_watch(services.root, fields.get("watch", ""))
    return RedirectResponse("/watch", 303)


@router.get(
    "/watch/matches", response_class=HTMLResponse, dependencies=[READER], include_in_schema=False
)
def match_list(
    services: ServicesDep,
    request: Request,
    watch: Annotated[str, Query(max_length=200)] = "",
    site: Annotated[str, Query(max_length=MAX_URL_LENGTH)] = "",
) -> Response:
    try:
        listed, total = matches(services.root, watch, site=site, most=_MATCHES_SHOWN)
    except UsageError:
        raise HTTPException(404, "Unknown watch") from None
    names = {each.id: each.name for each in list_watches(services.root)}
    return services.pages.page(
        request,
        "matches.html",
        matches=listed,
        total=total,
        watch=watch,
        site=site,
        names=names,
    )
