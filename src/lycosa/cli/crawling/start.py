"""`lycosa init` and `demo`: create a workspace."""

from __future__ import annotations

import os
import signal
import sys
from shlex import quote
from typing import Annotated

import typer

from lycosa.cli.options import InWorkspace
from lycosa.core.errors import UsageError


def init(
    where: InWorkspace,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            min=1,
            metavar="N",
            help="Number of partitions, the maximum number of "
            "workers; cannot be changed (default 64).",
        ),
    ] = None,
    template: Annotated[
        str,
        typer.Option(
            "--template",
            metavar="NAME",
            help="news27: media and government sites in 27 languages, one collection each.",
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing lycosa.toml and seed files.")
    ] = False,
) -> None:
    """Create a workspace with a commented configuration file."""
    from lycosa.commands.crawling.news_template import SEEDS, news_template
    from lycosa.config.template import configuration_template
    from lycosa.store.workspace import CONFIGURATION, DEFAULT_PARTITIONS, Workspace

    if template not in ("", "news27"):
        raise UsageError(f"--template {template!r}: unknown template; choose news27")
    root = where.root
    opened = Workspace.open_or_create(root, partitions or DEFAULT_PARTITIONS)
    if partitions is not None and opened.partitions != partitions:
        raise UsageError(
            f"{root} has {opened.partitions} partitions, which cannot be changed; "
            f"for {partitions}, create a new workspace"
        )
    storage = opened.storage
    path = os.path.join(root, CONFIGURATION)
    if storage.size(CONFIGURATION) is not None and not force:
        raise UsageError(f"{path} already exists; edit it, or replace it with --force")
    if template:
        text, files = news_template()
        storage.make_folder(SEEDS)
        for name, content in files.items():
            if force or storage.size(f"{SEEDS}/{name}") is None:
                storage.replace(f"{SEEDS}/{name}", content.encode(), sync=True)
        storage.replace(CONFIGURATION, text.encode(), sync=True)
        print(
            f"wrote {path} and {len(files)} seed files: set fetch.contact there, then run "
            f"`lycosa -w {quote(root)} run`"
        )
        return
    storage.replace(CONFIGURATION, configuration_template().encode(), sync=True)
    print(f"wrote {path}: edit it, then run `lycosa -w {quote(root)} crawl URL`")


def demo(
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

    if pages is not None and not url:
        raise UsageError("--pages requires --url: the bundled web is always crawled completely")
    # so that the command which is running ends too
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    run_demo(url=url, pages=pages, serve=not no_serve)
