"""Submitted URLs: files in the workspace's `inbox`, applied like links.

A file is one JSON object: `collection`, `urls` (text), `submitted_at`, optionally `operation`. The
commit with the resulting rows has the name of the file, which is then deleted. After a kill in
between it is applied again, so nothing is lost. Applying twice changes nothing: a known URL is made
due only if it was last visited before it was submitted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from xxhash import xxh3_64_intdigest

from lycosa.core.errors import UrlError
from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.crawl.admission.remote_links import INBOX_LINK, Provenance
from lycosa.crawl.policy.operations import Operations
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.store.log.claim import INBOX, Claim
from lycosa.store.storage.storage import Storage

MAX_FILE_BYTES = 16 * 2**20


SETTLED_MS = 5_000
"""Time during which an unreadable file may still be being written."""

_BATCH_URLS = 1_000  # per read of the tables
_SECOND_MS = 999  # maximum error of a time in whole seconds


class Submission(BaseModel):
    """An inbox file.

    `operation`: the operation for the pages and all pages reachable from them
    (`lycosa.crawl.policy.operations`); empty: the pages are fetched.
    """

    model_config = ConfigDict(strict=True, defer_build=True)

    collection: str
    urls: tuple[str, ...]
    submitted_at: Any = None
    operation: str | None = None

    def at_ms(self, now_ms: int) -> int:
        """Return the time of submission (ms since 1970).

        Of a time in whole seconds, it is the end of that second.
        """
        try:
            at = datetime.fromisoformat(str(self.submitted_at))
            at_ms = round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            return now_ms
        return min(at_ms + (0 if at.microsecond else _SECOND_MS), now_ms)


Renewals = dict[str, dict[UrlId, int]]
"""Collection -> submitted URLs that are known -> time of submission."""


class Inbox:
    """Applies the files in the inbox of a workspace."""

    def __init__(
        self, claim: Claim, storage: Storage, crawl: CrawlState, operations: Operations
    ) -> None:
        self._claim = claim
        self._storage = storage
        self._crawl = crawl
        self._operations = operations
        # names of files that wait for a commit, or for a worker of their collection
        self._settled: set[str] = set()

    def admit(self) -> None:
        """Admit the new URLs of waiting files. Call it before replay.

        An earlier worker may have fetched some of them and died.
        """
        for name in self._own(self._claim.inbox()):
            submission = self._read(name)
            if submission is None or submission.collection not in self._crawl.assignments:
                continue
            gate = self._crawl.assignments[submission.collection].gate
            for url in submission.urls:
                with suppress(UrlError):
                    gate.seed(url, self._crawl.clock.now_ms())

    def apply(self) -> int:
        """Apply new files, and return how many URLs were admitted or are due.

        Unusable URLs are counted as refused.
        """
        applied = 0
        renewals: Renewals = defaultdict(dict)
        waiting = self._claim.inbox()
        self._settled.intersection_update(waiting)
        for name in self._own(waiting):
            if name in self._settled:
                continue
            submission = self._read(name)
            if submission is None and self._is_young(name):
                continue
            self._settled.add(name)
            if submission is None:
                first = next(iter(self._crawl.assignments.values()), None)
                if first is None:
                    continue
                first.gate.refuse("inbox_unreadable")
            elif submission.collection not in self._crawl.assignments:
                continue
            else:
                applied += self._submit(submission, renewals)
            self._crawl.buffer.batch.inbox.append(name)
        return applied + self._renew(renewals)

    def _own(self, names: list[str]) -> list[str]:
        """Return the files that this worker applies.

        A file's name determines its partition.
        """
        held_partitions = self._crawl.held_partitions
        return [
            name
            for name in names
            if held_partitions.holds(partition_of(name, held_partitions.total))
        ]

    def _read(self, name: str) -> Submission | None:
        """Return the submission in a file; None if it cannot be read as one."""
        path = f"{INBOX}/{name}"
        try:
            if (self._storage.size(path) or 0) > MAX_FILE_BYTES:
                return None
            return Submission.model_validate_json(self._storage.read(path) or b"")
        except (OSError, ValueError):
            return None

    def _is_young(self, name: str) -> bool:
        modified_at = self._storage.modified_at(f"{INBOX}/{name}")
        return (
            modified_at is not None and 0 <= self._crawl.clock.now_ms() - modified_at < SETTLED_MS
        )

    def _submit(self, submission: Submission, renewals: Renewals) -> int:
        """Admit new URLs and return their number; add known ones to `renewals`.

        URLs of remote partitions are sent to their owners.
        """
        crawl = self._crawl
        gate = crawl.assignments[submission.collection].gate
        applied, submitted_at = 0, submission.at_ms(crawl.clock.now_ms())
        for url in submission.urls:
            before = gate.admitted_count
            try:
                identity = gate.seed(url, crawl.clock.now_ms())
            except UrlError as error:
                gate.refuse(error.reason)
                continue
            if submission.operation:
                applied += self._operations.admit(
                    submission.collection, identity, submission.operation
                )
                continue
            if gate.remote_links is not None and not gate.holds(identity):
                provenance = Provenance(kind=INBOX_LINK, first_seen_at=submitted_at)
                gate.remote_links.send(identity, 0, crawl.clock.now_ms(), provenance)
            elif gate.admitted_count == before:
                again = renewals[submission.collection]
                again[identity] = max(submitted_at, again.get(identity, 0))
                continue
            applied += 1
        return applied

    def renew(self, collection: str, identity: UrlId, submitted_at: int) -> bool:
        """Make a submitted URL due unless it was visited since.

        Returns whether it is due.
        """
        return self._renew({collection: {identity: submitted_at}}) > 0

    def _renew(self, renewals: Renewals) -> int:
        """Renew many URLs; return how many are due."""
        renewed = 0
        for collection, submitted in renewals.items():
            for start in range(0, len(submitted), _BATCH_URLS):
                batch = list(submitted)[start : start + _BATCH_URLS]
                for row in self._crawl.urls.find_all(collection, batch):
                    if self._is_new(row, submitted.get(row.id, 0)):
                        self._crawl.urls.make_due(row)
                        renewed += 1
        return renewed

    def _is_new(self, row: UrlRow, submitted_at: int) -> bool:
        """Return whether a submission makes the URL due: not visited since."""
        if row.state == UrlState.KNOWN:
            return row.not_before > self._crawl.clock.now_ms() and row.state_at <= submitted_at
        return row.visited_at <= submitted_at


def partition_of(name: str, partitions: int) -> int:
    """Return the partition of an inbox file: its owner applies the file."""
    return xxh3_64_intdigest(name.encode()) % partitions


def submission(
    collection: str, urls: Iterable[str], submitted_at: str, operation: str = ""
) -> bytes:
    """Return the content of an inbox file."""
    document = Submission(
        collection=collection,
        urls=tuple(urls),
        submitted_at=submitted_at,
        operation=operation,
    )
    return (document.model_dump_json() + "\n").encode()
