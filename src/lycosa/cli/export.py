"""`lycosa export`: hand the collection on."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli import export_archive
from lycosa.cli.common import (
    AddressOption,
    CollectionOption,
    EngineOption,
    JsonOption,
    LanguageOption,
    QuietOption,
    SetOption,
    SinceOption,
    SiteOption,
    WorkspaceOption,
    date_ms,
    load_config,
    note,
    open_engine,
    print_json,
    workspace_root,
)
from lycosa.cli.output import data_stream
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.units import format_size, number_of, parse_size

if TYPE_CHECKING:
    from datetime import date

    from lycosa.export.bulk.actions import BulkSelection

app = typer.Typer(
    help="Export pages: XML, JSON Lines, Parquet, WARC, WACZ, offline mirror.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
export_archive.register(app)

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="Target directory; files are written to DIR/KIND/LANG/DATE/."
    ),
]
FromDayOption = Annotated[
    int,
    typer.Option(
        "--since",
        metavar="DATE",
        parser=date_ms,
        show_default=False,
        help="First day to export, for example 2026-11-21 in UTC (default: all).",
    ),
]
UntilOption = Annotated[
    int,
    typer.Option(
        "--until",
        metavar="DATE",
        parser=date_ms,
        show_default=False,
        help="Last day to export (default: today).",
    ),
]
FullOption = Annotated[
    bool,
    typer.Option(
        "--full", help="Export a page on each day it was fetched (default: only when it changed)."
    ),
]
SizeOption = Annotated[
    str, typer.Option("--max-size", metavar="SIZE", help="Size at which a new file is started.")
]
AgainOption = Annotated[bool, typer.Option("--again", help="Rewrite existing days.")]


def _library_command(kind: str, size: str, about: str) -> None:
    """One command a kind of file; they differ in nothing else that a user sees."""

    def command(
        context: typer.Context,
        target: TargetArgument,
        language: LanguageOption = "",
        collection: CollectionOption = "",
        since: FromDayOption = 0,
        until: UntilOption = 0,
        full: FullOption = False,
        max_size: SizeOption = size,
        again: AgainOption = False,
        engine: EngineOption = "",
        address: AddressOption = "",
        workspace: WorkspaceOption = "",
        overrides: SetOption = None,
        quiet: QuietOption = False,
        json_output: JsonOption = False,
    ) -> None:
        chosen = (language, collection, since, until, full)
        _library(
            context,
            kind,
            target,
            chosen,
            max_size,
            again,
            (engine, address),
            workspace,
            overrides,
            quiet,
            json_output,
        )

    app.command(kind, help=about)(command)


_library_command(
    "xml",
    "64MB",
    "Export pages as an XML library by language and day.\n\nThe schema is written to "
    "DIR/xml/library.xsd.",
)
_library_command("jsonl", "64MB", "Export pages as JSON Lines by language and day.")
_library_command(
    "parquet",
    "256MB",
    "Export pages as Parquet files by language and day.\n\n--max-size is the size of the rows as "
    "JSON. The Parquet files are about a third as large.",
)
_library_command(
    "text", "64MB", "Export visible text by language and day as WARC conversion records (WET)."
)


def _library(
    context: typer.Context,
    kind: str,
    target: str,
    chosen: tuple[str, str, int, int, bool],
    max_size: str,
    again: bool,
    engine: tuple[str, str],
    workspace: str,
    overrides: list[str] | None,
    quiet: bool,
    json_output: bool,
) -> None:
    from dataclasses import asdict

    from lycosa.commands.maintenance.export import LibraryTask, export_on, export_task
    from lycosa.commands.maintenance.libraries import library_languages
    from lycosa.export.library.editions import LibrarySelection
    from lycosa.export.library.xml import SCHEMA
    from lycosa.store.workspace import Workspace

    language, collection, since, until, full = chosen
    root = workspace_root(context, workspace)
    opened = Workspace.open(root)
    config = load_config(context, root, overrides)
    size = parse_size(max_size)
    if size < 2**16:
        raise UsageError("--max-size must be at least 64KiB")
    selection = LibrarySelection(language, collection, _day(since), _day(until), full)
    languages = library_languages(config, opened.state())
    name, address = engine
    task = LibraryTask(
        opened.root,
        os.path.abspath(target) if name else target,
        kind,
        selection,
        config,
        languages,
        size,
        again,
    )
    if name:
        with open_engine(name, address, config) as carried:
            report = export_on(carried, task)
    else:
        report = export_task(task)
    if kind == "xml":
        _write_beside(f"{target}/xml/library.xsd", SCHEMA.read_bytes())
    if json_output:
        print_json(asdict(report))
        return
    if quiet:
        return
    for path in report.written:
        print(path)
    print(
        f"{number_of(report.documents, 'document')} in {number_of(report.files, 'file')}, "
        f"{number_of(report.languages, 'language')}, "
        f"{number_of(report.days, 'directory LANG/DATE', 'directories LANG/DATE')}, "
        f"{format_size(report.bytes)}; {number_of(len(report.written), 'new file')}"
        + (
            f", {number_of(report.unreadable, 'older version')} no longer in the archive"
            if report.unreadable
            else ""
        )
    )


def _day(at_ms: int) -> date | None:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).date() if at_ms else None


def _write_beside(path: str, content: bytes) -> None:
    """A small file, whole or not at all."""
    try:
        with open(f"{path}.part", "wb") as file:
            file.write(content)
        os.replace(f"{path}.part", path)
    except OSError as error:
        raise WorkError(f"{path} cannot be written: {error.strerror}") from None


@app.command()
def warc(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="DIR", help="Target directory.")],
    language: LanguageOption = "",
    collection: CollectionOption = "",
    site: SiteOption = "",
    since: SinceOption = 0,
    max_size: Annotated[
        str, typer.Option("--max-size", metavar="SIZE", help="Size at which a new file is started.")
    ] = "1GB",
    responses_only: Annotated[
        bool, typer.Option("--responses-only", help="Leave out request and metadata records.")
    ] = False,
    workspace: WorkspaceOption = "",
    quiet: QuietOption = False,
    json_output: JsonOption = False,
) -> None:
    """Export captures as WARC files with a CDXJ index."""
    from lycosa.export.archives.warc import WarcSelection, export_warc
    from lycosa.store.workspace import Workspace
    from lycosa.url.site_name import site_name

    chosen = WarcSelection(language, collection, site_name(site) if site else None, since)
    opened = Workspace.open(workspace_root(context, workspace))
    report = export_warc(
        opened, target, chosen, max_file_bytes=parse_size(max_size), responses_only=responses_only
    )
    if json_output:
        print_json(
            {
                "files": [str(path) for path in report.files],
                "index": str(report.index) if report.index else None,
                "captures": report.captures,
                "existing": report.existing,
                "without_record": report.without_record,
                "bytes": report.bytes,
            }
        )
        return
    if quiet:
        return
    for path in report.files:
        print(path)
    print(
        f"{number_of(report.captures, 'capture')} in {number_of(len(report.files), 'file')}, "
        f"{format_size(report.bytes)}"
        + (f"; {number_of(report.existing, 'file')} already existed" if report.existing else "")
    )


@app.command()
def bulk(
    context: typer.Context,
    to: Annotated[
        str, typer.Option("--to", metavar="KIND", help="Target: opensearch, quickwit or jsonl.")
    ],
    url: Annotated[
        str,
        typer.Option(
            "--url", metavar="URL", help="Address of the search cluster, http://HOST:PORT."
        ),
    ] = "",
    index: Annotated[
        str, typer.Option("--index", metavar="NAME", help="Name of the target index.")
    ] = "lycosa",
    collection: CollectionOption = "",
    language: LanguageOption = "",
    since: SinceOption = 0,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="File for jsonl; - for standard output.")
    ] = "-",
    batch: Annotated[
        str, typer.Option("--batch", metavar="SIZE", help="Maximum size of one request.")
    ] = "5MiB",
    again: Annotated[bool, typer.Option("--again", help="Send all pages again.")] = False,
    workspace: WorkspaceOption = "",
    quiet: QuietOption = False,
    json_output: JsonOption = False,
) -> None:
    """Load pages into OpenSearch, Quickwit or a JSON Lines file.

    Later calls send only changes; jsonl is always complete. Credentials: environment variable
    LYCOSA_BULK_AUTH.
    """
    from dataclasses import asdict

    from lycosa.export.bulk.actions import BulkSelection
    from lycosa.export.bulk.bulk import Destination, export_bulk
    from lycosa.export.bulk.http import Backoff, BulkClient
    from lycosa.export.bulk.targets import OpenSearch, Quickwit, Target
    from lycosa.store.workspace import Workspace

    kinds: dict[str, Callable[[BulkClient, str], Target]] = {
        "opensearch": OpenSearch,
        "quickwit": Quickwit,
    }
    chosen = BulkSelection(collection, language, since)
    if to == "jsonl":
        _jsonl(workspace_root(context, workspace), chosen, out, quiet=quiet or json_output)
        return
    if to not in kinds:
        raise UsageError(f"--to {to!r} is unknown: choose opensearch, quickwit or jsonl")
    if not url:
        raise UsageError(f"--to {to} requires --url, the address of the search cluster")
    batch_bytes = parse_size(batch)
    if not 2**16 <= batch_bytes <= 2**28:
        raise UsageError("--batch must be between 64KiB and 256MiB")
    backoff = Backoff((lambda line: None) if quiet else note)
    client = BulkClient(url, backoff)
    with contextlib.closing(client):
        target = kinds[to](client, index)
        opened = Workspace.open(workspace_root(context, workspace))
        report = export_bulk(
            opened,
            target,
            Destination(to, client.url, index, chosen),
            backoff,
            batch_bytes=batch_bytes,
            again=again,
        )
    if json_output:
        print_json(asdict(report))
    elif not quiet:
        deleted = f", {number_of(report.deletions, 'deletion')}" if report.deletions else ""
        excluded = f", {number_of(report.exclusions, 'exclusion')}" if report.exclusions else ""
        print(
            f"{number_of(report.documents, 'document')}{deleted}{excluded} in "
            f"{number_of(report.requests, 'request')}, "
            f"{format_size(report.bytes)}; "
            f"{index} is up to log entry {report.log_entry} (was {report.from_entry})"
        )
    if report.failed:
        for failure in [] if json_output else report.failures:
            note(f"{failure['url']}: {failure['reason']}")
        raise WorkError(
            f"{number_of(report.failed, 'document')} rejected permanently; the others are loaded"
        )


def _jsonl(root: str, chosen: BulkSelection, out: str, *, quiet: bool) -> None:
    """One line a page; a file appears whole or not at all."""
    from lycosa.export.bulk.bulk import export_jsonl
    from lycosa.store.workspace import Workspace

    opened = Workspace.open(root)
    if out == "-":
        written = export_jsonl(opened, chosen, data_stream())
        sys.stdout.flush()
    else:
        aside = f"{out}.part"
        try:
            with open(aside, "wb") as file:
                written = export_jsonl(opened, chosen, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, out)
        except OSError as error:
            raise WorkError(f"{out} cannot be written: {error.strerror}") from None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(aside)
    if not quiet:
        note(f"{number_of(written, 'page')}")
