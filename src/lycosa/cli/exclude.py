"""`lycosa exclude`: take a host, a domain or a part of a site out, and delete what is stored of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lycosa.cli.common import JsonOption, SetOption, WorkspaceOption, counts, load_config, print_json, table, workspace_root
from lycosa.core.units import format_size


def command(
    context: typer.Context,
    rules: Annotated[list[str] | None, typer.Argument(metavar="[RULE]...", help="host:NAME, domain:NAME or prefix:URL.")] = None,
    purge: Annotated[bool, typer.Option("--purge/--keep", help="Delete what is stored of it, or only hide it.")] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Exclude sites for good: never fetched, never shown, and with --purge deleted."""
    from lycosa.app.excluding import exclude_and_purge

    root = workspace_root(context, workspace)
    report = exclude_and_purge(root, load_config(context, root, overrides), rules or [], remove=purge)
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
        rows.append(("deleted", f"{removed}; {report['records']:,} archived records; {format_size(report['bytes_deleted'])} in all"))
    rows.extend(("not yet", f"{where}: {why}") for where, why in report["pending"])
    print(table(rows, ""))
    if listing and not report["purged"]:
        return
    if not report["purged"]:
        print("\nIt is not fetched, found or shown any more, and still on disk. To delete it: the same command with --purge")
    elif not report["pending"]:
        print("\nThe last byte of it is gone from this workspace (copies and exports are yours to delete)")
    else:
        print("\nNot everything is gone yet: call again when the reason is over")
