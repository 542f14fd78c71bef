"""`lycosa token`: tokens for writing through the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import InWorkspace
from lycosa.cli.output import Output, note, table

if TYPE_CHECKING:
    from lycosa.commands.maintenance.tokens import Tokens

app = typer.Typer(
    help="Manage access tokens of the web interface and the API.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the person or program.")]


@app.command()
def add(where: InWorkspace, name: NameArgument) -> None:
    """Create a token and print it once."""
    token = _tokens(where).add(name)
    note(f"The token of {name}. It cannot be shown again:")
    print(token)


@app.command("list")
def list_(where: InWorkspace) -> Output:
    """List tokens with their creation times."""
    tokens = _tokens(where).all(fresh=True).values()
    rows = [(token.name, token.created_at) for token in tokens]
    document = [{"name": name, "created_at": at} for name, at in rows]
    hint = "" if tokens else "no tokens: `lycosa token add NAME` creates one"
    return Output(document, table(rows), hint)


@app.command()
def remove(where: InWorkspace, name: NameArgument) -> None:
    """Revoke a token and its sessions.

    Takes effect within two seconds.
    """
    _tokens(where).remove(name)


def _tokens(where: InWorkspace) -> Tokens:
    from lycosa.commands.maintenance.tokens import Tokens
    from lycosa.store.workspace import Workspace

    return Tokens(Workspace.open(where.root).storage)
