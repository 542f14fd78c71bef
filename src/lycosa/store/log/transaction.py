"""A transaction: files that are written first, and one log entry that makes all of them valid.

Before the entry none of the files is valid, after it all are. Commits, compaction and purges write
their files through a `Transaction`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.store.log.entry import Entry, new_attempt
from lycosa.store.log.snapshot import INTERVAL, write_snapshot
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import DataFile


class NotLive(WorkspaceError):
    """A file that the entry would replace, or make valid, was removed: nothing was written, and the
    job may be repeated.
    """


@dataclass(slots=True, frozen=True)
class CommitContents:
    """The content of a commit besides the rows of its tables."""

    warc: str | None = None  # closed files of the commit's folder
    cdxj: str | None = None
    orphans_used: Sequence[str] = ()  # WARC files whose exchanges were replayed into this commit
    inbox: Sequence[str] = ()  # names of applied inbox files
    applied: Mapping[int, int] = field(default_factory=dict)
    """Partition -> the log entry up to which rows of `found` are applied."""
    counters: Mapping[str, int] = field(default_factory=dict)  # increments

    @property
    def increments(self) -> dict[str, int]:
        return {name: count for name, count in self.counters.items() if count}

    def is_new(self, state: LogState) -> bool:
        """Return whether this changes the state of the log."""
        return bool(self.warc or self.orphans_used or self.inbox or self.increments) or any(
            state.applied.get(part, 0) != number for part, number in self.applied.items()
        )


@dataclass(slots=True)
class Transaction:
    """Files that were published for one log entry. As a context manager it removes them at the end
    unless the entry was written.
    """

    state: LogState
    attempt: str = field(default_factory=new_attempt)
    files: dict[str, DataFile] = field(default_factory=dict)  # published, by path
    _started: list[str] = field(default_factory=list)
    _appending: bool = False
    _committed: bool = False

    def start(self, path: str) -> str:
        """Return the path on this machine where a new file is to be written."""
        self._started.append(path)
        return self.state.log.storage.files.draft_path(path)

    def publish(self, rows: Mapping[str, int], *, as_of: int = 0) -> list[DataFile]:
        """Store written files (path -> number of rows) durably; they are not valid yet."""
        published = self.state.log.storage.files.publish(rows, as_of=as_of)
        self.files.update((file.path, file) for file in published)
        return published

    def commit(self, kind: str, at: str, **fields: Any) -> Entry:
        """Append the entry. Raises the same errors as `append`."""
        self._appending = True
        entry = append(self.state, Entry(kind=kind, attempt=self.attempt, at=at, **fields))
        self._committed = True
        for folder in {os.path.dirname(path) for path in self.files}:
            self.state.log.storage.files.finalize(folder)
        return entry

    def require_files(self) -> None:
        """Raise NotLive if vacuum removed a published file."""
        for file in self.files.values():
            if self.state.log.storage.size(file.path) != file.bytes:
                raise NotLive(f"{file.path} was deleted before it was committed")

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        if self._committed:
            return
        # An entry that was not read may be our own, if the response to its creation was lost.
        if not self._appending or self.state.log.read(self.state.head + 1) is None:
            for path in self._started:
                self.state.log.storage.remove(path)


def append(state: LogState, draft: Entry) -> Entry:
    """Append an entry by the rule of the log: all earlier entries are read and permit it.

    Every 100th entry is followed by a snapshot.

    Raises:
        ClaimLost: the draft's claim was fenced.
        NotLive: a file that it replaces is no longer live.
        WorkspaceError: the log is damaged.
    """

    def require_permitted() -> None:
        if draft.claim:
            state.require(draft.claim)
        conflict = state.conflict(draft)
        if conflict:
            raise NotLive(
                f"the entry was not written: {conflict}; read the log again and restart the job"
            )

    def on_newer(entry: Entry) -> None:
        state.apply(entry)
        require_permitted()

    require_permitted()
    entry = state.log.append(draft, seen=state.head, on_newer=on_newer)
    state.apply(entry)
    if entry.number % INTERVAL == 0:
        with suppress(OSError):  # the entry is valid without it
            write_snapshot(state.log.storage, entry.number, state.attempts, state.document())
    return entry
