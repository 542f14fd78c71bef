"""Exports of a library or of single pages, here or on an engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from lycosa.cluster.engine import Engine
from lycosa.commands.engines import open_engine
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.units import parse_size
from lycosa.crawl.documents.pool import document_limits, document_reader
from lycosa.export.bulk.actions import BulkSelection
from lycosa.export.bulk.bulk import BulkReport, Destination, export_bulk
from lycosa.export.bulk.http import Backoff, BulkClient
from lycosa.export.bulk.targets import OpenSearch, Quickwit, Target
from lycosa.export.library.editions import LibrarySelection, library_languages
from lycosa.export.library.formats import FORMATS
from lycosa.export.library.library import LibraryReport, export_library
from lycosa.export.library.xml import SCHEMA
from lycosa.store.storage.files import require_local, whole_file, write_errors
from lycosa.store.workspace import Workspace


@dataclass(slots=True, frozen=True)
class LibraryTask:
    """The arguments of an export. Picklable.

    `target`: on an engine of several machines, a folder that all of them share. `file_bytes`: size
    at which a new file is started.
    """

    location: str
    target: str
    kind: str
    selection: LibrarySelection
    config: Config
    file_bytes: int
    again: bool = False


@dataclass(frozen=True)
class LibraryOptions:
    """Options of an export of a library.

    `full`: a page on each day it was fetched; `again`: rewrite existing days. `max_size`: size at
    which a new file is started; "": the default of the kind.
    """

    full: bool = False
    max_size: str = ""
    again: bool = False
    engine: str = ""
    address: str = ""


def export_pages(
    root: str,
    config: Config,
    kind: str,
    target: str,
    selection: LibrarySelection,
    options: LibraryOptions,
) -> LibraryReport:
    """Export a library, here or on an engine.

    Raises:
        UsageError: the kind is unknown, the size is too small, or the target is a URL.
        WorkError: a file cannot be written, or table files were replaced meanwhile.
    """
    if kind not in FORMATS:
        raise UsageError(f"unknown kind {kind!r}: choose {', '.join(FORMATS)}")
    size = parse_size(options.max_size or ("256MB" if kind == "parquet" else "64MB"))
    if size < 2**16:
        raise UsageError("--max-size must be at least 64KiB")
    require_local(target)
    workspace = Workspace.open(root)
    task = LibraryTask(
        workspace.root,
        os.path.abspath(target) if options.engine else target,
        kind,
        replace(selection, languages=library_languages(config, workspace.state())),
        config,
        size,
        options.again,
    )
    if options.engine or options.address:
        with open_engine(options.engine, options.address, config) as engine:
            report = export_on(engine, task)
    else:
        report = export_task(task)
    if kind == "xml":
        write_file(f"{target}/xml/library.xsd", lambda file: file.write(SCHEMA.read_bytes()))
    return report


def write_file(path: str, write: Callable[[BinaryIO], int]) -> int:
    """Write a file completely or not at all; return the result of `write`.

    A device or a pipe is written directly.

    Raises:
        WorkError: it cannot be written.
    """
    target = Path(path).resolve()
    with write_errors(path), ExitStack() as stack:
        is_special = target.exists() and not target.is_file()
        draft = target if is_special else stack.enter_context(whole_file(target))
        with open(draft, "wb") as file:
            return write(file)


@dataclass(frozen=True)
class BulkOptions:
    """Options for loading pages into a search engine.

    `batch_bytes`: maximum size of a request; `again`: send all pages.
    """

    index: str = "lycosa"
    selection: BulkSelection = field(default_factory=BulkSelection)
    batch_bytes: int = 5 * 2**20
    again: bool = False


def load_bulk(
    root: str,
    kind: str,
    url: str,
    options: BulkOptions,
    report: Callable[[str], None] = lambda message: None,
) -> BulkReport:
    """Load pages into OpenSearch or Quickwit. `report` gets a line for each wait.

    Raises:
        UsageError: the kind is unknown, there is no URL, or the size of a request is wrong.
        WorkError: the server cannot be used, or refused too often.
    """
    kinds: dict[str, Callable[[BulkClient, str], Target]] = {
        "opensearch": OpenSearch,
        "quickwit": Quickwit,
    }
    if kind not in kinds:
        raise UsageError(f"--to {kind!r} is unknown: choose opensearch, quickwit or jsonl")
    if not url:
        raise UsageError(f"--to {kind} requires --url, the address of the search cluster")
    if not 2**16 <= options.batch_bytes <= 2**28:
        raise UsageError("--batch must be between 64KiB and 256MiB")
    backoff = Backoff(report)
    with closing(BulkClient(url, backoff)) as client:
        destination = Destination(kind, client.url, options.index, options.selection)
        target = kinds[kind](client, options.index)
        return export_bulk(
            Workspace.open(root),
            target,
            destination,
            backoff,
            batch_bytes=options.batch_bytes,
            again=options.again,
        )


def export_task(task: LibraryTask) -> LibraryReport:
    """Update a library.

    Raises the errors of `lycosa.export.library.library.export_library`, and WorkError if a table
    file was replaced meanwhile.
    """
    try:
        # older versions are read from the archive
        with document_reader(document_limits(task.config)) as reader:
            return export_library(
                Workspace.open(task.location),
                task.target,
                FORMATS[task.kind],
                task.selection,
                reader,
                file_bytes=task.file_bytes,
                again=task.again,
            )
    except FileNotFoundError as error:
        raise WorkError(
            f"a table file was replaced during the export ({error}): run the same "
            "command again to resume"
        ) from None


def export_on(engine: Engine, task: LibraryTask) -> LibraryReport:
    """Export in a process of an engine.

    If it dies, another process continues after the finished files.

    Raises:
        WorkError: the process died three times, or as `export_task`.
    """
    (report,) = engine.map(export_task, [task])
    return report
