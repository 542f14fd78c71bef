"""The web application: search page, JSON API, health, errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from lycosa.commands.inspection.terms import workspace_terms
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.serving import ServeSettings
from lycosa.core.errors import LycosaError, UsageError
from lycosa.core.messages import Message
from lycosa.core.system_errors import refusal
from lycosa.core.version import VERSION
from lycosa.hunt.requests import HuntHistory, begin_hunt
from lycosa.serve.captures.archive import Archived
from lycosa.serve.captures.cached import create_cached
from lycosa.serve.captures.versions import create_versions
from lycosa.serve.crawl.api import create_changes
from lycosa.serve.crawl.collections import create_collection_pages
from lycosa.serve.crawl.metrics import create_metrics
from lycosa.serve.crawl.pages import create_crawl_pages
from lycosa.serve.crawl.proposals import create_proposals
from lycosa.serve.hunts.api import create_hunts
from lycosa.serve.hunts.pages import create_hunt_pages
from lycosa.serve.library.api import create_library_api
from lycosa.serve.library.library import Library
from lycosa.serve.library.pages import create_library_pages
from lycosa.serve.search.api import create_router
from lycosa.serve.search.feeds import create_feeds
from lycosa.serve.search.pages import create_pages
from lycosa.serve.search.peers import create_peers
from lycosa.serve.search.sources import SearchSource, Source
from lycosa.serve.search.suggest import create_suggest
from lycosa.serve.search.terms import create_terms
from lycosa.serve.sites.pages import create_site_pages
from lycosa.serve.uptime.api import create_uptime
from lycosa.serve.uptime.pages import create_uptime_pages
from lycosa.serve.watches.api import create_watches
from lycosa.serve.watches.pages import create_watch_pages
from lycosa.serve.web.access import Access
from lycosa.serve.web.concurrency import Lanes
from lycosa.serve.web.i18n import message
from lycosa.serve.web.login import create_login
from lycosa.serve.web.problems import Fault, problem_response
from lycosa.serve.web.proxies import TrustedProxies
from lycosa.serve.web.rate_limits import Limited
from lycosa.serve.web.rendering import Frame
from lycosa.serve.web.request_bodies import BufferedBodies
from lycosa.serve.web.security import SECURITY_HEADERS, Guarded
from lycosa.store.storage.storage import open_storage

_STATIC = Path(__file__).parent / "web" / "static"


def create_app(
    root: str,
    status: Callable[[], Mapping[str, object]],
    hosts: Iterable[str] | None = None,
    source: Source | None = None,
    limits: ServeSettings | None = None,
    key: bytes = b"",
) -> FastAPI:
    """The application over the workspace at `root`.

    Args:
        root: the workspace; it may not have an index yet.
        status: gives the workspace's counts, JSON-ready.
        hosts: names that the Host header may carry; None: any (see `security.allowed_hosts`).
        source: what is searched; None: the workspace's index, in this process.
        limits: how often somebody may ask and change something; None: as the settings' defaults
            say.
        key: what signs sessions, where several processes serve together; empty: one is made.
    """
    app = FastAPI(
        title="Lycosa",
        summary="Search the crawled pages.",
        version=VERSION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # FastAPI's documentation pages load scripts from another machine
        redoc_url=None,
    )
    source = source or SearchSource(root)
    limits = limits or ServeSettings()
    access = Access(Tokens(open_storage(root)), limits.writes, key)
    frame = Frame(access)
    app.include_router(create_login(access, frame))
    app.include_router(create_router(source, status))
    app.include_router(create_pages(source, frame))
    app.include_router(create_feeds(source))
    app.include_router(create_suggest(source))
    app.include_router(create_terms(lambda request: workspace_terms(root, request)))
    app.include_router(create_metrics(root))
    app.include_router(create_hunts(access, lambda request: begin_hunt(root, request)))
    archived = Archived(root)
    app.include_router(create_cached(frame, archived.versions, source.holds))
    app.include_router(create_versions(frame, archived.versions))
    app.include_router(create_peers(lambda: source.own))
    app.include_router(create_crawl_pages(root, frame, access, status))
    app.include_router(create_collection_pages(root, frame))
    app.include_router(create_changes(root, access))
    app.include_router(create_watches(root, access))
    app.include_router(create_hunt_pages(HuntHistory(root), frame, access))
    app.include_router(create_watch_pages(root, frame, access))
    app.include_router(create_uptime_pages(root, frame, access))
    app.include_router(create_uptime(root, access))
    app.include_router(create_proposals(root, frame, access, public=limits.public_form))
    app.include_router(create_site_pages(root, frame))
    library = Library(root, limits.library)
    app.include_router(create_library_pages(root, frame, access, library))
    app.include_router(create_library_api(root, access, library))
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")

    @app.get("/healthz", tags=["workspace"])
    def healthz() -> dict[str, str]:
        """Return 200 if the server responds. The state of the index is not checked."""
        return {"status": "ok"}

    @app.get("/robots.txt", include_in_schema=False)
    def robots() -> PlainTextResponse:
        return PlainTextResponse("User-agent: *\nDisallow: /\n")

    _handle_errors(app, frame)
    app.add_middleware(
        Lanes,
        signed_in=lambda scope: access.is_signed_in(Request(scope)),
        asking=not isinstance(source, SearchSource),
    )
    app.add_middleware(BufferedBodies)
    app.add_middleware(Limited, rate=limits.rate)
    app.add_middleware(Guarded, hosts=hosts)
    app.add_middleware(TrustedProxies, trusted=limits.trusted_proxies)
    return app


def _handle_errors(app: FastAPI, frame: Frame) -> None:
    def respond(
        request: Request, status: int, title: str, detail: str = "", faults: Iterable[Fault] = ()
    ) -> Response:
        faults = list(faults)
        if _wants_html(request):
            text = " ".join(
                [detail, *(f"{fault.parameter}: {fault.message}." for fault in faults)]
            ).strip()
            return frame.page(
                request, "error.html", status, status=status, title=title, detail=text
            )
        return problem_response(status, title, detail, faults)

    @app.exception_handler(RequestValidationError)
    def wrong_parameter(request: Request, error: RequestValidationError) -> Response:
        faults = (
            Fault(parameter=str(problem["loc"][-1]), message=problem["msg"])
            for problem in error.errors()
        )
        return respond(request, 422, message("A parameter is invalid"), faults=faults)

    @app.exception_handler(LycosaError)
    def known_error(request: Request, error: LycosaError) -> Response:
        if isinstance(error, UsageError):
            return respond(request, 400, message("The request cannot be answered"), str(error))
        return respond(request, 503, message("The workspace cannot be read"), str(error))

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 303:
            return Response(status_code=303, headers=error.headers)
        title = str(error.detail)
        response = respond(request, error.status_code, title)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(OSError)
    def refused(request: Request, error: OSError) -> Response:
        if not (said := refusal(error)):
            raise error
        print(f"{request.method} {request.url.path}: {said}", file=sys.stderr, flush=True)
        detail = Message(
            "refused",
            "The disk of the server is full or not writable. Nothing was changed. The "
            "log of the server has the details.",
        )
        return respond(request, 507, message("The server cannot store this"), detail)

    @app.exception_handler(Exception)
    def our_fault(request: Request, error: Exception) -> Response:
        # Starlette answers this one outside the middleware and raises the error again for the log.
        response = respond(
            request,
            500,
            message("Internal server error"),
            Message("our_fault", "The log of the server has the details."),
        )
        response.headers.update(SECURITY_HEADERS)
        return response


def _wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(
        "/api/"
    )
