"""`lycosa watch`: patterns that are matched against every page fetched from now on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from lycosa.cli.input import read_input
from lycosa.cli.monitoring.matches import print_match, start_of
from lycosa.cli.options import (
    IgnoreOption,
    InWorkspace,
    JsonOption,
    NotifyOption,
    SiteOption,
)
from lycosa.cli.output import note, print_json
from lycosa.core.units import number_of

app = typer.Typer(
    help="Content alerts: match patterns against every fetched page.", no_args_is_help=True
)


@dataclass(frozen=True)
class NewWatch:
    """The options of a watch, named as the parameters of `Watches.add`."""

    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name (default: the first pattern).")
    ] = ""
    ignore: IgnoreOption = None
    collections: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", metavar="NAME", help="Only pages of this collection; repeatable."
        ),
    ] = None
    notify: NotifyOption = None


@app.command()
def add(
    where: InWorkspace,
    new: NewWatch,
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
    json_output: JsonOption = False,
) -> None:
    """Add patterns to match against every page fetched from now on."""
    patterns = list(texts or ())
    if file:
        lines = read_input(file).decode("utf-8-sig", "replace").splitlines()
        patterns += [line for line in lines if line.strip() and not line.startswith("#")]
    watch = where.open().watches.add(
        *patterns,
        name=new.name,
        ignore=new.ignore or (),
        collections=new.collections or (),
        notify=new.notify or (),
    )
    if json_output:
        print_json(watch)
        return
    who = (
        "the running crawl applies it within seconds"
        if watch.running
        else "the next `lycosa run` or `lycosa crawl` applies it"
    )
    print(watch.id)
    note(f"{number_of(len(watch.texts), 'pattern')}; {who}. Show matches: `lycosa watch matches`")


@app.command("list")
def list_(where: InWorkspace, json_output: JsonOption = False) -> None:
    """List patterns and the state of their notifications."""
    watches = where.open().watches.list()
    if json_output:
        print_json(watches)
        return
    for each in watches:
        print(f"{each.id}  {each.name}")
        details = []
        if len(each.texts) > 1:
            details.append(f"{len(each.texts):,} patterns")
        if each.ignore:
            details.append(f"ignores {', '.join(each.ignore)}")
        if each.collections:
            details.append(f"only in {', '.join(each.collections)}")
        if details:
            print("  " + "; ".join(details))
        for target in each.notify:
            state = f"{target.delivered:,} delivered"
            state += f", {target.waiting:,} pending" if target.waiting else ""
            state += f", {target.dropped:,} dropped" if target.dropped else ""
            state += f" ({target.problem})" if target.problem else ""
            print(f"  {target.target}: {state}")
    if not watches:
        note("no patterns: add one with `lycosa watch add TEXT`")


@app.command()
def remove(
    where: InWorkspace,
    watch: Annotated[str, typer.Argument(metavar="WATCH", help="ID or name.")],
) -> None:
    """Remove patterns and keep their matches."""
    removed = where.open().watches.remove(watch)
    note(
        f"{removed.id} ({removed.name}) is removed; its matches are kept: `lycosa watch matches "
        f"{removed.id}`"
    )


@app.command()
def matches(
    where: InWorkspace,
    watch: Annotated[
        str, typer.Argument(metavar="WATCH", help="ID or name of a watch, or ID of a `find` call.")
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="DATE|TIME",
            help="Only matches since a date, for example 2026-11-01, or an age, for example 7d.",
        ),
    ] = "",
    site: SiteOption = "",
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, help="Number of matches.")
    ] = 20,
    every: Annotated[
        bool, typer.Option("--all", help="Include older versions of each page.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """List matches, newest first."""
    start = start_of(since) if since else None
    report = where.open().watches.matches(watch, since=start, site=site, count=count, every=every)
    if json_output:
        print_json(report)
        return
    for match in report.matches:
        print_match(match, f"{match.found_at:%Y-%m-%d %H:%M}  ")
    shown = len(report.matches)
    more = f", the latest {shown} are shown (-n)" if shown < report.total else ""
    note(f"{number_of(report.total, 'match', 'matches')}{more}")
