"""Sign in with a token, and sign out: for browsers, by forms and a cookie."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.serve.services import WRITER, ServicesDep
from lycosa.serve.web.access import COOKIE, SESSION_S, address_of_client, require_same_site
from lycosa.serve.web.i18n import COOKIE as COOKIE_OF_LANGUAGE
from lycosa.serve.web.i18n import LANGUAGES
from lycosa.serve.web.request_bodies import form_fields

_MAX_PATH = 3_000  # characters, percent-decoded: queries and nearly all URLs fit
_YEAR_S = 366 * 86_400


router = APIRouter(include_in_schema=False)


@router.get("/login", response_class=HTMLResponse)
def sign_in_form(services: ServicesDep, request: Request, next: str = "/") -> HTMLResponse:
    return services.pages.page(request, "login.html", next=safe_path(next), wrong=False)


@router.post("/login")
async def sign_in(services: ServicesDep, request: Request) -> Response:
    require_same_site(request)
    fields = await form_fields(request)
    cookie = services.access.open_session(
        fields.get("token", "").strip(), address_of_client(request)
    )
    if cookie is None:
        return services.pages.page(
            request, "login.html", 401, next=safe_path(fields.get("next", "/")), wrong=True
        )
    response = RedirectResponse(safe_path(fields.get("next", "/")), 303)
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/logout", dependencies=[WRITER])
def sign_out() -> Response:
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


@router.get("/language")
def choose_language(
    request: Request,
    to: Annotated[str, Query(max_length=16)],
    next: str = "/",
) -> Response:
    response = RedirectResponse(safe_path(next), 303)
    if to in LANGUAGES:
        response.set_cookie(
            COOKIE_OF_LANGUAGE,
            to,
            max_age=_YEAR_S,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
    return response


def safe_path(path: str) -> str:
    """Return a path on this site to continue at. Anything else becomes `/`."""
    if (
        not path.startswith("/")
        or path.startswith(("//", "/\\"))
        or len(unquote(path)) > _MAX_PATH
        or not path.isprintable()
    ):
        return "/"
    return path
