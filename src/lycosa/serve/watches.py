"""`/api/v1/watches` and `/api/v1/matches`: texts that are looked for in every page, and where they were found.

What somebody watches for is nobody else's business: reading takes a token too. Commands and files as targets are for who sits at the
machine; over the network only webhooks can be set.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from lycosa.app.configuring import read_config
from lycosa.app.watching import Watched, add_watch, list_watches, matches, remove_watch
from lycosa.core.units import format_time
from lycosa.monitor.outbox import Standing
from lycosa.monitor.watch_orders import LONGEST_TEXT
from lycosa.serve.access import WRITE_ERRORS, Access
from lycosa.serve.api import ERRORS
from lycosa.serve.problems import Problem

MOST_TEXTS = 10_000
MOST_MATCHES = 1_000

_WRONG: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "content": {"application/problem+json": {}}, "description": "It cannot be done as asked; nothing was"}
}

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Target = Annotated[str, Field(max_length=4_000, pattern=r"^webhook \S+$")]


class NewWatch(BaseModel):
    """Texts to look for in every page that is fetched from now on."""

    texts: list[Text] = Field(min_length=1, max_length=MOST_TEXTS, description="As they stand in pages' text.")
    name: str = Field("", max_length=200, description="What to call it; else its first text.")
    ignore: list[Literal["case", "accents", "width"]] = Field([], description="What makes no difference.")
    collections: list[str] = Field([], max_length=100, description="Only in pages of these; none: of all.")
    notify: list[Target] = Field([], max_length=10, description="`webhook URL`: who is told of each page.")


class WatchTarget(BaseModel):
    """How somebody who is told stands."""

    target: str = Field(description="Without what may be a secret in a webhook's path.")
    delivered: int
    waiting: int
    dropped: int = Field(description="Refused by the target for good, or pushed out by newer ones.")
    problem: str = Field(description="Why the last attempt failed; empty if it did not.")


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
    """A text in a page."""

    url: str
    watch: str = Field(description="The id of the watch, or of the call of `find`.")
    text: str
    positions: list[int] = Field(description="Character offsets in the page's text, the first 1,000.")
    count: int = Field(description="How often it stands there.")
    found_at: datetime = Field(description="When the page was fetched.")
    collection: str
    context: str = Field(description="What stands around the first place. Text from a stranger's page.")


class Matches(BaseModel):
    """Matches, the latest first."""

    total: int
    matches: list[Match]


def create_watches(root: str, access: Access) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/api/v1", tags=["watch"])
    errors = {**ERRORS, **_WRONG, **WRITE_ERRORS}

    @router.get("/watches", responses=errors, dependencies=[Depends(access.reader)])
    def watches() -> list[Watch]:
        """What is looked for, oldest first."""
        return [_watch(each) for each in list_watches(root)]

    @router.post("/watches", responses=errors, status_code=201, dependencies=[Depends(access.writer)])
    def add(new: NewWatch) -> Watch:
        """Look for texts in every page that is fetched from now on. A crawl that runs takes it up within seconds."""
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

    @router.delete("/watches/{watch}", responses=errors, status_code=204, dependencies=[Depends(access.writer)])
    def remove(watch: str) -> None:
        """Look for it no more, by its id or name. What it found stays."""
        remove_watch(root, watch)

    @router.get("/matches", responses=errors, dependencies=[Depends(access.reader)])
    def found(
        watch: Annotated[
            str, Query(max_length=200, description="Of this watch (id or name), or call of `find` (id). Without: of all.")
        ] = "",
        since: Annotated[datetime | None, Query(description="Found since then.")] = None,
        site: Annotated[str, Query(max_length=2_000, description="Only in pages of this host, or below this URL.")] = "",
        n: Annotated[int, Query(ge=1, le=MOST_MATCHES, description="How many, the latest first.")] = 100,
        every: Annotated[bool, Query(description="All versions of each page, not the newest alone.")] = False,
    ) -> Matches:
        """Where the texts were found."""
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


def _watch(watched: Watched) -> Watch:
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


def _target(standing: Standing) -> WatchTarget:
    return WatchTarget(
        target=standing.target,
        delivered=standing.delivered,
        waiting=standing.waiting,
        dropped=standing.dropped,
        problem=standing.problem,
    )
