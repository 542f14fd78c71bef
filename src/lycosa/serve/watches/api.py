"""`/api/v1/watches` and `/api/v1/matches`: text patterns that are matched against every page, and
their matches.

Reading requires a token too. Over the network only webhooks can be set as notification targets;
commands and files can only be set on the machine itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from lycosa.core.units import format_time
from lycosa.crawl.session.workspace_config import read_config
from lycosa.matching.orders import LONGEST_TEXT
from lycosa.notify.outbox import DeliveryState
from lycosa.serve.search.api import ERRORS
from lycosa.serve.web.access import WRITE_ERRORS, Access
from lycosa.serve.web.problems import Problem
from lycosa.url.normalise import MAX_URL_LENGTH
from lycosa.watch.watches import WatchStatus, add_watch, list_watches, matches, remove_watch

MAX_TEXTS = 10_000
MAX_MATCHES = 1_000

_WRONG: dict[int | str, dict[str, Any]] = {
    400: {
        "model": Problem,
        "content": {"application/problem+json": {}},
        "description": "The request is invalid; nothing was changed",
    }
}

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Target = Annotated[str, Field(max_length=4_000, pattern=r"^webhook \S+$")]


class NewWatch(BaseModel):
    """Text patterns to match against every page fetched from now on."""

    texts: list[Text] = Field(
        min_length=1,
        max_length=MAX_TEXTS,
        description="Patterns: literal strings of the extracted page text.",
    )
    name: str = Field("", max_length=200, description="Name; empty: the first pattern.")
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


class WatchTarget(BaseModel):
    """Delivery state of a notification target."""

    target: str = Field(
        description="The target; parts of a webhook URL that may be secret are removed."
    )
    delivered: int
    waiting: int
    dropped: int = Field(
        description="Notifications permanently refused by the target, or replaced by newer ones "
        "because too many were pending."
    )
    problem: str = Field(description="Error of the last attempt; empty if it succeeded.")


class Watch(BaseModel):
    """A watch."""

    id: str
    name: str
    texts: list[str]
    ignore: list[str]
    collections: list[str]
    created_at: str = Field(description="UTC, ISO 8601.")
    notify: list[WatchTarget]


class Match(BaseModel):
    """Matches of a pattern in a page."""

    url: str
    watch: str = Field(description="ID of the watch or of the `find` call.")
    text: str
    positions: list[int] = Field(
        description="Character offsets in the page text, at most the first 1,000."
    )
    count: int = Field(description="Number of occurrences.")
    found_at: datetime = Field(description="When the page was fetched.")
    collection: str
    context: str = Field(
        description="Text around the first occurrence. It is untrusted input from the page."
    )


class Matches(BaseModel):
    """Matches, newest first."""

    total: int
    matches: list[Match]


def create_watches(root: str, access: Access) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/api/v1", tags=["watch"])
    errors = {**ERRORS, **_WRONG, **WRITE_ERRORS}

    @router.get("/watches", responses=errors, dependencies=[Depends(access.reader)])
    def watches() -> list[Watch]:
        """List the watches, oldest first."""
        return [_watch(each) for each in list_watches(root)]

    @router.post(
        "/watches", responses=errors, status_code=201, dependencies=[Depends(access.writer)]
    )
    def add(new: NewWatch) -> Watch:
        """Add a watch. A running crawl applies it within seconds."""
        config = read_config(root)
        return _watch(
            add_watch(
                root,
                config,
                new.texts,
                new.ignore,
                name=new.name,
                collections=new.collections,
                notify=new.notify,
                local_targets=False,
            )
        )

    @router.delete(
        "/watches/{watch}", responses=errors, status_code=204, dependencies=[Depends(access.writer)]
    )
    def remove(watch: str) -> None:
        """Remove a watch by ID or name. Its matches are kept."""
        remove_watch(root, watch)

    @router.get("/matches", responses=errors, dependencies=[Depends(access.reader)])
    def found(
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
    ) -> Matches:
        """List the matches of the patterns."""
        listed, total = matches(root, watch, since=since, site=site, most=n, every=every)
        return Matches(
            total=total,
            matches=[
                Match(
                    url=each.url,
                    watch=each.watch,
                    text=each.text,
                    positions=list(each.positions),
                    count=each.count,
                    found_at=each.found_at,
                    collection=each.collection,
                    context=each.context,
                )
                for each in listed
            ],
        )

    return router


def _watch(watched: WatchStatus) -> Watch:
    order = watched.order
    return Watch(
        id=order.id,
        name=order.name,
        texts=list(order.texts),
        ignore=list(order.folding.names),
        collections=list(order.collections),
        created_at=format_time(order.created_at),
        notify=[_target(each) for each in watched.targets],
    )


def _target(standing: DeliveryState) -> WatchTarget:
    return WatchTarget(
        target=standing.target,
        delivered=standing.delivered,
        waiting=standing.waiting,
        dropped=standing.dropped,
        problem=standing.problem,
    )
