"""`lycosa explain`: the state of a URL and why it was or was not fetched."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lycosa.cli.options import InWorkspace
from lycosa.cli.output import Output, table
from lycosa.core.units import format_duration, number_of

if TYPE_CHECKING:
    from lycosa.commands.models import UrlExplanation

_QUOTAS = {
    "max_pages": ("pages", ""),
    "max_pages_per_host": ("host_pages", " of the host"),
    "max_pages_per_domain": ("domain_pages", " of the domain"),
}


def command(
    where: InWorkspace,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL to explain.")],
) -> Output:
    """Show the state of a URL and why it was or was not fetched."""
    facts = where.open().explain(url)
    return Output(facts, table(_rows(facts)))


def _rows(facts: UrlExplanation) -> list[tuple[str, str]]:
    rows = [("URL", facts.url)]
    if facts.url != facts.given:
        rows.append(("given as", facts.given))
    if facts.exclusion:
        rows.append(("excluded by", facts.exclusion))
    for entry in facts.collections:
        rows += _collection(entry)
    by = f", by {facts.robots['by']}" if facts.robots.get("by") else ""
    rows.append(("robots.txt", facts.robots["explanation"] + by))
    for clock in facts.host_clock:
        rows += _clock(facts.host, clock)
    return rows + _visits(facts) + _page(facts)


def _collection(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the state of the URL in a collection."""
    name = entry["collection"] + (f" ({entry['operation']})" if entry.get("operation") else "")
    rows = [(f"in {name}", f"{entry['state'] or 'not known'}: {entry['why']}")]
    if entry["state"]:
        limit = entry.get("depth_limit", "unknown")
        rows.append(("  depth", f"{entry['depth']} (depth limit: {limit})"))
        if "due_by" in entry:
            rows.append(("  due", f"{entry['due_at'] or 'not automatically'}: {entry['due_by']}"))
        if entry["referrer"]:
            rows.append(("  found on", entry["referrer"]))
        if entry["redirect_from"]:
            hops = number_of(entry["redirects"], "hop")
            rows.append(("  redirected from", f"{entry['redirect_from']} ({hops})"))
        if entry["checks"]:
            changes = number_of(entry["changes"], "time")
            rows.append(
                ("  fetched again", f"{number_of(entry['checks'], 'time')}; changed {changes}")
            )
    if "scope_check" in entry:
        rows.append(("  scope", entry["scope_check"]))
    if "settings" in entry:
        rows.append(("  settings", _settings(entry["settings"])))
    return rows


def _settings(settings: Mapping[str, Any]) -> str:
    parts = [
        settings["strategy"],
        f"recrawl {settings['recrawl']}",
        f"priority {settings['priority']:g}",
    ]
    if settings["paused"]:
        parts.append("paused")
    if settings["schedule"]:
        parts.append(f"only {settings['schedule']} UTC")
    for name, (count, of) in _QUOTAS.items():
        if settings[name] is not None:
            parts.append(f"{settings[count]:,} of {number_of(settings[name], 'page')}{of}")
    if settings["max_pages_per_host"] is not None and settings["max_prefix_share"] < 1:
        parts.append(f"at most {settings['max_prefix_share']:.0%} of them in one folder")
    return ", ".join(parts)


def _clock(host: str, clock: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pauses of the host, and its traps."""
    text = f"pause {format_duration(clock['delay'] or 0)}"
    if clock["decided_by"]:
        text += f" ({clock['decided_by']})"
    text += f", last request {_at(clock['last_visit_at'])}"
    if clock["fails"]:
        text += f", {number_of(clock['fails'], 'failure')} in a row"
    rows = [(f"host {host}", text)]
    now = datetime.now(UTC)
    if clock["not_before"] and clock["not_before"] > now:
        rows.append(("  not before", _at(clock["not_before"])))
    if clock["rules"]:
        rules = (f"{rule['rule']} {format_duration(rule['ms'])}" for rule in clock["rules"])
        rows.append(("  rules", ", ".join(rules)))
    if clock["domain_not_before"] and clock["domain_not_before"] > now:
        until = f"paused until {_at(clock['domain_not_before'])}"
        rows.append((f"  domain {clock['registrable_domain']}", until))
    rows.append(
        (
            "  stored",
            f"{number_of(clock['pages'], 'page')}; {number_of(clock['visited'], 'URL')} "
            f"visited, {clock['known']:,} waiting",
        )
    )
    for trap in clock["traps"]:
        part = f" at {trap['part']}" if trap["part"] else ""
        what = "pages fetched before it was stopped" if trap["part"] else "URLs not fetched"
        text = (
            f"{trap['explanation'][:1].upper()}{trap['explanation'][1:]}."
            if trap["explanation"]
            else ""
        )
        rows.append((f"  trap {trap['rule']}", f"{trap['count']:,} {what}{part}. {text}"))
    return rows


def _visits(facts: UrlExplanation) -> list[tuple[str, str]]:
    rows = []
    for visit in facts.visits:
        outcome = visit["error"] or f"HTTP {visit['http_status']}"
        target = f", to {visit['redirect_to']}" if visit["redirect_to"] else ""
        rows.append(
            (
                f"fetched {_at(visit['fetched_at'])}",
                f"{outcome}, {visit['duration_ms']} ms, {visit['content_type'] or 'no type'}, "
                f"{number_of(visit['content_length'], 'byte')}, attempt {visit['attempt']}, "
                f"{visit['warc_file']} at {visit['warc_offset']}{target}",
            )
        )
    return rows


def _page(facts: UrlExplanation) -> list[tuple[str, str]]:
    """Return the parsed facts of the page, and the links to it."""
    rows = []
    for page in facts.page:
        language = f"language {page['language'] or 'unknown'}, {page['charset']}"
        rows.append(("page", f"{page['title'] or '(no title)'} ({language})"))
        if not page["may_index"]:
            rows.append(("", "noindex: the page is not in the index"))
        if page["faults"]:
            rows.append(("  errors", ", ".join(page["faults"])))
    rows += [("same text as", url) for url in facts.same_text]
    rows.append(("linked from", number_of(facts.referrers.total, "link")))
    rows += [
        (f"  since {_at(link['found_at'])}", f"{link['source']}  {link['kind']} {link['anchor']!r}")
        for link in facts.referrers.first
    ]
    return rows


def _at(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else "never"
