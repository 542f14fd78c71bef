"""`lycosa index`, `rank`, `compact`, `check` and `reparse`: derived data and stored files."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import CollectionOption, EngineOptions, InWorkspace, SinceOption, values_of
from lycosa.cli.output import Output, note, table
from lycosa.core.units import format_size, number_of


def index(
    where: InWorkspace,
    engine: EngineOptions,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the index from the tables.")
    ] = False,
) -> Output:
    """Update the search index and the vectors of chunks."""
    report = where.open().maintenance.index(rebuild=rebuild, **values_of(engine))
    text = (
        f"generation {report.generation}: {number_of(report.documents, 'document')}, up to log "
        f"entry {report.log_entry}"
    )
    vectors = report.vectors
    if vectors is None:
        return Output(report, text)
    text += (
        f"\nvectors: {number_of(vectors.chunks, 'chunk')} of {number_of(vectors.pages, 'page')}, "
        f"{vectors.encoded:,} encoded, {vectors.removed:,} removed"
    )
    if vectors.problem:
        note(f"{number_of(vectors.waiting, 'page')} without vectors: {vectors.problem}")
    return Output(report, text, failed=bool(vectors.problem))


def rank(
    where: InWorkspace,
    engine: EngineOptions,
    show: Annotated[
        int, typer.Option("--show", min=0, metavar="N", help="Number of duplicates to list.")
    ] = 0,
) -> Output:
    """Compute link ranks, duplicates and translations.

    The next index update applies them.
    """
    workspace = where.open()
    info = workspace.maintenance.rank(**values_of(engine))
    copies = workspace.maintenance.duplicates(show) if show else []
    rows = [
        (str(copy["url"]), f"duplicate of {copy['canonical_of']} ({copy['collection']})")
        for copy in copies
    ]
    lines = [
        f"generation {info.generation}, as of log entry {info.log_entry}: "
        f"{number_of(info.duplicates, 'duplicate page')} reached by redirects",
        f"{number_of(info.grouped, 'near-duplicate page')} in {number_of(info.groups, 'group')}; "
        "a search shows one page per group",
        table(rows, "  "),
    ]
    return Output({**values_of(info), "copies": copies}, "\n".join(filter(None, lines)))


def compact(
    where: InWorkspace,
    engine: EngineOptions,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Compact all files of each table (default: only many small files)."
        ),
    ] = False,
) -> Output:
    """Compact small files and delete obsolete ones.

    A running crawl does this automatically.
    """
    result = where.open().maintenance.compact(full=full, **values_of(engine))
    merged, swept = result.merged, result.swept
    text = (
        f"{number_of(merged.files_before, 'file')} became {merged.files_after:,}; "
        f"{number_of(merged.rows_dropped, 'outdated row')} dropped, "
        f"{format_size(merged.bytes_read)} read, {format_size(merged.bytes_written)} written\n"
        f"deleted: {number_of(swept.files, 'replaced file')}, "
        f"{number_of(swept.entries, 'log entry', 'log entries')}, {format_size(swept.bytes)}"
    )
    return Output(result, text)


def check(
    where: InWorkspace,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every archived record and every stored text.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Delete leftover files and rebuild derived data: CDXJ, index, link graph.",
        ),
    ] = False,
) -> Output:
    """Verify the log, tables, URL states, archive and index.

    The exit code is 1 if an error is found.
    """
    report = where.open().maintenance.check(deep=deep, repair=repair)
    lines = [
        *(f"repaired: {path}: {action}" for path, action in report.repaired),
        *(f"not repaired: {path}: {why}" for path, why in report.not_repaired),
        *(f"{each.severity}: {each.where}: {each.what}; {each.remedy}" for each in report.findings),
        report.summary(),
    ]
    return Output(report, "\n".join(lines), failed=not report.ok)


def reparse(
    where: InWorkspace,
    collection: CollectionOption = "",
    since: SinceOption = 0,
    fields: Annotated[
        bool, typer.Option("--fields", help="Extract items only; leave text, links and index.")
    ] = False,
) -> Output:
    """Parse archived pages again and store changed results."""
    report = where.open().archive.reparse(
        collection=collection, since=since, fields_only=fields, report=note
    )
    if fields:
        return Output(
            report,
            f"items of {number_of(report.pages, 'page')} extracted again; {report.changed:,} "
            "pages changed",
        )
    lines = [
        f"{number_of(report.pages, 'page')} parsed again; {report.changed:,} changed, "
        f"{report.text_changed:,} of them with a different text",
        f"{report.unreadable:,} could not be parsed and keep their rows"
        if report.unreadable
        else "",
        f"{number_of(report.kept_values, 'page')} with values of plug-ins that failed or are "
        "not installed: they are kept"
        if report.kept_values
        else "",
    ]
    return Output(report, "\n".join(filter(None, lines)))
