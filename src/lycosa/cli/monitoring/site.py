"""`lycosa site`: audit a site, as text, JSON, CSV files or a drawing."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import AllOption, InWorkspace
from lycosa.cli.output import Output, note
from lycosa.core.dataclass import dataclass
from lycosa.core.units import parse_duration_ms, parse_size


@dataclass(frozen=True)
class Files:
    """Files to write."""

    csv: Annotated[
        str,
        typer.Option(
            "--csv", metavar="DIR", help="Write each list as a CSV file to this directory."
        ),
    ] = ""
    svg: Annotated[
        str,
        typer.Option(
            "--svg", metavar="FILE", help="Write a drawing of the site structure to this file."
        ),
    ] = ""


def command(
    where: InWorkspace,
    files: Files,
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="Host, host:port or URL of the site.")
    ],
    every: AllOption = False,
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
) -> Output:
    """Audit a site: structure, broken links, redirects, duplicates, orphans."""
    from lycosa.site.output import site_text, write_csv
    from lycosa.site.picture import write_picture
    from lycosa.site.report import Thresholds

    limits = Thresholds(parse_duration_ms(slow), parse_size(large))
    sites = where.open().sites
    report = sites.audit(host, slow=limits.slow_ms / 1000, large_bytes=limits.large_bytes)
    if files.csv:
        for path in write_csv(report, files.csv):
            note(f"wrote {path}")
    if files.svg:
        write_picture(report, files.svg)
        note(f"wrote {files.svg}")
    text = "" if files.csv or files.svg else site_text(report, limits, every=every)
    return Output(report, text)
