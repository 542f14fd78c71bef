"""The workspace's log: one numbered file an entry, created if absent, never changed.

The rule that everything rests on: entry N+1 may be created only by a process that has read all
entries up to N. So whoever writes an entry has seen every claim and every commit before it, and can
say whether it may still write. Order is the log's, never the clock's; `at` is there for people.

Old entries are deleted (`lycosa.store.compaction.vacuum`), never without leaving the snapshot of
their hundred, or its first line, behind. So a number without a file means "not written yet" exactly
if the snapshot of its hundred is not there: one look at a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from lycosa.core.errors import WorkspaceError
from lycosa.store.log.entry import FOLDER, KINDS, Entry, decode_entry, encode_entry, entry_path
from lycosa.store.log.snapshot import INTERVAL, snapshot_path, wrote
from lycosa.store.storage.storage import Storage

_NAME = re.compile(r"^(\d{8,})\.json\Z")


class EntriesGone(WorkspaceError):
    """The entry after the last one that was read has been deleted: start again from the newest
    snapshot (`Workspace.state`).
    """


class Log:
    """The entries of one workspace. `head` is nothing it keeps: ask `entries`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def read(self, number: int) -> Entry | None:
        """The entry of that number, or None if there is none yet.

        Raises:
            WorkspaceError: the file is not an entry that this program understands.
        """
        content = self.storage.read(entry_path(number))
        return None if content is None else decode_entry(content, number)

    def entries(self, after: int = 0) -> list[Entry]:
        """All entries after that number, in order, up to the first number that is free. Called at
        every commit: lists no folder.

        Raises:
            EntriesGone: the next one was there and has been deleted.
        """
        found: list[Entry] = []
        while True:
            number = after + len(found) + 1
            entry = self.read(number)
            if entry is None and self._was_written(number):
                entry = self.read(number)  # written since we looked, or deleted
                if entry is None:
                    raise EntriesGone(_GONE.format(entry_path(number)))
            if entry is None:
                return found
            found.append(entry)

    def numbers(self) -> list[int]:
        """The numbers of the files in the log's folder, sorted: what a check compares with
        `entries`.
        """
        matches = (_NAME.match(name) for name in self.storage.names(FOLDER))
        return sorted(int(match[1]) for match in matches if match)

    def append(self, draft: Entry, *, seen: int, on_newer: Callable[[Entry], None]) -> Entry:
        """Write `draft` as the next entry and return it with its number, on disk.

        `seen` is the last entry that the caller has read, and by which the draft may be written.
        `on_newer` is called, in order, with every entry that turns out to be there already; it
        folds the entry into the caller's state and raises (`ClaimLost`, …) if the draft may no
        longer be written: then nothing was.

        Raises:
            EntriesGone: the caller was away for so long that entries it never read are deleted.
            WorkspaceError: an entry in the way cannot be read.
            OSError: storage failed and the entry is not there.
        """
        if draft.kind not in KINDS:
            raise ValueError(f"unknown kind of entry: {draft.kind!r}")
        number = seen
        while True:
            number += 1
            entry = replace(draft, number=number, claim=draft.claim or number)
            failure: OSError | None = None
            try:
                if self.storage.create(entry_path(number), encode_entry(entry)):
                    self._require_counted(entry)
                    return entry
            except OSError as error:
                failure = error
            # Every answer but a clear success is settled by reading back: the name may be taken by
            # our own write, whose answer was lost.
            present = self.read(number)
            if present is not None and present.attempt == draft.attempt:
                self.storage.sync_folder(FOLDER)
                return present
            if present is None:
                if self._was_written(number):
                    raise EntriesGone(_GONE.format(entry_path(number)))
                raise failure or WorkspaceError(
                    f"{entry_path(number)} was deleted while the log was read: do not delete "
                    "files in the log folder"
                )
            on_newer(present)

    def _was_written(self, number: int) -> bool:
        """Whether that entry was ever written, if its file is not there."""
        return self.storage.size(snapshot_path(_hundred(number))) is not None

    def _require_counted(self, entry: Entry) -> None:
        """A process may be stopped for days between looking and writing, and write into a hole,
        where nobody reads. Raises EntriesGone then, and takes the entry back.
        """
        if self._was_written(entry.number) and not wrote(
            self.storage, _hundred(entry.number), entry.number, entry.attempt
        ):
            self.storage.remove(entry_path(entry.number))
            raise EntriesGone(_GONE.format(entry_path(entry.number)))


_GONE = "{} was deleted because a snapshot replaces it: read the log from the snapshot"


def _hundred(number: int) -> int:
    return -(-number // INTERVAL) * INTERVAL
