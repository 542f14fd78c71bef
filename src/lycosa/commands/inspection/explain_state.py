"""`explain` for a collection: the state of a URL, and when it is due.

For a URL that was never admitted: the rules that refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from lycosa.commands.inspection import explain_verdict
from lycosa.commands.inspection.explain_verdict import Action, StoredCrawl, Verdict
from lycosa.config.settings import Collection, Config
from lycosa.core.errors import Exclusion, Refusal
from lycosa.core.messages import Message, listed
from lycosa.core.records import UrlRow, UrlState
from lycosa.core.units import format_duration, format_time
from lycosa.crawl.admission.url_filter import PUT_OFF_MS
from lycosa.crawl.session.pausing import pause_text
from lycosa.frontier.recrawl.due import Policy
from lycosa.frontier.traps.detector import clause
from lycosa.url.traps import TrapRule, without_session

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


def row_facts(
    crawl: StoredCrawl, row: UrlRow, columns: Mapping[str, Any], robots: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the facts about a row of `urls`: the reason of its state, and its next fetch.

    `columns`: the displayed columns; `robots`: as `robots_facts` returns.
    """
    facts = {**columns, "why": why(columns)}
    if row.collection not in crawl.assignments:
        return facts
    verdict = crawl.verdict(row)
    at, cause = _due(crawl, row, verdict, robots)
    return {
        **facts,
        **_verdict_facts(verdict),
        "due_at": None if at is None else format_time(at) if at else "now",
        "due_by": cause,
        **collection_facts(crawl, row.collection, str(row.id.url)),
    }


def unknown_facts(crawl: StoredCrawl, name: str, robots: Mapping[str, Any]) -> dict[str, Any]:
    """Return why a collection has no row of the URL: the refusing rules."""
    candidate = crawl.candidate(name)
    refusals = [_refusal(crawl, name, reason, candidate.links) for reason in candidate.refusals]
    is_excluded = crawl.excluded(crawl.url)
    if is_excluded and Exclusion.OPERATOR not in candidate.refusals:
        refusals.append(_refused(Exclusion.OPERATOR))
    if candidate.row is None:
        verdict = Verdict(Action.REFUSE, candidate.refusal)
    else:
        verdict = crawl.verdict(candidate.row)
    if verdict.reason == Exclusion.ROBOTS or (candidate.row is None and _forbids(robots)):
        refusals.append(_refused_by_robots(robots))
    linked = Message(
        "not_refused_linked",
        "no rule would refuse it; its links predate these settings or are not processed yet",
    )
    unlinked = Message("not_refused", "no link to it was found, and no rule would refuse it")
    reasons = listed(refusals) or (linked if crawl.links.height else unlinked)
    return {
        "collection": name,
        "state": None,
        "why": Message(
            "never_admitted_or_hidden",
            "never admitted, or hidden since it was excluded: {why}",
            why=reasons,
        )
        if is_excluded
        else Message("never_admitted", "never admitted: {why}", why=reasons),
        "refused_by": refusals,
        **_verdict_facts(verdict),
        **collection_facts(crawl, name, crawl.url),
    }


def collection_facts(crawl: StoredCrawl, name: str, url: str) -> dict[str, Any]:
    """Return scope, depth limit, and the settings for order, rate and budget.

    Durations are text.
    """
    assignment, host = crawl.assignments[name], crawl.hosts.row(crawl.identity.host_key)
    collection = assignment.collection
    plain = collection.model_dump(mode="json")
    host_pages, domain_pages = crawl.budgets.pages(name, host)
    counts = {"pages": assignment.pages}
    # they are only counted if there is a limit
    counts |= {} if collection.max_pages_per_host is None else {"host_pages": host_pages}
    counts |= {} if collection.max_pages_per_domain is None else {"domain_pages": domain_pages}
    limit = collection.depth
    return {
        "scope_check": assignment.gate.admission.explain(url),
        "depth_limit": Message("no_limit", "no limit") if limit is None else str(limit),
        "settings": {key: plain[key] for key in _SETTINGS if key in plain} | counts,
    }


def _verdict_facts(verdict: Verdict) -> dict[str, Any]:
    return {"verdict": str(verdict.action), "verdict_reason": verdict.reason}


def _due(
    crawl: StoredCrawl, row: UrlRow, verdict: Verdict, robots: Mapping[str, Any]
) -> tuple[int | None, str]:
    """Return when the row is fetched, and the deciding rule.

    The time is in ms since 1970; 0: now; None: not scheduled.
    """
    match verdict.reason:
        case explain_verdict.PAUSED:
            return None, Message(
                "due_paused", "the collection is {paused}", paused=_paused_by(crawl, row)
            )
        case explain_verdict.NOT_CONFIGURED:
            return None, Message(
                "due_not_configured",
                "its collection is not in lycosa.toml: only `lycosa crawl --collection {name}` "
                "fetches its URLs",
                name=row.collection,
            )
        case explain_verdict.HOST_PAUSED:
            return verdict.at, Message(
                "due_host_pause", "after the pause of the host (see host_clock)"
            )
        case explain_verdict.ROBOTS_UNREACHABLE:
            return verdict.at, Message(
                "due_robots", "when robots.txt is requested again: {why}", why=robots["explanation"]
            )
        case explain_verdict.ROBOTS_UNKNOWN:
            return 0, Message("due_robots_first", "as soon as robots.txt has been fetched")
    if verdict.action is Action.REFUSE and row.state != UrlState.EXCLUDED:
        return None, _refused(verdict.reason)
    if verdict.action is Action.DEFER and verdict.at is None and row.state == UrlState.KNOWN:
        return None, Message(
            "due_deferred",
            "its turn has come, but {why}",
            why=explain_reason(verdict.reason) or verdict.reason,
        )
    at = crawl.due_at(row) if verdict.action is not Action.FETCH else 0
    return at, _schedule(row, crawl.assignments[row.collection].collection, crawl.config)


def _paused_by(crawl: StoredCrawl, row: UrlRow) -> str:
    if row.collection in crawl.pauses:
        return pause_text(crawl.pauses[row.collection])
    return "paused = true (lycosa.toml)"


def why(row: Mapping[str, Any]) -> str:
    """Return the state and its reason as one line."""
    state, reason, operation = row["state"], row["reason"], row["operation"]
    meaning = explain_reason(reason)
    if operation:
        return Message(
            "operation", "{operation}: {state}", operation=operation, state=meaning or _WHY[state]
        )
    if state == "known" and reason:
        if reason.startswith("trap_") or reason in _REASONS:
            return Message("deferred", "deferred ({reason}): {why}", reason=reason, why=meaning)
        return Message(
            "last_failed",
            "the last attempt failed ({reason}); the next attempt is due at not_before",
            reason=reason,
        )
    if not reason:
        return _WHY[state]
    if not meaning:
        return Message("state_by", "{state}: {reason}", state=_WHY[state], reason=reason)
    return Message(
        "state_because", "{state}: {reason} ({why})", state=_WHY[state], reason=reason, why=meaning
    )


def explain_reason(reason: str) -> str:
    """Return the meaning of a reason of `urls` or of a refusal; "" if it needs no explanation."""
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


def _schedule(row: UrlRow, collection: Collection, config: Config) -> str:
    """Return the rule that schedules a row, apart from its host."""
    if row.state == UrlState.KNOWN:
        if row.not_before:
            return Message("due_later", "deferred until that time")
        return Message("due_turn", "waiting in the queue")
    if row.state == UrlState.EXCLUDED:
        return Message("due_never", "excluded URLs are not fetched")
    match policy := Policy(collection.recrawl):
        case Policy.NEVER:
            return Message("recrawl_never", "recrawl = never: a fetched page is not fetched again")
        case _ if row.state == UrlState.GONE:
            return Message(
                "recrawl_gone",
                "a page that is gone is checked at increasing intervals, then no longer",
            )
        case Policy.AGE:
            return _by_age(format_duration(collection.max_age), collection.recrawl_triggers)
        case Policy.DAILY:
            return Message(
                "recrawl_daily", "recrawl = daily at {time} UTC", time=collection.daily_at
            )
        case Policy.FRESH:
            return _by_freshness(row, config.run.rank_interval)
        case _:
            assert_never(policy)


def _by_freshness(row: UrlRow, rank_interval_ms: int) -> str:
    return Message(
        "recrawl_fresh",
        "recrawl = fresh: when the expected gain in freshness is high enough ({rate}, {weight}; "
        "computed every {interval})",
        interval=format_duration(rank_interval_ms),
        rate=Message("change_rate", "{rate} changes per day", rate=f"{row.change_rate:.3g}")
        if row.change_rate
        else Message("change_rate_unknown", "change rate not known yet"),
        weight=Message("importance", "importance {weight}", weight=f"{row.importance:.3g}")
        if row.importance
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


def _refused(reason: str) -> str:
    return Message(
        "refused", "refused ({reason}): {why}", reason=reason, why=explain_reason(reason)
    )


def _refusal(crawl: StoredCrawl, name: str, reason: str, links: int) -> str:
    """Return the explanation of a refused link."""
    assignment = crawl.assignments[name]
    if reason in (Refusal.SCHEME, Refusal.TOO_LONG, Refusal.SCOPE, Refusal.PATTERN):
        scope = assignment.gate.admission.explain(crawl.url)
        return scope if scope.startswith("refused") else _refused(reason)
    if reason == Refusal.NOFOLLOW:
        return Message(
            "refused_nofollow",
            "refused (nofollow): {n, plural, one {the only link to it is marked nofollow} other "
            "{all # links to it are marked nofollow}}",
            n=links,
        )
    if reason == Refusal.DEPTH:
        return Message(
            "refused_depth",
            "refused (depth): the nearest page that links to it is at depth {n}, and the limit "
            "(depth) is {limit}",
            n=crawl.least_depth(name),
            limit=assignment.collection.depth or 0,
        )
    if reason == f"trap_{TrapRule.QUERY_PERMUTATION}":
        return Message(
            "refused_permutation",
            "refused (trap_query_permutation): a URL with the same query parameters in "
            "another order is already known: {url}",
            url=next(iter(crawl.same_query()), ""),
        )
    if reason == f"trap_{TrapRule.SESSION_ID}":
        instead = Message("taken_as", "{url} is used instead", url=without_session(crawl.url))
        return listed([_refused(reason), instead])
    return _refused(reason)


def _forbids(robots: Mapping[str, Any]) -> bool:
    return robots.get("allowed") is False and not robots.get("unreachable")


def _refused_by_robots(robots: Mapping[str, Any]) -> str:
    return Message(
        "refused_robots",
        "refused (robots): robots.txt disallows it ({by})",
        by=robots.get("by") or robots["explanation"],
    )
