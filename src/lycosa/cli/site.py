"""`lycosa site HOST`: a site's report, for people, as JSON, as CSV files, as a picture."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    note,
    print_json,
    workspace_root,
)
from lycosa.core.units import parse_duration_ms, parse_size


def command(
    context: typer.Context,
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="Host, host:port or URL of the site.")
    ],
    every: Annotated[bool, typer.Option("--all", help="Print all entries of each list.")] = False,
    slow: Annotated[
        str,
        typer.Option(
            "--slow", metavar="TIME", help="Response time from which a page is listed as slow."
        ),
    ] = "1s",
    large: Annotated[
        str,
        typer.Option("--large", metavar="SIZE", help="Size from which a page is listed as large."),
    ] = "1MB",
    csv: Annotated[
        str,
        typer.Option(
            "--csv", metavar="DIR", help="Write each list as a CSV file to this directory."
        ),
    ] = "",
    svg: Annotated[
        str,
        typer.Option(
            "--svg", metavar="FILE", help="Write a drawing of the site structure to this file."
        ),
    ] = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Audit a site: structure, broken links, redirects, duplicates, orphans."""
    from dataclasses import asdict

    from lycosa.site.output import site_text
    from lycosa.site.report import Thresholds, report_of

    limits = Thresholds(parse_duration_ms(slow), parse_size(large))
    root = workspace_root(context, workspace)
    report = report_of(root, host, limits, load_config(context, root, overrides))
    if csv:
        from lycosa.site.output import write_csv

        for path in write_csv(report, csv):
            note(f"wrote {path}")
    if svg:
        from lycosa.site.picture import write_picture

        write_picture(report, svg)
        note(f"wrote {svg}")
    if json_output:
        print_json(asdict(report))
    elif not (csv or svg):
        print(site_text(report, limits, every=every))
