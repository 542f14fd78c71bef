"""Crawls over known URLs: from one URL, or of all unvisited URLs.

These are two of RBSE's four modes (Eichmann 1994). Visited pages are not fetched again: their
stored links are walked. From one URL, only URLs that the walk reaches are fetched; links of new
pages extend the walk. When no URL is due, the stored links are walked once more, until nothing new
is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from lycosa.config.settings import Collection
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Exclusion, UsageError
from lycosa.core.records import LinkKind, UrlId, UrlRow, UrlState
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.recovery.resume import followed_links, stored_rows
from lycosa.crawl.session.session import CrawlSession
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.frontier.scheduler.queue import CollectionOrder
from lycosa.frontier.scheduler.reach import Keys, Reach, Unvisited
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.rules import Rules
from lycosa.url.site_name import SiteScope

UNVISITED = "unvisited"
"""Value instead of a start URL: all known URLs that were never visited."""


@dataclass(slots=True, frozen=True)
class Reached:
    """A URL that a walk has reached.

    `distance`: number of links from the start; `depth`: number of links from a seed, by the page
    with the link.
    """

    id: UrlId
    distance: int
    depth: int
    referrer: str


@dataclass(slots=True, frozen=True)
class WalkStart:
    """The start of a walk.

    `url`: a stored URL; "": all unvisited URLs. `depth`: maximum number of links from that URL.
    """

    url: str = ""
    depth: int | None = None


def start_of(
    workspace: Workspace, collection: Collection, text: str, depth: int | None
) -> WalkStart:
    """Return the start for the value of `--from`.

    Raises:
        UsageError: the collection was never crawled, or has no row of the URL.
        UrlError: the value is not a URL.
    """
    state = workspace.state()
    if collection.name not in state.settings:
        collections = ", ".join(sorted(state.settings)) or "none yet"
        raise UsageError(
            f"--from: this workspace has no data of collection {collection.name!r}; "
            f"available: {collections}"
        )
    if text == UNVISITED:
        return WalkStart()
    plain = normalise(typed_url(text))
    candidates = list(dict.fromkeys([Rules(collection).apply(plain), plain]))
    rows = (
        LiveTables(workspace, state)
        .scan("urls")
        .filter((pl.col("collection") == collection.name) & (pl.col("operation") == ""))
    )
    stored_urls = (
        rows.filter(pl.col("url").is_in(candidates)).select("url").collect()["url"].to_list()
    )
    if not stored_urls:
        raise UsageError(
            f"--from: {plain} is not known in collection {collection.name!r}; specify a URL that "
            "was crawled or discovered, "
            f"or add this one as a seed: lycosa crawl {plain}"
        )
    return WalkStart(stored_urls[0], depth)


def recorded(collection: Collection, before: dict[str, Any]) -> Collection:
    """Return the collection with the depth limit of the log."""
    return collection.model_copy(update={"depth": before.get("depth")})


class Walk:
    """Restricts a session to the URLs of a walk from `start`.

    Create it before the session loads. Then call `spread`, run the worker, and repeat until
    `spread` returns False. With several workers, their driver walks
    (`lycosa.cluster.walking_shared`), and each worker calls `take` with the reached URLs.
    """

    def __init__(self, session: CrawlSession, name: str, start: WalkStart) -> None:
        scheduler = session.crawl.scheduler
        self._session = session
        self._assignment: Assignment = session.crawl.assignments[name]
        self._start = start
        self._reach = Reach(start.depth, scheduler.reached) if start.url else None
        self._begun = False
        scheduler.agenda.restrict_to(self._reach or Unvisited())
        if self._reach is not None:
            self._order_by_distance(self._reach)

    def spread(self) -> bool:
        """Walk the stored links.

        Returns whether the walk reached a URL for the first time or by a shorter path.
        """
        if self._reach is None:
            return False
        reached = self._begin(self._reach)
        if reached:
            crawl = self._session.crawl
            identity = Identifier(crawl.domains, self._session.workspace.partitions).identify(
                self._start.url
            )
            self._reach.put(identity.url_key, 0)
            crawl.scheduler.reached(identity.host_key)
        distance = 0
        while (sources := self._reach.at(distance)).size:
            while sources.size:  # the target of a redirect has the same distance
                targets = self._expand(self._reach, sources, distance)
                reached = reached or bool(targets)
                sources = pl.Series(
                    [key for key in targets if self._reach.distance(key) == distance],
                    dtype=pl.UInt64,
                ).to_numpy()
            distance += 1
        return self._reopen(self._reach) or reached

    def take(self, rows: Iterable[Reached]) -> None:
        """Apply URLs in held partitions that the driver's walk has reached.

        With several workers, this replaces `spread`.
        """
        reach, assignment, crawl = self._reach, self._assignment, self._session.crawl
        if reach is None:
            return
        self._begin(reach)
        now_ms = crawl.clock.now_ms()
        came = False
        for each in rows:
            came = True
            if not reach.put(each.id.url_key, each.distance):
                continue
            if _is_recorded(assignment, each.id):
                crawl.scheduler.reached(each.id.host_key)
            else:
                assignment.gate.receive(each.id, each.depth, now_ms, Provenance(each.referrer))
        if came:  # the walk over this worker's own pages may have reached excluded URLs as well
            self._reopen(reach)

    def _begin(self, reach: Reach) -> bool:
        """Restrict fetches to reached URLs, at any depth.

        Returns False if they were restricted already.
        """
        if self._begun:
            return False
        self._begun = True
        self._assignment.gate.restrict_to(reach)
        self._session.crawl.scheduler.parked.clear_due()
        return True

    def _expand(self, reach: Reach, sources: Keys, distance: int) -> list[int]:
        """Walk the links of URLs at one distance.

        Returns the keys of newly reached URLs.
        """
        assignment, crawl = self._assignment, self._session.crawl
        now_ms = crawl.clock.now_ms()
        reached: list[int] = []
        levels = pl.DataFrame(
            {"url_key": sources, "distance": distance},
            schema={"url_key": pl.UInt64, "distance": pl.Int64},
        )
        for links in nearest_links(self._session.tables, assignment.collection, levels):
            for target, is_redirect, source_key, source in links.iter_rows():
                for identity in assignment.gate.extend(
                    source_key, (target,), 0 if is_redirect else 1
                ):
                    reached.append(identity.url_key)
                    if not _is_recorded(assignment, identity):
                        depth = assignment.seen.depth(crawl.identifier.identify(source)) or 0
                        depth += not is_redirect
                        assignment.gate.admit(target, depth, now_ms, Provenance(source))
        return reached

    def _reopen(self, reach: Reach) -> bool:
        """Admit reached URLs that only the collection's depth had excluded.

        Returns whether there were any.
        """
        crawl, name = self._session.crawl, self._assignment.name
        reopened = False
        for row in stored_rows(self._session.tables, name, (UrlState.EXCLUDED,)):
            if (
                row.reason == Exclusion.DEPTH
                and reach.distance(row.id.url_key) is not None
                and crawl.urls.find(name, row.id) is None
            ):
                crawl.urls.reopen(row)
                reopened = True
        return reopened

    def _order_by_distance(self, reach: Reach) -> None:
        """Order the active URLs by distance from the start, if the strategy uses depth."""
        frontier, name = self._session.crawl.frontier, self._assignment.name
        order = frontier.active.order(name)
        sign = {"breadth-first": 1, "depth-first": -1}.get(order.strategy.name)
        if sign is None:
            return

        def rank(row: UrlRow) -> tuple[float, ...]:
            return (sign * (reach.distance(row.id.url_key) or 0),)

        frontier.active.reorder(
            name, CollectionOrder(replace(order.strategy, rank=rank), order.priority)
        )


def nearest_links(
    tables: LiveTables, collection: Collection, sources: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    """Yield the stored links of URLs that a crawl follows.

    `sources`: columns url_key and distance. Columns of the result: target, is_redirect, url_key,
    source. In each frame a target occurs once, with its nearest source.
    """
    for links in followed_links(tables, collection, sources):
        is_redirect = pl.col("kind") == LinkKind.REDIRECT.value
        nearest = links.with_columns(is_redirect=is_redirect).sort(
            pl.col("distance") - is_redirect.cast(pl.Int64), maintain_order=True
        )
        yield nearest.unique("target", keep="first", maintain_order=True).select(
            "target", "is_redirect", "url_key", "source"
        )


def _is_recorded(assignment: Assignment, identity: UrlId) -> bool:
    try:
        return assignment.seen.depth(identity) is not None
    except KeyError:
        return True  # another URL has its key: it is never admitted


class OnlySite(Unvisited):
    """Restricts a crawl to the due URLs of a site.

    Operations and revisits are included.
    """

    def __init__(self, site: SiteScope) -> None:
        self._site = site

    def admits(self, row: UrlRow) -> bool:
        return self._site.takes(row.id.url)

    def condition(self) -> pl.Expr:
        return self._site.holds()


def restrict_to_site(crawl: CrawlState, site: SiteScope) -> None:
    """Fetch only from the site's host. Call it after the session has loaded."""
    crawl.scheduler.parked.clear_due()
    crawl.scheduler.reached(crawl.identifier.identify(site.start).host_key)
