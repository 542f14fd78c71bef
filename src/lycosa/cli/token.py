"""`lycosa token`: who may write through the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, note, print_json, table, workspace_root

if TYPE_CHECKING:
    from lycosa.app.tokens import Tokens

app = typer.Typer(help="Tokens for those who may change something through the server.", no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Whose it is: a person or a program.")]


@app.command()
def add(context: typer.Context, name: NameArgument, workspace: WorkspaceOption = "") -> None:
    """Make a token. It is shown this once."""
    token = _tokens(context, workspace).add(name)
    note(f"The token of {name}. It is not kept and cannot be shown again:")
    print(token)


@app.command("list")
def list_(context: typer.Context, workspace: WorkspaceOption = "", json_output: JsonOption = False) -> None:
    """Who has a token, and since when."""
    tokens = _tokens(context, workspace).all(fresh=True).values()
    if json_output:
        print_json([{"name": token.name, "created_at": token.created_at} for token in tokens])
    elif tokens:
        print(table([(token.name, token.created_at) for token in tokens], ""))
    else:
        note("nobody has a token: `lycosa token add NAME` makes one")


@app.command()
def remove(context: typer.Context, name: NameArgument, workspace: WorkspaceOption = "") -> None:
    """Revoke a token: within two seconds it opens nothing, and whoever came in with it is out."""
    _tokens(context, workspace).remove(name)


def _tokens(context: typer.Context, workspace: str) -> Tokens:
    from lycosa.app.tokens import Tokens
    from lycosa.store.workspace import Workspace

    return Tokens(Workspace.open(workspace_root(context, workspace)).storage)
