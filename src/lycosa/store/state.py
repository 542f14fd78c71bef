"""What the log says, folded: who holds what, which files count, what was used up.

A `LogState` is read-only knowledge of the log up to `head`; `refresh` reads what was appended since. It refuses a log that
breaks its own rules (a commit under a claim that was outranked), because that is the one thing that must never be built on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lycosa.core.errors import ClaimLost, WorkspaceError
from lycosa.store.log import CLAIM, COMMIT, RELEASE, DataFile, Entry, Log, entry_path


@dataclass(slots=True, frozen=True)
class LiveFile:
    """A table file that counts. `entry` is the entry whose place its rows have: newer rows of a key outrank older ones."""

    path: str
    rows: int
    bytes: int
    digest: str
    entry: int


@dataclass(slots=True)
class ClaimInfo:
    """A claim as the log tells it. `partitions` are those it took; what it still holds is in `LogState.holders`."""

    number: int
    worker: str
    at: str
    partitions: frozenset[int]
    commits: int = 0
    released: bool = False


@dataclass(slots=True)
class LogState:
    """The log up to entry `head`. Everything here is derived and can be thrown away."""

    log: Log
    head: int = 0
    holders: dict[int, int] = field(default_factory=dict)  # partition -> number of the claim that holds it
    claims: dict[int, ClaimInfo] = field(default_factory=dict)
    files: dict[str, list[LiveFile]] = field(default_factory=dict)  # table -> live files in the order of their entries
    warcs: dict[str, int] = field(default_factory=dict)  # committed WARC -> entry
    orphans_used: dict[str, set[int]] = field(default_factory=dict)  # WARC -> partitions whose owners have replayed it
    inbox: set[str] = field(default_factory=set)  # names of applied inbox files
    applied: dict[int, int] = field(default_factory=dict)  # partition -> entry up to which found rows are applied
    counters: Counter[str] = field(default_factory=Counter)
    settings: dict[str, Any] = field(default_factory=dict)  # collection -> settings of the latest claim that named it
    _unfruitful: dict[int, int] = field(default_factory=dict)

    def refresh(self) -> list[Entry]:
        """Read what was appended since `head`, fold it, and return it.

        Raises:
            WorkspaceError: the log is damaged, of a newer format, or breaks its own rules.
        """
        entries = self.log.entries(self.head)
        for entry in entries:
            self.fold(entry)
        return entries

    def fold(self, entry: Entry) -> None:
        """Take in the entry after `head`."""
        if entry.number != self.head + 1:
            raise ValueError(f"entry {entry.number} does not follow {self.head}")
        problem = self.objection(entry)
        if problem:
            raise WorkspaceError(f"{entry_path(entry.number)}: {problem}; the log is damaged: run `lycosa check`")
        if entry.kind == CLAIM:
            self._fold_claim(entry)
        elif entry.kind == COMMIT:
            self._fold_commit(entry)
        elif entry.kind == RELEASE:
            claim = self.claims[entry.claim]
            claim.released = True
            for partition in claim.partitions:
                self.holders.pop(partition, None)
                self._unfruitful[partition] = 0
        self._fold_files(entry)
        self.head = entry.number

    def objection(self, entry: Entry) -> str:
        """Why this entry may not be the next one; "" if it may."""
        if entry.kind in (COMMIT, RELEASE) and not self.holds(entry.claim):
            return f"a {entry.kind} under claim {entry.claim}, which does not hold its partitions then"
        if entry.replaces:
            live = {file.path for files in self.files.values() for file in files}
            for path in entry.replaces:
                if path not in live:
                    return f"it replaces {path}, which is not live"
        return ""

    def holds(self, claim: int) -> bool:
        """Whether a claim still holds every partition that it took."""
        info = self.claims.get(claim)
        return info is not None and not info.released and all(self.holders.get(partition) == claim for partition in info.partitions)

    def require(self, claim: int) -> None:
        """Raises ClaimLost if a claim does not hold all its partitions any more."""
        if self.holds(claim):
            return
        info = self.claims.get(claim)
        if info is None or info.released:
            raise ClaimLost(f"claim {claim} was {'released' if info else 'never made'}: nothing may be written under it")
        newer = max(self.holders.get(partition, 0) for partition in info.partitions)
        by = f"claim {newer} of worker {self.claims[newer].worker!r}" if newer else "a release"
        raise ClaimLost(f"claim {claim} was outranked by {by}: uncommitted work is dropped; its WARC stays and the new owner replays it")

    def unfruitful_claims(self, partitions: Iterable[int]) -> int:
        """How many claims in a row, up to now, took one of these partitions and ended without a commit or a release."""
        return max((self._unfruitful.get(partition, 0) for partition in partitions), default=0)

    def rows(self, table: str) -> int:
        """Rows in all live files of a table, outdated ones included."""
        return sum(file.rows for file in self.files.get(table, ()))

    def _fold_claim(self, entry: Entry) -> None:
        self.claims[entry.number] = ClaimInfo(entry.number, entry.worker, entry.at, frozenset(entry.partitions))
        for partition in entry.partitions:
            self.holders[partition] = entry.number
            self._unfruitful[partition] = self._unfruitful.get(partition, 0) + 1
        self.settings.update(entry.settings)

    def _fold_commit(self, entry: Entry) -> None:
        claim = self.claims[entry.claim]
        claim.commits += 1
        for partition in claim.partitions:
            self._unfruitful[partition] = 0
        for path in entry.orphans:
            self.orphans_used.setdefault(path, set()).update(claim.partitions)
        self.inbox.update(entry.inbox)
        self.applied.update(entry.applied)
        self.counters.update(entry.counters)

    def _fold_files(self, entry: Entry) -> None:
        if entry.replaces:
            gone = set(entry.replaces)
            for table, files in self.files.items():
                self.files[table] = [file for file in files if file.path not in gone]
        for table, added in entry.files.items():
            files = self.files.setdefault(table, [])
            files.extend(_live(file, entry.number) for file in added)
            if any(file.as_of for file in added):
                files.sort(key=lambda file: file.entry)
        for warc in entry.warcs:
            self.warcs[warc.path] = entry.number


def _live(file: DataFile, entry: int) -> LiveFile:
    return LiveFile(file.path, file.rows, file.bytes, file.digest, file.as_of or entry)
