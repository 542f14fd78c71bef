"""An export of a library as one piece of work: here, or in a process of an engine, which tries it
again when that dies.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from lycosa.cluster.engine import Engine
from lycosa.config.settings import Config
from lycosa.core.errors import WorkError
from lycosa.crawl.documents.pool import DocumentPool, document_limits
from lycosa.crawl.processing.page_reader import Reader
from lycosa.export.library.editions import LibrarySelection
from lycosa.export.library.formats import FORMATS
from lycosa.export.library.library import LibraryReport, export_library
from lycosa.fetch.robots_txt import product_token
from lycosa.store.workspace import Workspace


@dataclass(slots=True, frozen=True)
class LibraryTask:
    """What to export and where to. Picklable. On an engine of several machines `target` is a folder
    that all of them see.

    `languages`: collection -> language that its pages are filed under. `file_bytes`: size at which
    a new file is begun.
    """

    location: str
    target: str
    kind: str
    selection: LibrarySelection
    config: Config
    languages: Mapping[str, str]
    file_bytes: int
    again: bool = False


def export_task(task: LibraryTask) -> LibraryReport:
    """Bring the library up to date. Raises what `lycosa.export.library.library.export_library`
    raises, and WorkError where that says: again.
    """
    config = task.config
    try:
        # older versions are read from the archive
        with closing(DocumentPool(document_limits(config))) as documents:
            reader = Reader(
                config.fetch.max_decoded, product_token(config.fetch.user_agent), documents
            )
            return export_library(
                Workspace.open(task.location),
                task.target,
                FORMATS[task.kind],
                replace(task.selection, languages=task.languages),
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
    """The same in a process of an engine. What was whole when one died is kept, and the next one
    goes on.

    Raises:
        WorkError: it was tried three times, and each time its process died; or what `export_task`
        raises.
    """
    (report,) = engine.map(export_task, [task])
    return report
