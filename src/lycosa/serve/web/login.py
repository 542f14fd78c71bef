"""Coming in with a token, and leaving: for people, who use forms and a cookie."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.serve.web.access import COOKIE, SESSION_S, Access, address_of_client, require_same_site
from lycosa.serve.web.forms import form_fields
from lycosa.serve.web.i18n import COOKIE as COOKIE_OF_LANGUAGE
from lycosa.serve.web.i18n import LANGUAGES
from lycosa.serve.web.rendering import Frame

_MAX_WAY = 2_000
_YEAR_S = 366 * 86_400


def create_login(access: Access, frame: Frame) -> APIRouter:
    """The routes /login and /logout, and /language, which remembers a reader's choice."""
    router = APIRouter(include_in_schema=False)

    @router.get("/login", response_class=HTMLResponse)
    def ask(
        request: Request, next: Annotated[str, Query(max_length=_MAX_WAY)] = "/"
    ) -> HTMLResponse:
        return frame.page(request, "login.html", next=own_path(next), wrong=False)

    @router.post("/login")
    async def come_in(request: Request) -> Response:
        require_same_site(request)
        fields = await form_fields(request)
        cookie = access.open(fields.get("token", "").strip(), address_of_client(request))
        if cookie is None:
            return frame.page(
                request, "login.html", 401, next=own_path(fields.get("next", "/")), wrong=True
            )
        response = RedirectResponse(own_path(fields.get("next", "/")), 303)
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    @router.post("/logout", dependencies=[Depends(access.writer)])
    def leave() -> Response:
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    @router.get("/language")
    def choose(
        request: Request,
        to: Annotated[str, Query(max_length=16)],
        next: Annotated[str, Query(max_length=_MAX_WAY)] = "/",
    ) -> Response:
        response = RedirectResponse(own_path(next), 303)
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

    return router


def own_path(given: str) -> str:
    """Where to go next, on this site only: a path from its root. Anything else becomes `/`."""
    if (
        not given.startswith("/")
        or given.startswith(("//", "/\\"))
        or len(given) > _MAX_WAY
        or not given.isprintable()
    ):
        return "/"
    return given
