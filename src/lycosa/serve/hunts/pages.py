"""Hunts as pages: start one, follow its results, stop it, and list past hunts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.commands.search_models import cached_path
from lycosa.core.errors import OwnedError, UsageError
from lycosa.hunt.requests import HuntView
from lycosa.serve.hunts.api import HuntParameters
from lycosa.serve.search.views import web_href
from lycosa.serve.services import WRITER, Services, ServicesDep, Writer, WriterForm
from lycosa.serve.web.i18n import Interface, message

_ENDS = {
    "enough": message("enough results found"),
    "max_time": message("time limit reached"),
    "max_pages": message("page limit reached"),
    "finished": message("no links left to follow"),
    "stopped": message("stopped on request"),
}


router = APIRouter(include_in_schema=False)


@router.get("/hunt", response_class=HTMLResponse)
def ask(
    services: ServicesDep, request: Request, q: Annotated[str, Query(max_length=2_000)] = ""
) -> HTMLResponse:
    return _page(services, request, query=q.strip())


def _page(
    services: Services, request: Request, code: int = 200, problem: str = "", query: str = ""
) -> HTMLResponse:
    return services.pages.page(
        request, "hunt.html", code, query=query, hunts=services.hunts.all(), problem=problem
    )


@router.post("/hunt")
def begin(services: ServicesDep, request: Request, fields: WriterForm, name: Writer) -> Response:
    query = fields.get("query", "").strip()
    try:
        parameters = HuntParameters.model_validate(
            {
                "query": query,
                "seeds": fields.get("seeds", "").split(),
                "time": fields.get("time", "").strip() or "30s",
                "pages": fields.get("pages", "").strip() or None,
                "enough": fields.get("enough", "").strip() or None,
                "strategy": fields.get("strategy", "best"),
            }
        )
        hunt_id = services.hunts.begin(parameters.request(), name)
    except ValidationError as error:
        faults = (f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors())
        return _page(services, request, 400, "; ".join(faults))
    except UsageError as error:
        return _page(services, request, 400, str(error))
    except OwnedError as error:
        return _page(services, request, 409, str(error))
    return RedirectResponse(f"/hunt/{hunt_id}", 303)


@router.get("/hunt/{hunt_id}", response_class=HTMLResponse)
def follow(services: ServicesDep, request: Request, hunt_id: str) -> HTMLResponse:
    view = services.hunts.view(hunt_id)
    if view is None:
        raise HTTPException(404, "Unknown hunt")
    words = services.pages.words(request)
    results = [
        {
            **each,
            "href": web_href(each["url"]),
            "cached": cached_path(each["url"]),
            "via_copy": cached_path(each["via"]) if each.get("via") else "",
            "pieces": [(piece["text"], piece["match"]) for piece in each.get("fragments", [])],
        }
        for each in view.results
    ]
    return services.pages.page(
        request, "hunt_one.html", hunt=view, results=results, why=_why(view, words)
    )


@router.post("/hunt/{hunt_id}/stop", dependencies=[WRITER])
def stop(services: ServicesDep, hunt_id: str) -> Response:
    services.hunts.stop(hunt_id)
    return RedirectResponse(f"/hunt/{hunt_id}", 303)


def _why(view: HuntView, words: Interface) -> str:
    return words.t(_ENDS[view.ended]) if view.ended in _ENDS else view.ended
