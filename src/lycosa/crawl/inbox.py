"""URLs that people submit while a crawl runs or rests: files in the workspace's `inbox`, applied like links.

A file is one JSON object: `collection`, `urls` (text), `submitted_at`. The commit that holds what came of it names the file
and deletes it afterwards, so a kill in between applies it again and nothing is lost; applying twice changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from lycosa.core.errors import UrlError
from lycosa.core.records import UrlState
from lycosa.crawl.ledger import Ledger
from lycosa.store.claim import INBOX, Claim
from lycosa.store.storage import LocalStorage

MAX_FILE_BYTES = 16 * 2**20


class Inbox:
    """Applies what lies in the inbox of a workspace."""

    def __init__(self, claim: Claim, storage: LocalStorage, ledger: Ledger) -> None:
        self._claim = claim
        self._storage = storage
        self._ledger = ledger
        self._taken: set[str] = set()

    def apply(self) -> int:
        """Take in what has arrived. Returns how many URLs were admitted or made due; unusable ones are counted as refused."""
        applied = 0
        for name in self._claim.inbox():
            if name in self._taken:
                continue
            submission = self._read(name)
            if submission is not None and submission[0] not in self._ledger.assignments:
                continue  # of a collection that this worker does not work
            self._taken.add(name)
            if submission is not None:
                applied += self._submit(*submission)
            self._ledger.batch.inbox.append(name)
        return applied

    def _read(self, name: str) -> tuple[str, list[str]] | None:
        """Collection and URLs; None for a file that is none of ours (it is used up, and counted)."""
        path = f"{INBOX}/{name}"
        try:
            if (self._storage.size(path) or 0) > MAX_FILE_BYTES:
                raise ValueError("too large")
            document = json.loads(self._storage.read(path) or b"")
            collection, urls = document["collection"], document["urls"]
            if not isinstance(collection, str) or not all(isinstance(url, str) for url in urls):
                raise ValueError("not text")
            return collection, urls
        except (ValueError, KeyError, TypeError):
            first = next(iter(self._ledger.assignments.values()))
            first.gate.refused["inbox_unreadable"] += 1
            return None

    def _submit(self, collection: str, urls: Iterable[str]) -> int:
        ledger = self._ledger
        gate = ledger.assignments[collection].gate
        applied = 0
        for url in urls:
            before = gate.admitted_count
            try:
                identity = gate.seed(url, ledger.clock.now_ms())
            except UrlError as error:
                gate.refused[error.reason] += 1
                continue
            if gate.admitted_count == before:
                row = ledger.find(collection, identity) or next(
                    (row for row in ledger.reserve.stored([identity]) if (row.collection, row.operation) == (collection, "")), None
                )
                if row is None or row.state == UrlState.KNOWN:
                    continue
                ledger.make_due(row)
            applied += 1
        return applied


def submission(collection: str, urls: Iterable[str], submitted_at: str) -> bytes:
    """The content of an inbox file."""
    document = {"collection": collection, "urls": list(urls), "submitted_at": submitted_at}
    return (json.dumps(document, ensure_ascii=False) + "\n").encode()
