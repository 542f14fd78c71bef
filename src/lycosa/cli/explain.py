"""`lycosa explain URL`: why it was or was not fetched."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    print_json,
    table,
    workspace_root,
)
from lycosa.core.units import format_duration, number_of


def command(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL to explain.")],
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Show the state of a URL and why it was or was not fetched."""
    from dataclasses import asdict

    from lycosa.commands.inspection.explain import explain_url

    root = workspace_root(context, workspace)
    facts = asdict(explain_url(root, load_config(context, root, overrides), url))
    if json_output:
        print_json(facts)
        return
    _print(facts)


def _print(facts: Mapping[str, Any]) -> None:
    rows: list[tuple[str, str]] = [("URL", facts["url"])]
    if facts["url"] != facts["given"]:
        rows.append(("given as", facts["given"]))
    if facts["exclusion"]:
        rows.append(("excluded by", facts["exclusion"]))
    for entry in facts["collections"]:
        rows.extend(_collection(entry))
    robots = facts["robots"]
    rows.append(
        ("robots.txt", robots["says"] + (f", by {robots['by']}" if robots.get("by") else ""))
    )
    for clock in facts["host_clock"]:
        rows.extend(_clock(facts["host"], clock))
    rows.extend(_visits(facts))
    print(table(rows, ""))


def _collection(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a collection knows of the URL."""
    name = entry["collection"] + (f" ({entry['operation']})" if entry.get("operation") else "")
    rows = [(f"in {name}", f"{entry['state'] or 'not known'}: {entry['why']}")]
    if entry["state"]:
        rows.append(
            ("  depth", f"{entry['depth']} (depth limit: {entry.get('depth_limit', 'unknown')})")
        )
        if "due_by" in entry:
            rows.append(("  due", f"{entry['due_at'] or 'not automatically'}: {entry['due_by']}"))
        if entry["referrer"]:
            rows.append(("  found on", entry["referrer"]))
        if entry["redirect_from"]:
            rows.append(
                (
                    "  redirected from",
                    f"{entry['redirect_from']} ({number_of(entry['redirects'], 'hop')})",
                )
            )
        if entry["checks"]:
            rows.append(
                (
                    "  fetched again",
                    f"{number_of(entry['checks'], 'time')}; changed "
                    f"{number_of(entry['changes'], 'time')}",
                )
            )
    if "scope_says" in entry:
        rows.append(("  scope", entry["scope_says"]))
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
    if settings["max_pages"] is not None:
        parts.append(f"{settings['pages']:,} of {number_of(settings['max_pages'], 'page')}")
    if settings["max_pages_per_host"] is not None:
        parts.append(
            f"{settings['host_pages']:,} of "
            f"{number_of(settings['max_pages_per_host'], 'page')} of the host"
        )
        if settings["max_prefix_share"] < 1:
            parts.append(f"at most {settings['max_prefix_share']:.0%} of them in one folder")
    if settings["max_pages_per_domain"] is not None:
        parts.append(
            f"{settings['domain_pages']:,} of "
            f"{number_of(settings['max_pages_per_domain'], 'page')} of the domain"
        )
    return ", ".join(parts)


def _clock(host: str, clock: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How long the host is left alone, and what was taken for a trap there."""
    pause = format_duration(clock["delay"] or 0)
    said = (
        f"pause {pause}"
        + (f" ({clock['decided_by']})" if clock["decided_by"] else "")
        + f", last request {_at(clock['last_visit_at'])}"
    )
    rows = [
        (
            f"host {host}",
            said + (f", {number_of(clock['fails'], 'failure')} in a row" if clock["fails"] else ""),
        )
    ]
    if clock["not_before"] and clock["not_before"] > datetime.now(UTC):
        rows.append(("  not before", _at(clock["not_before"])))
    if clock["rules"]:
        rows.append(
            (
                "  rules",
                ", ".join(
                    f"{rule['rule']} {format_duration(rule['ms'])}" for rule in clock["rules"]
                ),
            )
        )
    if clock["domain_not_before"]:
        rows.append(
            (
                f"  domain {clock['registrable_domain']}",
                f"paused until {_at(clock['domain_not_before'])}",
            )
        )
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
        says = f"{trap['says'][:1].upper()}{trap['says'][1:]}." if trap["says"] else ""
        rows.append((f"  trap {trap['rule']}", f"{trap['count']:,} {what}{part}. {says}"))
    return rows


def _visits(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was fetched, what was understood of it, and who links to it."""
    rows: list[tuple[str, str]] = []
    for visit in facts["visits"]:
        answer = visit["error"] or f"HTTP {visit['http_status']}"
        rows.append(
            (
                f"fetched {_at(visit['fetched_at'])}",
                f"{answer}, {visit['duration_ms']} ms, {visit['content_type'] or 'no type'}, "
                f"{number_of(visit['content_length'], 'byte')}, "
                f"attempt {visit['attempt']}, {visit['warc_file']} at {visit['warc_offset']}"
                + (f", to {visit['redirect_to']}" if visit["redirect_to"] else ""),
            )
        )
    for page in facts["page"]:
        rows.append(
            (
                "page",
                f"{page['title'] or '(no title)'} (language {page['language'] or 'unknown'}, "
                f"{page['charset']})",
            )
        )
        if not page["may_index"]:
            rows.append(("", "noindex: the page is not in the index"))
        if page["faults"]:
            rows.append(("  errors", ", ".join(page["faults"])))
    rows.extend(("same text as", url) for url in facts["same_text"])
    referrers = facts["referrers"]
    rows.append(("linked from", f"{number_of(referrers['total'], 'link')}"))
    rows.extend(
        (f"  since {_at(link['found_at'])}", f"{link['source']}  {link['kind']} {link['anchor']!r}")
        for link in referrers["first"]
    )
    return rows


def _at(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else "never"
