"""Store the reading time of each page, skip printable copies, list the longest pages."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from lycosa.cli.options import InWorkspace, expand
from lycosa.core.records import Page
from lycosa.hooks import hook


@hook
def page_columns() -> Mapping[str, type]:
    return {"reading_minutes": int}


@hook
def page_parsed(page: Page) -> Mapping[str, int]:
    return {"reading_minutes": round(len(page.main_text.split()) / 200)}


@hook
def admit_url(url: str) -> bool | None:
    return False if url.endswith("/print") else None


@hook
def add_commands(app: typer.Typer) -> None:
    @app.command("longest")
    @expand  # InWorkspace: the options -w and --set
    def longest(where: InWorkspace) -> None:
        """List the pages that take longest to read."""
        query = """SELECT url, reading_minutes FROM pages WHERE reading_minutes IS NOT NULL
            ORDER BY reading_minutes DESC LIMIT 10"""  # NULL: parsed without the plug-in
        for url, minutes in where.open().sql(query).iter_rows():
            print(f"{minutes:>4} min  {url}")
