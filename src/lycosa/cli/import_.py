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
from lycosa.core.units import number_of


def command(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="WARC, WACZ or ARC files, or directories with such files or with pages.",
        ),
    ],
    collection: Annotated[
        str, typer.Option("--collection", metavar="NAME", help="Target collection.")
    ] = "default",
    base: Annotated[
        str, typer.Option("--base", metavar="URL", help="For a directory of pages: its URL.")
    ] = "",
    in_scope: Annotated[
        bool,
        typer.Option("--in-scope", help="Import only pages within the scope of the collection."),
    ] = False,
    no_index: Annotated[
        bool, typer.Option("--no-index", help="Do not update the search index.")
    ] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Import archives into a collection.

    Captures are archived, parsed and indexed like crawled pages. Existing captures are skipped.
    """
    from dataclasses import asdict

    from lycosa.commands.crawling.import_archives import import_files
    from lycosa.crawl.recovery.import_archives import Imported
    from lycosa.crawl.session.planning import read_seeds
    from lycosa.url.normalise import typed_url

    root = workspace_root(context, workspace)
    config = load_config(context, root, overrides)
    configured = next((each for each in config.collection if each.name == collection), None)
    if configured is not None and configured.seed_file:
        configured = configured.model_copy(
            update={"seeds": (*configured.seeds, *map(typed_url, read_seeds(configured.seed_file)))}
        )
    shown = 0

    def show(report: Imported) -> None:
        nonlocal shown
        if report.captures - shown >= 10_000:
            shown = report.captures
            note(
                f"{number_of(report.captures, 'capture')} read, {report.imported:,} imported, "
                f"{number_of(report.pages, 'page')}"
            )

    report = import_files(
        root, config, collection, files, collection=configured, base=base, in_scope=in_scope,
        index=not no_index, observer=None if quiet or json_output else show,
    )  # fmt: skip
    if json_output:
        print_json({"workspace": root, "collection": collection, **asdict(report)})
    elif not quiet:
        rows = [
            ("captures", f"{report.captures:,} in {number_of(report.files, 'file')}"),
            ("imported", f"{report.imported:,}, {number_of(report.pages, 'page')}"),
        ]
        if report.already_there:
            rows.append(("already stored", f"{report.already_there:,}"))
        if report.left_out:
            rows.append(("skipped", counts(report.left_out)))
        if report.others:
            rows.append(("other records", counts(report.others)))
        print(table(rows))
    if report.damaged:
        messages = "\n".join(report.damaged.values())
        raise WorkError(
            f"{messages}\ncaptures before the damage are imported; repair the file and run the "
            "command again (nothing is imported twice)"
        )
