"""`explain`, the collection's part: why a URL is in its state, when it is due, and what refuses one that was never admitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.config import Collection
from lycosa.core.said import Said, listed
from lycosa.core.units import format_duration, format_time
from lycosa.crawl.assignment import recrawl_rules
from lycosa.crawl.screen import Excluded, Screen
from lycosa.frontier.recrawl import due_at
from lycosa.frontier.traps import clause
from lycosa.store.live import LiveTables
from lycosa.url.domain import Domains
from lycosa.url.scope import Admission
from lycosa.url.traps import query_signature

_WHY = {
    "known": Said("state_known", "known, waits to be fetched"),
    "visited": Said("state_visited", "fetched and understood"),
    "gone": Said("state_gone", "the server says that it is not there"),
    "excluded": Said("state_excluded", "admitted once, then stopped"),
}
_REASONS = {
    "robots": Said("reason_robots", "its robots.txt forbids it"),
    "scope": Said("reason_scope", "it lies outside the scope of today"),
    "depth": Said("reason_depth", "it lies farther from a seed than `depth` allows today"),
    "redirect_limit": Said("reason_redirect_limit", "more redirects led here than fetch.max_redirects"),
    "address_refused": Said("reason_address_refused", "its host has a private address that nobody named"),
    "excluded": Said("reason_excluded", "the operator excluded it"),
    "media_type": Said("reason_media_type", "its headers say that it is of a media type that is not read"),
    "parse_crashed": Said("reason_parse_crashed", "in quarantine: it killed the parser, so it is archived and left alone"),
    "redirect": Said("reason_redirect", "it redirects"),
    "host_budget": Said("reason_host_budget", "the host's page budget is used up; looked at again in some days"),
    "domain_budget": Said("reason_domain_budget", "the registrable domain's page budget is used up; looked at again in some days"),
    "prefix_budget": Said(
        "reason_prefix_budget",
        "its part of the site has its share of the host's page budget; looked at again in some days",
    ),
    "scheduled": Said("reason_scheduled", "read again and again, as often as it brings something new"),
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
        "depth_limit": Said("no_limit", "no limit") if depth is None else str(depth),
        "due_at": None if at is None else format_time(at) if at else "now",
        "due_by": policy,
        "settings": settings_facts(known),
    }


def why(row: Mapping[str, Any]) -> str:
    """One line: the state, and what led to it."""
    state, reason, operation = row["state"], row["reason"], row["operation"]
    said = explain_reason(reason)
    if operation:
        return Said("operation", "a {operation}: {state}", operation=operation, state=said or _WHY[state])
    if state == "known" and reason:
        if reason.startswith("trap_") or reason in _REASONS:
            return Said("put_off", "put off ({reason}): {why}", reason=reason, why=said)
        return Said("last_failed", "the last attempt failed ({reason}); it is due again at not_before", reason=reason)
    if not reason:
        return _WHY[state]
    if not said:
        return Said("state_by", "{state}: {reason}", state=_WHY[state], reason=reason)
    return Said("state_because", "{state}: {reason} ({why})", state=_WHY[state], reason=reason, why=said)


def explain_reason(reason: str) -> str:
    """What a reason of `urls` or of a refusal means; "" if it says so itself."""
    if reason.startswith("trap_"):
        return Said("looks_like_a_trap", "it looks like a trap: {why}", why=clause(reason.removeprefix("trap_")))
    if reason.startswith("unindexable_"):
        kind = reason.removeprefix("unindexable_")
        return Said("unindexable", "its name says that it is of a kind that cannot be indexed ({kind})", kind=kind)
    return _REASONS.get(reason, "")


def due(row: Mapping[str, Any], collection: Collection) -> tuple[int | None, str]:
    """When a row is due, ms since 1970 (0: now; None: not by itself), and what says so."""
    times = {name: _ms(row[name]) for name in _TIMES}
    at = due_at(
        recrawl_rules(collection),
        now=SystemClock().now_ms(),
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
        return None, Said("due_paused", "the collection is paused")
    if row["state"] == "known":
        return at, Said("due_turn", "it waits its turn") if not times["not_before"] else Said("due_later", "not before that time")
    if row["state"] == "excluded":
        return None, Said("due_never", "never, as things are")
    if collection.recrawl == "never":
        return None, Said("recrawl_never", "recrawl = never: what was fetched is not fetched again")
    if row["state"] == "gone":
        return at, Said("recrawl_gone", "a page that is gone is looked at ever more rarely")
    if collection.recrawl == "age":
        return at, _by_age(format_duration(collection.max_age), collection.recrawl_triggers)
    if collection.recrawl == "daily":
        return at, Said("recrawl_daily", "recrawl = daily at {time} UTC", time=collection.daily_at)
    return None, Said(
        "recrawl_fresh",
        "recrawl = fresh: when a fetch is worth it ({rate}, {weight}; the worker solves the schedule once a day)",
        rate=Said("change_rate", "{rate} changes a day", rate=f"{row['change_rate']:.3g}")
        if row["change_rate"]
        else Said("change_rate_unknown", "its changes are not known yet"),
        weight=Said("importance", "importance {weight}", weight=f"{row['importance']:.3g}")
        if row["importance"]
        else Said("importance_by_depth", "importance by its depth"),
    )


def _by_age(age: str, triggers: Sequence[str]) -> str:
    if "on_link" not in triggers:
        return Said("recrawl_age", "recrawl = age: when it is older than {age}", age=age)
    if "timer" not in triggers:
        return Said("recrawl_on_link", "recrawl = age: when a link to it is found and it is older than {age}", age=age)
    return Said(
        "recrawl_age_or_link",
        "recrawl = age: when it is older than {age}, or when a link to it is found and it is older than {age}",
        age=age,
    )


def unknown_facts(
    name: str, known: Known, url: str, tables: LiveTables, excluded: Excluded, domains: Domains, clock: Clock, *, other_schemes: bool
) -> dict[str, Any]:
    """Which of the rules would refuse a URL that the collection does not know, in the order in which they are asked."""
    scope = Admission(known.collection, known.seeds, domains, other_schemes=other_schemes).explain(url)
    screened = Screen(known.collection, excluded, clock)(url)
    refusals = [scope] if scope.startswith("refused") else []
    if screened.reason:
        refused = Said("refused", "refused ({reason}): {why}", reason=screened.reason, why=explain_reason(screened.reason))
        instead = [Said("taken_as", "taken as {url}", url=screened.instead)] if screened.instead else []
        refusals.append(listed([refused, *instead]))
    elif known.collection.traps and (other := _permutation(url, tables)):
        refusals.append(
            Said(
                "refused_permutation",
                "refused (trap_query_permutation): the same query parameters are known in another order: {url}",
                url=other,
            )
        )
    refusals += _by_links(url, known, tables)
    reasons = listed(refusals) or Said("not_refused", "no link to it was found, and no rule would refuse it")
    return {
        "collection": name,
        "state": None,
        "why": Said("never_admitted_or_hidden", "never admitted, or hidden since: {why}", why=reasons)
        if screened.reason == "excluded"
        else Said("never_admitted", "never admitted: {why}", why=reasons),
        "refused_by": refusals,
        "scope_says": scope,
        "depth_limit": Said("no_limit", "no limit") if known.collection.depth is None else str(known.collection.depth),
        "settings": settings_facts(known),
    }


def _by_links(url: str, known: Known, tables: LiveTables) -> Sequence[str]:
    """Whether the links to it were all marked nofollow, or lie too deep."""
    links = tables.scan("links").filter(pl.col("target") == url).select("source", "rel").collect()
    if not links.height:
        return []
    followed = links.filter(~pl.col("rel").str.contains("nofollow", literal=True)) if known.collection.respect_nofollow else links
    if not followed.height:
        said = Said(
            "refused_nofollow",
            "refused (nofollow): {n, plural, one {the only link to it is marked nofollow} other {all # links to it are marked nofollow}}",
            n=links.height,
        )
        return [said]
    limit = known.collection.depth
    if limit is None:
        return []
    rows = tables.scan("urls").filter((pl.col("collection") == known.collection.name) & pl.col("url").is_in(followed["source"].implode()))
    least = rows.select(pl.col("depth").min()).collect().item()
    if least is not None and least + 1 > limit:
        said = Said(
            "refused_depth",
            "refused (depth): the nearest page that links to it lies {n} links from a seed, and depth is {limit}",
            n=least,
            limit=limit,
        )
        return [said]
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
