"""Change a crawl over the API: add URLs, exclude, pause and resume. Each requires a token
(`serve.access`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from lycosa.commands.crawl_models import AddedUrls
from lycosa.commands.crawling.submissions import submit_urls
from lycosa.commands.inspection.explain import explain_url
from lycosa.commands.inspection.hosts import list_hosts
from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.commands.models import ExclusionReport, HostTable, UrlExplanation
from lycosa.crawl.session.pausing import set_paused
from lycosa.crawl.session.workspace_config import read_config
from lycosa.serve.services import WRITER, ServicesDep, Writer
from lycosa.serve.web.problems import ERRORS, INVALID, WRITE_ERRORS
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_URLS = 1_000

CollectionName = Annotated[str, Path(description="Name of the collection.")]
Url = Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH)]


class NewUrls(JsonBody):
    """URLs for the crawl. Either all are accepted or none."""

    urls: list[Url] = Field(
        min_length=1,
        max_length=MAX_URLS,
        description="URLs within the scope of the collection. A known URL is fetched again.",
    )
    collection: str = Field(
        "", max_length=64, description="Name of the collection; optional if there is only one."
    )


class NewExclusion(JsonBody):
    """Rules for URLs to exclude."""

    rules: list[Url] = Field(
        min_length=1, max_length=100, description="`host:NAME`, `domain:NAME` or `prefix:URL`."
    )
    purge: bool = Field(False, description="Also delete the stored data.")


@dataclass(frozen=True)
class Paused:
    """Whether a collection is paused."""

    collection: str
    paused: bool


router = APIRouter(prefix="/api/v1", tags=["crawl"])
errors = {**ERRORS, **INVALID, **WRITE_ERRORS}


@router.post("/urls", responses=errors, status_code=202, dependencies=[WRITER])
def add(services: ServicesDep, new: NewUrls) -> AddedUrls:
    """Add URLs to a crawl. The crawl need not be running."""
    return submit_urls(services.root, read_config(services.root), new.urls, new.collection)


@router.post("/exclusions", responses=errors, dependencies=[WRITER])
def exclude(services: ServicesDep, new: NewExclusion) -> ExclusionReport:
    """Exclude sites permanently from crawling and search."""
    return exclude_and_purge(services.root, read_config(services.root), new.rules, remove=new.purge)


@router.post("/collections/{name}/pause", responses=errors)
def pause(services: ServicesDep, name: CollectionName, by: Writer) -> Paused:
    """Pause a collection: nothing is fetched for it until it is resumed."""
    set_paused(services.root, name, paused=True, by=by)
    return Paused(name, paused=True)


@router.post("/collections/{name}/resume", responses=errors, dependencies=[WRITER])
def resume(services: ServicesDep, name: CollectionName) -> Paused:
    """Resume a paused collection."""
    set_paused(services.root, name, paused=False)
    return Paused(name, paused=False)


@router.get("/hosts", responses=ERRORS)
def hosts(
    services: ServicesDep,
    like: Annotated[
        str, Query(max_length=255, description="Only hosts whose name contains this text.")
    ] = "",
    offset: Annotated[int, Query(ge=0, le=10_000_000, description="Number of hosts to skip.")] = 0,
    n: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of hosts.")] = 100,
) -> HostTable:
    """List the known hosts, as `lycosa status --by host --json`."""
    return list_hosts(services.root, like, offset, n)


@router.get("/explain", responses={**ERRORS, 400: INVALID[400]})
def explain(
    services: ServicesDep,
    url: Annotated[
        str, Query(min_length=1, max_length=MAX_URL_LENGTH, description="URL to explain.")
    ],
) -> UrlExplanation:
    """Return the state of a URL and why it was or was not fetched, as printed by `lycosa
    explain --json`.
    """
    return explain_url(services.root, read_config(services.root), url)
