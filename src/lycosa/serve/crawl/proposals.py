"""The public form to propose sites (`serve.public_form`), and the page where users with a token
decide.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.commands.crawling.submissions import drop, proposals, propose, take
from lycosa.core.errors import UsageError
from lycosa.serve.services import READER, ServicesDep, WriterForm
from lycosa.serve.web.access import address_of_client, require_same_site
from lycosa.serve.web.rendering import with_query
from lycosa.serve.web.request_bodies import form_fields

router = APIRouter(include_in_schema=False)

public_router = APIRouter(include_in_schema=False)


@public_router.get("/propose", response_class=HTMLResponse)
def form(services: ServicesDep, request: Request, done: bool = False) -> HTMLResponse:
    return services.pages.page(request, "propose.html", done=done)


@public_router.post("/propose")
async def send(services: ServicesDep, request: Request) -> Response:
    require_same_site(request)
    if wait_s := services.proposal_limit.take(address_of_client(request)):
        raise HTTPException(
            429, "Too many proposals from your IP address", {"Retry-After": str(wait_s)}
        )
    fields = await form_fields(request)
    try:
        await run_in_threadpool(
            propose, services.storage, fields.get("url", ""), fields.get("note", "")
        )
    except UsageError as error:
        return services.pages.page(request, "propose.html", 400, done=False, problem=str(error))
    return RedirectResponse("/propose?done=true", 303)


@router.get("/proposals", response_class=HTMLResponse, dependencies=[READER])
def waiting(
    services: ServicesDep, request: Request, problem: Annotated[str, Query(max_length=500)] = ""
) -> Response:
    collections = sorted(each.name for each in services.config().collection)
    return services.pages.page(
        request,
        "proposals.html",
        proposals=proposals(services.storage),
        collections=collections,
        problem=problem,
    )


@router.post("/proposals")
def decide(services: ServicesDep, fields: WriterForm) -> Response:
    identity = fields.get("proposal", "")
    if fields.get("decision") == "take":
        try:
            config = services.config()
            take(services.root, config, identity, fields.get("collection", ""))
        except UsageError as error:
            return RedirectResponse(with_query("/proposals", problem=str(error)[:500]), 303)
    else:
        drop(services.storage, identity)
    return RedirectResponse("/proposals", 303)
