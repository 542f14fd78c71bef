"""The web application: search page, JSON API, health, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from lycosa.app.terms import workspace_terms
from lycosa.core.errors import LycosaError, UsageError
from lycosa.core.version import VERSION
from lycosa.serve.api import create_router
from lycosa.serve.feeds import create_feeds
from lycosa.serve.metrics import create_metrics
from lycosa.serve.pages import create_pages, render_error
from lycosa.serve.problems import Fault, problem_response
from lycosa.serve.security import SECURITY_HEADERS, Guarded
from lycosa.serve.source import SearchSource, Source
from lycosa.serve.terms import create_terms

_STATIC = Path(__file__).parent / "static"


def create_app(
    root: str, status: Callable[[], Mapping[str, object]], hosts: Iterable[str] | None = None, source: Source | None = None
) -> FastAPI:
    """The application over the workspace at `root`.

    Args:
        root: the workspace; it may not have an index yet.
        status: gives the workspace's counts, JSON-ready.
        hosts: names that the Host header may carry; None: any (see `security.allowed_hosts`).
        source: what is searched; None: the workspace's index, in this process.
    """
    app = FastAPI(
        title="Lycosa",
        summary="Search what this robot has crawled.",
        version=VERSION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # FastAPI's documentation pages load scripts from another machine
        redoc_url=None,
    )
    source = source or SearchSource(root)
    app.include_router(create_router(source, status))
    app.include_router(create_pages(source))
    app.include_router(create_feeds(source))
    app.include_router(create_terms(lambda request: workspace_terms(root, request)))
    app.include_router(create_metrics(root))
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")

    @app.get("/healthz", tags=["workspace"])
    def healthz() -> dict[str, str]:
        """Whether the server answers; says nothing about the index."""
        return {"status": "ok"}

    @app.get("/robots.txt", include_in_schema=False)
    def robots() -> PlainTextResponse:
        return PlainTextResponse("User-agent: *\nDisallow: /\n")

    _handle_errors(app)
    app.add_middleware(Guarded, hosts=hosts)
    return app


def _handle_errors(app: FastAPI) -> None:
    def respond(request: Request, status: int, title: str, detail: str = "", faults: Iterable[Fault] = ()) -> Response:
        faults = list(faults)
        if _wants_html(request):
            text = " ".join([detail, *(f"{fault.parameter}: {fault.message}." for fault in faults)]).strip()
            return HTMLResponse(render_error(status, title, text), status)
        return problem_response(status, title, detail, faults)

    @app.exception_handler(RequestValidationError)
    def wrong_parameter(request: Request, error: RequestValidationError) -> Response:
        faults = (Fault(parameter=str(problem["loc"][-1]), message=problem["msg"]) for problem in error.errors())
        return respond(request, 422, "A parameter is wrong", faults=faults)

    @app.exception_handler(LycosaError)
    def known_error(request: Request, error: LycosaError) -> Response:
        if isinstance(error, UsageError):
            return respond(request, 400, "This cannot be answered", str(error))
        return respond(request, 503, "The workspace cannot be read", str(error))

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        title = str(error.detail)
        response = respond(request, error.status_code, title)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    def our_fault(request: Request, error: Exception) -> Response:
        # Starlette answers this one outside the middleware and raises the error again for the log.
        response = respond(request, 500, "Something went wrong here", "The server's log says what.")
        response.headers.update(SECURITY_HEADERS)
        return response


def _wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
