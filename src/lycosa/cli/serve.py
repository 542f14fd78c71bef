"""`lycosa serve`: the search page and the JSON API."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from lycosa.cli.common import SetOption, WorkspaceOption, load_config, require_workspace, workspace_root


def command(
    context: typer.Context,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one (default 8000).")] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on (default 127.0.0.1).")] = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
) -> None:
    """Serve the search page and the JSON API until Ctrl-C."""
    from lycosa.app.status import workspace_status
    from lycosa.serve.server import run_server

    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    root = workspace_root(context, workspace)
    require_workspace(root)
    settings = load_config(context, root, overrides).serve
    run_server(root, host or settings.host, settings.port if port is None else port, status=lambda: workspace_status(root))
