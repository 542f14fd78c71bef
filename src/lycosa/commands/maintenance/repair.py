"""`lycosa check --repair`: repair damage that needs no backup.

Committed data does not change: leftovers are removed, and derived data (CDXJ, index, graph) is
rebuilt from its sources.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lycosa.archive.cdxj import write_cdxj
from lycosa.archive.warc.members import read_records
from lycosa.archive.warc.reader import read_exchanges
from lycosa.commands.maintenance.check import check_workspace
from lycosa.core.errors import ArchiveError, LycosaError, OwnedError
from lycosa.core.units import number_of
from lycosa.crawl.session.workspace_config import read_config
from lycosa.graph import generation as graph
from lycosa.index import generation as generations
from lycosa.index.indexer import Indexer
from lycosa.index.shards.shards import WHOLE, current
from lycosa.maintenance.jobs import rank_workspace
from lycosa.store.compaction.vacuum import vacuum_locked
from lycosa.store.coordination.owner import maintenance
from lycosa.store.log.entry import entry_path
from lycosa.store.log.snapshot import INTERVAL, snapshot_path, snapshots_newest_first
from lycosa.store.storage.staging import remove_generations
from lycosa.store.verify.findings import (
    CDXJ,
    ENTRIES,
    GRAPH,
    INDEX,
    REMOVE,
    VACUUM,
    CheckReport,
    Finding,
)
from lycosa.store.workspace import Workspace

_ORDER = (REMOVE, ENTRIES, CDXJ, VACUUM, GRAPH, INDEX)
"""Order of the repairs. The index is last: it depends on all other data."""


@dataclass(frozen=True)
class RepairReport(CheckReport):
    """The findings of a check after the repairs, and these repairs.

    `repaired`: (place, repair); `not_repaired`: (place, reason).
    """

    repaired: Sequence[tuple[str, str]] = ()
    not_repaired: Sequence[tuple[str, str]] = ()


def repair_workspace(root: str, *, deep: bool = False) -> RepairReport:
    """Check, repair what can be repaired, and check again.

    No crawl may run meanwhile.

    Raises:
        OwnedError: a crawl or a compaction runs in this workspace.
        WorkspaceError: as `check_workspace`.
    """
    workspace = Workspace.open(root)
    repaired: list[tuple[str, str]] = []
    failures: list[tuple[str, str]] = []
    with workspace.own("check --repair"):
        report = check_workspace(root, deep=deep)
        jobs = list(_jobs(workspace, report.findings))
        if not jobs:
            return RepairReport(report.findings, report.counts)
        with maintenance(workspace.storage) as alone:
            if not alone:
                raise OwnedError(
                    "another process is compacting, vacuuming or purging "
                    f"{workspace.root}: run the command again later"
                )
            for where, job in jobs:
                try:
                    repaired.append((where, job()))
                except (LycosaError, OSError) as error:
                    failures.append((where, str(error)))
        report = check_workspace(root, deep=deep)
    return RepairReport(report.findings, report.counts, repaired, failures)


def _jobs(
    workspace: Workspace, findings: Sequence[Finding]
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield place and function of each repair, in order.

    Single files have one repair each, other kinds of damage one in all.
    """
    each = {REMOVE: _remove, CDXJ: _write_cdxj}
    whole = {ENTRIES: _remove_entries, VACUUM: _sweep, GRAPH: _rank, INDEX: _index}
    for kind in _ORDER:
        places = [finding.where for finding in findings if finding.repair == kind]
        if kind in each:
            yield from ((where, partial(each[kind], workspace, where)) for where in places)
        elif places:
            yield places[0], partial(whole[kind], workspace)


def _remove(workspace: Workspace, where: str) -> str:
    path = Path(workspace.storage.lock_path(where)) if workspace.storage.on_disk else None
    if path is not None and path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        workspace.storage.remove(where)
    workspace.storage.sync_folder(os.path.dirname(where) or ".")
    return "removed"


def _write_cdxj(workspace: Workspace, where: str) -> str:
    """Rebuild a CDXJ file from its WARC file.

    Raises ArchiveError if the result differs from the committed index.
    """
    storage, committed = workspace.storage, workspace.state().indexes[where]
    storage.remove_empty_folders(where)  # created by any process
    warc = where.removesuffix(".cdxj") + ".warc.gz"
    path = storage.files.local_path(warc)
    types = {
        record.headers.get("warc-record-id", "").strip("<>"): record.type
        for record in read_records(path)
    }
    others = {
        identifier: kind for identifier, kind in types.items() if kind in ("revisit", "metadata")
    }
    visits = [stored.visit for stored in read_exchanges(path, relative_path=warc)]
    temporary = f"{where}.temporary"
    storage.remove(temporary)
    try:
        write_cdxj(storage.files.draft_path(temporary), visits, record_types=others)
        content = Path(storage.files.draft_path(temporary)).read_bytes()
        if len(content) != committed.bytes or storage.files.digest(temporary) != committed.digest:
            raise ArchiveError(
                f"the index rebuilt from {warc} differs from the committed one: "
                f"restore {where} from a backup"
            )
        storage.replace(where, content, sync=True)
    finally:
        storage.remove(temporary)
    return "rebuilt from its WARC file"


def _remove_entries(workspace: Workspace) -> str:
    """Remove all entries up to the newest undamaged snapshot, if all earlier snapshots exist."""
    storage, log = workspace.storage, workspace.log
    newest = next(snapshots_newest_first(storage)).number
    doomed = [number for number in log.numbers() if number <= newest]
    lacking = [
        hundred
        for hundred in range(INTERVAL, newest, INTERVAL)
        if storage.size(snapshot_path(hundred)) is None
    ]
    if any(hundred > min(doomed, default=newest) for hundred in lacking):
        raise ArchiveError(
            f"{snapshot_path(lacking[-1])} is missing: restore it or the log entry from a backup"
        )
    for number in doomed:
        storage.remove(entry_path(number))
    storage.sync_folder("log")
    return (
        f"{number_of(len(doomed), 'log entry', 'log entries')} removed: "
        f"{snapshot_path(newest)} replaces them"
    )


def _sweep(workspace: Workspace) -> str:
    report = vacuum_locked(workspace, workspace.state(), 0, 1 << 62, 0)
    return f"{number_of(report.files, 'obsolete file')} deleted"


def _rank(workspace: Workspace) -> str:
    remove_generations(workspace.storage, graph.FOLDER)
    info = rank_workspace(workspace.root)
    if generations.numbers(workspace.storage) or workspace.storage.names(generations.FOLDER):
        _index(workspace)  # the index was built with the damaged graph
    return f"rebuilt: generation {info.generation}"


def _index(workspace: Workspace) -> str:
    settings = read_config(workspace.root).index
    indexer = Indexer(workspace.root, settings)
    try:
        report = indexer.rebuild()
    finally:
        indexer.close()
    for shard in current(workspace.storage):
        numbers = generations.numbers(workspace.storage, shard.line)
        remove_generations(workspace.storage, shard.line, numbers[-1])
    if settings.shards > 1:
        generations.remove_leftovers(workspace.storage, WHOLE.line)
    return f"rebuilt: {number_of(report.documents, 'document')}"
