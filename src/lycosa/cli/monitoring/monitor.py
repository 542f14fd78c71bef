"""`lycosa monitor`: monitor the availability of URLs."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lycosa.cli.options import InWorkspace, NotifyOption, values_of
from lycosa.cli.output import Output, note, timed_note

SHOW = "show"


class _Group(TyperGroup):
    """`lycosa monitor example.org` means `lycosa monitor show example.org`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_show = not args or (args[0] not in self.commands and args[0] not in ("-h", "--help"))
        return super().parse_args(ctx, [SHOW, *args] if is_show else args)


app = typer.Typer(cls=_Group, help="Monitor the availability of URLs.", no_args_is_help=False)

UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="URL to monitor.")]


@dataclass(frozen=True)
class MonitorSettings:
    """The settings of a monitor, named as in [[monitor]]."""

    every: Annotated[
        str, typer.Option("--every", metavar="T", help="Interval between two checks.")
    ] = "60s"
    expect: Annotated[
        str, typer.Option("--expect", metavar="TEXT", help="Text that the page must contain.")
    ] = ""
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status", metavar="NNN", help="Accepted status, for example 200 or 2xx; repeatable."
        ),
    ] = None
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="T", help="Time limit of a check (default 12 % of the interval)."
        ),
    ] = ""
    confirm: Annotated[
        int,
        typer.Option(
            "--confirm",
            metavar="N",
            min=0,
            max=10,
            help="Number of repeated checks that must fail before an outage is reported.",
        ),
    ] = 3
    pause: Annotated[
        str,
        typer.Option("--pause", metavar="T", help="Minimum delay between two checks of the host."),
    ] = ""
    certificate: Annotated[
        str,
        typer.Option(
            "--certificate", metavar="T", help="Warn this long before the certificate expires."
        ),
    ] = ""
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name used in notifications.")
    ] = ""
    notify: NotifyOption = None


@app.command(SHOW)
def show(
    where: InWorkspace,
    target: Annotated[
        str, typer.Argument(metavar="HOST|URL", help="Host or URL (default: list all monitors).")
    ] = "",
) -> Output:
    """Show availability, response times and outages.

    For a host, crawl visits to its pages are included. `lycosa monitor HOST` is short for `lycosa
    monitor show HOST`.
    """
    report = where.open().monitors.report(target)
    from lycosa.uptime.text import host_text, list_text

    return Output(report, lambda: print(host_text(report) if target else list_text(report)))


@app.command()
def add(where: InWorkspace, settings: MonitorSettings, url: UrlArgument) -> Output:
    """Add a monitor."""
    added = where.open().monitors.add(url, **values_of(settings))
    who = "`lycosa run` or `lycosa monitor run` runs the checks"
    if added.running:
        who = "the running crawl starts within seconds"
    return Output(added, f"{added.monitor.url} is monitored; {who}")


@app.command()
def remove(where: InWorkspace, url: UrlArgument) -> None:
    """Remove a monitor and keep its history."""
    where.open().monitors.remove(url)
    note(f"{url} is no longer monitored; its history is kept")


@app.command("list")
def list_(where: InWorkspace) -> Output:
    """List monitors with their settings."""
    monitors = where.open().monitors.list()
    from lycosa.uptime.text import settings_text

    lines = (settings_text(each.monitor, configured=each.configured) for each in monitors)
    return Output(monitors, "\n".join(lines) or "no monitors")


@app.command()
def run(where: InWorkspace) -> None:
    """Run the checks without a crawl.

    `lycosa run` runs them during its crawl.
    """
    gc.freeze()
    where.open().monitors.run(timed_note)
