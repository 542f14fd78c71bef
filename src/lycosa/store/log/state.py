"""The state that results from the log: claims, live files, and the input applied by commits.

A `LogState` contains the log up to entry `head`; `refresh` reads later entries. It starts from the
newest snapshot. It refuses a log that breaks the protocol, such as a commit under a fenced claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field, fields, replace
from itertools import chain
from typing import Any

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import ClaimLost, NewerError, WorkspaceError
from lycosa.store.exclusion.exclusions import Exclusions
from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME, ArchiveFiles, folder_numbers
from lycosa.store.log.entry import (
    CLAIM,
    COMMIT,
    EXCLUDE,
    PURGE,
    RELEASE,
    Entry,
    at_ms,
    entry_path,
    partitions_of,
    ranges_of,
)
from lycosa.store.log.log import EntriesGone, Log
from lycosa.store.log.snapshot import INTERVAL, Snapshot, snapshots_newest_first
from lycosa.store.storage.files import DataFile

KEPT_ENTRIES = 10_000
"""Entries after which ended claims and applied inbox files are removed from the state."""


@dataclass(slots=True, frozen=True)
class ClaimInfo:
    """A claim and the partitions that it acquired; `LogState.holders` has the current holders."""

    number: int
    worker: str
    at: str
    partitions: frozenset[int]
    commits: int = 0
    released: bool = False
    at_ms: int = 0


@dataclass(slots=True)
class LogState:
    """The state after entry `head`, derived from the log."""

    log: Log
    head: int = 0
    # partition -> number of the claim that holds it
    holders: dict[int, int] = field(default_factory=dict)
    claims: dict[int, ClaimInfo] = field(default_factory=dict)
    # table -> live files in the order of their entries
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    # committed WARCs by path
    warcs: ArchiveFiles = field(default_factory=lambda: ArchiveFiles(WARC_NAME))
    # their CDXJ files by path
    indexes: ArchiveFiles = field(default_factory=lambda: ArchiveFiles(CDXJ_NAME))
    # WARC files that a purge replaced: not orphans, even if one still exists
    retired: set[str] = field(default_factory=set)
    exclusions: Exclusions = field(default_factory=Exclusions)
    # WARC -> partitions whose owners have replayed it
    orphans_used: dict[str, set[int]] = field(default_factory=dict)
    # recently applied inbox file -> entry of the commit
    inbox: dict[str, int] = field(default_factory=dict)
    # partition -> entry up to which rows of `found` are applied
    applied: dict[int, int] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    # collection -> settings of its latest claim
    settings: dict[str, Any] = field(default_factory=dict)
    # attempt IDs of the entries since the last snapshot
    attempts: list[str] = field(default_factory=list)
    # partition -> consecutive claims without a commit or release
    _failed_claims: dict[int, int] = field(default_factory=dict)

    def refresh(self) -> list[Entry]:
        """Read, apply and return the entries after `head` (initially: after the snapshot).

        Raises:
            EntriesGone: unread entries were deleted; this state is unchanged. Create a new one.
            WorkspaceError: the log is damaged, of a newer format, or breaks the protocol.
        """
        if self.head == 0:
            self._load(next(snapshots_newest_first(self.log.storage), None))
        try:
            entries = self.log.entries(self.head)
        except EntriesGone:
            if self.head:
                raise
            raise WorkspaceError(
                "the first entries of the log are deleted, and no snapshot can "
                "be read: run `lycosa check`"
            ) from None
        for entry in entries:
            self.apply(entry)
        return entries

    def has_rows_after(self, entry: int, tables: Iterable[str]) -> bool:
        """Return whether a later entry added rows to one of these tables."""
        files = chain.from_iterable(self.files.get(name, ()) for name in tables)
        return any(file.entry > entry and file.rows for file in files)

    def catch_up(self) -> list[Entry]:
        """Refresh; restart from the newest snapshot if unread entries were deleted.

        Return the entries that were read.
        """
        try:
            return self.refresh()
        except EntriesGone:
            new = LogState(self.log)
            entries = new.refresh()
            for each in fields(self):
                setattr(self, each.name, getattr(new, each.name))
            return entries

    def apply(self, entry: Entry) -> None:
        """Apply the entry after `head`."""
        if entry.number != self.head + 1:
            raise ValueError(f"entry {entry.number} does not follow {self.head}")
        problem = self.conflict(entry)
        if problem:
            raise WorkspaceError(
                f"{entry_path(entry.number)}: {problem}; the log is damaged: run `lycosa check`"
            )
        if entry.kind == CLAIM:
            self._apply_claim(entry)
        elif entry.kind == COMMIT:
            self._apply_commit(entry)
        elif entry.kind == RELEASE:
            claim = self.claims[entry.claim]
            self.claims[entry.claim] = replace(claim, released=True)
            for partition in claim.partitions:
                self.holders.pop(partition, None)
                self._failed_claims[partition] = 0
        elif entry.kind == EXCLUDE:
            self.exclusions.add(entry.exclusions, entry.number)
        self._apply_files(entry)
        if self.head % INTERVAL == 0:
            self.attempts = []
        self.attempts.append(entry.attempt)
        self.head = entry.number
        if self.head % INTERVAL == 0:
            self._forget()

    def document(self) -> dict[str, Any]:
        """Return the state as JSON values, as a snapshot stores it."""
        holders: dict[int, list[int]] = {}
        for partition, number in self.holders.items():
            holders.setdefault(number, []).append(partition)
        return {
            "holders": {
                str(number): ranges_of(partitions) for number, partitions in sorted(holders.items())
            },
            "claims": [
                [
                    claim.number,
                    claim.worker,
                    claim.at,
                    ranges_of(claim.partitions),
                    claim.commits,
                    claim.released,
                    claim.at_ms,
                ]
                for claim in self.claims.values()
            ],
            "files": {
                table: list(map(list, files)) for table, files in self.files.items() if files
            },
            "warcs": self.warcs.document(),
            "indexes": self.indexes.document(),
            "retired": sorted(self.retired),
            "orphans_used": {
                path: ranges_of(partitions) for path, partitions in self.orphans_used.items()
            },
            "inbox": self.inbox,
            "applied": {
                str(partition): number for partition, number in sorted(self.applied.items())
            },
            "counters": dict(sorted(self.counters.items())),
            "settings": self.settings,
            "exclusions": self.exclusions.rules,
            "failed_claims": {
                str(partition): count
                for partition, count in sorted(self._failed_claims.items())
                if count
            },
        }

    @classmethod
    def from_snapshot(cls, log: Log, snapshot: Snapshot) -> LogState:
        """Return the state after a snapshot. Raises WorkspaceError: its format is unknown."""
        state = cls(log)
        state._load(snapshot)
        return state

    def excluded(self, url: str, host: str) -> bool:
        """Return whether a normalised URL of that hostname is excluded."""
        return self.exclusions.excluded(url, host)

    def conflict(self, entry: Entry) -> str:
        """Return why this entry may not be the next one, "" if it may."""
        if entry.kind in (COMMIT, RELEASE) and not self.holds(entry.claim):
            return (
                f"a {entry.kind} under claim {entry.claim}, which does not hold its partitions then"
            )
        if entry.replaces:
            live = self.live_paths()
            for path in entry.replaces:
                archive = entry.kind == PURGE and (path in self.warcs or path in self.indexes)
                if path not in live and not archive:
                    return f"it replaces {path}, which is not live"
        return ""

    def live_paths(self) -> set[str]:
        """Return the paths of the live table files."""
        return {file.path for files in self.files.values() for file in files}

    def is_forgotten(self, claim: int) -> bool:
        """Return whether a claim ended so long ago that the state no longer contains it."""
        return claim not in self.claims and claim <= self.head - KEPT_ENTRIES

    def holds(self, claim: int) -> bool:
        """Return whether a claim still holds every partition that it acquired."""
        info = self.claims.get(claim)
        return (
            info is not None
            and not info.released
            and all(self.holders.get(partition) == claim for partition in info.partitions)
        )

    def require(self, claim: int) -> None:
        """Raise ClaimLost if a claim does not hold all of its partitions."""
        if self.holds(claim):
            return
        info = self.claims.get(claim)
        if info is None or info.released:
            raise ClaimLost(
                f"claim {claim} {'was released' if info else 'does not exist'}: "
                "nothing can be committed with it"
            )
        newer = max(self.holders.get(partition, 0) for partition in info.partitions)
        by = f"claim {newer} of worker {self.claims[newer].worker!r}" if newer else "a release"
        raise ClaimLost(
            f"claim {claim} was replaced by {by}: uncommitted results are dropped; their WARC "
            "file is kept, and the new owner replays it"
        )

    def failed_claims(self, partitions: Iterable[int]) -> int:
        """Return how many of the latest claims of one of these partitions, in a row, ended without
        a commit or release.
        """
        return max((self._failed_claims.get(partition, 0) for partition in partitions), default=0)

    def rows(self, table: str) -> int:
        """Return the rows in all live files of a table, superseded ones included."""
        return sum(file.rows for file in self.files.get(table, ()))

    def _forget(self) -> None:
        """Remove old names of applied inbox files (the files are deleted), and ended claims whose
        partitions were all claimed again (the new owners have replayed their files). This bounds
        the size of the state.
        """
        before = self.head - KEPT_ENTRIES
        self.inbox = {name: number for name, number in self.inbox.items() if number > before}
        later = set[int]()
        ended = set[int]()
        for number in sorted(self.claims, reverse=True):
            partitions = self.claims[number].partitions
            if number <= before and not self.holds(number) and partitions <= later:
                ended.add(number)
            later |= partitions
        if ended:
            self.claims = {
                number: claim for number, claim in self.claims.items() if number not in ended
            }
            self.orphans_used = {
                path: used
                for path, used in self.orphans_used.items()
                if _claim_of(path) not in ended
            }

    def _apply_claim(self, entry: Entry) -> None:
        self.claims[entry.number] = ClaimInfo(
            entry.number, entry.worker, entry.at, frozenset(entry.partitions), at_ms=at_ms(entry)
        )
        for partition in entry.partitions:
            self.holders[partition] = entry.number
            self._failed_claims[partition] = self._failed_claims.get(partition, 0) + 1
        settings = {**self.settings, **entry.settings}
        self.settings = {name: values for name, values in settings.items() if values is not None}

    def _apply_commit(self, entry: Entry) -> None:
        claim = self.claims[entry.claim]
        self.claims[entry.claim] = replace(claim, commits=claim.commits + 1)
        for partition in claim.partitions:
            self._failed_claims[partition] = 0
        for path in entry.orphans:
            self.orphans_used.setdefault(path, set()).update(claim.partitions)
        self.inbox.update(dict.fromkeys(entry.inbox, entry.number))
        self.applied.update(entry.applied)
        self.counters.update(entry.counters)

    def _apply_files(self, entry: Entry) -> None:
        if entry.replaces:
            replaced = set(entry.replaces)
            for table, files in self.files.items():
                self.files[table] = [file for file in files if file.path not in replaced]
            self.retired.update(path for path in replaced if self.warcs.pop(path, None) is not None)
            for path in replaced:
                self.indexes.pop(path, None)
        for table, added in entry.files.items():
            files = self.files.setdefault(table, [])
            files.extend(
                file if file.merged else file._replace(entry=entry.number) for file in added
            )
            if any(file.merged for file in added):
                files.sort(key=lambda file: file.entry)
        for archives, added in ((self.warcs, entry.warcs), (self.indexes, entry.indexes)):
            archives.update((file.path, file._replace(entry=entry.number)) for file in added)

    def _load(self, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            return
        document = snapshot.document
        try:
            self.holders = {
                part: int(number)
                for number, ranges in document["holders"].items()
                for part in partitions_of(ranges)
            }
            self.claims = {
                number: ClaimInfo(
                    number, worker, at, frozenset(partitions_of(ranges)), commits, released, at_ms
                )
                for number, worker, at, ranges, commits, released, at_ms in document["claims"]
            }
            self.files = {
                table: [DataFile(*file) for file in files]
                for table, files in document["files"].items()
            }
            self.warcs = ArchiveFiles.from_document(WARC_NAME, document["warcs"])
            self.indexes = ArchiveFiles.from_document(CDXJ_NAME, document["indexes"])
            self.retired = set(document["retired"])
            self.orphans_used = {
                path: set(partitions_of(ranges))
                for path, ranges in document["orphans_used"].items()
            }
            self.inbox = dict(document["inbox"])
            self.applied = {
                int(partition): number for partition, number in document["applied"].items()
            }
            self.counters = Counter(document["counters"])
            self.settings = document["settings"]
            self.exclusions = Exclusions()
            for rule, entry in document["exclusions"].items():
                self.exclusions.add([rule], entry)
            self._failed_claims = {
                int(partition): count for partition, count in document["failed_claims"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise NewerError(
                f"the snapshot after entry {snapshot.number} has a format that this version does "
                "not know "
                f"({type(error).__name__}: {error}): it was written by a newer version; upgrade "
                "with `pip install -U lycosa`"
            ) from None
        self.head = snapshot.number


def _claim_of(path: str) -> int:
    numbers = folder_numbers(path.split("/")[1])
    return numbers[0] if numbers else 0
