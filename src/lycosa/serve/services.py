"""The services of request handlers: search index, archive, caches of reports, access control."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from lycosa.captures.content import Versions
from lycosa.captures.history import History, visits_over_time
from lycosa.commands.inspection.collection_facts import collection_facts
from lycosa.commands.inspection.passages import PassageFinder
from lycosa.commands.maintenance.collections import list_collections
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.commands.models import CollectionFacts, CollectionSummary, WorkspaceStatus
from lycosa.config.serving import ServeSettings
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.crawl.session.planning import require_collection
from lycosa.crawl.session.workspace_config import read_config
from lycosa.daemon.metrics import Meter
from lycosa.hunt.requests import HuntHistory
from lycosa.search.engine.searcher import SearchRequest, SearchResults
from lycosa.search.federation.federated_search import FederatedSearch
from lycosa.serve.library.library import Library
from lycosa.serve.search.sources import SearchSource, ShardsAndOthers, Source
from lycosa.serve.web.access import Access
from lycosa.serve.web.rate_limits import RateLimiter
from lycosa.serve.web.rendering import PLACES, PROPOSE, PageRenderer
from lycosa.serve.web.request_bodies import form_fields
from lycosa.serve.web.ttl_cache import TtlCache
from lycosa.site.report import SiteReport, report_of
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from lycosa.uptime.report import UptimeReport, report_host, report_monitors

PROPOSALS_PER_HOUR = 10
"""Proposals that one IP address may make in an hour."""


class Services:
    """The services of one application. Threads may share it.

    Args:
        root: the workspace; it may not have an index yet.
        status: returns the counts of the workspace.
        source: the index to search; None: that of the workspace, in this process.
        limits: limits on requests and changes.
        key: signs sessions; empty: a new one is made.
    """

    def __init__(
        self,
        root: str,
        status: Callable[[], Any],
        source: Source | None,
        limits: ServeSettings,
        key: bytes = b"",
    ) -> None:
        self.root = root
        self.status = status
        self.source = source or SearchSource(root)
        self.storage = open_storage(root)
        self.access = Access(Tokens(self.storage), limits.writes, key)
        self.pages = PageRenderer(self.access, (*PLACES, PROPOSE) if limits.public_form else PLACES)
        self._versions: Versions | None = None
        self._opening_versions = threading.Lock()
        self.library = Library(root, limits.library)
        self.hunts = HuntHistory(root)
        self.meter = Meter(root)
        self.proposal_limit = RateLimiter(PROPOSALS_PER_HOUR / 3600, PROPOSALS_PER_HOUR)
        self.terms_lock = threading.Lock()
        """One request for term statistics at a time: each reads all pages."""
        self.recent_status = TtlCache[str, WorkspaceStatus](lambda _: status())
        self.host_visits = TtlCache[str, History](lambda host: visits_over_time(root, host=host))
        self.collection_visits = TtlCache[str, History](
            lambda name: visits_over_time(root, collection=name)
        )
        self.collection_facts = TtlCache[str, CollectionFacts | None](
            lambda name: collection_facts(root, self.config(), name)
        )
        self.collections = TtlCache[str, list[CollectionSummary]](
            lambda _: list_collections(Workspace.open(root), self.config())
        )
        self.site_reports = TtlCache[str, SiteReport | None](self._site_report, max_entries=4)
        self.monitors = TtlCache[tuple[str, ...], UptimeReport](
            lambda _: report_monitors(root, self.config())
        )
        self.host_uptime = TtlCache[str, UptimeReport](
            lambda name: report_host(root, self.config(), name)
        )

    def config(self) -> Config:
        """Return the current settings. Raises ConfigError."""
        return read_config(self.root)

    def versions(self) -> Versions:
        """Return the archive, opened once: its child process reads documents for all requests.

        Raises WorkspaceError: no workspace; ConfigError: invalid settings.
        """
        with self._opening_versions:
            if self._versions is None:
                self._versions = Versions(self.root, self.config())
                atexit.register(self._versions.close)
        return self._versions

    def search(self, request: SearchRequest) -> SearchResults:
        """Search. Raises UsageError: the workspace, searched alone, has no such collection."""
        results = self.source.search(request)
        is_alone = not isinstance(self.source, FederatedSearch | ShardsAndOthers)
        if is_alone and not results.total:
            self.require_collection(request.collection or "")
        return results

    def require_collection(self, name: str) -> None:
        """Raise UsageError if the workspace has no such collection; "" is any."""
        if name:
            require_collection(Workspace.open(self.root), self.config(), name)

    @cached_property
    def passages(self) -> PassageFinder:
        """Finds passages; its chunks of pages are cached."""
        return PassageFinder(self.root, self.source)

    @property
    def encoder_failures(self) -> int | None:
        """Queries of this process that the encoder failed to encode; None: no search for passages
        yet.
        """
        finder: PassageFinder | None = self.__dict__.get("passages")
        return None if finder is None else finder.encoder_failures

    def _site_report(self, name: str) -> SiteReport | None:
        try:
            return report_of(self.root, name, config=self.config())
        except UsageError:
            return None


async def get_services(request: Request) -> Services:
    """Return the services of the application that received a request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


_TOKEN = Security(
    HTTPBearer(
        scheme_name="token", description="Created by `lycosa token add NAME`.", auto_error=False
    )
)
"""Describes the token in OpenAPI; `Access` checks it."""


async def require_writer(request: Request, services: ServicesDep, _: object = _TOKEN) -> str:
    """Return the name of the token that allows a change.

    Raises:
        HTTPException: 401, 403 or 429.
    """
    return await services.access.writer(request)


async def require_reader(request: Request, services: ServicesDep, _: object = _TOKEN) -> str:
    """Return the name of the token that allows reading protected data.

    Raises:
        HTTPException: 401 or 429; 303 for pages, to the sign-in page.
    """
    return await services.access.reader(request)


READER, WRITER = Depends(require_reader), Depends(require_writer)
Writer = Annotated[str, WRITER]


async def writer_form(request: Request, _: Writer) -> Mapping[str, str]:
    """Return the fields of a form, sent with a token that allows a change."""
    return await form_fields(request)


WriterForm = Annotated[Mapping[str, str], Depends(writer_form)]
