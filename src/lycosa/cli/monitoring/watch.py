"""`lycosa watch`: patterns that are matched against every page fetched from now on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import (
    IgnoreOption,
    InWorkspace,
    NotifyOption,
    SiteOption,
    read_input,
    start_of,
)
from lycosa.cli.output import Output, note, print_match
from lycosa.core.dataclass import dataclass
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.watch.watches import WatchInfo

app = typer.Typer(
    help="Content alerts: match patterns against every fetched page.", no_args_is_help=True
)


@dataclass(frozen=True)
class WatchOptions:
    """The options of a watch, named as the parameters of `Watches.add`."""

    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Unique name (default: first pattern)."),
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
    new: WatchOptions,
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
) -> Output:
    """Add patterns to match against every page fetched from now on."""
    patterns = list(texts or ())
    if file:
        content = read_input(file).decode("utf-8-sig", "replace").splitlines()
        patterns += [line for line in content if line.strip() and not line.startswith("#")]
    watch = where.open().watches.add(
        *patterns,
        name=new.name,
        ignore=new.ignore or (),
        collections=new.collections or (),
        notify=new.notify or (),
    )
    who = (
        "the running crawl applies it within seconds"
        if watch.running
        else "the next `lycosa run` or `lycosa crawl` applies it"
    )
    number = number_of(len(watch.texts), "pattern")
    return Output(watch, watch.id, f"{number}; {who}. Show matches: `lycosa watch matches`")


@app.command("list")
def list_(where: InWorkspace) -> Output:
    """List patterns and the state of their notifications."""
    watches = where.open().watches.list()
    lines = (line for each in watches for line in _lines(each))
    hint = "" if watches else "no patterns: add one with `lycosa watch add TEXT`"
    return Output(watches, "\n".join(lines), hint)


def _lines(watch: WatchInfo) -> Iterator[str]:
    yield f"{watch.id}  {watch.name}"
    details = [
        f"{len(watch.texts):,} patterns" if len(watch.texts) > 1 else "",
        f"ignores {', '.join(watch.ignore)}" if watch.ignore else "",
        f"only in {', '.join(watch.collections)}" if watch.collections else "",
    ]
    if any(details):
        yield "  " + "; ".join(filter(None, details))
    for target in watch.notify:
        numbers = {"pending": target.waiting, "dropped": target.dropped}
        further = "".join(f", {number:,} {name}" for name, number in numbers.items() if number)
        problem = f" ({target.problem})" if target.problem else ""
        yield f"  {target.target}: {target.delivered:,} delivered{further}{problem}"


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
) -> Output:
    """List matches, newest first."""
    start = start_of(since) if since else None
    report = where.open().watches.matches(watch, since=start, site=site, count=count, every=every)

    def show() -> None:
        for match in report.matches:
            print_match(match, f"{match.found_at:%Y-%m-%d %H:%M}  ")

    shown = len(report.matches)
    more = f", the latest {shown} are shown (-n)" if shown < report.total else ""
    return Output(report, show, f"{number_of(report.total, 'match', 'matches')}{more}")
