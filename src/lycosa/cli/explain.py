"""`lycosa explain URL`: why it was or was not fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lycosa.cli.common import JsonOption, SetOption, WorkspaceOption, load_config, print_json, table, workspace_root
from lycosa.core.units import format_duration


def command(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="The URL.")],
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Tell what is known of a URL and why it was or was not fetched."""
    from lycosa.app.explain import explain_url

    root = workspace_root(context, workspace)
    facts = explain_url(root, load_config(context, root, overrides), url)
    if json_output:
        print_json(facts)
        return
    _print(facts)


def _print(facts: Mapping[str, Any]) -> None:
    rows: list[tuple[str, str]] = [("URL", facts["url"])]
    if facts["url"] != facts["given"]:
        rows.append(("given as", facts["given"]))
    for entry in facts["collections"]:
        name = entry["collection"]
        rows.append((f"in {name}", f"{entry['state'] or 'not known'}: {entry['why']}"))
        if entry["state"]:
            rows.append(("  depth", f"{entry['depth']} (limit: {entry.get('depth_limit', 'unknown')})"))
            if entry["not_before"] and entry["state"] == "known":
                rows.append(("  not before", _at(entry["not_before"])))
            if entry["referrer"]:
                rows.append(("  found on", entry["referrer"]))
            if entry["redirect_from"]:
                rows.append(("  redirected from", f"{entry['redirect_from']} ({entry['redirects']} hops)"))
        if "scope_says" in entry:
            rows.append(("  scope", entry["scope_says"]))
    robots = facts["robots"]
    rows.append(("robots.txt", robots["says"] + (f", by {robots['by']}" if robots.get("by") else "")))
    for clock in facts["host_clock"]:
        pause = f"pause {format_duration(clock['delay'] or 0)}, last fetch {_at(clock['last_visit_at'])}"
        rows.append((f"host {facts['host']}", pause + (f", {clock['fails']} failures in a row" if clock["fails"] else "")))
    for visit in facts["visits"]:
        answer = visit["error"] or f"HTTP {visit['http_status']}"
        rows.append(
            (
                f"fetched {_at(visit['fetched_at'])}",
                f"{answer}, {visit['duration_ms']} ms, {visit['content_type'] or 'no type'}, {visit['content_length']:,} bytes, "
                f"attempt {visit['attempt']}, {visit['warc_file']} at {visit['warc_offset']}"
                + (f", to {visit['redirect_to']}" if visit["redirect_to"] else ""),
            )
        )
    for page in facts["page"]:
        rows.append(
            ("page", f"{page['title'] or '(no title)'} [{page['language'] or '?'} {page['language_score']:.2f}, {page['charset']}]")
        )
        if not page["may_index"]:
            rows.append(("", "the page says noindex: it is not in the index"))
        if page["faults"]:
            rows.append(("  faults", ", ".join(page["faults"])))
    rows.extend(("same text as", url) for url in facts["same_text"])
    referrers = facts["referrers"]
    rows.append(("linked from", f"{referrers['total']:,} links"))
    rows.extend((f"  since {_at(link['found_at'])}", f"{link['source']}  {link['kind']} {link['anchor']!r}") for link in referrers["first"])
    print(table(rows, ""))


def _at(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else "never"
