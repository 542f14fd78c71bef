"""`explain`, the collection's part: why a URL is in its state, when it is due, and what refuses one
that was never admitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import polars as pl

from lycosa.config.settings import Collection
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.messages import Message, listed
from lycosa.core.records import UrlId, UrlRow
from lycosa.core.units import format_duration, format_time
from lycosa.crawl.admission.url_filter import PUT_OFF_MS, ExclusionCheck, UrlFilter
from lycosa.crawl.state.assignment import recrawl_rules
from lycosa.frontier.recrawl.due import Policy, due_at
from lycosa.frontier.traps.detector import clause
from lycosa.hooks.plugins import installed_plugins
from lycosa.store.tables.live import LiveTables
from lycosa.url.domain import Domains
from lycosa.url.scope import Admission
from lycosa.url.traps import query_signature

_DEFERRAL_DAYS = PUT_OFF_MS // 86_400_000
_WHY = {
    "known": Message("state_known", "waiting to be fetched"),
    "visited": Message("state_visited", "fetched and processed"),
    "gone": Message("state_gone", "the server returned a client error (4xx)"),
    "excluded": Message("state_excluded", "admitted earlier, then excluded"),
}
_REASONS = {
    "robots": Message("reason_robots", "robots.txt disallows it"),
    "scope": Message("reason_scope", "it is outside the current scope"),
    "pattern": Message("reason_pattern", "an `allow` or `deny` pattern refuses it"),
    "scheme": Message("reason_scheme", "its scheme is not crawled"),
    "too_long": Message("reason_too_long", "it is longer than max_url_length"),
    "depth": Message("reason_depth", "it is farther from a seed than the current `depth` allows"),
    "redirect_limit": Message(
        "reason_redirect_limit", "the redirect chain is longer than fetch.max_redirects"
    ),
    "address_refused": Message(
        "reason_address_refused",
        "its host has a private address that neither a seed nor fetch.connect_to names",
    ),
    "plugin": Message("reason_plugin", "a plug-in refuses it"),
    "excluded": Message("reason_excluded", "excluded by the operator"),
    "media_type": Message(
        "reason_media_type", "its media type is not one that the collection accepts"
    ),
    "parse_crashed": Message(
        "reason_parse_crashed",
        "quarantined: it crashed the parser; it is archived and not fetched again",
    ),
    "redirect": Message("reason_redirect", "it redirects"),
    "host_budget": Message(
        "reason_host_budget",
        "the page quota of the host is used up; checked again after {days} days",
        days=_DEFERRAL_DAYS,
    ),
    "domain_budget": Message(
        "reason_domain_budget",
        "the page quota of the registrable domain is used up; checked again after {days} days",
        days=_DEFERRAL_DAYS,
    ),
    "prefix_budget": Message(
        "reason_prefix_budget",
        "its part of the site has used up its share of the host's page quota; checked again "
        "after {days} days",
        days=_DEFERRAL_DAYS,
    ),
    "scheduled": Message(
        "reason_scheduled",
        "read periodically: more often if it lists new URLs, less often if it does not",
    ),
}
_SETTINGS = (
    *(
        "strategy",
        "priority",
        "recrawl",
        "schedule",
        "paused",
        "delay",
        "courtesy_factor",
        "max_delay",
    ),
    *("max_pages", "max_pages_per_host", "max_pages_per_domain", "max_prefix_share"),
)
_TIMES = ("not_before", "visited_at", "state_at", "first_seen_at", "captured_at")


@dataclass(slots=True, frozen=True)
class Known:
    """A collection as the log recorded it, its seeds, and the pages that it holds: in all, of the
    URL's host and registrable domain.
    """

    collection: Collection
    seeds: tuple[str, ...]
    pages: int = 0
    host_pages: int = 0
    domain_pages: int = 0


def known_collection(
    settings: Mapping[str, Any], pages: int, host_pages: int = 0, domain_pages: int = 0
) -> Known:
    """From the settings of the latest claim."""
    fields = {name: value for name, value in settings.items() if name in Collection.model_fields}
    return Known(
        Collection.model_validate(fields),
        tuple(settings.get("seeds", ())),
        pages,
        host_pages,
        domain_pages,
    )


def settings_facts(known: Known) -> dict[str, Any]:
    """The settings that decide over order, pace and budget; durations as text."""
    plain = known.collection.model_dump(mode="json")
    counts = {
        "pages": known.pages,
        "host_pages": known.host_pages,
        "domain_pages": known.domain_pages,
    }
    return {name: plain[name] for name in _SETTINGS if name in plain} | counts


def row_facts(
    row: Mapping[str, Any],
    known: Known | None,
    domains: Domains,
    *,
    other_schemes: bool,
    rank_interval_ms: int,
    host_rests_until: int,
    robots: Mapping[str, Any],
    paused: str,
    now_ms: int,
) -> dict[str, Any]:
    """A row of `urls`: why it is as it is, and when it is due, by which rule. `host_rests_until`:
    ms since 1970, of the host or its domain; `robots`: as `robots_facts` gives; `paused`: since
    when and by whom the collection is paused, "" if it is not.
    """
    facts = {**row, "why": why(row)}
    if known is None:
        return facts
    depth = known.collection.depth
    at, policy = due(row, known.collection, rank_interval_ms)
    if paused:
        at, policy = None, Message("due_paused", "the collection is {paused}", paused=paused)
    if at is not None and robots.get("unreachable"):
        at = max(at, robots["expires_at"])
        policy = Message(
            "due_robots", "when robots.txt is requested again: {why}", why=robots["says"]
        )
    if at is not None and host_rests_until > max(at, now_ms):
        at = host_rests_until
        policy = Message("due_host_pause", "after the pause of the host (see host_clock)")
    return {
        **facts,
        "scope_says": Admission(
            known.collection, known.seeds, domains, other_schemes=other_schemes
        ).explain(row["url"]),
        "depth_limit": Message("no_limit", "no limit") if depth is None else str(depth),
        "due_at": None if at is None else format_time(at) if at else "now",
        "due_by": policy,
        "settings": settings_facts(known),
    }


def why(row: Mapping[str, Any]) -> str:
    """One line: the state, and what led to it."""
    state, reason, operation = row["state"], row["reason"], row["operation"]
    said = explain_reason(reason)
    if operation:
        return Message(
            "operation", "{operation}: {state}", operation=operation, state=said or _WHY[state]
        )
    if state == "known" and reason:
        if reason.startswith("trap_") or reason in _REASONS:
            return Message("put_off", "deferred ({reason}): {why}", reason=reason, why=said)
        return Message(
            "last_failed",
            "the last attempt failed ({reason}); the next attempt is due at not_before",
            reason=reason,
        )
    if not reason:
        return _WHY[state]
    if not said:
        return Message("state_by", "{state}: {reason}", state=_WHY[state], reason=reason)
    return Message(
        "state_because", "{state}: {reason} ({why})", state=_WHY[state], reason=reason, why=said
    )


def explain_reason(reason: str) -> str:
    """What a reason of `urls` or of a refusal means; "" if it says so itself."""
    if reason.startswith("trap_"):
        return Message(
            "looks_like_a_trap",
            "suspected crawler trap: {why}",
            why=clause(reason.removeprefix("trap_")),
        )
    if reason.startswith("unindexable_"):
        kind = reason.removeprefix("unindexable_")
        return Message(
            "unindexable",
            "its file name extension indicates a type that cannot be indexed ({kind})",
            kind=kind,
        )
    return _REASONS.get(reason, "")


def due(
    row: Mapping[str, Any], collection: Collection, rank_interval_ms: int
) -> tuple[int | None, str]:
    """When a row is due, ms since 1970 (0: now; None: not by itself), and what says so; its host
    aside.
    """
    times = {name: _ms(row[name]) for name in _TIMES}
    names = ("state", "fails", "depth", "importance", "change_rate", "claim", "silence")
    url_row = UrlRow(
        UrlId("", "", 0, 0, 0),
        collection.name,
        visited_at=times["visited_at"],
        not_before=times["not_before"],
        **{name: row[name] for name in names},
    )
    at = due_at(recrawl_rules(collection), url_row, SystemClock().now_ms())
    if collection.paused:
        return None, Message(
            "due_paused", "the collection is {paused}", paused="paused = true (lycosa.toml)"
        )
    if row["state"] == "known":
        return at, Message("due_turn", "waiting in the queue") if not times[
            "not_before"
        ] else Message("due_later", "deferred until that time")
    if row["state"] == "excluded":
        return None, Message("due_never", "excluded URLs are not fetched")
    match policy := Policy(collection.recrawl):
        case Policy.NEVER:
            return None, Message(
                "recrawl_never", "recrawl = never: a fetched page is not fetched again"
            )
        case _ if row["state"] == "gone":
            return at, Message(
                "recrawl_gone",
                "a page that is gone is checked at increasing intervals, then no longer",
            )
        case Policy.AGE:
            return at, _by_age(format_duration(collection.max_age), collection.recrawl_triggers)
        case Policy.DAILY:
            return at, Message(
                "recrawl_daily", "recrawl = daily at {time} UTC", time=collection.daily_at
            )
        case Policy.FRESH:
            return None, _by_freshness(row, rank_interval_ms)
        case _:
            assert_never(policy)


def _by_freshness(row: Mapping[str, Any], rank_interval_ms: int) -> str:
    return Message(
        "recrawl_fresh",
        "recrawl = fresh: when the expected gain in freshness is high enough ({rate}, {weight}; "
        "computed every {interval})",
        interval=format_duration(rank_interval_ms),
        rate=Message("change_rate", "{rate} changes per day", rate=f"{row['change_rate']:.3g}")
        if row["change_rate"]
        else Message("change_rate_unknown", "change rate not known yet"),
        weight=Message("importance", "importance {weight}", weight=f"{row['importance']:.3g}")
        if row["importance"]
        else Message("importance_by_depth", "importance estimated from its depth"),
    )


def _by_age(age: str, triggers: Sequence[str]) -> str:
    if "on_link" not in triggers:
        return Message("recrawl_age", "recrawl = age: when it is older than {age}", age=age)
    if "timer" not in triggers:
        return Message(
            "recrawl_on_link",
            "recrawl = age: when a link to it is found and it is older than {age}",
            age=age,
        )
    return Message(
        "recrawl_age_or_link",
        "recrawl = age: when it is older than {age} (triggers: timer, on_link)",
        age=age,
    )


def unknown_facts(
    name: str,
    known: Known,
    url: str,
    tables: LiveTables,
    excluded: ExclusionCheck,
    domains: Domains,
    clock: Clock,
    *,
    other_schemes: bool,
    documents: bool,
    robots: Mapping[str, Any],
) -> dict[str, Any]:
    """Which of the rules would refuse a URL that the collection does not know, in the order in
    which they are asked. `documents`: PDF and the like are fetched; `robots`: as `robots_facts`
    gives.
    """
    scope = Admission(known.collection, known.seeds, domains, other_schemes=other_schemes).explain(
        url
    )
    screen = UrlFilter(
        known.collection,
        excluded,
        clock,
        documents=documents,
        plugins=installed_plugins(),
    )
    screened = screen(url)
    refusals = [scope] if scope.startswith("refused") else []
    if screened.reason:
        instead = (
            [Message("taken_as", "{url} is used instead", url=screened.instead)]
            if screened.instead
            else []
        )
        refusals.append(listed([_refused(screened.reason), *instead]))
        if screened.instead and (again := screen(screened.instead)).reason and not again.instead:
            refusals.append(_refused(again.reason))
    elif known.collection.traps and (other := _permutation(url, tables)):
        refusals.append(
            Message(
                "refused_permutation",
                "refused (trap_query_permutation): a URL with the same query parameters in "
                "another order is already known: {url}",
                url=other,
            )
        )
    links = (
        tables.scan("links")
        .filter(pl.col("target") == url)
        .select("source", "rel", "kind")
        .collect()
    )
    refusals += _by_links(links, known, tables)
    if robots.get("allowed") is False:
        refusals.append(
            Message(
                "refused_robots",
                "refused (robots): robots.txt disallows it ({by})",
                by=robots.get("by") or robots["says"],
            )
        )
    allowed = Message(
        "not_refused_linked",
        "no rule would refuse it; its links predate these settings or are not processed yet",
    )
    unlinked = Message("not_refused", "no link to it was found, and no rule would refuse it")
    reasons = listed(refusals) or (allowed if links.height else unlinked)
    return {
        "collection": name,
        "state": None,
        "why": Message(
            "never_admitted_or_hidden",
            "never admitted, or hidden since it was excluded: {why}",
            why=reasons,
        )
        if screened.reason == "excluded"
        else Message("never_admitted", "never admitted: {why}", why=reasons),
        "refused_by": refusals,
        "scope_says": scope,
        "depth_limit": Message("no_limit", "no limit")
        if known.collection.depth is None
        else str(known.collection.depth),
        "settings": settings_facts(known),
    }


def _refused(reason: str) -> str:
    return Message(
        "refused", "refused ({reason}): {why}", reason=reason, why=explain_reason(reason)
    )


def _by_links(links: pl.DataFrame, known: Known, tables: LiveTables) -> Sequence[str]:
    """Whether the links to it were all marked nofollow, or lie too deep."""
    if not links.height:
        return []
    closed = (
        tables.scan("pages")
        .filter(~pl.col("may_follow") & pl.col("url").is_in(links["source"].implode()))
        .select("url")
        .collect()
    )
    followed = links.filter(~pl.col("source").is_in(closed["url"].implode()))
    if known.collection.respect_nofollow:
        followed = followed.filter(~pl.col("rel").str.contains("nofollow", literal=True))
    if not followed.height:
        said = Message(
            "refused_nofollow",
            "refused (nofollow): {n, plural, one {the only link to it is marked nofollow} other "
            "{all # links to it are marked nofollow}}",
            n=links.height,
        )
        return [said]
    limit = known.collection.depth
    if limit is None:
        return []
    rows = tables.scan("urls").filter(
        (pl.col("collection") == known.collection.name)
        & pl.col("url").is_in(followed["source"].implode())
    )
    least = rows.select(pl.col("depth").min()).collect().item()
    if least is not None and least + 1 > limit:
        said = Message(
            "refused_depth",
            "refused (depth): the nearest page that links to it is at depth {n}, and the limit "
            "(depth) is {limit}",
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
    same = (
        tables.scan("urls")
        .filter(pl.col("url").str.starts_with(f"{path}?"))
        .select("url")
        .collect()["url"]
    )
    return next(
        (other for other in same if other != url and query_signature(other) == signature), ""
    )


def _ms(value: Any) -> int:
    return 0 if value is None else round(value.timestamp() * 1000)
