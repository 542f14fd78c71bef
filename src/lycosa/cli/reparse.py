"""`lycosa reparse`: parse the archive again, without fetching."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, SetOption, WorkspaceOption, load_config, number_of, print_json, workspace_root
from lycosa.core.errors import UsageError


def command(
    context: typer.Context,
    collection: Annotated[str, typer.Option("--collection", metavar="NAME", help="Only this collection.")] = "",
    since: Annotated[str, typer.Option("--since", metavar="DATE", help="Only pages fetched since this date, for example 2026-11-21.")] = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Parse archived pages again and store changed results."""
    from dataclasses import asdict

    from lycosa.app.reparsing import reparse_workspace

    root = workspace_root(context, workspace)
    report = reparse_workspace(root, load_config(context, root, overrides), collection or None, date_ms(since), f"reparse-{os.getpid()}")
    if json_output:
        print_json(asdict(report))
        return
    print(
        f"{number_of(report.pages, 'page')} parsed again; {report.changed:,} changed, {report.text_changed:,} of them with a different text"
    )
    if report.unreadable:
        print(f"{report.unreadable:,} could not be parsed and keep their rows")


def date_ms(text: str) -> int | None:
    """`2026-11-21` or a full ISO date (UTC unless it has an offset) as milliseconds; None for "".

    Raises:
        UsageError: it is no date.
    """
    from datetime import UTC, datetime

    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date: write 2026-11-21 or 2026-11-21T10:00:00") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
