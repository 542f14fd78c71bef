"""The page of a collection, /crawl/collection/NAME, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from lycosa.commands.models import CollectionFacts, CollectionSummary
from lycosa.crawl.session.pausing import paused
from lycosa.serve.crawl.pages import NOTICES, most_of, statuses, time_columns, with_reasons
from lycosa.serve.services import Services, ServicesDep
from lycosa.serve.web.i18n import Interface, message
from lycosa.serve.web.problems import ERRORS, NOT_FOUND

SEEDS_SHOWN = 20

Name = Annotated[
    str, Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="Name of the collection.")
]
_WAITS = {"due": message("ready to be fetched"), "host_paused": message("host paused")}


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
        paused=paused(services.storage).get(name),
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
def collections(services: ServicesDep) -> list[CollectionSummary]:
    """List the collections that are configured or contain data."""
    paused_names = paused(services.storage)
    return [
        replace(each, paused=each.name in paused_names) for each in services.collections.get("")
    ]


@router.get("/api/v1/collections/{name}", responses={**ERRORS, **NOT_FOUND}, tags=["crawl"])
def collection(services: ServicesDep, name: Name) -> CollectionFacts:
    """Return contents, queue and settings of a collection."""
    return replace(_facts(services, name), paused=paused(services.storage).get(name))


def _waiting(counted: Mapping[str, int], words: Interface) -> tuple[list[tuple[str, int]], int]:
    shown, total = most_of(counted)
    return [
        (words.t(_WAITS[name]) if name in _WAITS else name, number) for name, number in shown
    ], total


def _value(value: Any, words: Interface) -> str:
    """Return a setting's value as displayed."""
    if value is None:
        return words.t("no limit")
    if isinstance(value, bool):
        return words.t("yes") if value else words.t("no")
    if isinstance(value, list):
        return ", ".join(map(str, value)) or words.t("none")
    if isinstance(value, int | float):
        return words.number(value)
    return str(value) or words.t("none")
