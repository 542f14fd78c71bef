"""Notices on their way: kept until their target has them, over every crash. At least once; twice
only after a crash, with the same id.

One outbox has one target and one small file, `run/outbox/NAME-KEY.json`, which is replaced as a
whole: the notices that wait, and the cursor of the one who puts them in. So a notice and the place
where it was read are kept or lost together, and a reader that comes back reads on from `cursor`. It
is written before a notice is sent, and again after; a kill between the two sends it again.

Only the process that owns the workspace delivers (`Workspace.own`, or a cluster's leader).
"""

from __future__ import annotations

import json
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.notify.transports import DeliveryError, Notice, Notifier, redacted_target
from lycosa.processes.threads import OnError, background_thread
from lycosa.store.storage.storage import Storage

FOLDER = "run/outbox"
MAX_WAITING = 1_000
"""Notices that one outbox holds. Who reads them from the log stops at it; of others the oldest are
given up, and counted.
"""
FIRST_WAIT_MS, MAX_WAIT_MS = 1_000, 600_000
_REMEMBERED = 256  # ids of delivered notices that are not taken again
_TURN = 20  # notices sent between two writes of the file: what a kill may send again
_AFTER_FAULT_S = 60  # until a target is tried again after an error that is a fault of the program
_AT_ONCE = 8  # targets that are served side by side: one that hangs holds up no other


@dataclass(slots=True, frozen=True)
class DeliveryState:
    """How an outbox stands. `target` as it may be shown; times in milliseconds since 1970, 0:
    never.
    """

    target: str
    waiting: int
    delivered: int
    dropped: int  # refused by the target for good, or pushed out by newer ones
    fails: int  # in a row
    problem: str  # why the last attempt failed; "" if it did not
    delivered_at: int


class Outbox:
    """The notices of one target. `put` and `deliver` may run in different threads; only one may
    deliver at a time.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        target: str,
        notifier: Callable[[], Notifier],
        clock: Clock | None = None,
        most: int = MAX_WAITING,
    ) -> None:
        """`name`: who puts notices in (`watch`, `uptime`); `notifier` makes the target's, when the
        first notice is due.

        Raises:
            WorkspaceError: its file is damaged.
        """
        self.target = target
        self._storage = storage
        self._path = path_of(name, target)
        self._make = notifier
        self._clock = clock or SystemClock()
        self._most = most
        self._lock = threading.Lock()
        self._notifier: Notifier | None = None
        self._due = 0  # by the monotonic clock
        self._problem = ""
        self._read()

    def _read(self) -> None:
        content = self._storage.read(self._path)
        try:
            kept = json.loads(content) if content else {}
            self._waiting = deque(Notice.from_json(each) for each in kept.get("waiting", ()))
            self._recent = deque((str(each) for each in kept.get("recent", ())), maxlen=_REMEMBERED)
            self._cursor = str(kept.get("cursor", ""))
            self._delivered, self._dropped = (
                int(kept.get("delivered", 0)),
                int(kept.get("dropped", 0)),
            )
            self._fails, self._delivered_at = (
                int(kept.get("fails", 0)),
                int(kept.get("delivered_at", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise WorkspaceError(
                f"{self._storage.root}/{self._path} is damaged: delete it (undelivered "
                "notifications are lost, unless they can be "
                "created again from the log)"
            ) from None
        self._known = {notice.id for notice in self._waiting}

    @property
    def cursor(self) -> str:
        """Where the one who puts notices in stood at its last `put`; "" before the first."""
        with self._lock:
            return self._cursor

    @property
    def room(self) -> int:
        """How many notices `put` takes without giving up any."""
        with self._lock:
            return max(0, self._most - len(self._waiting))

    def put(self, notices: Sequence[Notice], cursor: str | None = None) -> None:
        """Take notices in, oldest first; safe on disk when this returns. Those that wait, or left
        of late, are not taken twice.

        Raises:
            OSError: storage failed; nothing was taken.
        """
        with self._lock:
            before = (deque(self._waiting), set(self._known), self._cursor, self._dropped)
            recent = set(self._recent)
            changed = cursor is not None and cursor != self._cursor
            self._cursor = self._cursor if cursor is None else cursor
            for notice in notices:
                if notice.id in self._known or notice.id in recent:
                    continue
                self._waiting.append(notice)
                self._known.add(notice.id)
                changed = True
            while len(self._waiting) > self._most:
                self._known.discard(self._waiting.popleft().id)
                self._dropped += 1
            if changed:
                try:
                    self._write()
                except OSError:
                    self._waiting, self._known, self._cursor, self._dropped = before
                    raise

    def forget(self, excluded: Callable[[str], bool]) -> int:
        """Drop the notices about URLs that are excluded; returns how many. Raises OSError: storage
        failed.
        """
        with self._lock:
            kept = [notice for notice in self._waiting if not excluded(notice.url)]
            gone = len(self._waiting) - len(kept)
            if gone:
                self._waiting = deque(kept)
                self._known = {notice.id for notice in kept}
                self._write()
            return gone

    def deliver(self) -> int:
        """Send what waits, if it is time; returns how many notices left. What fails is tried again
        later, in the same order.

        Raises:
            OSError: storage failed; what was sent may be sent again.
        """
        sent = 0
        with self._lock:
            turn = [] if self._clock.monotonic_ms() < self._due else [*self._waiting][:_TURN]
        ended = False
        for notice in turn:
            refused = ""
            try:
                if self._notifier is None:
                    self._notifier = self._make()
                self._notifier.send(notice)
            except (DeliveryError, UsageError) as error:
                # a usage error: what was right when it was set is not any more
                if isinstance(error, UsageError) or error.retry:
                    self._failed(error)
                    ended = True
                    break
                refused = str(error)
            with self._lock:
                self._left(notice, refused)
            sent += not refused
        if turn and not (ended and not sent):
            with self._lock:
                try:
                    self._write()
                except OSError:
                    self._due = self._clock.monotonic_ms() + FIRST_WAIT_MS
                    raise
        return sent

    def due_in_ms(self) -> int | None:
        """In how many milliseconds `deliver` has something to do; None: when something is put
        in.
        """
        with self._lock:
            return max(0, self._due - self._clock.monotonic_ms()) if self._waiting else None

    def standing(self) -> DeliveryState:
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
        """Let go of connections. What waits, waits on disk."""
        if self._notifier is not None:
            self._notifier.close()
            self._notifier = None

    def _left(self, notice: Notice, refused: str) -> None:
        # else newer ones have pushed it out meanwhile, and it is counted there
        if notice.id in self._known:
            self._known.discard(notice.id)
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
            asked_ms = round(error.wait_s * 1000) if isinstance(error, DeliveryError) else 0
            wait_ms = max(min(asked_ms, MAX_WAIT_MS), round(longest * random.uniform(0.75, 1.0)))
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
    """The file of an outbox in the workspace."""
    return f"{FOLDER}/{name}-{sha256(target.encode()).hexdigest()[:16]}.json"


def outboxes(storage: Storage) -> Iterator[tuple[str, str]]:
    """(name, target) of every outbox that a workspace has. Damaged ones are left out."""
    for file in storage.names(FOLDER):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            target = str(json.loads(storage.read(f"{FOLDER}/{file}") or b"")["target"])
            yield file.rpartition("-")[0], target


class DeliveryWorker:
    """Delivers the notifications of outboxes in threads of its own, until `stop`.

    `say` gets a line for each failure that is the first in a row.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._boxes: dict[int, Outbox] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = background_thread(self._run, name="deliveries", on_error=OnError.RESTART)

    def start(self) -> None:
        self._thread.start()

    def add(self, box: Outbox) -> None:
        """Take care of an outbox from now on."""
        with self._lock:
            self._boxes[id(box)] = box
        self._wake.set()

    def drop(self, box: Outbox) -> None:
        """Not any more. It may be under way still."""
        with self._lock:
            self._boxes.pop(id(box), None)

    def wake(self) -> None:
        """Something was put into an outbox."""
        self._wake.set()

    def stop(self, patience_s: float = 15.0) -> None:
        """Begin no further delivery; wait for those under way, not longer than `patience_s`. What
        waits, waits on disk.
        """
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def _run(self) -> None:
        busy: dict[Future[None], int] = {}
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="notify") as pool:
            while not self._stopping.is_set():
                for done in [each for each in busy if each.done()]:
                    del busy[done]
                    done.result()
                with self._lock:
                    idle = [box for key, box in self._boxes.items() if key not in busy.values()]
                pause_ms: int | None = None
                for box in idle:
                    wait_ms = box.due_in_ms()
                    if wait_ms == 0:
                        future = pool.submit(self._turn, box)
                        busy[future] = id(box)
                        future.add_done_callback(lambda _: self._wake.set())
                    elif wait_ms is not None:
                        pause_ms = wait_ms if pause_ms is None else min(pause_ms, wait_ms)
                self._wake.wait(None if pause_ms is None else pause_ms / 1000)
                self._wake.clear()
        with self._lock:
            boxes, self._boxes = list(self._boxes.values()), {}
        for box in boxes:
            with suppress(OSError):
                box.close()

    def _turn(self, box: Outbox) -> None:
        before = box.standing()
        try:
            box.deliver()
        except OSError as error:  # a full disk: what was sent may be sent again, what waits is kept
            self._say(f"notifications for {before.target}: {error}")
            return
        except Exception as error:  # noqa: BLE001 - a fault of one target must not end the notifications of all
            self._say(
                f"notifications for {before.target}: unexpected error, next attempt in "
                f"{_AFTER_FAULT_S} s: {error!r}"
            )
            self._stopping.wait(_AFTER_FAULT_S)
            return
        after = box.standing()
        if after.problem and not before.fails:
            self._say(
                f"notifications for {after.target}: {after.problem}"
                + (f"; {after.waiting} waiting" if after.fails else "; discarded")
            )
        elif before.fails and not after.fails:
            self._say(f"notifications for {after.target} are delivered again")
