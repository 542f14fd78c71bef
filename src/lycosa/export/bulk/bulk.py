"""Bulk export: a search cluster that somebody else runs is brought up to the log, and kept there
call by call.

What is confirmed is remembered in the workspace, one small file a target: the log entry up to which
everything is there, and the key that a pass under way has reached. A second call sends what changed
since; one that was killed goes on, and sends again at most what was not yet remembered. Two at once
do no harm: each remembers only what it has seen confirmed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

import xxhash

from lycosa.core.errors import WorkError, WorkspaceError
from lycosa.export.bulk.actions import START, Action, BulkSelection, actions
from lycosa.export.bulk.http import Waiting
from lycosa.export.bulk.join import Key
from lycosa.export.bulk.targets import ActionStatus, BrokenAnswer, Outcome, Target, TooLarge
from lycosa.store.coordination.owner import FOLDER
from lycosa.store.log.state import LogState
from lycosa.store.workspace import Workspace

EXPORTS = f"{FOLDER}/exports"
BATCH_BYTES = 5 * 2**20
"""OpenSearch's documentation calls 5 to 15 MB good; a gateway may take no more than 10."""

REMEMBER_S = 2.0
_MAX_ACTIONS = 5_000  # of one request
_MIN_BYTES = 64 * 1024
_MAX_FAILURES = 100  # that are listed
_ATTEMPTS = 5  # a merge may delete files that were to be read


@dataclass(slots=True, frozen=True)
class Destination:
    """Where an export goes, and of what: together they name what is remembered. `url` holds no
    credentials.
    """

    kind: str
    url: str
    index: str
    chosen: BulkSelection

    @property
    def path(self) -> str:
        """The file that remembers, relative to the workspace."""
        name = json.dumps(asdict(self), sort_keys=True).encode()
        return f"{EXPORTS}/{self.kind}-{xxhash.xxh3_64_hexdigest(name)}.json"


@dataclass(slots=True)
class Confirmed:
    """What is known to have arrived: everything up to `log_entry`; of a pass that makes it `head`,
    all keys below `key`.
    """

    log_entry: int = 0
    attempt: str = ""  # of that entry: another one there means another log
    head: int = 0  # 0: no pass is under way
    head_attempt: str = ""
    key: Key = START
    exclusions: list[str] = field(default_factory=list)  # rules that were carried out there


@dataclass(slots=True)
class BulkReport:
    """What an export did. `failures` lists the first of the `failed` documents: those that the
    server will not take.
    """

    from_entry: int = 0
    log_entry: int = 0
    documents: int = 0
    deletions: int = 0
    exclusions: int = 0
    failed: int = 0
    requests: int = 0
    bytes: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)


def export_bulk(
    workspace: Workspace,
    target: Target,
    destination: Destination,
    waiting: Waiting,
    *,
    batch_bytes: int = BATCH_BYTES,
    again: bool = False,
    remember_s: float = REMEMBER_S,
) -> BulkReport:
    """Send what a target does not have yet. `again`: as if nothing had ever been sent.

    Raises:
        WorkError: the server cannot be used, or refused too often; what was confirmed is
        remembered. WorkspaceError: the log is damaged, or not the one of the export before.
    """
    export = _Export(workspace, target, destination, waiting, batch_bytes, remember_s)
    if not again:
        export.recall()
    return export.run()


def export_jsonl(workspace: Workspace, chosen: BulkSelection, output: BinaryIO) -> int:
    """Write every live page as one line of JSON; returns how many. Raises OSError,
    WorkspaceError.
    """
    written = 0
    try:
        for action in actions(workspace, workspace.state(), chosen, 0):
            if action.document is not None:
                output.write(action.document + b"\n")
                written += 1
    except FileNotFoundError as error:
        raise WorkspaceError(
            f"a table file was deleted by a concurrent compaction, or is missing: {error}; run the "
            "same command again"
        ) from None
    return written


class _Export:
    """One call."""

    def __init__(
        self,
        workspace: Workspace,
        target: Target,
        destination: Destination,
        waiting: Waiting,
        batch_bytes: int,
        remember_s: float,
    ) -> None:
        self._workspace, self._target, self._destination, self._waiting = (
            workspace,
            target,
            destination,
            waiting,
        )
        self._batch_bytes = min(batch_bytes, target.most_bytes or batch_bytes)
        self._remember_s = remember_s
        self._remembered_at = time.monotonic()
        self._confirmed = Confirmed()
        self._report = BulkReport()

    def recall(self) -> None:
        """Go on from what is remembered."""
        content = self._workspace.storage.read(self._destination.path)
        if content is None:
            return
        try:
            document = json.loads(content)["confirmed"]
            self._confirmed = Confirmed(**{**document, "key": tuple(map(int, document["key"]))})
        except (ValueError, KeyError, TypeError):
            raise WorkspaceError(
                f"{self._destination.path} is damaged: run the command with --again, which sends "
                "all documents again"
            ) from None

    def run(self) -> BulkReport:
        self._report.from_entry = self._confirmed.log_entry
        self._target.prepare()
        self._waiting.success()
        failures = 0
        while True:
            state = self._workspace.state()
            self._require_same_log(state)
            self._exclude(state)
            try:
                done = self._pass(state)
            except FileNotFoundError as error:
                failures += 1
                if failures == _ATTEMPTS:
                    raise WorkspaceError(
                        f"a file of the log is missing: {error}; run `lycosa check`"
                    ) from None
                continue
            if done:
                self._report.log_entry = self._confirmed.log_entry
                return self._report

    def _require_same_log(self, state: LogState) -> None:
        known = self._confirmed
        for number, attempt in ((known.log_entry, known.attempt), (known.head, known.head_attempt)):
            if number and (number > state.head or self._attempt_of(number) not in ("", attempt)):
                raise WorkspaceError(
                    f"{self._workspace.root} has a different log than at the previous export "
                    "(perhaps a backup was restored): "
                    f"export into a new index, or send all documents again with --again"
                )

    def _attempt_of(self, number: int) -> str:
        entry = self._workspace.log.read(number) if number else None
        return entry.attempt if entry else ""

    def _exclude(self, state: LogState) -> None:
        fresh = sorted(set(state.exclusions.rules) - set(self._confirmed.exclusions))
        if fresh:
            self._target.exclude(fresh)
            self._waiting.success()
            self._report.exclusions += len(fresh)
            self._confirmed.exclusions = sorted(state.exclusions.rules)
            self._remember()

    def _pass(self, state: LogState) -> bool:
        """Send everything between what is confirmed and the head of the log, from where the last
        pass ended; whether that is all.
        """
        known = self._confirmed
        if known.log_entry == state.head:
            return True
        if not known.head:
            known.head, known.head_attempt, known.key = (
                state.head,
                self._attempt_of(state.head),
                START,
            )
        found = actions(
            self._workspace, state, self._destination.chosen, known.log_entry, known.key
        )
        wanted = (action for action in found if action.document is not None or self._target.deletes)
        for batch, last in self._batches(wanted):
            self._send(batch, last=last)
            known.key = batch[-1].key
            if time.monotonic() - self._remembered_at >= self._remember_s:
                self._remember()
        known.log_entry, known.attempt = known.head, known.head_attempt
        known.head, known.head_attempt, known.key = 0, "", START
        self._remember()
        return known.log_entry == state.head

    def _batches(self, wanted: Iterable[Action]) -> Iterator[tuple[list[Action], bool]]:
        """(actions of one request, whether they are the last)."""
        batch: list[Action] = []
        size = 0
        for action in wanted:
            needed = self._target.size(action)
            if batch and (size + needed > self._batch_bytes or len(batch) == _MAX_ACTIONS):
                yield batch, False
                batch, size = [], 0
            batch.append(action)
            size += needed
        if batch:
            yield batch, True

    def _send(self, batch: list[Action], *, last: bool) -> None:
        """Have a batch carried out, again and again until each of its actions is settled."""
        while batch:
            self._report.requests += 1
            self._report.bytes += sum(map(self._target.size, batch))
            try:
                outcomes = self._target.send(batch, last=last)
            except TooLarge:
                self._halve(batch, last=last)
                return
            except BrokenAnswer:
                self._waiting.failed(
                    f"{self._destination.url} gave an answer that does not say "
                    "what became of the documents"
                )
                continue
            waiting: list[Action] = []
            why = ""
            for action, outcome in zip(batch, outcomes, strict=True):
                if outcome.verdict is ActionStatus.AGAIN:
                    waiting.append(action)
                    why = outcome.reason
                else:
                    self._count(action, outcome)
            if len(waiting) < len(batch):
                self._waiting.success()
            if waiting:
                self._waiting.failed(
                    f"{len(waiting)} of {len(batch)} documents were refused for the moment ({why})"
                )
            batch = waiting

    def _halve(self, batch: list[Action], *, last: bool) -> None:
        """The server takes less at once: from now on too."""
        size = sum(map(self._target.size, batch))
        if len(batch) == 1:
            self._count(
                batch[0],
                Outcome(ActionStatus.FAILED, f"413: {size} bytes are more than the server accepts"),
            )
            return
        self._batch_bytes = min(self._batch_bytes, max(_MIN_BYTES, size // 2))
        half = len(batch) // 2
        self._send(batch[:half], last=False)
        self._send(batch[half:], last=last)

    def _count(self, action: Action, outcome: Outcome) -> None:
        report = self._report
        if outcome.verdict is ActionStatus.FAILED:
            report.failed += 1
            if len(report.failures) < _MAX_FAILURES:
                report.failures.append(
                    {"id": action.id, "url": action.url, "reason": outcome.reason}
                )
        elif action.document is None:
            report.deletions += 1
        else:
            report.documents += 1

    def _remember(self) -> None:
        storage = self._workspace.storage
        document: dict[str, Any] = {
            **asdict(self._destination),
            "confirmed": asdict(self._confirmed),
        }
        try:
            storage.make_folder(EXPORTS)
            storage.replace(
                self._destination.path, (json.dumps(document, indent=1) + "\n").encode()
            )
        except OSError as error:
            raise WorkError(
                f"{self._destination.path} cannot be written: {error.strerror}; the documents "
                "were sent, and the next run sends them again"
            ) from error
        self._remembered_at = time.monotonic()
