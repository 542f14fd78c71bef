"""`lycosa add`: submit URLs to a running or resting crawl."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, SetOption, WorkspaceOption, load_config, print_json, typed_url, workspace_root
from lycosa.core.errors import UsageError


def command(
    context: typer.Context,
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="What to fetch; a URL that is known is fetched again.")],
    collection: Annotated[str, typer.Option("--collection", metavar="NAME", help="Into which collection, if there are several.")] = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Submit URLs to a running or resting crawl."""
    from lycosa.app.submission import submit

    root = workspace_root(context, workspace)
    bad: dict[str, str] = {}  # a collection that is wrong does not keep others from being added to
    config = load_config(context, root, overrides, bad=bad)
    if collection in bad:
        raise UsageError(f"collection {collection}: {bad[collection]}")
    submitted = submit(root, config, [typed_url(url) for url in urls], collection)
    owner = submitted.owner
    if json_output:
        facts = {"collection": submitted.collection, "urls": submitted.urls, "file": submitted.file, "running": owner is not None}
        print_json({"workspace": root, **facts})
        return
    number = f"{len(submitted.urls)} URL{'s' if len(submitted.urls) != 1 else ''}"
    who = f"process {owner.pid} takes them up within seconds" if owner else "the next `lycosa run` or `lycosa crawl` takes them up"
    print(f"{number} submitted to collection {submitted.collection}; {who}")
