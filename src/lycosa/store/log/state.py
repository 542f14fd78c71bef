"""What the log says, folded: who holds what, which files count, what was used up.

A `LogState` is read-only knowledge of the log up to `head`; `refresh` reads what was appended
since. It refuses a log that breaks its own rules (a commit under a claim that was outranked),
because that is the one thing that must never be built on. A state that has read nothing yet starts
from the newest snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from lycosa.core.errors import ClaimLost, NewerError, WorkspaceError
from lycosa.store.exclusion.exclusions import Exclusions
from lycosa.store.log.archive_files import (
    CDXJ_NAME,
    WARC_NAME,
    ArchiveFile,
    ArchiveFiles,
    folder_numbers,
)
from lycosa.store.log.entry import (
    CLAIM,
    COMMIT,
    EXCLUDE,
    PURGE,
    RELEASE,
    DataFile,
    Entry,
    at_ms,
    entry_path,
    partitions_of,
    ranges_of,
)
from lycosa.store.log.log import EntriesGone, Log
from lycosa.store.log.snapshot import INTERVAL, Snapshot, snapshots_newest_first

KEPT_ENTRIES = 10_000
"""Entries after which ended claims and applied inbox files are forgotten: hours of a busy crawl,
months of a quiet one.
"""


@dataclass(slots=True, frozen=True)
class LiveFile:
    """A table file that counts. `entry` is the entry whose place its rows have: newer rows of a key
    outrank older ones.

    Rows of a `merged` file have a last column `entry` that says which entry each came with; none is
    later than the file's.
    """

    path: str
    rows: int
    bytes: int
    digest: str
    entry: int
    merged: bool = False


@dataclass(slots=True)
class ClaimInfo:
    """A claim as the log tells it. `partitions` are those it took; what it still holds is in
    `LogState.holders`.
    """

    number: int
    worker: str
    at: str
    partitions: frozenset[int]
    commits: int = 0
    released: bool = False
    at_ms: int = 0


@dataclass(slots=True)
class LogState:
    """The log up to entry `head`. Everything here is derived and can be thrown away."""

    log: Log
    head: int = 0
    # partition -> number of the claim that holds it
    holders: dict[int, int] = field(default_factory=dict)
    claims: dict[int, ClaimInfo] = field(default_factory=dict)
    # table -> live files in the order of their entries
    files: dict[str, list[LiveFile]] = field(default_factory=dict)
    # committed WARCs by path
    warcs: ArchiveFiles = field(default_factory=lambda: ArchiveFiles(WARC_NAME))
    # the CDXJ beside them
    indexes: ArchiveFiles = field(default_factory=lambda: ArchiveFiles(CDXJ_NAME))
    # WARCs that a purge replaced: no orphans, should one still be there
    retired: set[str] = field(default_factory=set)
    exclusions: Exclusions = field(default_factory=Exclusions)
    # WARC -> partitions whose owners have replayed it
    orphans_used: dict[str, set[int]] = field(default_factory=dict)
    # names of inbox files applied lately -> entry that did it
    inbox: dict[str, int] = field(default_factory=dict)
    # partition -> entry up to which found rows are applied
    applied: dict[int, int] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    # collection -> settings of the latest claim that named it
    settings: dict[str, Any] = field(default_factory=dict)
    # of the entries since the last multiple of 100, or of the hundred up to it
    attempts: list[str] = field(default_factory=list)
    _unfruitful: dict[int, int] = field(default_factory=dict)

    def refresh(self) -> list[Entry]:
        """Read what was appended since `head`, fold it, and return it (after a start from a
        snapshot: what came after that).

        Raises:
            EntriesGone: entries that this state has not read are deleted; it stays as it is. Begin
            a new one. WorkspaceError: the log is damaged, of a newer format, or breaks its own
            rules.
        """
        if self.head == 0:
            self._start()
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
            self.fold(entry)
        return entries

    def catch_up(self) -> None:
        """As `refresh`, for who wants to know how things stand and not what happened: where entries
        that it never read are deleted, it begins anew from the newest snapshot.
        """
        try:
            self.refresh()
        except EntriesGone:
            anew = LogState(self.log)
            anew.refresh()
            for each in fields(self):
                setattr(self, each.name, getattr(anew, each.name))

    def fold(self, entry: Entry) -> None:
        """Take in the entry after `head`."""
        if entry.number != self.head + 1:
            raise ValueError(f"entry {entry.number} does not follow {self.head}")
        problem = self.objection(entry)
        if problem:
            raise WorkspaceError(
                f"{entry_path(entry.number)}: {problem}; the log is damaged: run `lycosa check`"
            )
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
        elif entry.kind == EXCLUDE:
            self.exclusions.add(entry.exclusions, entry.number)
        self._fold_files(entry)
        if self.head % INTERVAL == 0:
            self.attempts = []
        self.attempts.append(entry.attempt)
        self.head = entry.number
        if self.head % INTERVAL == 0:
            self._forget()

    def document(self) -> dict[str, Any]:
        """Everything that the log says up to `head`, as JSON values: what a snapshot holds."""
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
                table: [
                    [file.path, file.rows, file.bytes, file.digest, file.entry, file.merged]
                    for file in files
                ]
                for table, files in self.files.items()
                if files
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
            "unfruitful": {
                str(partition): count
                for partition, count in sorted(self._unfruitful.items())
                if count
            },
        }

    @classmethod
    def from_snapshot(cls, log: Log, snapshot: Snapshot) -> LogState:
        """The state behind a snapshot's entry.

        Raises:
            WorkspaceError: the snapshot does not hold what `document` gives.
        """
        state = cls(log)
        state._take(snapshot)
        return state

    def excluded(self, url: str, host: str) -> bool:
        """Whether an exclusion names a normalised URL of that hostname."""
        return self.exclusions.excluded(url, host)

    def objection(self, entry: Entry) -> str:
        """Why this entry may not be the next one; "" if it may."""
        if entry.kind in (COMMIT, RELEASE) and not self.holds(entry.claim):
            return (
                f"a {entry.kind} under claim {entry.claim}, which does not hold its partitions then"
            )
        if entry.replaces:
            live = {file.path for files in self.files.values() for file in files}
            for path in entry.replaces:
                if path not in live and not (
                    entry.kind == PURGE and (path in self.warcs or path in self.indexes)
                ):
                    return f"it replaces {path}, which is not live"
        return ""

    def is_forgotten(self, claim: int) -> bool:
        """Whether a claim of the log ended so long ago that nothing is kept of it (`_forget`)."""
        return claim not in self.claims and claim <= self.head - KEPT_ENTRIES

    def holds(self, claim: int) -> bool:
        """Whether a claim still holds every partition that it took."""
        info = self.claims.get(claim)
        return (
            info is not None
            and not info.released
            and all(self.holders.get(partition) == claim for partition in info.partitions)
        )

    def require(self, claim: int) -> None:
        """Raises ClaimLost if a claim does not hold all its partitions any more."""
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

    def unfruitful_claims(self, partitions: Iterable[int]) -> int:
        """How many claims in a row, up to now, took one of these partitions and ended without a
        commit or a release.
        """
        return max((self._unfruitful.get(partition, 0) for partition in partitions), default=0)

    def rows(self, table: str) -> int:
        """Rows in all live files of a table, outdated ones included."""
        return sum(file.rows for file in self.files.get(table, ()))

    def _forget(self) -> None:
        """Drop what concerns nobody any more, so that the state does not grow with the log's age:
        names of inbox files that were applied long ago (any worker has deleted the files since),
        and claims that ended long ago and whose partitions were all claimed again (the new owners
        have replayed what they left).
        """
        before = self.head - KEPT_ENTRIES
        self.inbox = {name: number for name, number in self.inbox.items() if number > before}
        later = set[int]()
        over = set[int]()
        for number in sorted(self.claims, reverse=True):
            partitions = self.claims[number].partitions
            if number <= before and not self.holds(number) and partitions <= later:
                over.add(number)
            later |= partitions
        if over:
            self.claims = {
                number: claim for number, claim in self.claims.items() if number not in over
            }
            self.orphans_used = {
                path: used
                for path, used in self.orphans_used.items()
                if _claim_of(path) not in over
            }

    def _fold_claim(self, entry: Entry) -> None:
        self.claims[entry.number] = ClaimInfo(
            entry.number, entry.worker, entry.at, frozenset(entry.partitions), at_ms=at_ms(entry)
        )
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
        self.inbox.update(dict.fromkeys(entry.inbox, entry.number))
        self.applied.update(entry.applied)
        self.counters.update(entry.counters)

    def _fold_files(self, entry: Entry) -> None:
        if entry.replaces:
            gone = set(entry.replaces)
            for table, files in self.files.items():
                self.files[table] = [file for file in files if file.path not in gone]
            self.retired.update(path for path in gone if self.warcs.pop(path, None) is not None)
            for path in gone:
                self.indexes.pop(path, None)
        for table, added in entry.files.items():
            files = self.files.setdefault(table, [])
            files.extend(_live(file, entry.number) for file in added)
            if any(file.as_of for file in added):
                files.sort(key=lambda file: file.entry)
        for warc in entry.warcs:
            self.warcs[warc.path] = ArchiveFile(entry.number, warc.bytes, warc.digest)
        for index in entry.indexes:
            self.indexes[index.path] = ArchiveFile(entry.number, index.bytes, index.digest)

    def _start(self) -> None:
        """Take the newest snapshot that is sound, if there is any."""
        newest = next(snapshots_newest_first(self.log.storage), None)
        if newest is not None:
            self._take(newest)

    def _take(self, snapshot: Snapshot) -> None:
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
                table: [LiveFile(*file) for file in files]
                for table, files in document["files"].items()
            }
            self.warcs = ArchiveFiles.of_document(WARC_NAME, document["warcs"])
            self.indexes = ArchiveFiles.of_document(CDXJ_NAME, document["indexes"])
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
            self._unfruitful = {
                int(partition): count for partition, count in document["unfruitful"].items()
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


def _live(file: DataFile, entry: int) -> LiveFile:
    return LiveFile(
        file.path, file.rows, file.bytes, file.digest, file.as_of or entry, bool(file.as_of)
    )
