"""What was derived from the whole of the tables, in `graph/<generation>/`: published as a folder, never changed, made anew by `rank`.

graph/00000003/info.json            the format, and the log entry that it was made from
               duplicates.parquet   copies: partition, host_key, url_key, collection, url, canonical_of
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from lycosa.core.errors import WorkspaceError
from lycosa.graph.duplicates import COLUMNS, find_duplicates, no_duplicates
from lycosa.store.live import LiveTables
from lycosa.store.workspace import Workspace

FOLDER = "graph"
FORMAT = 1
DUPLICATES = "duplicates.parquet"
_INFO = "info.json"
_NAME = re.compile(r"^\d{8}$")
_BUILD_PREFIX = ".build-"
_KEPT = 2  # generations: a reader may have the older one open


@dataclass(slots=True, frozen=True)
class GraphInfo:
    """`log_entry`: the tables were read as of then."""

    format: int
    generation: int
    log_entry: int
    duplicates: int


def make_generation(workspace: Workspace) -> GraphInfo:
    """Compute what the tables say now, and publish it.

    Raises:
        FileNotFoundError: a table's file went away meanwhile: call again.
        OSError: storage failed.
    """
    state = workspace.state()
    copies = find_duplicates(LiveTables(workspace, state))
    storage = workspace.storage
    number = max(_numbers(workspace), default=0) + 1
    build = Path(tempfile.mkdtemp(prefix=_BUILD_PREFIX, dir=storage.workshop(FOLDER)))
    try:
        build.chmod(0o755)
        copies.write_parquet(build / DUPLICATES, compression="zstd")
        while True:
            info = GraphInfo(FORMAT, number, state.head, copies.height)
            (build / _INFO).write_text(json.dumps(asdict(info), indent=1) + "\n", encoding="utf-8")
            if storage.publish_folder(str(build), f"{FOLDER}/{number:08d}"):
                break
            number += 1  # somebody else ranked at the same time
    finally:
        shutil.rmtree(build, ignore_errors=True)
    for older in _numbers(workspace)[:-_KEPT]:
        storage.remove_tree(f"{FOLDER}/{older:08d}")
    return info


def make_anew(workspace: Workspace) -> None:
    """After a purge: if there is a generation, make one of what is left, and remove all that may name what is gone.

    Raises what `make_generation` does.
    """
    if _numbers(workspace):
        info = make_generation(workspace)
        for older in _numbers(workspace):
            if older < info.generation:
                workspace.storage.remove_tree(f"{FOLDER}/{older:08d}")


def newest(workspace: Workspace) -> tuple[GraphInfo, Path] | None:
    """The newest generation and its folder on this machine; None if nothing was ranked yet.

    Raises:
        WorkspaceError: it is damaged, or of a format that this program does not know.
    """
    for number in reversed(_numbers(workspace)):
        found = workspace.storage.local_folder(f"{FOLDER}/{number:08d}")
        if found is None:
            continue
        path = Path(found)
        try:
            document = json.loads((path / _INFO).read_bytes())
            if document["format"] != FORMAT:
                raise WorkspaceError(f"{path} is of format {document['format']!r}, this program knows {FORMAT}: run `lycosa rank`")
            return GraphInfo(**document), path
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            raise WorkspaceError(f"{path / _INFO} is damaged: make it anew with `lycosa rank`") from None
    return None


def current_duplicates(workspace: Workspace) -> pl.DataFrame:
    """The copies that the newest generation names, with the columns of `COLUMNS`; without rows if nothing was ranked yet."""
    found = newest(workspace)
    return no_duplicates() if found is None else pl.read_parquet(found[1] / DUPLICATES, columns=list(COLUMNS))


def _numbers(workspace: Workspace) -> list[int]:
    return sorted(int(name) for name in workspace.storage.names(FOLDER) if _NAME.match(name))
