"""Bulk export: update a search cluster to the current state of the log.

The workspace stores one small file per target: the log entry up to which all changes are confirmed,
and the last confirmed key of the current pass. A later call sends the changes since then. After a
kill, only changes after the stored position are sent again. Concurrent exports to one target are
harmless: each stores only positions that were confirmed to it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, BinaryIO

import xxhash

from lycosa.core.errors import WorkspaceError
from lycosa.export.bulk.actions import START, BulkAction, BulkSelection, actions
from lycosa.export.bulk.http import Backoff
from lycosa.export.bulk.join import Key
from lycosa.export.bulk.targets import IncompleteResponse, Rejection, RequestTooLarge, Target
from lycosa.store.coordination.owner import FOLDER
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import write_errors
from lycosa.store.workspace import Workspace

EXPORTS = f"{FOLDER}/exports"
BATCH_BYTES = 5 * 2**20
"""OpenSearch recommends 5 to 15 MB; some gateways accept at most 10."""

SAVE_INTERVAL_S = 2.0
_MAX_ACTIONS = 5_000  # per request
_MIN_BATCH_BYTES = 64 * 1024
_MAX_FAILURES = 100  # listed failures
_ATTEMPTS = 5  # compaction may delete files before they are read


@dataclass(slots=True, frozen=True)
class Destination:
    """Target and selection of an export, which identify its stored position.

    `url` contains no credentials.
    """

    kind: str
    url: str
    index: str
    chosen: BulkSelection

    @property
    def path(self) -> str:
        """The file with the position, relative to the workspace."""
        identity = json.dumps(asdict(self), sort_keys=True).encode()
        return f"{EXPORTS}/{self.kind}-{xxhash.xxh3_64_hexdigest(identity)}.json"


@dataclass(slots=True, frozen=True)
class ExportPosition:
    """The confirmed part of an export.

    These are all changes up to `log_entry`, and of the current pass, which ends at `head`, all keys
    up to `key`.
    """

    log_entry: int = 0
    attempt: str = ""  # attempt ID of that entry; if it differs, the log is another one
    head: int = 0  # 0: no pass has started
    head_attempt: str = ""
    key: Key = START
    exclusions: tuple[str, ...] = ()  # rules that the target has executed


@dataclass(slots=True)
class BulkReport:
    """Result of an export. `failures` lists the first of the `failed` documents."""

    from_entry: int = 0
    log_entry: int = 0
    documents: int = 0
    deletions: int = 0
    exclusions: int = 0
    failed: int = 0
    requests: int = 0
    bytes: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)

    def add_request(self, size: int) -> None:
        self.requests += 1
        self.bytes += size

    def add_exclusions(self, count: int) -> None:
        self.exclusions += count

    def add_result(self, action: BulkAction, rejection: Rejection | None) -> None:
        """Count an action that was executed or rejected permanently."""
        if rejection is None:
            self.documents += action.document is not None
            self.deletions += action.document is None
            return
        self.failed += 1
        if len(self.failures) < _MAX_FAILURES:
            self.failures.append({"id": action.id, "url": action.url, "reason": rejection.reason})


def export_bulk(
    workspace: Workspace,
    target: Target,
    destination: Destination,
    backoff: Backoff,
    *,
    batch_bytes: int = BATCH_BYTES,
    again: bool = False,
    save_interval_s: float = SAVE_INTERVAL_S,
) -> BulkReport:
    """Send all changes since the last export to a target; `again`: all pages.

    Raises:
        WorkError: the server cannot be used, or failed too often; the position is stored.
        WorkspaceError: the log is damaged, or differs from that of the previous export.
    """
    export = _Export(workspace, target, destination, backoff, batch_bytes, save_interval_s)
    if not again:
        export.load_position()
    return export.run()


def export_jsonl(workspace: Workspace, chosen: BulkSelection, output: BinaryIO) -> int:
    """Write each live page as one line of JSON; return their number.

    Raises OSError and WorkspaceError.
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
    def __init__(
        self,
        workspace: Workspace,
        target: Target,
        destination: Destination,
        backoff: Backoff,
        batch_bytes: int,
        save_interval_s: float,
    ) -> None:
        self._workspace = workspace
        self._target = target
        self._destination = destination
        self._backoff = backoff
        self._batch_bytes = min(batch_bytes, target.max_bytes or batch_bytes)
        self._save_interval_s = save_interval_s
        self._saved_at = time.monotonic()
        self._position = ExportPosition()
        self._report = BulkReport()

    def load_position(self) -> None:
        """Continue from the stored position, if there is one."""
        content = self._workspace.storage.read(self._destination.path)
        if content is None:
            return
        try:
            stored = json.loads(content)["confirmed"]
            partition, host_key, url_key = map(int, stored.pop("key"))
            exclusions = tuple(stored.pop("exclusions"))
            self._position = ExportPosition(
                **stored, key=(partition, host_key, url_key), exclusions=exclusions
            )
        except (ValueError, KeyError, TypeError):
            raise WorkspaceError(
                f"{self._destination.path} is damaged: run the command with --again, which sends "
                "all documents again"
            ) from None

    def run(self) -> BulkReport:
        start = self._position.log_entry
        self._target.prepare()
        self._backoff.success()
        failures = 0
        complete = False
        while not complete:
            state = self._workspace.state()
            self._require_same_log(state)
            self._exclude(state)
            try:
                complete = self._run_pass(state)
            except FileNotFoundError as error:
                failures += 1
                if failures == _ATTEMPTS:
                    raise WorkspaceError(
                        f"a file of the log is missing: {error}; run `lycosa check`"
                    ) from None
        return replace(self._report, from_entry=start, log_entry=self._position.log_entry)

    def _require_same_log(self, state: LogState) -> None:
        stored = self._position
        for number, attempt in (
            (stored.log_entry, stored.attempt),
            (stored.head, stored.head_attempt),
        ):
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
        new = sorted(set(state.exclusions.rules) - set(self._position.exclusions))
        if new:
            self._target.exclude(new)
            self._backoff.success()
            self._report.add_exclusions(len(new))
            self._save(replace(self._position, exclusions=tuple(sorted(state.exclusions.rules))))

    def _run_pass(self, state: LogState) -> bool:
        """Send all changes from the position to the end of the pass.

        Returns whether the pass ended at the latest entry of the log.
        """
        if self._position.log_entry == state.head:
            return True
        if not self._position.head:
            self._position = replace(
                self._position, head=state.head, head_attempt=self._attempt_of(state.head)
            )
        position = self._position
        chosen = self._destination.chosen
        changes = actions(self._workspace, state, chosen, position.log_entry, position.key)
        supported = (
            action for action in changes if action.document is not None or self._target.deletes
        )
        for batch, last in self._batches(supported):
            self._send(batch, last=last)
            self._position = replace(self._position, key=batch[-1].key)
            if time.monotonic() - self._saved_at >= self._save_interval_s:
                self._save(self._position)
        self._save(
            ExportPosition(position.head, position.head_attempt, exclusions=position.exclusions)
        )
        return position.head == state.head

    def _batches(self, pending: Iterable[BulkAction]) -> Iterator[tuple[list[BulkAction], bool]]:
        """Yield the actions of each request, and whether they are the last."""
        batch: list[BulkAction] = []
        size = 0
        for action in pending:
            needed = self._target.size(action)
            if batch and (size + needed > self._batch_bytes or len(batch) == _MAX_ACTIONS):
                yield batch, False
                batch, size = [], 0
            batch.append(action)
            size += needed
        if batch:
            yield batch, True

    def _send(self, batch: list[BulkAction], *, last: bool) -> None:
        """Send a batch until each action is executed or rejected permanently."""
        while batch:
            self._report.add_request(sum(map(self._target.size, batch)))
            try:
                results = self._target.send(batch, last=last)
            except RequestTooLarge:
                self._send_halves(batch, last=last)
                return
            except IncompleteResponse:
                self._backoff.failure(
                    f"{self._destination.url} did not return the result of each document"
                )
                continue
            retries: list[BulkAction] = []
            reason = ""
            for action, rejection in zip(batch, results, strict=True):
                if rejection is not None and rejection.temporary:
                    retries.append(action)
                    reason = rejection.reason
                else:
                    self._report.add_result(action, rejection)
            if len(retries) < len(batch):
                self._backoff.success()
            if retries:
                self._backoff.failure(
                    f"{len(retries)} of {len(batch)} documents were refused temporarily ({reason})"
                )
            batch = retries

    def _send_halves(self, batch: list[BulkAction], *, last: bool) -> None:
        """Send a batch in two requests, and limit later requests."""
        size = sum(map(self._target.size, batch))
        if len(batch) == 1:
            reason = f"413: {size} bytes are more than the server accepts"
            self._report.add_result(batch[0], Rejection(reason))
            return
        self._batch_bytes = min(self._batch_bytes, max(_MIN_BATCH_BYTES, size // 2))
        half = len(batch) // 2
        self._send(batch[:half], last=False)
        self._send(batch[half:], last=last)

    def _save(self, position: ExportPosition) -> None:
        self._position = position
        document: dict[str, Any] = {**asdict(self._destination), "confirmed": asdict(position)}
        storage = self._workspace.storage
        remedy = "the documents were sent, and the next run sends them again"
        with write_errors(self._destination.path, remedy):
            storage.make_folder(EXPORTS)
            storage.replace(
                self._destination.path, (json.dumps(document, indent=1) + "\n").encode()
            )
        self._saved_at = time.monotonic()
