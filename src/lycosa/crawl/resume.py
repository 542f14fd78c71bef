"""Taking up a crawl where the log left it: URLs, hosts, and what a wider or narrower call changes.

Only the owner of the partitions calls this, after its claim and before it replays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import polars.selectors as cs

from lycosa.core.errors import Exclusion
from lycosa.core.records import FOLLOWED_KINDS, LinkKind, RobotsEntry, UrlRow, UrlState
from lycosa.crawl.ledger import Ledger
from lycosa.store.live import LiveTables
from lycosa.store.rows import host_record, url_record
from lycosa.url.scope import hostname

_RECONSIDERED = (Exclusion.SCOPE, Exclusion.DEPTH, Exclusion.ROBOTS, Exclusion.ADDRESS)
"""Exclusions that today's configuration, newly named hosts, or a newer robots.txt, may lift."""


@dataclass(slots=True, frozen=True)
class Resumed:
    """What was found: URLs by state is in the ledger's progress; these are the further facts."""

    urls: int
    hosts: int
    excluded_now: int  # known URLs that today's configuration stops


def load(ledger: Ledger, tables: LiveTables, now_ms: int, monotonic_ms: int) -> Resumed:
    """Fill the ledger's frontier from the live tables.

    Politeness holds over the change of owner: every host counts as fetched at this moment.
    """
    hosts = _load_hosts(ledger, tables, monotonic_ms)
    urls = excluded = 0
    for row in _rows(tables, ledger.collection.name):
        urls += 1
        ledger.progress.states[row.state] += 1
        ledger.known.put(row.id, row.depth)
        if row.state == UrlState.EXCLUDED and row.reason in _RECONSIDERED and ledger.gate.refuses(row) is None:
            ledger.reopen(row)
        if row.state != UrlState.KNOWN:
            continue
        if ledger.frontier.host(row.id.host_key) is None:
            ledger.frontier.open_host(ledger.gate.new_host(row.id, now_ms), monotonic_ms + ledger.collection.delay)
        refusal = ledger.gate.refuses(row)
        if refusal is not None:
            excluded += 1
            ledger.exclude(row, Exclusion.DEPTH if refusal == "depth" else Exclusion.SCOPE)
            continue
        wait = row.not_before - now_ms
        ledger.frontier.add(row, monotonic_ms + wait if wait > 0 else 0)
    return Resumed(urls, hosts, excluded)


def find_again(ledger: Ledger, tables: LiveTables, now_ms: int, *, every_link: bool) -> int:
    """Walk the stored links: admit what an older, narrower call left out, and lower the depth of what lies nearer than was
    thought (`Ledger.fallen`), until nothing changes. Without `every_link` only from what fell. Returns how many admissions
    were made or confirmed.

    Depths are relaxed level by level, as Bellman and Ford do; each round is one join over the live links.
    """
    urls = _urls(tables, ledger.collection.name).select("url_key", "url", "depth", "state").collect()
    depths = dict(zip(urls["url_key"].to_list(), urls["depth"].to_list(), strict=True))
    lowered = {key: depth for key, (_, depth) in ledger.fallen.items() if depth < depths.get(key, depth + 1)}
    depths.update(lowered)
    ledger.fallen.clear()
    targets = _followed(tables, ledger).collect()
    sources = set(urls.filter(pl.col("state") == UrlState.VISITED)["url_key"].to_list())
    changed = 0
    round_sources = sources if every_link else sources & lowered.keys()
    while round_sources:
        frame = pl.DataFrame(
            {"source_key": list(round_sources), "depth": [depths[key] for key in round_sources]},
            schema={"source_key": pl.UInt64, "depth": pl.Int64},
        )
        found = (
            targets.join(frame, on="source_key")
            .with_columns(reached=pl.col("depth") + (pl.col("kind") != LinkKind.REDIRECT).cast(pl.Int64))
            .group_by("target")
            .agg(pl.col("reached").min(), pl.col("source").sort_by("reached").first())
            .sort("reached", "target")
        )
        round_sources = set()
        for target, reached, source in found.iter_rows():
            if ledger.gate.admit(target, reached, now_ms, referrer=source) is None:
                changed += 1
        for key, (_, depth) in ledger.fallen.items():
            if depth < depths.get(key, depth + 1):
                depths[key] = depth
                lowered[key] = depth
                round_sources.add(key)
        round_sources &= sources
        ledger.fallen.clear()
    if lowered:
        for row in _rows(tables, ledger.collection.name):
            if row.id.url_key in lowered and row.state != UrlState.KNOWN:
                row.depth = lowered[row.id.url_key]
                ledger.change(row)
    return changed


def _followed(tables: LiveTables, ledger: Ledger) -> pl.LazyFrame:
    """Stored links that a crawl follows: source_key, source, target, kind; those of pages that say nofollow are left out."""
    links = tables.scan("links").filter(pl.col("kind").is_in([kind.value for kind in FOLLOWED_KINDS]))
    if ledger.collection.respect_nofollow:
        links = links.filter(~pl.col("rel").str.contains("nofollow", literal=True))
    closed = tables.scan("pages").filter(~pl.col("may_follow")).select("url_key")
    return (
        links.join(closed, on="url_key", how="anti")
        .select(pl.col("url_key").alias("source_key"), "source", "target", "kind")
        .unique(["source_key", "target", "kind"])
    )


def _load_hosts(ledger: Ledger, tables: LiveTables, monotonic_ms: int) -> int:
    frame = _epochs(tables.scan("hosts").filter(pl.col("host") != "")).collect()
    for row in frame.iter_rows():
        host = host_record(row)
        host.robots = [_robots(entry) for entry in host.robots]
        ledger.frontier.open_host(host, monotonic_ms + max(host.delay_ms, ledger.collection.delay))
    return frame.height


def _urls(tables: LiveTables, collection: str) -> pl.LazyFrame:
    return tables.scan("urls").filter((pl.col("collection") == collection) & (pl.col("operation") == ""))


def _rows(tables: LiveTables, collection: str) -> Iterator[UrlRow]:
    for part in _epochs(_urls(tables, collection)).collect().iter_slices(50_000):
        for row in part.iter_rows():
            yield url_record(row, hostname(row[3]))


def _epochs(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Times as integers, as the records have them."""
    return rows.with_columns(cs.datetime().dt.epoch("ms"))


def _robots(entry: RobotsEntry) -> RobotsEntry:
    return entry._replace(fetched_at=_ms(entry.fetched_at), expires_at=_ms(entry.expires_at))


def _ms(value: int | datetime) -> int:
    """Times inside lists come as dates."""
    return value if isinstance(value, int) else round(value.timestamp() * 1000)
