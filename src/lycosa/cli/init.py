"""`lycosa init`: write a commented lycosa.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lycosa.cli.common import WorkspaceOption, workspace_root
from lycosa.core.errors import UsageError


def command(
    context: typer.Context,
    workspace: WorkspaceOption = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a lycosa.toml that is there.")] = False,
) -> None:
    """Make a workspace with a commented configuration in which every setting stands at its default."""
    from lycosa.app.template import configuration_template
    from lycosa.store.workspace import Workspace

    root = workspace_root(context, workspace)
    Workspace.open_or_create(root)
    path = Path(root) / "lycosa.toml"
    if path.exists() and not force:
        raise UsageError(f"{path} is there already; edit it, or replace it with --force")
    path.write_text(configuration_template(), encoding="utf-8")
    print(f"wrote {path}: edit it, then `lycosa -w {root} crawl URL`")
