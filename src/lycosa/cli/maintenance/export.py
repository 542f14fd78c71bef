"""`lycosa export`: pages as files, as web archives, as a mirror, or in a search cluster."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import (
    CollectionOption,
    EngineOptions,
    InWorkspace,
    LanguageOption,
    MarkdownModeOption,
    OutputOptions,
    PageFilter,
    SinceOption,
    SiteOption,
    completion,
    date_option,
    values_of,
)
from lycosa.cli.output import Output, data_stream, note, omitted
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.units import format_size, number_of, parse_size

if TYPE_CHECKING:
    from lycosa.api.exports import Exports
    from lycosa.export.bulk.actions import BulkSelection
    from lycosa.export.bulk.bulk import BulkReport
    from lycosa.export.library.library import LibraryReport
    from lycosa.export.markdown.pages import MarkdownReport

app = typer.Typer(
    help="Export pages: XML, JSON Lines, Parquet, Markdown, items, WARC, WACZ, offline mirror.",
    no_args_is_help=True,
)

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="Target directory; files are written to DIR/KIND/LANG/DATE/."
    ),
]
SiteArgument = Annotated[
    str,
    typer.Argument(
        metavar="SITE",
        help="Host, host:port or URL of the site.",
        autocompletion=completion("hosts"),
    ),
]
ResponsesOption = Annotated[
    bool, typer.Option("--responses-only", help="Leave out request and metadata records.")
]


@dataclass(frozen=True)
class LibraryFilter(EngineOptions):
    """Which days of the library to export, and how."""

    language: LanguageOption = ""
    collection: CollectionOption = ""
    since: Annotated[
        int,
        date_option(
            "--since", "First day to export, for example 2026-11-21 in UTC (default: all)."
        ),
    ] = 0
    until: Annotated[int, date_option("--until", "Last day to export (default: today).")] = 0
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Export a page on each day it was fetched (default: only when it changed).",
        ),
    ] = False
    max_size: Annotated[
        str,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            help="Size at which a new file is started (default 64MB, Parquet 256MB).",
        ),
    ] = ""
    again: Annotated[bool, typer.Option("--again", help="Rewrite existing days.")] = False


def _add_library_command(kind: str, about: str) -> None:
    @app.command(kind, help=about)
    def command(
        where: InWorkspace, chosen: LibraryFilter, output: OutputOptions, target: TargetArgument
    ) -> Output:
        from lycosa.commands.maintenance.export import LibraryOptions

        report = where.open().export.library(
            kind,
            target,
            language=chosen.language,
            collection=chosen.collection,
            since=_day(chosen.since),
            until=_day(chosen.until),
            options=LibraryOptions(
                chosen.full, chosen.max_size, chosen.again, chosen.engine, chosen.address
            ),
        )
        return Output(report, _library_text(report), failed=bool(report.unreadable))


_add_library_command(
    "xml",
    "Export pages as an XML library by language and day.\n\nThe schema is written to "
    "DIR/xml/library.xsd.",
)
_add_library_command("jsonl", "Export pages as JSON Lines by language and day.")
_add_library_command(
    "parquet",
    "Export pages as Parquet files by language and day.\n\n--max-size is the size of the rows as "
    "JSON. The Parquet files are about a third as large.",
)
_add_library_command(
    "text", "Export visible text by language and day as WARC conversion records (WET)."
)


def _day(at_ms: int) -> date | None:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date() if at_ms else None


def _library_text(report: LibraryReport) -> str:
    unread = f", {number_of(report.unreadable, 'older version')} not readable in the archive"
    total = (
        f"{number_of(report.documents, 'document')} in {number_of(report.files, 'file')}, "
        f"{number_of(report.languages, 'language')}, "
        f"{number_of(report.days, 'directory LANG/DATE', 'directories LANG/DATE')}, "
        f"{format_size(report.bytes)}; {number_of(len(report.written), 'new file')}"
        f"{unread if report.unreadable else ''}"
    )
    return "\n".join([*map(str, report.written), total])


@app.command()
def warc(
    where: InWorkspace,
    pages: PageFilter,
    output: OutputOptions,
    target: Annotated[str, typer.Argument(metavar="DIR", help="Target directory.")],
    max_size: Annotated[
        str, typer.Option("--max-size", metavar="SIZE", help="Size at which a new file is started.")
    ] = "1GB",
    responses_only: ResponsesOption = False,
) -> Output:
    """Export captures as WARC files with a CDXJ index."""
    report = where.open().export.warc(
        target, **values_of(pages), max_size=max_size, responses_only=responses_only
    )
    existing = f"; {number_of(report.existing, 'file')} already existed" if report.existing else ""
    unread = omitted([record.reason for record in report.unreadable], "record")
    total = (
        f"{number_of(report.captures, 'capture')} in {number_of(len(report.files), 'file')}, "
        f"{format_size(report.bytes)}{existing}{unread}"
    )
    text = "\n".join([*map(str, report.files), total])
    return Output(report, text, failed=bool(report.unreadable))


@app.command()
def wacz(
    where: InWorkspace,
    pages: PageFilter,
    output: OutputOptions,
    target: Annotated[str, typer.Argument(metavar="FILE", help="File to write, NAME.wacz.")],
    title: Annotated[
        str, typer.Option("--title", metavar="TEXT", help="Title shown by players.")
    ] = "",
    responses_only: ResponsesOption = False,
) -> Output:
    """Export captures as one WACZ file for web-archive players."""
    if not target.endswith(".wacz"):
        raise UsageError(f"{target}: the file name must end in .wacz")
    report = where.open().export.wacz(
        target, **values_of(pages), title=title, responses_only=responses_only
    )
    text = (
        "nothing to export: no capture matches"
        if report.path is None
        else f"{report.path}: {number_of(report.captures, 'capture')}, "
        f"{number_of(report.pages, 'page')}, {format_size(report.bytes)}"
    )
    text += omitted([record.reason for record in report.unreadable], "record")
    return Output(report, text, failed=bool(report.unreadable))


@app.command()
def markdown(
    where: InWorkspace,
    output: OutputOptions,
    target: Annotated[
        str, typer.Argument(metavar="DIR", help="Target directory; files are DIR/HOST/PATH.md.")
    ],
    site: SiteOption = "",
    collection: CollectionOption = "",
    mode: MarkdownModeOption = "main",
) -> Output:
    """Export pages as Markdown, one file per page.

    Each file begins with YAML front matter: URL, title, type, language, dates and digest. Files
    that would not change are left alone.
    """
    exports = where.open().export
    return _markdown(exports.markdown(target, site=site, collection=collection, mode=mode))


@app.command()
def llms(
    where: InWorkspace,
    output: OutputOptions,
    site: SiteArgument,
    target: Annotated[str, typer.Argument(metavar="DIR", help="Target directory.")],
    collection: CollectionOption = "",
) -> Output:
    """Export llms.txt and llms-full.txt of a site.

    The first lists the pages of the site for language models; the second contains their Markdown.
    """
    return _markdown(where.open().export.llms(site, target, collection=collection))


@dataclass(frozen=True)
class ChunkFilter:
    """Which pages to export in chunks, and how."""

    form: Annotated[
        str, typer.Option("--format", metavar="KIND", help="File format: jsonl or parquet.")
    ] = "jsonl"
    max_tokens: Annotated[
        int,
        typer.Option(
            "--max-tokens",
            metavar="N",
            help="Maximum number of tokens of a chunk, estimated (default 400).",
            show_default=False,
        ),
    ] = 0
    max_characters: Annotated[
        int,
        typer.Option(
            "--max-characters",
            metavar="N",
            help="Maximum number of characters of a chunk, instead of tokens.",
            show_default=False,
        ),
    ] = 0
    site: SiteOption = ""
    collection: CollectionOption = ""


@app.command()
def chunks(
    where: InWorkspace,
    output: OutputOptions,
    chosen: ChunkFilter,
    target: Annotated[
        str, typer.Argument(metavar="DIR", help="Target directory; it also has the state.")
    ],
    again: Annotated[
        bool,
        typer.Option("--again", help="Remove the files of earlier calls, and export all chunks."),
    ] = False,
) -> Output:
    """Export pages in chunks for language models.

    Each call writes one file with the chunks that were added, changed and removed since the last
    call with this directory.
    """
    from lycosa.export.chunks.files import ChunkOptions

    report = where.open().export.chunks(target, ChunkOptions(**values_of(chosen)), again=again)
    text = (
        f"{report.file or 'nothing changed'}: {report.added:,} added, {report.changed:,} changed, "
        f"{report.removed:,} removed; {number_of(report.chunks, 'chunk')} in all"
    )
    text += omitted(report.unreadable, "page")
    return Output(report, text, failed=bool(report.unreadable))


def _markdown(report: MarkdownReport) -> Output:
    text = f"{number_of(report.pages, 'page')}, {format_size(report.bytes)}"
    if report.removed:
        text += f"\n{number_of(report.removed, 'file')} of removed pages removed"
    text += omitted(report.unreadable, "page")
    return Output(report, text, failed=bool(report.unreadable))


@app.command()
def items(
    where: InWorkspace,
    output: OutputOptions,
    target: Annotated[
        str, typer.Argument(metavar="FILE", help="File to write: .jsonl, .csv or .parquet.")
    ],
    schema: Annotated[
        str,
        typer.Option("--schema", metavar="NAME", help="Schema of the items (default: the only)."),
    ] = "",
    collection: CollectionOption = "",
    invalid: Annotated[
        bool, typer.Option("--invalid", help="Include items without a required field.")
    ] = False,
) -> Output:
    """Export the items that the fields of a collection extract, with typed columns."""
    report = where.open().export.items(
        target, schema=schema, collection=collection, invalid=invalid
    )
    left_out = f"; {report.left_out:,} not valid (--invalid exports them)"
    text = (
        f"{report.path}: {number_of(report.items, 'item')} of {report.schema}, "
        f"{format_size(report.bytes)}{left_out if report.left_out else ''}"
    )
    return Output(report, text)


@app.command()
def mirror(
    where: InWorkspace,
    output: OutputOptions,
    site: SiteArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Target directory; the start page is DIR/HOST/index.html."
        ),
    ],
    collection: CollectionOption = "",
) -> Output:
    """Export a site as an offline mirror.

    Crawl with `requisites = true` to include images, style sheets, scripts and fonts.
    """
    report = where.open().export.mirror(site, target, collection=collection)
    removed = f"{number_of(report.removed, 'file')} of removed pages removed"
    unread = f"{number_of(len(report.unreadable), 'file')} omitted, because reading failed"
    lines = [
        f"{number_of(report.files, 'file')}, {report.pages:,} of them pages, "
        f"{format_size(report.bytes)}",
        removed if report.removed else "",
        *(f"{unread}; the first: {first}" for first in report.unreadable[:1]),
        f"open {report.start}",
    ]
    return Output(report, "\n".join(filter(None, lines)), failed=bool(report.unreadable))


@dataclass(frozen=True)
class BulkFlags:
    """Where to load pages, and which."""

    url: Annotated[
        str,
        typer.Option(
            "--url", metavar="URL", help="Address of the search cluster, http://HOST:PORT."
        ),
    ] = ""
    index: Annotated[
        str, typer.Option("--index", metavar="NAME", help="Name of the target index.")
    ] = "lycosa"
    collection: CollectionOption = ""
    language: LanguageOption = ""
    since: SinceOption = 0
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="File for jsonl; - for standard output.")
    ] = "-"
    batch: Annotated[
        str, typer.Option("--batch", metavar="SIZE", help="Maximum size of one request.")
    ] = "5MiB"
    again: Annotated[bool, typer.Option("--again", help="Send all pages again.")] = False


@app.command()
def bulk(
    where: InWorkspace,
    options: BulkFlags,
    output: OutputOptions,
    to: Annotated[
        str, typer.Option("--to", metavar="KIND", help="Target: opensearch, quickwit or jsonl.")
    ],
) -> None:
    """Load pages into OpenSearch, Quickwit or a JSON Lines file.

    Later calls send only changes; jsonl is always complete. Credentials: environment variable
    LYCOSA_BULK_AUTH.
    """
    from lycosa.commands.maintenance.export import BulkOptions
    from lycosa.export.bulk.actions import BulkSelection

    exports = where.open().export
    selection = BulkSelection(options.collection, options.language, options.since)
    if to == "jsonl":
        written = _write_jsonl(exports, selection, options.out)
        if not (output.quiet or output.json_output):
            note(number_of(written, "page"))
        return
    chosen = BulkOptions(options.index, selection, parse_size(options.batch), options.again)
    say = (lambda line: None) if output.quiet else note
    report = exports.bulk(to, options.url, chosen, report=say)
    shown = Output(report, _bulk_text(report, options.index))
    shown.print(as_json=output.json_output, quiet=output.quiet)
    if report.failed:
        for failure in [] if output.json_output else report.failures:
            note(f"{failure['url']}: {failure['reason']}")
        raise WorkError(
            f"{number_of(report.failed, 'document')} rejected permanently; the others are loaded"
        )


def _write_jsonl(exports: Exports, selection: BulkSelection, path: str) -> int:
    from lycosa.commands.maintenance.export import write_file

    if path != "-":
        return write_file(path, lambda file: exports.jsonl(file, selection))
    written = exports.jsonl(data_stream(), selection)
    sys.stdout.flush()
    return written


def _bulk_text(report: BulkReport, index: str) -> str:
    deleted = f", {number_of(report.deletions, 'deletion')}" if report.deletions else ""
    excluded = f", {number_of(report.exclusions, 'exclusion')}" if report.exclusions else ""
    return (
        f"{number_of(report.documents, 'document')}{deleted}{excluded} in "
        f"{number_of(report.requests, 'request')}, {format_size(report.bytes)}; "
        f"{index} is up to log entry {report.log_entry} (was {report.from_entry})"
    )
