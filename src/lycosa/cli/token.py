"""`lycosa token`: who may write through the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, note, print_json, table, workspace_root

if TYPE_CHECKING:
    from lycosa.commands.maintenance.tokens import Tokens

app = typer.Typer(
    help="Manage access tokens of the web interface and the API.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the person or program.")]


@app.command()
def add(context: typer.Context, name: NameArgument, workspace: WorkspaceOption = "") -> None:
    """Create a token and print it once."""
    token = _tokens(context, workspace).add(name)
    note(f"The token of {name}. It cannot be shown again:")
    print(token)


@app.command("list")
def list_(
    context: typer.Context, workspace: WorkspaceOption = "", json_output: JsonOption = False
) -> None:
    """List tokens with their creation times."""
    tokens = _tokens(context, workspace).all(fresh=True).values()
    if json_output:
        print_json([{"name": token.name, "created_at": token.created_at} for token in tokens])
    elif tokens:
        print(table([(token.name, token.created_at) for token in tokens], ""))
    else:
        note("no tokens: `lycosa token add NAME` creates one")


@app.command()
def remove(context: typer.Context, name: NameArgument, workspace: WorkspaceOption = "") -> None:
    """Revoke a token and its sessions.

    Takes effect within two seconds.
    """
    _tokens(context, workspace).remove(name)


def _tokens(context: typer.Context, workspace: str) -> Tokens:
    from lycosa.commands.maintenance.tokens import Tokens
    from lycosa.store.workspace import Workspace

    return Tokens(Workspace.open(workspace_root(context, workspace)).storage)
