"""`lycosa exclude`: take a host, a domain or a part of a site out, and delete what is stored of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    counts,
    load_config,
    print_json,
    table,
    workspace_root,
)
from lycosa.core.units import format_size, number_of


def command(
    context: typer.Context,
    rules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SITE",
            help="Host, URL, domain:NAME (with its subdomains) or prefix:URL (default: list all).",
        ),
    ] = None,
    purge: Annotated[
        bool,
        typer.Option("--purge/--keep", help="Also delete stored pages, records and index entries."),
    ] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Exclude sites permanently from crawling and search."""
    from dataclasses import asdict

    from lycosa.commands.maintenance.exclude import exclude_and_purge

    root = workspace_root(context, workspace)
    report = asdict(
        exclude_and_purge(root, load_config(context, root, overrides), rules or [], remove=purge)
    )
    if json_output:
        print_json(report)
    else:
        _print(report, listing=not rules)
    if purge and report["pending"]:
        raise typer.Exit(1)


def _print(report: Mapping[str, Any], *, listing: bool) -> None:
    rows = [("excluded", ", ".join(report["rules"]))]
    if report["purged"]:
        removed = counts(report["rows"]) or "no rows"
        rows.append(
            (
                "deleted",
                f"{removed}; {number_of(report['records'], 'archived record')}; "
                f"{format_size(report['bytes_deleted'])} in total",
            )
        )
    rows.extend(("not yet", f"{where}: {why}") for where, why in report["pending"])
    print(table(rows, ""))
    if listing and not report["purged"]:
        return
    if not report["purged"]:
        print(
            "\nThe pages are no longer fetched, found or shown. They are still on disk: add "
            "--purge to delete them."
        )
    elif not report["pending"]:
        print("\nDeleted from this workspace. Copies and exports are not affected.")
    else:
        print("\nNot everything could be deleted yet: run the command again later.")
