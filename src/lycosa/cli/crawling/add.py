"""`lycosa add`: submit URLs to a running or stopped crawl."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import IgnoreOption, InWorkspace, SeedsOption, typed_seeds
from lycosa.cli.output import Output
from lycosa.core.units import number_of


def command(
    where: InWorkspace,
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL", help="URLs to fetch. Known URLs are fetched again."),
    ] = None,
    seeds: SeedsOption = "",
    collection: Annotated[
        str,
        typer.Option(
            "--collection", metavar="NAME", help="Collection; required if there are several."
        ),
    ] = "",
    find: Annotated[
        list[str] | None,
        typer.Option(
            "--find",
            metavar="TEXT",
            help="Search these pages, and all pages reachable from them, for a text; repeatable.",
        ),
    ] = None,
    ignore: IgnoreOption = None,
    max_age: Annotated[
        str,
        typer.Option("--max-age", metavar="TIME", help="Maximum age of a stored copy for --find."),
    ] = "1d",
) -> Output:
    """Submit URLs to a collection.

    A running crawl fetches them within seconds, otherwise the next one does.
    """
    workspace = where.open()
    typed = typed_seeds(urls, seeds)
    if find:
        request = workspace.texts.submit(
            typed, find, ignore=ignore or (), collection=collection, max_age=max_age
        )
        summary = (
            f"submitted to collection {request.collection}; "
            f"{_applied_by(request.running, 'starts it')}; "
            f"show matches: lycosa watch matches {request.id}"
        )
        return Output(request, request.id, summary)
    submitted = workspace.add(typed, collection=collection)
    number = len(submitted.urls)
    them = "it" if number == 1 else "them"
    who = f"the next `lycosa run` or `lycosa crawl` fetches {them}"
    if submitted.process:
        who = f"process {submitted.process} fetches {them} within seconds"
    text = f"{number_of(number, 'URL')} submitted to collection {submitted.collection}; {who}"
    return Output(submitted, text)


def _applied_by(running: bool, does: str) -> str:
    if running:
        return f"the running crawl {does} within seconds"
    return f"the next `lycosa run` or `lycosa crawl` {does}"
