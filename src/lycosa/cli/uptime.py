"""`lycosa uptime`: monitor the availability of URLs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    note,
    print_json,
    workspace_root,
)

SHOW = "show"


class _Group(TyperGroup):
    """`lycosa uptime example.org` means `lycosa uptime show example.org`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_show = not args or (args[0] not in self.commands and args[0] not in ("-h", "--help"))
        return super().parse_args(ctx, [SHOW, *args] if is_show else args)


app = typer.Typer(
    cls=_Group,
    help="Monitor the availability of URLs.",
    no_args_is_help=False,
    rich_markup_mode=None,
)

UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="URL to monitor.")]


@app.command(SHOW)
def show(
    context: typer.Context,
    what: Annotated[
        str, typer.Argument(metavar="HOST|URL", help="Host or URL (default: list all monitors).")
    ] = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Show availability, response times and outages.

    For a host, crawl visits to its pages are included. `lycosa uptime HOST` is short for `lycosa
    uptime show HOST`.
    """
    from lycosa.uptime.report import report_host, report_monitors
    from lycosa.uptime.text import host_text, list_text

    root = workspace_root(context, workspace)
    config = load_config(context, root, overrides, bad={})
    report = report_host(root, config, what) if what else report_monitors(root, config)
    if json_output:
        print_json(report.model_dump(mode="json"))
    else:
        print(host_text(report) if what else list_text(report))


@app.command()
def add(
    context: typer.Context,
    url: UrlArgument,
    every: Annotated[
        str, typer.Option("--every", metavar="T", help="Interval between two checks.")
    ] = "60s",
    expect: Annotated[
        str, typer.Option("--expect", metavar="TEXT", help="Text that the page must contain.")
    ] = "",
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status", metavar="NNN", help="Accepted status, for example 200 or 2xx; repeatable."
        ),
    ] = None,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="T", help="Time limit of a check (default 12 % of the interval)."
        ),
    ] = "",
    confirm: Annotated[
        int,
        typer.Option(
            "--confirm",
            metavar="N",
            min=0,
            max=10,
            help="Number of repeated checks that must fail before an outage is reported.",
        ),
    ] = 3,
    pause: Annotated[
        str,
        typer.Option("--pause", metavar="T", help="Minimum delay between two checks of the host."),
    ] = "",
    certificate: Annotated[
        str,
        typer.Option(
            "--certificate", metavar="T", help="Warn this long before the certificate expires."
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name used in notifications.")
    ] = "",
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
    """Add a monitor."""
    from lycosa.uptime.monitors import add_monitor
    from lycosa.url.normalise import typed_url

    root = workspace_root(context, workspace)
    given = {
        "timeout": timeout,
        "pause": pause,
        "certificate": certificate,
        "status": status,
        "notify": notify,
    }
    settings = {
        "url": typed_url(url),
        "name": name,
        "every": every,
        "expect": expect,
        "confirm": confirm,
    }
    settings |= {key: value for key, value in given.items() if value}
    added = add_monitor(root, load_config(context, root, overrides, bad={}), settings)
    if json_output:
        print_json(
            {
                "workspace": root,
                "monitor": added.monitor.model_dump(mode="json"),
                "running": added.owner is not None,
            }
        )
        return
    owner = added.owner
    who = (
        f"process {owner.pid} starts within seconds"
        if owner
        else "`lycosa run` or `lycosa uptime watch` runs the checks"
    )
    print(f"{added.monitor.url} is monitored; {who}")


@app.command()
def remove(
    context: typer.Context,
    url: UrlArgument,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
) -> None:
    """Remove a monitor and keep its history."""
    from lycosa.uptime.monitors import remove_monitor
    from lycosa.url.normalise import typed_url

    root = workspace_root(context, workspace)
    url = typed_url(url)
    remove_monitor(root, load_config(context, root, overrides, bad={}), url)
    note(f"{url} is no longer monitored; its history is kept")


@app.command("list")
def list_(
    context: typer.Context,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """List monitors with their settings."""
    from lycosa.store.workspace import Workspace
    from lycosa.uptime.monitors import monitors_of
    from lycosa.uptime.text import settings_text

    root = workspace_root(context, workspace)
    monitors = monitors_of(
        Workspace.open(root).storage, load_config(context, root, overrides, bad={})
    )
    if json_output:
        print_json(
            [
                {**each.monitor.model_dump(mode="json"), "configured": each.configured}
                for each in monitors.values()
            ]
        )
    else:
        print(
            "\n".join(
                settings_text(each.monitor, configured=each.configured)
                for each in monitors.values()
            )
            or "no monitors"
        )


@app.command()
def watch(
    context: typer.Context, workspace: WorkspaceOption = "", overrides: SetOption = None
) -> None:
    """Run the checks without a crawl.

    `lycosa run` runs them during its crawl.
    """
    import gc

    from lycosa.commands.crawling.uptime import watch as watch_all

    gc.freeze()
    root = workspace_root(context, workspace)
    watch_all(root, load_config(context, root, overrides), _say)


def _say(message: str) -> None:
    """A line for people, with the time (UTC)."""
    from datetime import UTC, datetime

    note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}")
