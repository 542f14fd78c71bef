"""The web application: routes of all areas, middleware, and error responses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from lycosa.captures.captures import NoVersion
from lycosa.config.serving import ServeSettings
from lycosa.core.errors import LycosaError, UsageError
from lycosa.core.messages import Message
from lycosa.core.system_errors import refusal
from lycosa.core.version import VERSION
from lycosa.daemon.metrics import CONTENT_TYPE
from lycosa.serve.captures import pages as captures_pages
from lycosa.serve.crawl import collections as crawl_collections
from lycosa.serve.crawl import pages as crawl_pages
from lycosa.serve.crawl import proposals as crawl_proposals
from lycosa.serve.hunts import pages as hunts_pages
from lycosa.serve.library import pages as library_pages
from lycosa.serve.search import api as search_api
from lycosa.serve.search import feeds as search_feeds
from lycosa.serve.search import pages as search_pages
from lycosa.serve.search import peers as search_peers
from lycosa.serve.search.sources import SearchSource, Source
from lycosa.serve.services import Services, ServicesDep
from lycosa.serve.sites import pages as sites_pages
from lycosa.serve.uptime import pages as uptime_pages
from lycosa.serve.watches import pages as watches_pages
from lycosa.serve.web import login
from lycosa.serve.web.concurrency import ConcurrencyLimiter
from lycosa.serve.web.i18n import message
from lycosa.serve.web.problems import Fault, error_response
from lycosa.serve.web.proxies import TrustedProxies
from lycosa.serve.web.rate_limits import RateLimitMiddleware
from lycosa.serve.web.request_bodies import BufferedBodies
from lycosa.serve.web.security import SECURITY_HEADERS, SecurityMiddleware
from lycosa.serve.web.slow_clients import ResponseMemory

ENCODER_FAILURES = "lycosa_encoder_failures_total"
_STATIC = Path(__file__).parent / "web" / "static"
ROUTERS = (
    login.router,
    search_api.router,
    search_pages.router,
    search_feeds.router,
    search_peers.router,
    crawl_pages.router,
    crawl_collections.router,
    crawl_proposals.router,
    captures_pages.router,
    hunts_pages.router,
    watches_pages.router,
    uptime_pages.router,
    sites_pages.router,
    library_pages.router,
)
router = APIRouter()
_MESSAGES = {
    "model_attributes_type": "The body must be a JSON object, sent with "
    "`Content-Type: application/json`",
}


@router.get("/healthz", tags=["workspace"])
def healthz() -> dict[str, str]:
    """Return 200 if the server responds. The state of the index is not checked."""
    return {"status": "ok"}


@router.get(
    "/metrics",
    tags=["workspace"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
def metrics(services: ServicesDep) -> Response:
    """Return the metrics of the workspace in the Prometheus text format."""
    text = services.meter.text()
    failures = services.encoder_failures
    if failures is not None:
        text += (
            f"# HELP {ENCODER_FAILURES} Queries that the encoder did not encode.\n"
            f"# TYPE {ENCODER_FAILURES} counter\n{ENCODER_FAILURES} {failures}\n"
        )
    return Response(text, media_type=CONTENT_TYPE)


@router.get("/robots.txt", include_in_schema=False)
def robots() -> PlainTextResponse:
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


def create_app(
    root: str,
    status: Callable[[], Any],
    hosts: Iterable[str] | None = None,
    source: Source | None = None,
    limits: ServeSettings | None = None,
    key: bytes = b"",
) -> FastAPI:
    """Create the application of the workspace at `root`.

    Args:
        root: the workspace; it may not have an index yet.
        status: returns the counts of the workspace.
        hosts: names that the Host header may carry; None: any (see `security.allowed_hosts`).
        source: the index to search; None: that of the workspace, in this process.
        limits: limits on requests and changes; None: the defaults of the settings.
        key: signs sessions, where several processes serve together; empty: a new one.
    """
    app = FastAPI(
        title="Lycosa",
        summary="Search the crawled pages.",
        version=VERSION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # FastAPI's documentation pages load scripts from another machine
        redoc_url=None,
    )
    limits = limits or ServeSettings()
    services = Services(root, status, source, limits, key)
    app.state.services = services
    for each in (router, *ROUTERS):
        app.include_router(each)
    if limits.public_form:
        app.include_router(crawl_proposals.public_router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    _handle_errors(app)
    app.add_middleware(
        ConcurrencyLimiter,
        signed_in=lambda scope: services.access.is_signed_in(Request(scope)),
        remote_search=not isinstance(services.source, SearchSource),
    )
    app.add_middleware(ResponseMemory)
    app.add_middleware(BufferedBodies)
    app.add_middleware(RateLimitMiddleware, rate=limits.rate)
    app.add_middleware(SecurityMiddleware, hosts=hosts)
    app.add_middleware(TrustedProxies, trusted=limits.trusted_proxies)
    return app


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    def wrong_parameter(request: Request, error: RequestValidationError) -> Response:
        faults = [
            Fault(
                parameter=_parameter(problem["loc"]),
                message=_MESSAGES.get(problem["type"], problem["msg"]),
            )
            for problem in error.errors()
        ]
        return error_response(request, 422, message("A parameter is invalid"), faults=faults)

    @app.exception_handler(LycosaError)
    def lycosa_error(request: Request, error: LycosaError) -> Response:
        if isinstance(error, NoVersion):
            return error_response(request, 404, error.reason)
        if isinstance(error, UsageError):
            return error_response(request, 400, message("Invalid request"), str(error))
        return error_response(request, 503, message("The workspace cannot be read"), str(error))

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 303:
            return Response(status_code=303, headers=error.headers)
        return error_response(request, error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(OSError)
    def refused(request: Request, error: OSError) -> Response:
        if not (reason := refusal(error)):
            raise error
        print(f"{request.method} {request.url.path}: {reason}", file=sys.stderr, flush=True)
        detail = Message(
            "refused",
            "The disk of the server is full or not writable. Nothing was changed. The "
            "log of the server has the details.",
        )
        return error_response(request, 507, message("The server cannot store this"), detail)

    @app.exception_handler(Exception)
    def internal_error(request: Request, error: Exception) -> Response:
        # Starlette sends it outside the middleware and raises the error again for the log.
        return error_response(
            request,
            500,
            message("Internal server error"),
            Message("internal_error", "The log of the server has the details."),
            headers=SECURITY_HEADERS,
        )


def _parameter(place: Sequence[str | int]) -> str:
    """Return the name of an invalid parameter, `texts.0` for an element; `body`: all of it."""
    named = place[1:] if len(place) > 1 and isinstance(place[1], str) else place[:1]
    return ".".join(map(str, named))
