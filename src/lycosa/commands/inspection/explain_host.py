"""`explain`, the host's part: what its robots.txt says, how long it is left alone and by which
rule, what was taken for a trap there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from lycosa.config.settings import Collection
from lycosa.core.messages import Message
from lycosa.fetch.robots_txt import Robots, product_token, robots_verdict
from lycosa.frontier.politeness.delay import DelayRules, Reason, reasons
from lycosa.frontier.traps.detector import clause
from lycosa.url.scope import url_origin

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


def robots_facts(host: pl.DataFrame, url: str, user_agent: str) -> dict[str, Any]:
    """What the stored robots.txt of a URL's origin says of it, and by which line."""
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
            "says": Message("robots_unknown", "unknown: robots.txt has not been fetched"),
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
            "says": everything if allowed else nothing,
            "allowed": allowed,
            "unreachable": not allowed,
        }
    robots = Robots(entry["body"], user_agent, origin)
    return {
        **facts,
        "allowed": robots.allowed(url),
        "token": product_token(user_agent),
        "says": Message("robots_allows", "allowed")
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
    """The pause in force and the rules that ask for one, longest first.

    `host`: a row of `hosts`; `domain_not_before`: when the pause of its registrable domain is over;
    `last`: its last visit; `collections`: those that crawl it, of which the strictest counts.
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
    """A host's trap counters (`hosts.traps`), each with what its rule says; `part` is the part of
    the host that is held back.
    """
    facts = []
    for counter in counters:
        rule, part = counter["name"], ""
        if rule.startswith(_STOPPED):
            rule, _, part = rule.removeprefix(_STOPPED).partition(":")
        facts.append({"rule": rule, "part": part, "count": counter["count"], "says": clause(rule)})
    return facts


def _decides(delay: int, rules: list[tuple[str, int]], status: int) -> str:
    """Return the rule that led to a stored pause.

    The transfer's own time is a little less than the visit's. Retry-After and the slow-down are
    not stored: they explain what the other rules cannot.
    """
    for name, milliseconds in rules:
        if milliseconds == delay and name != Reason.COURTESY:
            return name
    most = rules[0][1] if rules else 0
    if delay > most:
        return Reason.RETRY_AFTER if status in _REFUSING else Reason.SLOW_DOWN
    return Reason.COURTESY if delay else ""
