"""`lycosa import`: take archives of other robots into a collection."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    QuietOption,
    SetOption,
    WorkspaceOption,
    counts,
    load_config,
    note,
    print_json,
    table,
    workspace_root,
)
from lycosa.core.errors import WorkError


def command(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="WARC, WACZ or ARC files, folders of them, or folders of pages.")],
    collection: Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection that takes them.")] = "default",
    base: Annotated[str, typer.Option("--base", metavar="URL", help="With a folder of pages: the URL of the folder.")] = "",
    in_scope: Annotated[bool, typer.Option("--in-scope", help="Only pages that the collection's scope would follow a link to.")] = False,
    no_index: Annotated[bool, typer.Option("--no-index", help="Do not bring the search index up to date.")] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Take archives into a collection: archived, parsed and indexed as if they had been crawled. What is there already is passed over."""
    from dataclasses import asdict

    from lycosa.app.importing import import_files
    from lycosa.app.planning import read_seeds
    from lycosa.crawl.importing import Imported

    root = workspace_root(context, workspace)
    config = load_config(context, root, overrides)
    configured = next((each for each in config.collection if each.name == collection), None)
    if configured is not None and configured.seed_file:
        configured = configured.model_copy(update={"seeds": (*configured.seeds, *read_seeds(configured.seed_file))})
    shown = 0

    def show(report: Imported) -> None:
        nonlocal shown
        if report.captures - shown >= 10_000:
            shown = report.captures
            note(f"{report.captures:,} captures read, {report.imported:,} imported, {report.pages:,} pages")

    report = import_files(
        root, config, collection, files, collection=configured, base=base, in_scope=in_scope, index=not no_index,
        observer=None if quiet or json_output else show,
    )  # fmt: skip
    if json_output:
        print_json({"workspace": root, "collection": collection, **asdict(report)})
    elif not quiet:
        rows = [
            ("captures", f"{report.captures:,} in {report.files:,} files"),
            ("imported", f"{report.imported:,}, {report.pages:,} pages"),
        ]
        if report.already_there:
            rows.append(("there already", f"{report.already_there:,}"))
        if report.left_out:
            rows.append(("left out", counts(report.left_out)))
        if report.others:
            rows.append(("other records", counts(report.others)))
        print(table(rows))
    if report.damaged:
        messages = "\n".join(report.damaged.values())
        raise WorkError(f"{messages}\nwhat was read before the damage is imported; mend the file and call again: nothing comes twice")
