"""`lycosa merge`: fold small files together, and delete what they replaced."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    AddressOption,
    EngineOption,
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    open_engine,
    print_json,
    workspace_root,
)
from lycosa.core.errors import WorkError
from lycosa.core.units import format_size, number_of


def command(
    context: typer.Context,
    whole: Annotated[
        bool,
        typer.Option(
            "--full", help="Compact all files of each table (default: only many small files)."
        ),
    ] = False,
    engine: EngineOption = "",
    address: AddressOption = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Compact small files and delete obsolete ones.

    A running crawl does this automatically.
    """
    from dataclasses import asdict

    from lycosa.maintenance.jobs import merge_on
    from lycosa.store.compaction.compact import compact
    from lycosa.store.compaction.plan import CompactionSettings
    from lycosa.store.compaction.vacuum import vacuum
    from lycosa.store.workspace import Workspace

    root = workspace_root(context, workspace)
    opened = Workspace.open(root)
    config = load_config(context, root, overrides)
    settings, how = config.store, CompactionSettings(config.store.merge_commits)
    if engine:
        with open_engine(engine, address, config) as processes:
            report = merge_on(processes, opened.root, how, whole=whole)
    else:
        report = compact(opened, how, whole=whole)
    if report.gave_up:
        raise WorkError(f"nothing was compacted: {report.gave_up}; run the command again later")
    swept = vacuum(
        opened, keep_replaced_ms=settings.keep_replaced, keep_entries_ms=settings.keep_entries
    )
    if json_output:
        print_json({"merged": asdict(report), "swept": asdict(swept)})
        return
    print(
        f"{number_of(report.files_before, 'file')} became {report.files_after:,}; "
        f"{number_of(report.rows_dropped, 'outdated row')} dropped, "
        f"{format_size(report.bytes_read)} read, {format_size(report.bytes_written)} written"
    )
    print(
        f"deleted: {number_of(swept.files, 'replaced file')}, "
        f"{number_of(swept.entries, 'log entry', 'log entries')}, {format_size(swept.bytes)}"
    )
