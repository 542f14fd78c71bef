"""The log of a workspace: one numbered, immutable file per entry, created if absent.

Entry N+1 may be created only by a process that has read all entries up to N. So a writer has seen
every earlier claim and commit, and can decide whether it may write. Entry numbers define the order;
the times in entries are informative.

Old entries are deleted (`lycosa.store.compaction.vacuum`), but the snapshot of their hundred, or at
least its first line, stays. So a missing file means "not written yet" exactly if the snapshot of
its hundred is missing too.
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
    """The next entry was deleted: start again from the newest snapshot (`Workspace.state`)."""


class Log:
    """The entries of one workspace. Stateless."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def read(self, number: int) -> Entry | None:
        """Return an entry, None if it does not exist. Raises WorkspaceError: it is invalid."""
        content = self.storage.read(entry_path(number))
        return None if content is None else decode_entry(content, number)

    def entries(self, after: int = 0) -> list[Entry]:
        """Return all entries after a number, in order. Lists no folder: called at every commit.

        Raises:
            EntriesGone: the next entry was deleted.
        """
        entries: list[Entry] = []
        while True:
            number = after + len(entries) + 1
            entry = self.read(number)
            if entry is None and self._was_written(number):
                entry = self.read(number)  # written meanwhile, or deleted
                if entry is None:
                    raise EntriesGone(_GONE.format(entry_path(number)))
            if entry is None:
                return entries
            entries.append(entry)

    def numbers(self) -> list[int]:
        """Return the sorted numbers of the entry files in the log's folder."""
        matches = (_NAME.match(name) for name in self.storage.names(FOLDER))
        return sorted(int(match[1]) for match in matches if match)

    def append(self, draft: Entry, *, seen: int, on_newer: Callable[[Entry], None]) -> Entry:
        """Write `draft` durably as the next entry; return it with its number.

        `seen` is the last entry that the caller has read. `on_newer` is called in order with every
        later entry; it applies the entry to the caller's state, and raises if the draft may no
        longer be written.

        Raises:
            EntriesGone: entries that the caller has not read were deleted.
            WorkspaceError: a later entry cannot be read.
            OSError: storage failed, and the entry does not exist.
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
            # Anything but success is decided by reading back: the existing entry may be our own,
            # if the response was lost.
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
        """Return whether an entry without a file was ever written."""
        return self.storage.size(snapshot_path(_hundred(number))) is not None

    def _require_counted(self, entry: Entry) -> None:
        """Remove an entry that replaced a deleted one, which no reader would see, and raise
        EntriesGone. That happens if a process is suspended for days before it writes.
        """
        if self._was_written(entry.number) and not wrote(
            self.storage, _hundred(entry.number), entry.number, entry.attempt
        ):
            self.storage.remove(entry_path(entry.number))
            raise EntriesGone(_GONE.format(entry_path(entry.number)))


_GONE = "{} was deleted because a snapshot replaces it: read the log from the snapshot"


def _hundred(number: int) -> int:
    return -(-number // INTERVAL) * INTERVAL
