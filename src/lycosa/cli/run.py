"""`lycosa run`: work the configured collections for good, until Ctrl-C or SIGTERM."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    AddressOption,
    EngineOption,
    SetOption,
    WorkersOption,
    WorkspaceOption,
    is_shared,
    load_config,
    note,
    open_engine,
    workspace_root,
)


def command(
    context: typer.Context,
    collections: Annotated[
        list[str] | None, typer.Option("--collection", metavar="NAME", help="Only this collection; repeatable. Without it: all.")
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = "",
    workers: WorkersOption = None,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
) -> None:
    """Work the collections of lycosa.toml for good: crawl, recrawl, index, merge."""
    from lycosa.app.daemon import RunOrder, run

    before = context.obj[1] if context.obj else ()
    root = workspace_root(context, workspace)
    order = RunOrder(root, tuple(collections or ()), (*before, *(overrides or ())), workers)
    if not is_shared(engine, workers):
        run(order, _say)
        return
    with open_engine(engine, address, load_config(context, root, overrides, bad={})) as opened:
        run(order, _say, engine=opened)


def _say(message: str) -> None:
    """A line for people, with the time (UTC)."""
    from datetime import UTC, datetime

    note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}")
