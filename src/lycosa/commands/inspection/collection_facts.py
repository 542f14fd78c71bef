"""One collection: contents, queue, hosts, languages, statuses, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from lycosa.commands.inspection.status import (
    counted,
    due_again_of,
    pairs_of,
    schedule_facts,
    waiting_for,
)
from lycosa.commands.models import CollectionFacts, CollectionHoldings
from lycosa.config.collection import stored_collection
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.records import UrlState, VisitKind
from lycosa.crawl.session.pausing import paused
from lycosa.export.library.editions import library_languages
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_QUEUE = ("url", "operation", "depth", "priority", "not_before", "reason")
_OMITTED = ("name", "seeds", "auth", "login")
"""Omitted settings: credentials name users, and seeds, which may come from files, are reported
separately.
"""


def collection_facts(
    root: str, config: Config, name: str, most: int = 50, clock: Clock | None = None
) -> CollectionFacts | None:
    """Return the facts of a collection; None if there is none of that name.

    `most`: maximum number of hosts, and of URLs of the queue.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    configured = next((each for each in config.collection if each.name == name), None)
    last = state.settings.get(name)
    collection = stored_collection(name, last) if last is not None else configured or Collection()
    now_ms = (clock or SystemClock()).now_ms()
    queries = _queries(LiveTables(workspace, state), name, collection, now_ms, most)
    answers = dict(zip(queries, pl.collect_all(list(queries.values())), strict=True))
    pages, newest = answers["pages"].row(0)
    if configured is None and last is None and not (pages or answers["states"].height):
        return None
    fetches, transferred, first_fetch, last_fetch = answers["visits"].row(0)
    settings = _plain(collection)
    written = settings if configured is None else _plain(configured)
    return CollectionFacts(
        name,
        library_languages(config, state).get(name, ""),
        configured is not None,
        paused(workspace.storage).get(name),
        pairs_of(answers["states"]),
        pairs_of(answers["waiting"]),
        pages,
        newest,
        pairs_of(answers["languages"]),
        fetches,
        transferred or 0,
        first_fetch,
        last_fetch,
        pairs_of(answers["statuses"]),
        pairs_of(answers["errors"]),
        int(answers["host_count"].item()),
        answers["hosts"].to_dicts(),
        answers["queue"].to_dicts(),
        schedule_facts(collection, dict(answers["due_again"].iter_rows()).get(name), now_ms),
        list(collection.seeds),
        settings,
        _differing(settings, _plain(Collection())),
        _differing(settings, written),
    )


def _queries(
    tables: LiveTables, name: str, collection: Collection, now_ms: int, most: int
) -> dict[str, pl.LazyFrame]:
    """Return the queries of the tables; they run together."""
    here = pl.col("collection") == name
    rows, pages = (tables.scan(table).filter(here) for table in ("urls", "pages"))
    hosts = tables.scan("hosts")
    visits = tables.scan("visits").filter(here & (pl.col("kind") != VisitKind.CHECK.value))
    urls = rows.filter(pl.col("operation") == "")
    waits = rows.filter(pl.col("state") == UrlState.KNOWN.value)
    by_host = (
        pages.group_by("host_key")
        .agg(pl.len().alias("pages"))
        .join(
            waits.group_by("host_key").agg(pl.len().alias("known")),
            on="host_key",
            how="full",
            coalesce=True,
        )
        .with_columns(pl.col("pages", "known").fill_null(0))
        .join(hosts.filter(pl.col("host") != "").select("host_key", "host"), on="host_key")
    )
    return {
        "states": counted(urls, "state"),
        "waiting": waiting_for(urls, hosts, now_ms),
        "due_again": due_again_of(urls, {name: collection}, now_ms),
        "pages": pages.select(pl.len().alias("pages"), pl.col("fetched_at").max().alias("newest")),
        "languages": counted(pages, "language"),
        "visits": visits.select(
            pl.len(),
            pl.col("content_length").sum(),
            pl.col("fetched_at").min().alias("first"),
            pl.col("fetched_at").max().alias("last"),
        ),
        "statuses": counted(visits, "http_status"),
        "errors": counted(visits.filter(pl.col("error") != ""), "error"),
        "host_count": by_host.select(pl.len()),
        "hosts": by_host.select("host", "pages", "known")
        .sort(["pages", "known", "host"], descending=[True, True, False])
        .head(most),
        "queue": waits.select(_QUEUE)
        .sort(["priority", "depth", "url"], descending=[True, False, False])
        .head(most),
    }


def holdings(root: str, name: str) -> CollectionHoldings:
    """Return the amount of stored data of a collection; 0 for an unknown one.

    Raises the errors of `collection_facts`.
    """
    tables = LiveTables(Workspace.open(root))
    here = pl.col("collection") == name
    pages = tables.scan("pages").filter(here).select("host_key", "url_key")
    captured = tables.scan("visits").filter(here & (pl.col("warc_file") != ""))
    waiting = tables.scan("urls").filter(here & (pl.col("state") == UrlState.KNOWN.value))
    captures, waits, held, links = pl.collect_all(
        [
            captured.select(pl.len(), pl.col("warc_length").sum()),
            waiting.select(pl.len()),
            pages.select(pl.len()),
            tables.scan("links")
            .select("host_key", "url_key")
            .join(pages, on=["host_key", "url_key"], how="semi")
            .select(pl.len()),
        ]
    )
    number, size = captures.row(0)
    return CollectionHoldings(
        name, number, size or 0, int(waits.item()), int(held.item()), int(links.item())
    )


def _plain(collection: Collection) -> dict[str, Any]:
    """Return the settings as in the configuration file."""
    return {
        name: value
        for name, value in collection.model_dump(mode="json").items()
        if name not in _OMITTED
    }


def _differing(settings: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    return [name for name, value in settings.items() if value != others.get(name)]
