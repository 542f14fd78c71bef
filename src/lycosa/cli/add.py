"""`lycosa add`: submit URLs to a running or resting crawl."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    print_json,
    workspace_root,
)
from lycosa.cli.watch import IgnoreOption
from lycosa.core.errors import UsageError
from lycosa.core.units import number_of, parse_duration_ms


def command(
    context: typer.Context,
    urls: Annotated[
        list[str],
        typer.Argument(metavar="URL", help="URLs to fetch. Known URLs are fetched again."),
    ],
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
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Submit URLs to a collection.

    A running crawl fetches them within seconds, otherwise the next one does.
    """
    from lycosa.crawl.session.submission import submit
    from lycosa.url.normalise import typed_url

    root = workspace_root(context, workspace)
    bad: dict[str, str] = {}  # a collection that is wrong does not keep others from being added to
    config = load_config(context, root, overrides, bad=bad)
    if collection in bad:
        raise UsageError(f"collection {collection}: {bad[collection]}")
    typed = [typed_url(url) for url in urls]
    if find:
        _find(root, config, typed, find, ignore or [], collection, max_age, json_output=json_output)
        return
    submitted = submit(root, config, typed, collection)
    owner = submitted.owner
    if json_output:
        facts = {
            "collection": submitted.collection,
            "urls": submitted.urls,
            "file": submitted.file,
            "running": owner is not None,
        }
        print_json({"workspace": root, **facts})
        return
    number = number_of(len(submitted.urls), "URL")
    them = "it" if len(submitted.urls) == 1 else "them"
    who = (
        f"process {owner.pid} fetches {them} within seconds"
        if owner
        else f"the next `lycosa run` or `lycosa crawl` fetches {them}"
    )
    print(f"{number} submitted to collection {submitted.collection}; {who}")


def _find(
    root: str,
    config: Any,
    urls: list[str],
    texts: list[str],
    ignore: list[str],
    collection: str,
    max_age: str,
    *,
    json_output: bool,
) -> None:
    from lycosa.find.find import submit_find

    ordered = submit_find(root, config, urls, texts, ignore, collection, parse_duration_ms(max_age))
    if json_output:
        print_json(
            {
                "workspace": root,
                "collection": ordered.collection,
                "id": ordered.order.id,
                "running": ordered.running,
            }
        )
        return
    who = (
        "the running crawl starts it within seconds"
        if ordered.running
        else "the next `lycosa run` or `lycosa crawl` starts it"
    )
    print(ordered.order.id)
    print(
        f"submitted to collection {ordered.collection}; {who}; show matches: lycosa watch "
        f"matches {ordered.order.id}",
        file=sys.stderr,
    )
