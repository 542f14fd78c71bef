"""A worker's right to write: claim partitions, collect into data folders, commit, release.

A claim is one log entry; from then on nobody who held those partitions can commit. A commit is one
log entry that names files which are on disk by then; before it nothing of them counts, after it all
of it does. There is no third outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from lycosa.core.errors import ClaimLost, WorkspaceError
from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME, folder_numbers
from lycosa.store.log.entry import (
    CLAIM,
    COMMIT,
    FOLDER,
    PURGE,
    RELEASE,
    DataFile,
    Entry,
    new_attempt,
)
from lycosa.store.log.log import EntriesGone, Log
from lycosa.store.log.snapshot import INTERVAL, write_snapshot
from lycosa.store.log.state import LogState
from lycosa.store.storage.storage import Storage

DATA = "data"
INBOX = "inbox"

# folders from this number on are never committed; replay takes them after the batches of their
# claim
_UNREAD_FROM = 1_000_000


class Buffer(Protocol):
    """What a commit needs of a table's rows (`lycosa.store.tables.buffers.TableBuffer`)."""

    @property
    def rows(self) -> int: ...

    def write(self, path: str) -> None: ...


@dataclass(slots=True, frozen=True)
class DataFolder:
    """A folder for one commit: its tables and its WARC."""

    number: int
    relative: str  # data/00000003-1
    absolute: str
    attempt: str  # the attempt id of its commit, so that a commit made again knows itself

    @property
    def warc(self) -> str:
        """Where the folder's WARC belongs, relative to the workspace."""
        return f"{self.relative}/{WARC_NAME}"

    @property
    def cdxj(self) -> str:
        return f"{self.relative}/{CDXJ_NAME}"


@dataclass(slots=True, frozen=True)
class Orphan:
    """A WARC that no commit names: what a worker had fetched when it died."""

    path: str  # relative to the workspace
    claim: int
    number: int
    bytes: int


class Claim:
    """Partitions held by one worker. One thread may commit while another opens the next folder;
    nothing else runs side by side.
    """

    def __init__(
        self,
        storage: Storage,
        state: LogState,
        entry: Entry,
        now: Callable[[], str],
        failed_before: int,
    ) -> None:
        self._storage = storage
        self._now = now
        self._folders = 0
        self._unread_folders = _UNREAD_FROM
        self._released = False
        self.state = state
        self.entry = entry.number
        self.worker = entry.worker
        self.partitions = frozenset(entry.partitions)
        self.failed_before = failed_before
        """Claims in a row before this one that ended without a commit: from two on, parse in a
        child process.
        """
        self.counted: Counter[str] = Counter()
        """What this claim's commits have added to the log's counters."""
        self._attempts: dict[str, int] = {}  # of its commits, and their entries

    def check(self) -> None:
        """Read the log on. Raises ClaimLost if a later claim outranks this one, or this worker was
        out of touch for days.
        """
        self._read_on()
        self.state.require(self.entry)

    def orphans(self) -> list[Orphan]:
        """The uncommitted WARCs of earlier claims that may hold exchanges of these partitions,
        oldest first; on S3 and HDFS those that lie in this machine's spool.

        What a commit of these partitions' owner has already named as used is left out, per
        partition: where a claim's partitions went to two workers, each replays its share.
        """
        found = []
        for name in self._storage.drafts(DATA):
            numbers = folder_numbers(name)
            if numbers is None:
                continue
            (claim, number), path = numbers, f"{DATA}/{name}/{WARC_NAME}"
            info = self.state.claims.get(claim)
            if claim == self.entry or info is None:
                continue
            if path in self.state.warcs or path in self.state.retired:
                # of a worker that died just behind its commit
                self._storage.drop_drafts(f"{DATA}/{name}")
                continue
            if not (info.partitions & self.partitions) - self.state.orphans_used.get(path, set()):
                continue
            size = self._storage.draft_size(path)
            if size:
                found.append(Orphan(path, claim, number, size))
        return sorted(found, key=lambda orphan: (orphan.claim, orphan.number))

    def inbox(self) -> list[str]:
        """Names of inbox files that no commit has applied. Applied ones that a crash left behind
        are removed.
        """
        waiting = []
        for name in self._storage.names(INBOX):
            if name in self.state.inbox:
                self._storage.remove(f"{INBOX}/{name}")
            elif name.endswith(".json"):
                waiting.append(name)
        return waiting

    def next_folder(self, *, unparsed: bool = False) -> DataFolder:
        """Create the folder for the next commit. One that is never committed stays: its WARC is
        then an orphan.

        `unparsed`: it is for what is archived and not understood yet, and will not be committed
        (`lycosa.crawl.recovery.unparsed`).
        """
        if unparsed:
            number = self._unread_folders = self._unread_folders + 1
        else:
            number = self._folders = self._folders + 1
        relative = f"{DATA}/{self.entry:08d}-{number}"
        absolute = self._storage.fresh_folder(relative)
        return DataFolder(number, relative, absolute, new_attempt())

    def discard(self, folder: DataFolder) -> None:
        """Remove a folder of this claim that no commit names: whatever its WARC holds is committed
        elsewhere, under the same record ids.
        """
        if self._storage.on_disk:
            self._storage.remove(folder.warc)
            self._storage.remove_folder(folder.relative)
        self._storage.drop_drafts(folder.relative)

    def drop_journal(self, folder: DataFolder) -> None:
        """Remove the WARC of a folder whose commit did not name it, for all that it holds stands in
        the tables. A kill before this leaves it as an orphan, of which everything is found to be
        committed.
        """
        if self._storage.on_disk:
            self._storage.remove(folder.warc)

    def commit(
        self,
        folder: DataFolder,
        buffers: Mapping[str, Buffer],
        *,
        warc: str | None = None,
        cdxj: str | None = None,
        orphans_used: Sequence[str] = (),
        inbox: Sequence[str] = (),
        applied: Mapping[int, int] | None = None,
        counters: Mapping[str, int] | None = None,
    ) -> int:
        """Make results true, all or nothing. Returns the log entry's number; with nothing new, the
        log's head.

        `warc` and `cdxj` (relative paths) are closed files of `folder`; `orphans_used` names the
        WARCs whose exchanges were replayed into this commit; `applied` says, per partition, up to
        which entry found rows are applied; `counters` are increments. When it returns, everything
        is on disk.

        Raises:
            ClaimLost: a later claim outranks this one; nothing was committed. OSError: storage
            failed. The same call may be made again: it finds out whether the first one counted.
        """
        self._read_on()
        if folder.attempt in self._attempts:
            self._storage.settle(folder.relative)
            return self._attempts[folder.attempt]
        self.state.require(self.entry)
        increments = {name: count for name, count in (counters or {}).items() if count}
        filled = {table: buffer for table, buffer in buffers.items() if buffer.rows}
        news = (filled, warc, orphans_used, inbox, increments)
        if not any(news) and all(
            self.state.applied.get(partition, 0) == number
            for partition, number in (applied or {}).items()
        ):
            return self.state.head
        for table, buffer in filled.items():
            buffer.write(f"{folder.absolute}/{table}.parquet")
        rows = {
            f"{folder.relative}/{table}.parquet": buffer.rows for table, buffer in filled.items()
        }
        archives = [path for path in (warc, cdxj) if path]
        sealed = seal(self._storage, rows | dict.fromkeys(archives, 0))
        draft = Entry(
            kind=COMMIT,
            attempt=folder.attempt,
            at=self._now(),
            claim=self.entry,
            worker=self.worker,
            files={table: (sealed[f"{folder.relative}/{table}.parquet"],) for table in filled},
            warcs=(sealed[warc],) if warc else (),
            indexes=(sealed[cdxj],) if cdxj else (),
            orphans=tuple(orphans_used),
            inbox=tuple(inbox),
            applied=dict(applied or {}),
            counters=increments,
        )
        entry = append(self.state, draft)
        number = entry.number
        self._note(entry)
        self._storage.settle(folder.relative)
        for name in inbox:
            self._storage.remove(f"{INBOX}/{name}")
        return number

    def release(self) -> None:
        """Give the partitions back. What was not committed stays as an orphan. May be called twice,
        or after the claim is lost.
        """
        if self._released:
            return
        self._released = True
        try:
            self.check()
            append(
                self.state,
                Entry(
                    kind=RELEASE,
                    attempt=new_attempt(),
                    at=self._now(),
                    claim=self.entry,
                    worker=self.worker,
                ),
            )
        except ClaimLost:
            return

    def _read_on(self) -> list[Entry]:
        try:
            entries = self.state.refresh()
        except EntriesGone as error:
            raise ClaimLost(
                f"claim {self.entry} was not renewed for days: {error}; claim again"
            ) from None
        for entry in entries:
            if entry.kind == PURGE:
                self._storage.forget(entry.replaces)
            self._note(entry)
        return entries

    def _note(self, entry: Entry) -> None:
        if (
            entry.kind == COMMIT
            and entry.claim == self.entry
            and entry.attempt not in self._attempts
        ):
            self._attempts[entry.attempt] = entry.number
            self.counted.update(entry.counters)


def seal(storage: Storage, rows: Mapping[str, int], as_of: int = 0) -> dict[str, DataFile]:
    """Put files (path -> rows) where they are safe, and note their sizes and digests, as an entry
    names them; by path.
    """
    published = storage.publish(list(rows))
    return {
        path: DataFile(path, count, file.bytes, file.digest, as_of)
        for (path, count), file in zip(rows.items(), published, strict=True)
    }


class NotLive(WorkspaceError):
    """A file that the entry would replace has been replaced by somebody else: nothing was written,
    the job may be done anew.
    """


def append(state: LogState, draft: Entry) -> Entry:
    """Append an entry by the protocol's rule: only having read all before it, only while it may be
    written.

    Every 100th is followed by a snapshot.

    Raises:
        ClaimLost: the draft's claim was outranked.
        NotLive: a file that it replaces is no longer live.
        WorkspaceError: the log is damaged.
    """

    def admit() -> None:
        if draft.claim:
            state.require(draft.claim)
        objection = state.objection(draft)
        if objection:
            raise NotLive(
                f"the entry was not written: {objection}; read the log again and restart the job"
            )

    def on_newer(entry: Entry) -> None:
        state.fold(entry)
        admit()

    admit()
    entry = state.log.append(draft, seen=state.head, on_newer=on_newer)
    state.fold(entry)
    if entry.number % INTERVAL == 0:
        # The entry counts already, whatever becomes of the snapshot; the next hundred has its own.
        with suppress(OSError):
            write_snapshot(state.log.storage, entry.number, state.attempts, state.document())
    return entry


def take(
    storage: Storage,
    log: Log,
    worker: str,
    partitions: Iterable[int],
    settings: Mapping[str, Any],
    now: Callable[[], str],
) -> Claim:
    """Claim partitions: from the moment this returns nobody who held them can commit."""
    storage.make_folder(FOLDER)
    storage.make_folder(DATA)
    state = LogState(log)
    state.refresh()
    wanted = tuple(sorted(set(partitions)))
    draft = Entry(
        kind=CLAIM,
        attempt=new_attempt(),
        at=now(),
        worker=worker,
        partitions=wanted,
        settings=dict(settings),
    )
    entry = append(state, draft)
    storage.retain(
        {
            *(file.path for files in state.files.values() for file in files),
            *state.warcs,
            *state.indexes,
        }
    )
    return Claim(storage, state, entry, now, state.unfruitful_claims(wanted) - 1)
