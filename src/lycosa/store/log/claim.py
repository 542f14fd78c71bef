"""A worker's claim on partitions: create data folders, commit them, release the partitions.

A claim is a log entry. It fences earlier claims of the same partitions: their owners can no longer
commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import ClaimLost
from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME, folder_numbers
from lycosa.store.log.entry import CLAIM, COMMIT, FOLDER, PURGE, RELEASE, Entry, new_attempt
from lycosa.store.log.log import EntriesGone, Log
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import CommitContents, Transaction, append
from lycosa.store.storage.storage import Storage

DATA = "data"
INBOX = "inbox"

# Folders from this number on are never committed; replay reads them after those of their claim.
_UNPARSED_FROM = 1_000_000


class Buffer(Protocol):
    """The rows of a table in a commit (`lycosa.store.tables.buffers.TableBuffer`)."""

    @property
    def rows(self) -> int: ...

    def write(self, path: str) -> None: ...


@dataclass(slots=True, frozen=True)
class DataFolder:
    """The folder of one commit, with its tables and its WARC file."""

    number: int
    relative: str  # data/00000003-1
    absolute: str
    attempt: str  # attempt ID of the commit, so that a repeated commit is recognised

    @property
    def warc(self) -> str:
        """The path of the folder's WARC file, relative to the workspace."""
        return f"{self.relative}/{WARC_NAME}"

    @property
    def cdxj(self) -> str:
        return f"{self.relative}/{CDXJ_NAME}"


@dataclass(slots=True, frozen=True)
class OrphanArchive:
    """A WARC file that no commit names: the uncommitted exchanges of a killed worker."""

    path: str  # relative to the workspace
    claim: int
    number: int
    bytes: int


class Claim:
    """Partitions held by one worker. One thread may commit while another opens the next folder;
    other methods must not run concurrently.
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
        self._unparsed_folders = _UNPARSED_FROM
        self._released = False
        self.state = state
        self.entry = entry.number
        self.worker = entry.worker
        self.partitions = frozenset(entry.partitions)
        self.failed_before = failed_before
        """Number of directly preceding claims without a commit. From two on, pages are parsed in a
        child process.
        """
        self.counted: Counter[str] = Counter()
        """The increments of this claim's commits to the log's counters."""
        self._attempts: dict[str, int] = {}  # attempt ID -> entry of this claim's commits

    def check(self) -> None:
        """Read new log entries. Raises ClaimLost if this claim was fenced or not renewed."""
        self._refresh()
        self.state.require(self.entry)

    def orphans(self) -> list[OrphanArchive]:
        """Return uncommitted WARC files of earlier claims with exchanges of these partitions.

        Oldest first; on S3 and HDFS only those in this machine's spool. Files that were replayed
        are omitted, per partition: if the partitions of a claim went to two workers, each replays
        its own.
        """
        orphans = []
        for name in self._storage.files.draft_names(DATA):
            numbers = folder_numbers(name)
            if numbers is None:
                continue
            (claim, number), path = numbers, f"{DATA}/{name}/{WARC_NAME}"
            info = self.state.claims.get(claim)
            if claim == self.entry or info is None:
                continue
            if path in self.state.warcs or path in self.state.retired:
                # its worker was killed directly after the commit
                self._storage.files.drop_drafts(f"{DATA}/{name}")
                continue
            if not (info.partitions & self.partitions) - self.state.orphans_used.get(path, set()):
                continue
            size = self._storage.files.draft_size(path)
            if size:
                orphans.append(OrphanArchive(path, claim, number, size))
        return sorted(orphans, key=lambda orphan: (orphan.claim, orphan.number))

    def inbox(self) -> list[str]:
        """Return the names of inbox files that no commit has applied; remove applied ones."""
        waiting = []
        for name in self._storage.names(INBOX):
            if name in self.state.inbox:
                self._storage.remove(f"{INBOX}/{name}")
            elif name.endswith(".json"):
                waiting.append(name)
        return waiting

    def next_folder(self, *, unparsed: bool = False) -> DataFolder:
        """Create the folder for the next commit. An uncommitted folder leaves an orphan WARC file.

        `unparsed`: for exchanges that are archived but not parsed yet; it is never committed
        (`lycosa.crawl.state.batch`).
        """
        if unparsed:
            number = self._unparsed_folders = self._unparsed_folders + 1
        else:
            number = self._folders = self._folders + 1
        relative = f"{DATA}/{self.entry:08d}-{number}"
        absolute = self._storage.files.new_folder(relative)
        return DataFolder(number, relative, absolute, new_attempt())

    def discard(self, folder: DataFolder) -> None:
        """Remove an uncommitted folder of this claim whose records are committed elsewhere."""
        self.drop_journal(folder)
        if self._storage.on_disk:
            self._storage.remove_empty_folders(folder.relative)
        self._storage.files.drop_drafts(folder.relative)

    def drop_journal(self, folder: DataFolder) -> None:
        """Remove the WARC file of a commit that did not name it, because the tables contain
        everything. If the process is killed before, replay skips all of its records.
        """
        if self._storage.on_disk:
            self._storage.remove(folder.warc)

    def commit(
        self,
        folder: DataFolder,
        buffers: Mapping[str, Buffer],
        contents: CommitContents = CommitContents(),
    ) -> int:
        """Write the tables and make them and `contents` valid, all or nothing, durably.

        Returns the number of the log entry, or of the last entry if nothing is new.

        Raises:
            ClaimLost: this claim was fenced; nothing was committed.
            OSError: storage failed. Repeat the call: it detects whether the first one succeeded.
        """
        self._refresh()
        if folder.attempt not in self._attempts:
            self.state.require(self.entry)
            tables = {table: buffer for table, buffer in buffers.items() if buffer.rows}
            if not tables and not contents.is_new(self.state):
                return self.state.head
            self._note(self._write(folder, tables, contents))
        self._storage.files.finalize(folder.relative)
        for name in contents.inbox:
            self._storage.remove(f"{INBOX}/{name}")
        return self._attempts[folder.attempt]

    def release(self) -> None:
        """Release the partitions. Uncommitted WARC files become orphans. May be repeated, or called
        after the claim was lost.
        """
        if self._released:
            return
        self._released = True
        try:
            self.check()
            Transaction(self.state).commit(
                RELEASE, self._now(), claim=self.entry, worker=self.worker
            )
        except ClaimLost:
            return

    def _write(
        self, folder: DataFolder, tables: Mapping[str, Buffer], contents: CommitContents
    ) -> Entry:
        for table, buffer in tables.items():
            buffer.write(f"{folder.absolute}/{table}.parquet")
        paths = {table: f"{folder.relative}/{table}.parquet" for table in tables}
        rows = {paths[table]: buffer.rows for table, buffer in tables.items()}
        archives = [path for path in (contents.warc, contents.cdxj) if path]
        transaction = Transaction(self.state, folder.attempt)
        transaction.publish(rows | dict.fromkeys(archives, 0))
        files = transaction.files
        return transaction.commit(
            COMMIT,
            self._now(),
            claim=self.entry,
            worker=self.worker,
            files={table: (files[path],) for table, path in paths.items()},
            warcs=(files[contents.warc],) if contents.warc else (),
            indexes=(files[contents.cdxj],) if contents.cdxj else (),
            orphans=tuple(contents.orphans_used),
            inbox=tuple(contents.inbox),
            applied=dict(contents.applied),
            counters=contents.increments,
        )

    def _refresh(self) -> None:
        try:
            entries = self.state.refresh()
        except EntriesGone as error:
            raise ClaimLost(
                f"claim {self.entry} was not renewed for days: {error}; claim again"
            ) from None
        for entry in entries:
            if entry.kind == PURGE:
                self._storage.files.drop_copies(entry.replaces)
            self._note(entry)

    def _note(self, entry: Entry) -> None:
        if (
            entry.kind == COMMIT
            and entry.claim == self.entry
            and entry.attempt not in self._attempts
        ):
            self._attempts[entry.attempt] = entry.number
            self.counted.update(entry.counters)


def acquire(
    storage: Storage,
    log: Log,
    worker: str,
    partitions: Iterable[int],
    settings: Mapping[str, Any],
    now: Callable[[], str],
) -> Claim:
    """Claim partitions. When this returns, their previous owners can no longer commit."""
    storage.make_folder(FOLDER)
    storage.make_folder(DATA)
    state = LogState(log)
    state.refresh()
    claimed = tuple(sorted(set(partitions)))
    draft = Entry(
        kind=CLAIM,
        attempt=new_attempt(),
        at=now(),
        worker=worker,
        partitions=claimed,
        settings=dict(settings),
    )
    entry = append(state, draft)
    storage.files.retain_copies({*state.live_paths(), *state.warcs, *state.indexes})
    return Claim(storage, state, entry, now, state.failed_claims(claimed) - 1)
