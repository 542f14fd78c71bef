"""`lycosa run`: work the configured collections for good, until Ctrl-C or SIGTERM."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import SetOption, WorkspaceOption, note, workspace_root


def command(
    context: typer.Context,
    collections: Annotated[
        list[str] | None, typer.Option("--collection", metavar="NAME", help="Only this collection; repeatable. Without it: all.")
    ] = None,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
) -> None:
    """Work the collections of lycosa.toml for good: crawl, recrawl, index, merge."""
    from lycosa.app.daemon import RunOrder, run

    before = context.obj[1] if context.obj else ()
    run(RunOrder(workspace_root(context, workspace), tuple(collections or ()), (*before, *(overrides or ()))), _say)


def _say(message: str) -> None:
    """A line for people, with the time (UTC)."""
    from datetime import UTC, datetime

    note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}")
