"""`lycosa watch`: texts to look for in every page that is fetched from now on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    SiteOption,
    WorkspaceOption,
    date_ms,
    load_config,
    note,
    print_json,
    read_input,
    workspace_root,
)
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.matching.matches import StoredMatch
    from lycosa.watch.watches import WatchStatus

app = typer.Typer(
    help="Content alerts: match patterns against every fetched page.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="WHAT", help="Ignore case, accents, width; comma-separated."),
]


@app.command()
def add(
    context: typer.Context,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to match.")
    ] = None,
    file: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE",
            help="File with patterns, one per line (- for standard input); # starts a comment.",
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name (default: the first pattern).")
    ] = "",
    ignore: IgnoreOption = None,
    collection: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", metavar="NAME", help="Only pages of this collection; repeatable."
        ),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            "--notify",
            metavar="TARGET",
            help="Notification target: 'webhook URL', 'command "
            "PROGRAM …' or 'file PATH'; repeatable.",
        ),
    ] = None,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Add patterns to match against every page fetched from now on."""
    from lycosa.watch.watches import add_watch

    root = workspace_root(context, workspace)
    every = [*(texts or ()), *(_lines(file) if file else ())]
    config = load_config(context, root, overrides)
    watched = add_watch(
        root,
        config,
        every,
        ignore or (),
        name=name,
        collections=collection or (),
        notify=notify or (),
    )
    if json_output:
        print_json(_document(watched))
        return
    who = (
        "the running crawl applies it within seconds"
        if watched.running
        else "the next `lycosa run` or `lycosa crawl` applies it"
    )
    print(watched.order.id)
    note(
        f"{number_of(len(watched.order.texts), 'pattern')}; {who}. Show matches: `lycosa watch "
        "matches`"
    )


@app.command("list")
def list_(
    context: typer.Context, workspace: WorkspaceOption = "", json_output: JsonOption = False
) -> None:
    """List patterns and the state of their notifications."""
    from lycosa.watch.watches import list_watches

    watches = list_watches(workspace_root(context, workspace))
    if json_output:
        print_json([_document(each) for each in watches])
        return
    for each in watches:
        order = each.order
        print(f"{order.id}  {order.name}")
        details = [
            f"{len(order.texts):,} patterns" if len(order.texts) > 1 else "",
            f"ignores {', '.join(order.folding.names)}" * bool(order.folding),
        ]
        details.append(f"only in {', '.join(order.collections)}" * bool(order.collections))
        if any(details):
            print("  " + "; ".join(filter(None, details)))
        for target in each.targets:
            state = f"{target.delivered:,} delivered" + f", {target.waiting:,} pending" * bool(
                target.waiting
            )
            state += f", {target.dropped:,} dropped" * bool(target.dropped)
            print(f"  {target.target}: {state}" + f" ({target.problem})" * bool(target.problem))
    if not watches:
        note("no patterns: add one with `lycosa watch add TEXT`")


@app.command()
def remove(
    context: typer.Context,
    watch: Annotated[str, typer.Argument(metavar="WATCH", help="ID or name.")],
    workspace: WorkspaceOption = "",
) -> None:
    """Remove patterns and keep their matches."""
    from lycosa.watch.watches import remove_watch

    order = remove_watch(workspace_root(context, workspace), watch)
    note(
        f"{order.id} ({order.name}) is removed; its matches are kept: `lycosa watch matches "
        f"{order.id}`"
    )


@app.command()
def matches(
    context: typer.Context,
    watch: Annotated[
        str, typer.Argument(metavar="WATCH", help="ID or name of a watch, or ID of a `find` call.")
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="DATE",
            help="Only matches since a date, for example 2026-11-01, or an age, for example 7d.",
        ),
    ] = "",
    site: SiteOption = "",
    number: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Number of matches.")] = 20,
    every: Annotated[
        bool, typer.Option("--all", help="Include older versions of each page.")
    ] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """List matches, newest first."""
    from lycosa.watch.watches import matches as matches_found

    start = since_of(since) if since else None
    found, total = matches_found(
        workspace_root(context, workspace), watch, since=start, site=site, most=number, every=every
    )
    if json_output:
        print_json({"total": total, "matches": [match_document(each) for each in found]})
        return
    for each in found:
        print_match(each, f"{each.found_at:%Y-%m-%d %H:%M}  ")
    note(
        f"{number_of(total, 'match', 'matches')}"
        + (f", the latest {len(found)} are shown (-n)" if len(found) < total else "")
    )


def _lines(path: str) -> list[str]:
    lines = read_input(path).decode("utf-8-sig", "replace").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def since_of(text: str) -> datetime:
    """A date, or how long ago. Raises UsageError."""
    from lycosa.core.units import parse_duration_ms

    if "-" in text:
        return datetime.fromtimestamp(date_ms(text) / 1000, UTC)
    return datetime.now(UTC) - timedelta(milliseconds=parse_duration_ms(text))


def print_match(found: StoredMatch, begins: str = "") -> None:
    """A match on two lines."""
    shown = ", ".join(map(str, found.positions[:8])) + (
        f" and {found.count - 8} more" if found.count > 8 else ""
    )
    print(f"{begins}{found.url}  {found.text!r} at {shown}")
    if found.context:
        print(f"    {found.context}")


def match_document(found: StoredMatch) -> dict[str, Any]:
    """A match as JSON."""
    from dataclasses import asdict

    return {
        **asdict(found),
        "found_at": found.found_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def _document(watched: WatchStatus) -> dict[str, Any]:
    from dataclasses import asdict

    from lycosa.core.units import format_time

    order = watched.order
    return {
        "id": order.id,
        "name": order.name,
        "texts": order.texts,
        "ignore": order.folding.names,
        "collections": order.collections,
        "created_at": format_time(order.created_at),
        "notify": [asdict(target) for target in watched.targets],
    }
