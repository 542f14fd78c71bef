"""Merge: fewer files, the same facts. A function over files that needs no claim and runs beside the
worker, in any process.

It writes its files into folders of its own, and then one log entry a table, which makes them count
in place of those it read. Commits that land meanwhile come after it in the log's order and are not
touched. If somebody else replaced one of its files first, or it is killed, its work is lost and
nothing else; what it left lying is swept.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import WorkspaceError
from lycosa.core.units import format_time
from lycosa.store.compaction.plan import (
    SHARED,
    MergeSettings,
    Plan,
    base_path,
    base_place,
    delta_path,
    plan,
)
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.log.claim import NotLive, append, seal
from lycosa.store.log.entry import MERGE, DataFile, Entry, new_attempt
from lycosa.store.log.state import LiveFile, LogState
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.files import by_partition, scan_file, write_rows
from lycosa.store.tables.ordered import Source, in_key_order
from lycosa.store.tables.precedence import not_outranked
from lycosa.store.tables.schema import TABLES, Table
from lycosa.store.workspace import Workspace

LOCK = f"{RUN}/merge.lock"


@dataclass(slots=True)
class MergeReport:
    """What a merge did. `entries` are its log entries; `gave_up` says why it ended early, "" if it
    did not.
    """

    entries: list[int] = field(default_factory=list)
    files_before: int = 0
    files_after: int = 0
    rows_dropped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    gave_up: str = ""


def merge(
    workspace: Workspace,
    settings: MergeSettings | None = None,
    *,
    whole: bool = False,
    clock: Clock | None = None,
) -> MergeReport:
    """Fold what has gathered, table by table, until nothing is due. `whole` folds everything into
    the base.

    Returns at once if another process on this machine merges, sweeps or purges.

    Raises:
        WorkspaceError: the log is damaged, or a file that it names cannot be read.
        OSError: storage failed; nothing was changed by what was not finished.
    """
    chosen = settings or MergeSettings()
    report = MergeReport()
    with maintenance(workspace.storage) as alone:
        if not alone:
            report.gave_up = "another process is compacting, vacuuming or purging this workspace"
            return report
        state = workspace.state()
        report.files_before = count_files(state)
        for name in TABLES:
            _fold_all(workspace, state, name, chosen, report, whole, clock)
            if report.gave_up:
                return report
        report.files_after = count_files(state)
    return report


def merge_table(
    workspace: Workspace,
    name: str,
    settings: MergeSettings,
    *,
    whole: bool = False,
    clock: Clock | None = None,
) -> MergeReport:
    """As `merge`, for one table: tables may be folded side by side, in any processes. Whoever has
    it done holds `maintenance`.
    """
    report, state = MergeReport(), workspace.state()
    report.files_before = len(state.files.get(name, ()))
    _fold_all(workspace, state, name, settings, report, whole, clock)
    report.files_after = len(state.files.get(name, ()))
    return report


def _fold_all(
    workspace: Workspace,
    state: LogState,
    name: str,
    settings: MergeSettings,
    report: MergeReport,
    whole: bool,
    clock: Clock | None,
) -> None:
    while (due := plan(state.files.get(name, []), settings, name, whole=whole)) is not None:
        try:
            _Fold(workspace, state, TABLES[name], due, settings, report).run(
                (clock or SystemClock()).now_ms()
            )
        except NotLive as error:
            report.gave_up = str(error)
            return


def merge_is_due(state: LogState, settings: MergeSettings | None = None) -> bool:
    """Whether a merge would find something to do; cheap enough to ask after every commit."""
    chosen = settings or MergeSettings()
    return any(plan(state.files.get(name, []), chosen, name) is not None for name in TABLES)


def count_files(state: LogState) -> int:
    """Live table files."""
    return sum(map(len, state.files.values()))


@contextmanager
def maintenance(storage: Storage) -> Iterator[bool]:
    """Whether this process alone, on this machine, rewrites and deletes files now: true while the
    block runs, or false.
    """
    storage.make_folder(RUN)
    lock = os.open(storage.lock_path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


class _Fold:
    """One run of a table's files on their way into one delta, or into the base."""

    def __init__(
        self,
        workspace: Workspace,
        state: LogState,
        table: Table,
        due: Plan,
        settings: MergeSettings,
        report: MergeReport,
    ) -> None:
        self._storage = workspace.storage
        self._state, self._table, self._plan, self._settings, self._report = (
            state,
            table,
            due,
            settings,
            report,
        )
        self._attempt = new_attempt()
        self._written: list[DataFile] = []
        self._replaced: list[LiveFile] = []

    def run(self, now_ms: int) -> None:
        """Write, then append the entry. Raises NotLive or WorkspaceError, having removed what was
        written.
        """
        done = False
        try:
            if self._plan.into_base:
                self._write_base()
            else:
                self._replaced = list(self._plan.files)
                self._write(
                    delta_path(self._plan.as_of, self._attempt, self._table.name),
                    self._rows([Source((f,)) for f in self._replaced]),
                )
            draft = Entry(
                kind=MERGE,
                attempt=self._attempt,
                at=format_time(now_ms),
                files={self._table.name: tuple(self._written)} if self._written else {},
                replaces=tuple(file.path for file in self._replaced),
            )
            for file in self._written:
                # somebody swept it: better to begin again
                if self._storage.size(file.path) != file.bytes:
                    raise NotLive(f"{file.path} was deleted before it was committed")
            self._report.entries.append(append(self._state, draft).number)
            done = True
            for folder in {os.path.dirname(file.path) for file in self._written}:
                self._storage.settle(folder)
        except FileNotFoundError as error:
            raise WorkspaceError(f"a table file is missing: {error}; run `lycosa check`") from None
        except pl.exceptions.PolarsError as error:
            raise WorkspaceError(
                f"a file of {self._table.name} cannot be read: {error}; run `lycosa check`"
            ) from None
        finally:
            if not done and self._state.log.read(self._state.head + 1) is None:
                # Not while an entry is there that we have not read: it may be ours, its answer
                # lost.
                for file in self._written:
                    self._storage.remove(file.path)
        self._account()

    def _write_base(self) -> None:
        loose = [file for file in self._plan.files if not base_place(file.path)]
        base: dict[str, list[LiveFile]] = {}
        for file in self._plan.files:
            place = base_place(file.path)
            if place is not None:
                base.setdefault(place[0], []).append(file)
        self._replaced = list(loose)
        for collection in self._collections(loose):
            old = sorted(
                base.get(collection, []), key=lambda file: base_place(file.path) or ("", 0)
            )
            self._replaced.extend(old)
            # Of one collection, read in several passes: a file of many collections is read once for
            # each.
            only = None if collection == SHARED else pl.col("collection") == collection
            self._write_split(
                collection,
                [
                    *([Source(tuple(old))] if old else []),
                    *(Source((file,), only) for file in loose),
                ],
            )

    def _write_split(self, collection: str, inputs: list[Source]) -> None:
        bytes_a_row = sum(file.bytes for source in inputs for file in source.files) / max(
            1, sum(source.rows for source in inputs)
        )

        def most_rows() -> int:
            done = [
                file for file in self._written if (base_place(file.path) or ("",))[0] == collection
            ]
            known = (
                sum(file.bytes for file in done) / sum(file.rows for file in done)
                if done
                else bytes_a_row
            )
            return max(1, int(self._settings.split_bytes / max(1.0, known)))

        for part in by_partition(self._rows(inputs), most_rows):
            first = next(part)
            path = base_path(
                collection,
                first.item(0, "partition"),
                self._plan.as_of,
                self._attempt,
                self._table.name,
            )
            self._write(path, _chain(first, part))

    def _collections(self, files: list[LiveFile]) -> list[str]:
        if "collection" not in self._table.names:
            return [SHARED]
        found: set[str] = set()
        for file in files:
            found.update(
                self._scan(file).select(pl.col("collection").unique()).collect()["collection"]
            )
        return sorted(found)

    def _scan(self, file: LiveFile) -> pl.LazyFrame:
        return scan_file(self._storage, self._table, file)

    def _rows(self, inputs: list[Source]) -> Iterator[pl.DataFrame]:
        for frame in in_key_order(self._storage, self._table, inputs, self._settings.memory_bytes):
            kept = not_outranked(self._table, frame, self._state.applied)
            if kept.height:
                yield kept

    def _write(self, path: str, frames: Iterator[pl.DataFrame]) -> None:
        first = next(frames, None)
        if first is None:
            return
        target = self._storage.place(path)
        try:
            rows = write_rows(
                target, _chain(first, frames), self._table, passing=not self._plan.into_base
            )
        except BaseException:
            self._storage.remove(path)  # the disk may be full
            raise
        self._written.extend(seal(self._storage, {path: rows}, self._plan.as_of).values())

    def _account(self) -> None:
        self._report.bytes_read += sum(file.bytes for file in self._replaced)
        self._report.bytes_written += sum(file.bytes for file in self._written)
        self._report.rows_dropped += sum(file.rows for file in self._replaced) - sum(
            file.rows for file in self._written
        )


def _chain(first: pl.DataFrame, rest: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    yield first
    yield from rest
