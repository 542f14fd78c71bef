"""`/api/v1/watches` and `/api/v1/matches`: text patterns that are matched against every page, and
their matches.

Reading requires a token too. Over the network only webhooks can be set as notification targets;
commands and files can only be set on the machine itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

from lycosa.commands.feature_models import MatchList
from lycosa.core.errors import NameTaken
from lycosa.crawl.session.workspace_config import read_config
from lycosa.matching.orders import MAX_TEXT_LENGTH
from lycosa.serve.services import READER, WRITER, ServicesDep
from lycosa.serve.web.problems import (
    ERRORS,
    INVALID,
    WRITE_ERRORS,
    error_responses,
    problem_response,
)
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.url.normalise import MAX_URL_LENGTH
from lycosa.watch.watches import (
    WatchInfo,
    add_watch,
    list_watches,
    matches,
    remove_watch,
    require_webhooks,
)

MAX_TEXTS = 10_000
MAX_MATCHES = 1_000

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
Target = Annotated[str, Field(max_length=4_000, pattern=r"^webhook \S+$")]


class NewWatch(JsonBody):
    """Text patterns to match against every page fetched from now on."""

    texts: list[Text] = Field(
        min_length=1,
        max_length=MAX_TEXTS,
        description="Patterns: literal strings of the extracted page text.",
    )
    name: str = Field("", max_length=200, description="Unique name; empty: the first pattern.")
    ignore: list[Literal["case", "accents", "width"]] = Field(
        [], description="Differences to ignore when matching."
    )
    collections: list[str] = Field(
        [], max_length=100, description="Only match pages of these collections; empty: all."
    )
    notify: list[Target] = Field(
        [],
        max_length=10,
        description="Notification targets: `webhook URL`. One notification per matching page.",
    )


router = APIRouter(prefix="/api/v1", tags=["watch"])
errors = {**ERRORS, **INVALID, **WRITE_ERRORS}
_TAKEN = error_responses({409: "Another watch has the name"})


@router.get("/watches", responses=errors, dependencies=[READER])
def watches(services: ServicesDep) -> list[WatchInfo]:
    """List the watches, oldest first."""
    return list_watches(services.root)


@router.post(
    "/watches",
    responses={**errors, **_TAKEN},
    status_code=201,
    response_model=WatchInfo,
    dependencies=[WRITER],
)
def add(services: ServicesDep, new: NewWatch) -> WatchInfo | Response:
    """Add a watch. A running crawl applies it within seconds."""
    config = read_config(services.root)
    require_webhooks(new.notify)
    try:
        return add_watch(
            services.root,
            config,
            new.texts,
            new.ignore,
            name=new.name,
            collections=new.collections,
            notify=new.notify,
        )
    except NameTaken as error:
        return problem_response(409, "The name is taken", str(error))


@router.delete("/watches/{watch}", responses=errors, status_code=204, dependencies=[WRITER])
def remove(
    services: ServicesDep, watch: Annotated[str, Path(description="ID or name of the watch.")]
) -> None:
    """Remove a watch by ID or name. Its matches are kept."""
    remove_watch(services.root, watch)


@router.get("/matches", responses=errors, dependencies=[READER])
def list_matches(
    services: ServicesDep,
    watch: Annotated[
        str,
        Query(
            max_length=200,
            description="ID or name of a watch, or ID of a `find` call (default: all).",
        ),
    ] = "",
    since: Annotated[
        datetime | None, Query(description="Only matches in pages fetched since this time.")
    ] = None,
    site: Annotated[
        str,
        Query(
            max_length=MAX_URL_LENGTH,
            description="Only pages of this host, or whose URL starts with this URL.",
        ),
    ] = "",
    n: Annotated[
        int,
        Query(ge=1, le=MAX_MATCHES, description="Maximum number of matches, newest first."),
    ] = 100,
    every: Annotated[bool, Query(description="Include older versions of each page.")] = False,
) -> MatchList:
    """List the matches of the patterns."""
    listed, total = matches(services.root, watch, since=since, site=site, most=n, every=every)
    return MatchList(total, listed)
