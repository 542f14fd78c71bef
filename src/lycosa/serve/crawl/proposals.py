"""The public form to propose sites (`serve.public_form`), and the page where users with a token
decide.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.commands.crawling.moderation import drop, proposals, propose, take
from lycosa.core.errors import UsageError
from lycosa.crawl.session.workspace_config import read_config
from lycosa.serve.web.access import Access, address_of_client, require_same_site
from lycosa.serve.web.forms import form_fields
from lycosa.serve.web.rate_limits import Rates
from lycosa.serve.web.rendering import Frame, with_query
from lycosa.store.storage.storage import open_storage

AN_HOUR = 10
"""Proposals that one address may make in an hour."""


def create_proposals(root: str, frame: Frame, access: Access, *, public: bool) -> APIRouter:
    """The routes /propose (with `public`) and /proposals."""
    router = APIRouter(include_in_schema=False)
    rates = Rates(AN_HOUR / 3600, AN_HOUR)

    if public:

        @router.get("/propose", response_class=HTMLResponse)
        def form(request: Request, done: bool = False) -> HTMLResponse:
            return frame.page(request, "propose.html", done=done)

        @router.post("/propose")
        async def send(request: Request) -> Response:
            require_same_site(request)
            if wait_s := rates.take(address_of_client(request)):
                raise HTTPException(
                    429, "Too many proposals from your IP address", {"Retry-After": str(wait_s)}
                )
            fields = await form_fields(request)
            await run_in_threadpool(
                propose, open_storage(root), fields.get("url", ""), fields.get("note", "")
            )
            return RedirectResponse("/propose?done=true", 303)

    @router.get("/proposals", response_class=HTMLResponse, dependencies=[Depends(access.reader)])
    def waiting(request: Request, problem: Annotated[str, Query(max_length=500)] = "") -> Response:
        collections = sorted(each.name for each in read_config(root).collection)
        return frame.page(
            request,
            "proposals.html",
            proposals=proposals(open_storage(root)),
            collections=collections,
            problem=problem,
        )

    @router.post("/proposals")
    async def decide(request: Request, _: str = Depends(access.writer)) -> Response:
        fields = await form_fields(request)
        identity = fields.get("proposal", "")
        if fields.get("decision") == "take":
            try:
                await run_in_threadpool(
                    lambda: take(root, read_config(root), identity, fields.get("collection", ""))
                )
            except UsageError as error:
                return RedirectResponse(with_query("/proposals", problem=str(error)[:500]), 303)
        else:
            await run_in_threadpool(drop, open_storage(root), identity)
        return RedirectResponse("/proposals", 303)

    return router
