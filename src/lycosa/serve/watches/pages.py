"""Watches as pages: text patterns that are matched against every page, and their matches. Requires
a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.core.errors import UsageError
from lycosa.crawl.session.workspace_config import read_config
from lycosa.matching.normalise import NAMES
from lycosa.serve.services import READER, Services, ServicesDep, WriterForm
from lycosa.url.normalise import MAX_URL_LENGTH
from lycosa.watch.watches import (
    add_watch,
    list_watches,
    matches,
    remove_watch,
)

MATCHES = 100


router = APIRouter(include_in_schema=False)


@router.get("/watch", response_class=HTMLResponse, dependencies=[READER])
def watches(services: ServicesDep, request: Request) -> Response:
    return _page(services, request)


def _page(services: Services, request: Request, problem: str = "") -> Response:
    collections = sorted(each.name for each in read_config(services.root).collection)
    return services.pages.page(
        request,
        "watch.html",
        400 if problem else 200,
        problem=problem,
        watches=list_watches(services.root),
        collections=collections,
        ignored=NAMES,
    )


@router.post("/watch")
def add(services: ServicesDep, request: Request, fields: WriterForm) -> Response:
    try:
        _add(services, fields)
    except UsageError as error:
        return _page(services, request, str(error))
    return RedirectResponse("/watch", 303)


def _add(services: Services, fields: Mapping[str, str]) -> None:
    texts = [line.strip() for line in fields.get("texts", "").splitlines() if line.strip()]
    if not texts:
        raise UsageError("the form contains no pattern: enter at least one, one pattern per line")
    webhook, chosen = fields.get("webhook", "").strip(), fields.get("collection", "")
    targets = [f"webhook {webhook}"] if webhook else []
    add_watch(
        services.root,
        read_config(services.root),
        texts,
        [name for name in NAMES if fields.get(name)],
        name=fields.get("name", "").strip(),
        collections=[chosen] if chosen else [],
        notify=targets,
    )


@router.post("/watch/remove")
def remove(services: ServicesDep, fields: WriterForm) -> Response:
    remove_watch(services.root, fields.get("watch", ""))
    return RedirectResponse("/watch", 303)


@router.get("/watch/matches", response_class=HTMLResponse, dependencies=[READER])
def match_list(
    services: ServicesDep,
    request: Request,
    watch: Annotated[str, Query(max_length=200)] = "",
    site: Annotated[str, Query(max_length=MAX_URL_LENGTH)] = "",
) -> Response:
    try:
        listed, total = matches(services.root, watch, site=site, most=MATCHES)
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
