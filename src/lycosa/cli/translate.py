"""`lycosa translate`: dictionaries and learned tables, by which a search asks in other
languages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    note,
    print_json,
    table,
    workspace_root,
)
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.search.crosslingual.translated import TranslatedQuery
    from lycosa.translation.table import TableInfo

app = typer.Typer(
    help="Manage translation tables for `search --across`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FromOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="XX", help="Source language (ISO 639; default: from the file name)."
    ),
]
ToOption = Annotated[str, typer.Option("--to", metavar="XX", help="Target language (ISO 639).")]
NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the table.")]


@app.command()
def add(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Dictionary: dictd (NAME.index), Wiktionary list, TSV or TMX."
        ),
    ],
    source: FromOption = "",
    target: ToOption = "",
    name: NameOption = "",
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Add a dictionary; it is used in both directions."""
    from lycosa.commands.maintenance.translate import add_dictionary

    _print_made(
        add_dictionary(workspace_root(context, workspace), file, source, target, name), json_output
    )


@app.command()
def learn(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Parallel text: TSV with two columns, TMX, or two files."
        ),
    ],
    source: FromOption = "",
    target: ToOption = "",
    name: NameOption = "",
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Learn word translations from parallel sentences."""
    from lycosa.commands.maintenance.translate import learn_table

    _print_made(
        learn_table(workspace_root(context, workspace), files, source, target, name), json_output
    )


@app.command("list")
def list_(
    context: typer.Context, workspace: WorkspaceOption = "", json_output: JsonOption = False
) -> None:
    """List translation tables, including those learned from the crawl."""
    from dataclasses import asdict

    from lycosa.commands.maintenance.translate import tables_of

    opened = tables_of(workspace_root(context, workspace))
    if json_output:
        print_json({"tables": [asdict(info) for info in opened.infos], "problems": opened.problems})
        return
    rows = [
        (
            f"{info.name} ({info.source}, {info.target})",
            f"{info.kind}, {number_of(info.pairs, 'pair')}; {info.provenance}",
        )
        for info in opened.infos
    ]
    print(
        table(rows, "")
        if rows
        else "no tables: add a dictionary, or run `lycosa rank` on pages in several languages"
    )
    for problem in opened.problems:
        note(problem)


@app.command()
def remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the table.")],
    workspace: WorkspaceOption = "",
) -> None:
    """Remove a table that was added or learned."""
    from lycosa.commands.maintenance.translate import remove_table

    remove_table(workspace_root(context, workspace), name)


@app.command()
def lookup(
    context: typer.Context,
    term: Annotated[list[str], typer.Argument(metavar="TERM", help="One or more words.")],
    source: Annotated[
        str,
        typer.Option("--from", metavar="XX", help="Language of the words (default: identified)."),
    ] = "",
    target: Annotated[
        str, typer.Option("--to", metavar="XX[,XX]", help="Only these target languages.")
    ] = "",
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Show the translations that a search uses for words."""
    from lycosa.commands.maintenance.translate import look_up

    found = look_up(
        workspace_root(context, workspace),
        " ".join(term),
        source,
        tuple(filter(None, target.split(","))),
    )
    if json_output:
        print_json([document(query) for query in found])
    for query in () if json_output else found:
        for each in query.terms:
            print(
                f"{query.language}  {each.source}: "
                + ", ".join(f"{one.surface} {one.weight:.2f}" for one in each.alternatives)
            )
    if not found:
        raise typer.Exit(1)


@app.command()
def encode(
    context: typer.Context,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Encode all pages with the configured encoder (`index.encoder`)."""
    from dataclasses import asdict

    from lycosa.commands.maintenance.translate import encode_pages
    from lycosa.search.crosslingual.vectors import load_encoder

    root = workspace_root(context, workspace)
    info = encode_pages(root, load_encoder(load_config(context, root, overrides).index.encoder))
    if json_output:
        print_json(asdict(info))
    else:
        print(f"{number_of(info.pages, 'page')}, {info.dimensions} numbers each, by {info.encoder}")


def document(query: TranslatedQuery) -> dict[str, object]:
    """A translated query as commands print it."""
    terms = []
    for term in query.terms:
        listed = [
            {"text": one.surface, "weight": round(one.weight, 3), "from": one.origin}
            for one in term.alternatives
        ]
        terms.append({"source": term.source, "alternatives": listed})
    return {"language": query.language, "terms": terms}


def _print_made(info: TableInfo, json_output: bool) -> None:
    from dataclasses import asdict

    if json_output:
        print_json(asdict(info))
    else:
        print(
            f"{info.name}: {number_of(info.pairs, 'pair')} of words, {info.source} and "
            f"{info.target} ({info.provenance})"
        )
