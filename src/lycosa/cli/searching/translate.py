"""`lycosa translate`: dictionaries and learned tables for searches across languages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import InWorkspace, values_of
from lycosa.cli.output import Output, table
from lycosa.core.dataclass import dataclass
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.translation.table import TableInfo

app = typer.Typer(help="Manage translation tables for `search --across`.", no_args_is_help=True)


@dataclass(frozen=True)
class NewTable:
    """The languages and the name of a new table."""

    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="XX", help="Source language (ISO 639; default: from the file name)."
        ),
    ] = ""
    target: Annotated[
        str, typer.Option("--to", metavar="XX", help="Target language (ISO 639).")
    ] = ""
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the table.")] = ""


@app.command()
def add(
    where: InWorkspace,
    new: NewTable,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Dictionary: dictd (NAME.index), Wiktionary list, TSV or TMX."
        ),
    ],
) -> Output:
    """Add a dictionary; it is used in both directions."""
    return _added(where.open().translations.add(file, **values_of(new)))


@app.command()
def learn(
    where: InWorkspace,
    new: NewTable,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Parallel text: TSV with two columns, TMX, or two files."
        ),
    ],
) -> Output:
    """Learn word translations from parallel sentences."""
    return _added(where.open().translations.learn(files, **values_of(new)))


def _added(info: TableInfo) -> Output:
    text = (
        f"{info.name}: {number_of(info.pairs, 'pair')} of words, {info.source} and {info.target} "
        f"({info.provenance})"
    )
    return Output(info, text)


@app.command("list")
def list_(where: InWorkspace) -> Output:
    """List translation tables, including those learned from the crawl."""
    tables = where.open().translations.tables()
    rows = [
        (
            f"{info.name} ({info.source}, {info.target})",
            f"{info.kind}, {number_of(info.pairs, 'pair')}; {info.provenance}",
        )
        for info in tables.infos
    ]
    hint = "no tables: add a dictionary, or run `lycosa rank` on pages in several languages"
    document = {"tables": tables.infos, "problems": tables.problems}
    return Output(document, table(rows) or hint, "\n".join(tables.problems))


@app.command()
def remove(
    where: InWorkspace,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the table.")],
) -> None:
    """Remove a table that was added or learned."""
    where.open().translations.remove(name)


@app.command()
def lookup(
    where: InWorkspace,
    term: Annotated[list[str], typer.Argument(metavar="TERM", help="One or more words.")],
    source: Annotated[
        str,
        typer.Option("--from", metavar="XX", help="Language of the words (default: identified)."),
    ] = "",
    target: Annotated[
        str, typer.Option("--to", metavar="XX[,XX]", help="Only these target languages.")
    ] = "",
) -> Output:
    """Show the translations that a search uses for words."""
    targets = tuple(filter(None, target.split(",")))
    queries = where.open().translations.lookup(" ".join(term), source, targets)
    lines = []
    for query in queries:
        for word in query.terms:
            choices = ", ".join(f"{each.text} {each.weight:.2f}" for each in word.alternatives)
            lines.append(f"{query.language}  {word.source}: {choices}")
    return Output(queries, "\n".join(lines), failed=not queries)
