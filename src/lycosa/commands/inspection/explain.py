"""`explain`: the stored facts of a URL, and why it was or was not fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from lycosa.commands.inspection.explain_state import row_facts, unknown_facts
from lycosa.commands.inspection.explain_verdict import StoredCrawl
from lycosa.commands.models import Inlinks, UrlExplanation
from lycosa.config.credentials import without_user
from lycosa.config.settings import Collection, Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.messages import Message
from lycosa.core.records import UrlId, VisitKind
from lycosa.crawl.admission.url_filter import ExclusionCheck
from lycosa.fetch.robots_txt import Robots, product_token, robots_verdict
from lycosa.frontier.politeness.delay import DelayRules, Reason, reasons
from lycosa.frontier.traps.detector import clause
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import typed_url
from lycosa.url.scope import url_origin

_MAX_ROWS = 10
_VISIT = (
    *(
        "kind",
        "fetched_at",
        "http_status",
        "error",
        "attempt",
        "duration_ms",
        "protocol",
        "ip",
        "content_type",
        "content_length",
    ),
    *("changed", "redirect_to", "truncated", "warc_file", "warc_offset"),
)
_PAGE = (
    *(
        "title",
        "language",
        "language_score",
        "charset",
        "published_at",
        "canonical",
        "may_index",
        "may_follow",
    ),
    *("redirect_from", "faults", "size"),
)

_STOPPED = "stopped:"
_REFUSING = (429, 503)
_CLOCK = (
    "delay",
    "not_before",
    "last_visit_at",
    "latency",
    "fails",
    "known",
    "visited",
    "pages",
    "bytes",
)
_ASKS: Mapping[str, str] = {
    Reason.DELAY: Message("pace_delay", "delay: the minimum pause of the collection"),
    Reason.COURTESY: Message(
        "pace_courtesy", "courtesy_factor times the duration of the last transfer"
    ),
    Reason.MAX_DELAY: Message(
        "pace_max_delay", "max_delay: courtesy_factor alone would give a longer pause"
    ),
    Reason.SLOW_DOWN: Message(
        "pace_slow_down", "slow_down: the host responds more slowly than usual"
    ),
    Reason.CRAWL_DELAY: Message("pace_crawl_delay", "Crawl-delay in robots.txt"),
    Reason.RETRY_AFTER: Message("pace_retry_after", "Retry-After of the last response"),
    Reason.BACK_OFF: Message("pace_back_off", "back-off after failures"),
}


def explain_url(root: str, config: Config, url: str, clock: Clock | None = None) -> UrlExplanation:
    """Explain the state of a URL.

    Raises:
        UrlError: it cannot be parsed as a URL.
        ConfigError: the exclusion list cannot be read.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    crawl = StoredCrawl(Workspace.open(root), config, typed_url(url), clock or SystemClock())
    tables, identity = crawl.tables, crawl.identity
    here = (pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)) & (
        pl.col("url_key") == pl.lit(identity.url_key, pl.UInt64)
    )
    page = tables.scan("pages").filter(here).collect()
    referrers = crawl.links.select("source", "anchor", "kind", "rel", "found_at")
    visits = tables.scan("visits").filter(
        here & (pl.col("url") == crawl.url) & (pl.col("kind") != VisitKind.CHECK.value)
    )
    robots, collections, host_clock = _crawl_facts(crawl)
    return UrlExplanation(
        url=crawl.url,
        given=without_user(url),
        host=identity.host,
        partition=identity.partition,
        url_key=f"{identity.url_key:016x}",
        exclusion=_exclusion(identity, crawl.excluded, crawl.log),
        collections=collections,
        robots=robots,
        host_clock=host_clock,
        visits=visits.sort("fetched_at").select(_VISIT).tail(_MAX_ROWS).collect().to_dicts(),
        page=page.select(_PAGE).to_dicts(),
        referrers=Inlinks(referrers.height, referrers.head(_MAX_ROWS).to_dicts()),
        same_text=_same_text(tables, page, crawl.url),
    )


def _crawl_facts(
    crawl: StoredCrawl,
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the facts of robots.txt, collections and host that decide."""
    identity, rows = crawl.identity, crawl.rows()
    host = crawl.tables.scan("hosts").filter(pl.col("host") == identity.host).collect()
    robots = robots_facts(host, crawl.url, crawl.config.fetch.user_agent)
    columns = crawl.frame.drop("partition", "host_key", "url_key").to_dicts()
    entries = [
        row_facts(crawl, row, own, robots) for row, own in zip(rows, columns, strict=True)
    ] or [unknown_facts(crawl, name, robots) for name in crawl.assignments]
    working = {row.collection for row in rows} or set(crawl.assignments)
    clocks = [
        clock_facts(
            row,
            crawl.domain_not_before(),
            _last_visit(crawl.tables, identity),
            [each.collection for name, each in crawl.assignments.items() if name in working],
            robots.get("crawl_delay_ms") or 0,
        )
        for row in host.to_dicts()
    ]
    return robots, entries, clocks


def _exclusion(identity: UrlId, excluded: ExclusionCheck, state: LogState) -> str:
    """Return the rule that excludes the URL, of the file or the log; or ""."""
    rule = excluded.rule(identity.url)
    if rule is not None:
        return Message("excluded_by_file", "crawl.exclusions: {rule}", rule=str(rule))
    if state.exclusions.excluded(identity.url, identity.host):
        rules = ", ".join(rule for rule in state.exclusions.rules if _names(rule, identity))
        return Message("excluded_by_rule", "lycosa exclude: {rules}", rules=rules)
    return ""


def _names(rule: str, identity: UrlId) -> bool:
    kind, _, value = rule.partition(":")
    host = identity.host.removesuffix(".")
    if kind == "prefix":
        return identity.url.partition("://")[2].startswith(value)
    return host == value or (kind == "domain" and host.endswith(f".{value}"))


def _last_visit(tables: LiveTables, identity: UrlId) -> dict[str, Any] | None:
    """Return the host's last exchange."""
    visits = tables.scan("visits").filter(
        pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)
    )
    rows = (
        visits.select("fetched_at", "duration_ms", "http_status")
        .sort("fetched_at")
        .tail(1)
        .collect()
    )
    return rows.row(0, named=True) if rows.height else None


def _same_text(tables: LiveTables, page: pl.DataFrame, url: str) -> list[str]:
    if not page.height or not page["text"][0]:
        return []
    same = tables.scan("pages").filter(
        (pl.col("text_digest") == page["text_digest"][0]) & (pl.col("url") != url)
    )
    return sorted(same.select("url").head(_MAX_ROWS).collect()["url"].to_list())


def robots_facts(host: pl.DataFrame, url: str, user_agent: str) -> dict[str, Any]:
    """Return the verdict of the stored robots.txt of a URL's origin, and the line that decides."""
    origin = url_origin(url)
    entries = (
        [
            entry
            for row in host["robots"].to_list()
            for entry in row or ()
            if entry["origin"] == origin
        ]
        if host.height
        else []
    )
    if not entries:
        return {
            "origin": origin,
            "explanation": Message("robots_unknown", "unknown: robots.txt has not been fetched"),
        }
    entry = entries[-1]
    verdict = robots_verdict(entry["status"], "" if entry["status"] else "no response")
    facts = {
        "origin": origin,
        "status": entry["status"],
        "fetched_at": entry["fetched_at"],
        "expires_at": entry["expires_at"],
    }
    if verdict != "parse":
        everything = Message("robots_none", "every URL is allowed: there is no robots.txt")
        nothing = Message("robots_silent", "no URL is allowed: robots.txt is unreachable")
        allowed = verdict == "allow_all"
        return {
            **facts,
            "explanation": everything if allowed else nothing,
            "allowed": allowed,
            "unreachable": not allowed,
        }
    robots = Robots(entry["body"], user_agent, origin)
    return {
        **facts,
        "allowed": robots.allowed(url),
        "token": product_token(user_agent),
        "explanation": Message("robots_allows", "allowed")
        if robots.allowed(url)
        else Message("robots_forbids", "not allowed"),
        "by": robots.line(url),
        "crawl_delay_ms": robots.crawl_delay_ms(),
    }


def clock_facts(
    host: Mapping[str, Any],
    domain_not_before: Any,
    last: Mapping[str, Any] | None,
    collections: Iterable[Collection],
    crawl_delay_ms: int,
) -> dict[str, Any]:
    """Return a host's pause and the rules that require one, longest first.

    `host`: a row of `hosts`; `domain_not_before`: end of the pause of its registrable domain;
    `last`: its last visit; `collections`: those that crawl it; the strictest one applies.
    """
    delay = host["delay"] or 0
    pauses: dict[str, int] = {}
    for collection in collections:
        parts = reasons(
            DelayRules.of(collection, collection.backoff),
            duration_ms=last["duration_ms"] if last else 0,
            crawl_delay_ms=crawl_delay_ms,
            failures=host["fails"],
            host_key=host["host_key"],
        )
        for name, milliseconds in parts:
            pauses[name] = max(pauses.get(name, 0), milliseconds)
    rules = sorted(pauses.items(), key=lambda part: -part[1])
    decides = _decides(delay, rules, last["http_status"] if last else 0) if last else ""
    return {
        **{name: host[name] for name in _CLOCK},
        "decided_by": _ASKS.get(decides, decides),
        "rules": [{"rule": name, "ms": milliseconds} for name, milliseconds in rules],
        "registrable_domain": host["registrable_domain"],
        "domain_not_before": domain_not_before,
        "traps": trap_facts(host["traps"] or ()),
    }


def trap_facts(counters: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a host's trap counters, each with the meaning of its rule.

    `part` is the restricted part of the host.
    """
    facts = []
    for counter in counters:
        rule, part = counter["name"], ""
        if rule.startswith(_STOPPED):
            rule, _, part = rule.removeprefix(_STOPPED).partition(":")
        facts.append(
            {"rule": rule, "part": part, "count": counter["count"], "explanation": clause(rule)}
        )
    return facts


def _decides(delay: int, rules: list[tuple[str, int]], status: int) -> str:
    """Return the rule that led to a stored pause.

    The transfer time is a little shorter than the stored duration of the visit. Retry-After and the
    slow-down are not stored: they are assumed if no other rule explains the pause.
    """
    for name, milliseconds in rules:
        if milliseconds == delay and name != Reason.COURTESY:
            return name
    most = rules[0][1] if rules else 0
    if delay > most:
        return Reason.RETRY_AFTER if status in _REFUSING else Reason.SLOW_DOWN
    return Reason.COURTESY if delay else ""
