"""`lycosa init`: write a commented lycosa.toml."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import WorkspaceOption, workspace_root
from lycosa.core.errors import UsageError


def command(
    context: typer.Context,
    workspace: WorkspaceOption = "",
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, metavar="N", help="Shares of the hosts, at most one worker each; for good (default 64)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a lycosa.toml that is there.")] = False,
) -> None:
    """Make a workspace with a commented configuration in which every setting stands at its default."""
    from lycosa.app.template import configuration_template
    from lycosa.store.workspace import CONFIGURATION, DEFAULT_PARTITIONS, Workspace

    root = workspace_root(context, workspace)
    opened = Workspace.open_or_create(root, partitions or DEFAULT_PARTITIONS)
    if partitions is not None and opened.partitions != partitions:
        raise UsageError(f"{root} has {opened.partitions} partitions for good; to have {partitions}, make a new workspace")
    storage = opened.storage
    path = f"{root}/{CONFIGURATION}"
    if storage.size(CONFIGURATION) is not None and not force:
        raise UsageError(f"{path} is there already; edit it, or replace it with --force")
    storage.replace(CONFIGURATION, configuration_template().encode(), sync=True)
    print(f"wrote {path}: edit it, then `lycosa -w {root} crawl URL`")
