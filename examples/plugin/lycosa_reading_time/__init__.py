"""Store the reading time of each page, skip printable copies, list the longest pages."""

from __future__ import annotations

from collections.abc import Mapping

import typer

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
    def longest(workspace: str = "lycosa-data") -> None:
        """List the pages that take longest to read."""
        from lycosa import Workspace

        query = "SELECT url, reading_minutes FROM pages ORDER BY reading_minutes DESC LIMIT 10"
        for url, minutes in Workspace(workspace).sql(query).iter_rows():
            print(f"{minutes:>4} min  {url}")
