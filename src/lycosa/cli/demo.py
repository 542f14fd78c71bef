"""`lycosa demo`: crawl the bundled web, search it, serve the page (`make demo`)."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    url: Annotated[str, typer.Option("--url", help="Crawl this site instead of the bundled web.")] = "",
    pages: Annotated[int | None, typer.Option("--pages", min=1, help="With --url: stop at this many pages (default 200).")] = None,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="End after the searches.")] = False,
) -> None:
    """Show the whole of it on a small web in nine languages, served on loopback; the workspace is ./demo-data."""
    from lycosa.app.demo import run_demo

    run_demo(url=url, pages=pages, serve=not no_serve)
