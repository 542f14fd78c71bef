"""The page of a collection, /crawl/collection/NAME, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from lycosa.commands.models import CollectionFacts
from lycosa.core.units import format_time
from lycosa.crawl.session.pausing import paused
from lycosa.serve.crawl.pages import NOTICES, most_of, statuses, time_columns, with_reasons
from lycosa.serve.services import Services, ServicesDep
from lycosa.serve.web.i18n import Interface, message
from lycosa.serve.web.problems import ERRORS, NOT_FOUND
from lycosa.store.storage.storage import open_storage

SEEDS_SHOWN = 20
_FACTS_S, _LIST_S, _HISTORY_S = 3.0, 20.0, 60.0

Name = Annotated[
    str, Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="Name of the collection.")
]
_WAITS = {"due": message("ready to be fetched"), "host_paused": message("host paused")}


class CollectionLine(BaseModel):
    """A collection of the workspace, as `lycosa collection list --json` prints it."""

    name: str
    language: str = Field(
        description="Language that its pages are filed under in the library; "
        "empty: the language of each page."
    )
    configured: bool
    pages: int
    sites: int
    bytes: int = Field(description="Decoded size of its pages in bytes.")
    urls: dict[str, int] = Field(description="URLs by state.")
    pages_ever: int = Field(description="Number of pages counted by the page quota (`max_pages`).")
    on_disk: int = Field(
        description="Size in bytes of the base files that contain only this collection."
    )
    paused: bool = Field(
        description="Paused by a command, on a page or by the API, not by lycosa.toml."
    )


class CollectionHost(BaseModel):
    """A host of a collection with its numbers of pages and of queued URLs."""

    host: str
    pages: int
    known: int


class WaitingUrl(BaseModel):
    """A queued URL."""

    url: str
    operation: str
    depth: int
    priority: float
    not_before: str | None
    reason: str


class CollectionAnswer(BaseModel):
    """Contents, queue and settings of a collection."""

    name: str
    language: str
    configured: bool
    paused: bool
    states: dict[str, int] = Field(description="URLs by state.")
    waiting: dict[str, int] = Field(
        description="Queued URLs by reason: `due`, `host_paused`, or a reason code."
    )
    pages: int
    newest: str | None
    languages: dict[str, int] = Field(description="Current pages by language.")
    fetches: int
    bytes: int
    first_fetch: str | None
    last_fetch: str | None
    statuses: dict[str, int]
    errors: dict[str, int]
    host_count: int
    hosts: list[CollectionHost] = Field(description="Hosts with the most pages.")
    queue: list[WaitingUrl] = Field(description="First queued URLs, highest priority first.")
    schedule: dict[str, Any]
    seeds: list[str]
    settings: dict[str, Any] = Field(description="Settings of the last crawl; durations as text.")
    changed: list[str] = Field(description="Names of settings that differ from their defaults.")
    pending: list[str] = Field(
        description="Names of settings that differ in lycosa.toml; they "
        "take effect with the next crawl."
    )


router = APIRouter()


def _facts(services: Services, name: str) -> CollectionFacts:
    facts = services.collection_facts.get(name)
    if facts is None:
        raise HTTPException(404, "Unknown collection")
    return facts


@router.get("/crawl/collection/{name}", response_class=HTMLResponse, include_in_schema=False)
def page(
    services: ServicesDep,
    request: Request,
    name: Name,
    notice: Annotated[str, Query(max_length=16)] = "",
) -> HTMLResponse:
    facts = _facts(services, name)
    words = services.pages.words(request)
    over_time = services.collection_visits.get(name)
    return services.pages.page(
        request,
        "collection.html",
        collection=facts,
        queue=with_reasons(facts.queue),
        paused=paused(open_storage(services.root)).get(name),
        history=over_time,
        columns=time_columns(over_time, words),
        counts=[
            (words.t("HTTP status"), *most_of(statuses(facts.statuses, words))),
            (words.t("Errors"), *most_of(facts.errors)),
            (words.t("Queued URLs by reason"), *_waiting(facts.waiting, words)),
        ],
        languages=most_of(facts.languages),
        seeds=facts.seeds[:SEEDS_SHOWN],
        settings=[(name, _value(facts.settings[name], words)) for name in facts.changed],
        defaults=[
            (name, _value(value, words))
            for name, value in facts.settings.items()
            if name not in facts.changed
        ],
        notice=words.t(NOTICES[notice]) if notice in NOTICES else "",
    )


@router.get("/api/v1/collections", responses=ERRORS, tags=["crawl"])
def collections(services: ServicesDep) -> list[CollectionLine]:
    """List the collections that are configured or contain data."""
    paused_names = paused(open_storage(services.root))
    return [
        CollectionLine(**{**asdict(each), "paused": each.name in paused_names})
        for each in services.collections.get("")
    ]


@router.get("/api/v1/collections/{name}", responses={**ERRORS, **NOT_FOUND}, tags=["crawl"])
def collection(services: ServicesDep, name: Name) -> CollectionAnswer:
    """Return contents, queue and settings of a collection."""
    facts = asdict(_facts(services, name))
    for key in ("newest", "first_fetch", "last_fetch"):
        facts[key] = _time(facts[key])
    for row in facts["queue"]:
        row["not_before"] = _time(row["not_before"])
    return CollectionAnswer(**{**facts, "paused": name in paused(open_storage(services.root))})


def _time(at: Any) -> str | None:
    return None if at is None else format_time(round(at.timestamp() * 1000))


def _waiting(counted: Mapping[str, int], words: Interface) -> tuple[list[tuple[str, int]], int]:
    shown, total = most_of(counted)
    return [
        (words.t(_WAITS[name]) if name in _WAITS else name, number) for name, number in shown
    ], total


def _value(value: Any, words: Interface) -> str:
    """A setting's value for people."""
    if value is None:
        return words.t("no limit")
    if isinstance(value, bool):
        return words.t("yes") if value else words.t("no")
    if isinstance(value, list):
        return ", ".join(map(str, value)) or words.t("none")
    if isinstance(value, int | float):
        return words.number(value)
    return str(value) or words.t("none")
