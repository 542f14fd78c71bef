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
    by = f", by {facts.robots['by']}" if facts.robots.get("by") else ""
    rows = [
        ("URL", facts.url),
        ("given as", facts.given if facts.url != facts.given else ""),
        ("excluded by", facts.exclusion),
        *(row for entry in facts.collections for row in _collection(entry)),
        ("robots.txt", facts.robots["explanation"] + by),
        *(row for clock in facts.host_clock for row in _clock(facts.host, clock)),
        *map(_visit, facts.visits),
        *_page(facts),
    ]
    return [row for row in rows if row[1]]


def _collection(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the state of the URL in a collection; rows with an empty value are not shown."""
    name = entry["collection"] + (f" ({entry['operation']})" if entry.get("operation") else "")
    rows = [(f"in {name}", f"{entry['state'] or 'not known'}: {entry['why']}")]
    if entry["state"]:
        due = f"{entry['due_at'] or 'not automatically'}: {entry['due_by']}"
        hops = number_of(entry["redirects"], "hop")
        redirected = entry["redirect_from"]
        checks, changes = (number_of(entry[name], "time") for name in ("checks", "changes"))
        rows += [
            ("  depth", f"{entry['depth']} (depth limit: {entry.get('depth_limit', 'unknown')})"),
            ("  due", due if "due_by" in entry else ""),
            ("  found on", entry["referrer"]),
            ("  redirected from", f"{redirected} ({hops})" if redirected else ""),
            ("  fetched again", f"{checks}; changed {changes}" if entry["checks"] else ""),
        ]
    settings = _settings(entry["settings"]) if "settings" in entry else ""
    return [*rows, ("  scope", entry.get("scope_check", "")), ("  settings", settings)]


def _settings(settings: Mapping[str, Any]) -> str:
    share = settings["max_prefix_share"]
    parts = [
        settings["strategy"],
        f"recrawl {settings['recrawl']}",
        f"priority {settings['priority']:g}",
        "paused" if settings["paused"] else "",
        f"only {settings['schedule']} UTC" if settings["schedule"] else "",
        *(
            f"{settings[count]:,} of {number_of(settings[name], 'page')}{of}"
            for name, (count, of) in _QUOTAS.items()
            if settings[name] is not None
        ),
        f"at most {share:.0%} of them in one folder"
        if settings["max_pages_per_host"] is not None and share < 1
        else "",
    ]
    return ", ".join(filter(None, parts))


def _clock(host: str, clock: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pauses of the host, and its traps; rows with an empty value are not shown."""
    decided_by = f" ({clock['decided_by']})" if clock["decided_by"] else ""
    fails = f", {number_of(clock['fails'], 'failure')} in a row" if clock["fails"] else ""
    rules = (f"{rule['rule']} {format_duration(rule['ms'])}" for rule in clock["rules"])
    until = _future(clock["domain_not_before"])
    return [
        (
            f"host {host}",
            f"pause {format_duration(clock['delay'] or 0)}{decided_by}, last request "
            f"{_at(clock['last_visit_at'])}{fails}",
        ),
        ("  not before", _future(clock["not_before"])),
        ("  rules", ", ".join(rules)),
        (f"  domain {clock['registrable_domain']}", f"paused until {until}" if until else ""),
        (
            "  stored",
            f"{number_of(clock['pages'], 'page')}; {number_of(clock['visited'], 'URL')} "
            f"visited, {clock['known']:,} waiting",
        ),
        *((f"  trap {trap['rule']}", _trap(trap)) for trap in clock["traps"]),
    ]


def _trap(trap: Mapping[str, Any]) -> str:
    part = f" at {trap['part']}" if trap["part"] else ""
    what = "pages fetched before it was stopped" if trap["part"] else "URLs not fetched"
    why = trap["explanation"]
    text = f"{why[:1].upper()}{why[1:]}." if why else ""
    return f"{trap['count']:,} {what}{part}. {text}"


def _visit(visit: Mapping[str, Any]) -> tuple[str, str]:
    outcome = visit["error"] or f"HTTP {visit['http_status']}"
    target = f", to {visit['redirect_to']}" if visit["redirect_to"] else ""
    return (
        f"fetched {_at(visit['fetched_at'])}",
        f"{outcome}, {visit['duration_ms']} ms, {visit['content_type'] or 'no type'}, "
        f"{number_of(visit['content_length'], 'byte')}, attempt {visit['attempt']}, "
        f"{visit['warc_file']} at {visit['warc_offset']}{target}",
    )


def _page(facts: UrlExplanation) -> list[tuple[str, str]]:
    """Return the parsed facts of the page, and the links to it."""
    rows = []
    for page in facts.page:
        language = f"language {page['language'] or 'unknown'}, {page['charset']}"
        rows += [
            ("page", f"{page['title'] or '(no title)'} ({language})"),
            ("", "" if page["may_index"] else "noindex: the page is not in the index"),
            ("  errors", ", ".join(page["faults"])),
        ]
    return [
        *rows,
        *(("same text as", url) for url in facts.same_text),
        ("linked from", number_of(facts.referrers.total, "link")),
        *(
            (
                f"  since {_at(link['found_at'])}",
                f"{link['source']}  {link['kind']} {link['anchor']!r}",
            )
            for link in facts.referrers.first
        ),
    ]


def _at(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else "never"


def _future(value: datetime | None) -> str:
    return _at(value) if value and value > datetime.now(UTC) else ""
