"""Durable queues of notifications: delivered at least once, twice only after a crash (same ID).

An outbox has one target and one file, `run/outbox/NAME-KEY.json`, which is replaced as a whole: the
waiting notifications, and the cursor of their producer. So both are stored or lost together. The
file is written before and after sending; a kill between the two sends a notification again.

Only the process that owns the workspace delivers (`Workspace.own`, or the leader of a cluster).
"""

from __future__ import annotations

import json
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.notify.transports import DeliveryError, Notice, Notifier, redacted_target
from lycosa.processes.threads import OnError, background_thread
from lycosa.store.storage.storage import Storage, json_documents

FOLDER = "run/outbox"
MAX_WAITING = 1_000
"""Notifications in one outbox. Log readers stop there; otherwise the oldest are dropped."""
FIRST_WAIT_MS, MAX_WAIT_MS = 1_000, 600_000
_RECENT_IDS = 256  # IDs of delivered notifications that are ignored if they are put again
_BATCH = 20  # notifications between two writes of the file; a kill may send them twice
_AFTER_FAULT_S = 60  # retry delay after an unexpected exception
_STOP_TIMEOUT_S = 3.0
_MAX_CONCURRENT = 8  # concurrent targets, so that a hanging one does not block others


@dataclass(slots=True, frozen=True)
class DeliveryState:
    """The state of an outbox. `target` without secrets; times in ms since 1970, 0: never."""

    target: str
    waiting: int
    delivered: int
    dropped: int  # refused permanently by the target, or replaced by newer ones
    fails: int  # in a row
    problem: str  # error of the last attempt; "" if it succeeded
    delivered_at: int


class Outbox:
    """The notifications of one target. `put` and `deliver` may run in different threads; only one
    thread may deliver at a time.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        target: str,
        notifier: Callable[[], Notifier],
        clock: Clock | None = None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """Load the outbox. `name`: of the producer (`watch`, `uptime`); `notifier` connects to the
        target when the first notification is due.

        Raises:
            WorkspaceError: its file is damaged.
        """
        self.target = target
        self._storage = storage
        self._path = path_of(name, target)
        self._create_notifier = notifier
        self._clock = clock or SystemClock()
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._notifier: Notifier | None = None
        self._due = 0  # by the monotonic clock
        self._problem = ""
        self._read()

    def _read(self) -> None:
        content = self._storage.read(self._path)
        try:
            document = json.loads(content) if content else {}
            self._waiting = deque(Notice.from_json(each) for each in document.get("waiting", ()))
            self._recent = deque(
                (str(each) for each in document.get("recent", ())), maxlen=_RECENT_IDS
            )
            self._cursor = str(document.get("cursor", ""))
            self._delivered, self._dropped = (
                int(document.get("delivered", 0)),
                int(document.get("dropped", 0)),
            )
            self._fails, self._delivered_at = (
                int(document.get("fails", 0)),
                int(document.get("delivered_at", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise WorkspaceError(
                f"{self._storage.root}/{self._path} is damaged: delete it (undelivered "
                "notifications are lost, unless they can be "
                "created again from the log)"
            ) from None
        self._waiting_ids = {notice.id for notice in self._waiting}

    @property
    def cursor(self) -> str:
        """The cursor of the last `put`; "" before the first."""
        with self._lock:
            return self._cursor

    @property
    def free_slots(self) -> int:
        """The number of notifications that `put` accepts without dropping any."""
        with self._lock:
            return max(0, self._max_waiting - len(self._waiting))

    def put(self, notices: Sequence[Notice], cursor: str | None = None) -> None:
        """Add notifications, oldest first; durable on return. Waiting and recent ones are skipped.

        Raises:
            OSError: storage failed; nothing was added.
        """
        with self._lock:
            before = (deque(self._waiting), set(self._waiting_ids), self._cursor, self._dropped)
            recent = set(self._recent)
            changed = cursor is not None and cursor != self._cursor
            self._cursor = self._cursor if cursor is None else cursor
            for notice in notices:
                if notice.id in self._waiting_ids or notice.id in recent:
                    continue
                self._waiting.append(notice)
                self._waiting_ids.add(notice.id)
                changed = True
            while len(self._waiting) > self._max_waiting:
                self._waiting_ids.discard(self._waiting.popleft().id)
                self._dropped += 1
            if changed:
                try:
                    self._write()
                except OSError:
                    self._waiting, self._waiting_ids, self._cursor, self._dropped = before
                    raise

    def forget(self, excluded: Callable[[str], bool]) -> None:
        """Drop notifications about excluded URLs. Raises OSError."""
        with self._lock:
            kept = [notice for notice in self._waiting if not excluded(notice.url)]
            if len(kept) < len(self._waiting):
                self._waiting = deque(kept)
                self._waiting_ids = {notice.id for notice in kept}
                self._write()

    def deliver(self) -> int:
        """Send waiting notifications if they are due; return the number sent. Failed ones are
        retried later, in the same order.

        Raises:
            OSError: storage failed; sent notifications may be sent again.
        """
        sent = 0
        with self._lock:
            batch = [] if self._clock.monotonic_ms() < self._due else [*self._waiting][:_BATCH]
        ended = False
        for notice in batch:
            refused = ""
            try:
                if self._notifier is None:
                    self._notifier = self._create_notifier()
                self._notifier.send(notice)
            except (DeliveryError, UsageError) as error:
                # a usage error: the target was valid when it was added
                if isinstance(error, UsageError) or error.retry:
                    self._failed(error)
                    ended = True
                    break
                refused = str(error)
            with self._lock:
                self._finish(notice, refused)
            sent += not refused
        if batch and not (ended and not sent):
            with self._lock:
                try:
                    self._write()
                except OSError:
                    self._due = self._clock.monotonic_ms() + FIRST_WAIT_MS
                    raise
        return sent

    def due_in_ms(self) -> int | None:
        """Return the time until `deliver` has something to do; None: nothing is waiting."""
        with self._lock:
            return max(0, self._due - self._clock.monotonic_ms()) if self._waiting else None

    def state(self) -> DeliveryState:
        with self._lock:
            waiting, fails = len(self._waiting), self._fails
            return DeliveryState(
                redacted_target(self.target),
                waiting,
                self._delivered,
                self._dropped,
                fails,
                self._problem,
                self._delivered_at,
            )

    def close(self) -> None:
        """Close connections. Waiting notifications stay on disk."""
        if self._notifier is not None:
            self._notifier.close()
            self._notifier = None

    def _finish(self, notice: Notice, refused: str) -> None:
        # otherwise it was replaced by newer ones, and is counted there
        if notice.id in self._waiting_ids:
            self._waiting_ids.discard(notice.id)
            self._waiting.remove(notice)
            self._dropped += bool(refused)
        self._recent.append(notice.id)
        self._fails, self._due, self._problem = 0, 0, refused
        if not refused:
            self._delivered += 1
            self._delivered_at = self._clock.now_ms()

    def _failed(self, error: DeliveryError | UsageError) -> None:
        with self._lock:
            longest = min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** min(self._fails, 20))
            requested_ms = round(error.wait_s * 1000) if isinstance(error, DeliveryError) else 0
            wait_ms = max(
                min(requested_ms, MAX_WAIT_MS), round(longest * random.uniform(0.75, 1.0))
            )
            self._fails += 1
            self._problem = str(error)
            self._due = self._clock.monotonic_ms() + wait_ms

    def _write(self) -> None:
        document = {
            "target": self.target,
            "cursor": self._cursor,
            "delivered": self._delivered,
            "delivered_at": self._delivered_at,
            "dropped": self._dropped,
            "fails": self._fails,
            "recent": list(self._recent),
            "waiting": [notice.as_json() for notice in self._waiting],
        }
        self._storage.make_folder(FOLDER)
        self._storage.replace(
            self._path, json.dumps(document, ensure_ascii=False).encode(), mode=0o600, sync=True
        )


def path_of(name: str, target: str) -> str:
    """Return the path of an outbox in the workspace."""
    return f"{FOLDER}/{name}-{sha256(target.encode()).hexdigest()[:16]}.json"


def outboxes(storage: Storage) -> Iterator[tuple[str, str]]:
    """Yield (name, target) of the outboxes of a workspace, without damaged ones."""
    for name, document in json_documents(storage, FOLDER):
        if "target" in document:
            yield name.rpartition("-")[0], str(document["target"])


class DeliveryWorker:
    """Delivers the notifications of outboxes in threads of its own, until `stop`.

    `report` gets a line for each failure that is the first in a row.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._boxes: dict[int, Outbox] = {}
        # no pool: the process would wait for its threads at the end, as long as a target hangs
        self._busy: dict[int, threading.Thread] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = background_thread(self._run, name="deliveries", on_error=OnError.RESTART)

    def start(self) -> None:
        self._thread.start()

    def add(self, box: Outbox) -> None:
        """Deliver the notifications of an outbox from now on."""
        with self._lock:
            self._boxes[id(box)] = box
        self._wake.set()

    def drop(self, box: Outbox) -> None:
        """Stop delivering an outbox. A running delivery is completed."""
        with self._lock:
            self._boxes.pop(id(box), None)

    def wake(self) -> None:
        """Deliver new notifications now."""
        self._wake.set()

    def stop(self) -> None:
        """Stop, and wait a few seconds for running deliveries."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                idle = [box for key, box in self._boxes.items() if key not in self._busy]
            pause_ms: int | None = None
            for box in idle:
                wait_ms = box.due_in_ms()
                if wait_ms == 0:
                    self._start_delivery(box)
                elif wait_ms is not None:
                    pause_ms = wait_ms if pause_ms is None else min(pause_ms, wait_ms)
            self._wake.wait(None if pause_ms is None else pause_ms / 1000)
            self._wake.clear()
        with self._lock:
            running = list(self._busy.values())
        for thread in running:
            thread.join()
        with self._lock:
            boxes, self._boxes = list(self._boxes.values()), {}
        for box in boxes:
            with suppress(OSError):
                box.close()

    def _start_delivery(self, box: Outbox) -> None:
        """Deliver in a thread, unless so many are running that one must end first."""
        thread = background_thread(
            self._deliver_and_wake, box, name="notify", on_error=OnError.REPORT
        )
        with self._lock:
            if len(self._busy) >= _MAX_CONCURRENT:
                return
            self._busy[id(box)] = thread
        thread.start()

    def _deliver_and_wake(self, box: Outbox) -> None:
        try:
            self._deliver(box)
        finally:
            with self._lock:
                del self._busy[id(box)]
            self._wake.set()

    def _deliver(self, box: Outbox) -> None:
        before = box.state()
        try:
            box.deliver()
        except OSError as error:  # full disk: sent ones may be sent again, others remain queued
            self._report(f"notifications for {before.target}: {error}")
            return
        except Exception as error:  # noqa: BLE001 - other targets must get theirs
            self._report(
                f"notifications for {before.target}: unexpected error, next attempt in "
                f"{_AFTER_FAULT_S} s: {error!r}"
            )
            self._stopping.wait(_AFTER_FAULT_S)
            return
        after = box.state()
        if after.problem and not before.fails:
            self._report(
                f"notifications for {after.target}: {after.problem}"
                + (f"; {after.waiting} waiting" if after.fails else "; discarded")
            )
        elif before.fails and not after.fails:
            self._report(f"notifications for {after.target} are delivered again")
