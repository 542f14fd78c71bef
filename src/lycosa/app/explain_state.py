"""`explain`, the collection's part: why a URL is in its state, when it is due, and what refuses one that was never admitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from lycosa.core.clock import Clock
from lycosa.core.config import Collection
from lycosa.core.units import format_duration, format_time
from lycosa.crawl.assignment import recrawl_rules
from lycosa.crawl.screen import Excluded, Screen
from lycosa.frontier.recrawl import due_at
from lycosa.frontier.traps import explain as explain_trap
from lycosa.store.live import LiveTables
from lycosa.url.domain import Domains
from lycosa.url.scope import Admission
from lycosa.url.traps import query_signature

_WHY = {
    "known": "known, waits to be fetched",
    "visited": "fetched and understood",
    "gone": "the server says that it is not there",
    "excluded": "admitted once, then stopped",
}
_REASONS = {
    "robots": "its robots.txt forbids it",
    "scope": "it lies outside the scope of today",
    "depth": "it lies farther from a seed than `depth` allows today",
    "redirect_limit": "more redirects led here than fetch.max_redirects",
    "address_refused": "its host has a private address that nobody named",
    "excluded": "the operator excluded it",
    "media_type": "its headers say that it is of a media type that is not read",
    "parse_crashed": "in quarantine: it killed the parser, so it is archived and left alone",
    "redirect": "it redirects",
    "host_budget": "the host's page budget is used up; looked at again in some days",
    "domain_budget": "the registrable domain's page budget is used up; looked at again in some days",
    "prefix_budget": "its part of the site has its share of the host's page budget; looked at again in some days",
    "scheduled": "read again and again, as often as it brings something new",
}
_SETTINGS = (
    *("strategy", "priority", "recrawl", "schedule", "paused", "delay", "courtesy_factor", "max_delay"),
    *("max_pages", "max_pages_per_host", "max_pages_per_domain", "max_prefix_share"),
)
_TIMES = ("not_before", "visited_at", "state_at", "first_seen_at", "captured_at")


@dataclass(slots=True, frozen=True)
class Known:
    """A collection as the log recorded it, its seeds, and the pages that it holds: in all, of the URL's host and registrable domain."""

    collection: Collection
    seeds: tuple[str, ...]
    pages: int = 0
    host_pages: int = 0
    domain_pages: int = 0


def known_collection(settings: Mapping[str, Any], pages: int, host_pages: int = 0, domain_pages: int = 0) -> Known:
    """From the settings of the latest claim."""
    fields = {name: value for name, value in settings.items() if name in Collection.model_fields}
    return Known(Collection.model_validate(fields), tuple(settings.get("seeds", ())), pages, host_pages, domain_pages)


def settings_facts(known: Known) -> dict[str, Any]:
    """The settings that decide over order, pace and budget; durations as text."""
    plain = known.collection.model_dump(mode="json")
    counts = {"pages": known.pages, "host_pages": known.host_pages, "domain_pages": known.domain_pages}
    return {name: plain[name] for name in _SETTINGS if name in plain} | counts


def row_facts(row: Mapping[str, Any], known: Known | None, domains: Domains, *, other_schemes: bool) -> dict[str, Any]:
    """A row of `urls`: why it is as it is, and when it is due, by which rule."""
    facts = {**row, "why": why(row)}
    if known is None:
        return facts
    depth = known.collection.depth
    at, policy = due(row, known.collection)
    return {
        **facts,
        "scope_says": Admission(known.collection, known.seeds, domains, other_schemes=other_schemes).explain(row["url"]),
        "depth_limit": "no limit" if depth is None else str(depth),
        "due_at": None if at is None else format_time(at) if at else "now",
        "due_by": policy,
        "settings": settings_facts(known),
    }


def why(row: Mapping[str, Any]) -> str:
    """One line: the state, and what led to it."""
    state, reason, operation = row["state"], row["reason"], row["operation"]
    said = explain_reason(reason)
    if operation:
        return f"a {operation}: " + (said or _WHY[state])
    if state == "known" and reason:
        told = reason.startswith("trap_") or reason in _REASONS
        return f"put off ({reason}): {said}" if told else f"the last attempt failed ({reason}); it is due again at not_before"
    return _WHY[state] + (f": {reason}" + (f" ({said})" if said else "") if reason else "")


def explain_reason(reason: str) -> str:
    """What a reason of `urls` or of a refusal means; "" if it says so itself."""
    if reason.startswith("trap_"):
        return f"it looks like a trap: {explain_trap(reason.removeprefix('trap_'))}".rstrip(".")
    if reason.startswith("unindexable_"):
        return f"its name says that it is of a kind that cannot be indexed ({reason.removeprefix('unindexable_')})"
    return _REASONS.get(reason, "")


def due(row: Mapping[str, Any], collection: Collection) -> tuple[int | None, str]:
    """When a row is due, ms since 1970 (0: now; None: not by itself), and what says so."""
    times = {name: _ms(row[name]) for name in _TIMES}
    at = due_at(
        recrawl_rules(collection),
        state=row["state"],
        visited_at=times["visited_at"],
        not_before=times["not_before"],
        fails=row["fails"],
        depth=row["depth"],
        importance=row["importance"],
        change_rate=row["change_rate"],
        claim=row["claim"],
        silence=row["silence"],
    )
    if collection.paused:
        return None, "the collection is paused"
    if row["state"] == "known":
        return at, "it waits its turn" if not times["not_before"] else "not before that time"
    if row["state"] == "excluded":
        return None, "never, as things are"
    if collection.recrawl == "never":
        return None, "recrawl = never: what was fetched is not fetched again"
    if row["state"] == "gone":
        return at, "a page that is gone is looked at ever more rarely"
    if collection.recrawl == "age":
        age = format_duration(collection.max_age)
        on_link = f"when a link to it is found and it is older than {age}"
        both = [*([f"when it is older than {age}"] if "timer" in collection.recrawl_triggers else ())]
        both += [on_link] if "on_link" in collection.recrawl_triggers else []
        return at, f"recrawl = age: {', or '.join(both)}"
    if collection.recrawl == "daily":
        return at, f"recrawl = daily at {collection.daily_at} UTC"
    rate = f"{row['change_rate']:.3g} changes a day" if row["change_rate"] else "its changes are not known yet"
    weight = f"importance {row['importance']:.3g}" if row["importance"] else "importance by its depth"
    return None, f"recrawl = fresh: when a fetch is worth it ({rate}, {weight}; the worker solves the schedule once a day)"


def unknown_facts(
    name: str, known: Known, url: str, tables: LiveTables, excluded: Excluded, domains: Domains, clock: Clock, *, other_schemes: bool
) -> dict[str, Any]:
    """Which of the rules would refuse a URL that the collection does not know, in the order in which they are asked."""
    scope = Admission(known.collection, known.seeds, domains, other_schemes=other_schemes).explain(url)
    screened = Screen(known.collection, excluded, clock)(url)
    refusals = [scope] if scope.startswith("refused") else []
    if screened.reason:
        instead = f"; taken as {screened.instead}" if screened.instead else ""
        refusals.append(f"refused ({screened.reason}): {explain_reason(screened.reason)}{instead}")
    elif known.collection.traps and (other := _permutation(url, tables)):
        refusals.append(f"refused (trap_query_permutation): the same query parameters are known in another order: {other}")
    refusals += _by_links(url, known, tables)
    return {
        "collection": name,
        "state": None,
        "why": ("never admitted, or hidden since: " if screened.reason == "excluded" else "never admitted: ")
        + ("; ".join(refusals) or "no link to it was found, and no rule would refuse it"),
        "refused_by": refusals,
        "scope_says": scope,
        "depth_limit": "no limit" if known.collection.depth is None else str(known.collection.depth),
        "settings": settings_facts(known),
    }


def _by_links(url: str, known: Known, tables: LiveTables) -> Sequence[str]:
    """Whether the links to it were all marked nofollow, or lie too deep."""
    links = tables.scan("links").filter(pl.col("target") == url).select("source", "rel").collect()
    if not links.height:
        return []
    followed = links.filter(~pl.col("rel").str.contains("nofollow", literal=True)) if known.collection.respect_nofollow else links
    if not followed.height:
        return [f"refused (nofollow): all {links.height} links to it are marked nofollow"]
    limit = known.collection.depth
    if limit is None:
        return []
    rows = tables.scan("urls").filter((pl.col("collection") == known.collection.name) & pl.col("url").is_in(followed["source"].implode()))
    least = rows.select(pl.col("depth").min()).collect().item()
    if least is not None and least + 1 > limit:
        return [f"refused (depth): the nearest page that links to it lies {least} links from a seed, and depth is {limit}"]
    return []


def _permutation(url: str, tables: LiveTables) -> str:
    """A known URL with the same query in another order, or ""."""
    signature = query_signature(url)
    if not signature:
        return ""
    path = url.partition("?")[0]
    same = tables.scan("urls").filter(pl.col("url").str.starts_with(f"{path}?")).select("url").collect()["url"]
    return next((other for other in same if other != url and query_signature(other) == signature), "")


def _ms(value: Any) -> int:
    return 0 if value is None else round(value.timestamp() * 1000)
