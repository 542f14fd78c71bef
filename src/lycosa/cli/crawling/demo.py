"""`lycosa demo`: crawl the bundled web, search it, serve the page (`make demo`)."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", help="Crawl this site instead of the bundled web."),
    ] = "",
    pages: Annotated[
        int | None,
        typer.Option(
            "--pages", metavar="N", min=1, help="With --url: maximum number of pages (default 200)."
        ),
    ] = None,
    no_serve: Annotated[
        bool,
        typer.Option(
            "--no-serve", help="Exit after the searches instead of serving the web interface."
        ),
    ] = False,
) -> None:
    """Crawl, index and search a small bundled web in nine languages.

    The web is served on loopback; the workspace is ./demo-data.
    """
    from lycosa.commands.demo.demo import run_demo

    run_demo(url=url, pages=pages, serve=not no_serve)
