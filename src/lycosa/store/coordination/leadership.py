"""Election of the coordinator of a workspace, by epochs and a lease, on any storage.

`run/leader-00000007.json`, created if absent, records the leader of epoch 7. `run/leader.json` is
the leader's note, rewritten every sixth of `reassign`. A leader answers pings only while it `holds`
the lease: until 80 % of `hold` after the *start* of its last complete touch, which wrote the note
and then verified that epoch 7 exists and epoch 8 does not. A candidate creates the next epoch if
the note was unchanged for `reassign` by its own clock (at once, if the leader ended, or was an
earlier process of the same cluster). A new leader answers nothing for `hold` and assigns nothing
for `reassign` after its epoch was created. A leader whose workers are all on its machine also ended
if all of these processes have (`cluster_lock`).

Proof that no worker fetches for the old leader when the new one reassigns its partitions, even if
processes stall. Let `c` be the time at which epoch 8 was created.

1. The old leader's last complete touch checked for epoch 8 before `c`, so it started before `c`,
   and its last answer is before `c + 0.8 hold`. If it stalls between reading its clock and
   answering: the worker counts from when it *sent* the ping, which is earlier.
2. So an exchange permitted by the old leader starts before `c + 1.8 hold`, which is before
   `c + reassign`, as `reassign` is at least twice `hold`: clocks may differ by 5 %. Waiting before
   `c` is not needed for this; it keeps a living leader in office.
3. Between `c` and `c + 0.8 hold` workers may ping both leaders. If the new one believed a ping,
   the old one might still move a partition away from that worker. So the new leader is silent until
   `c + hold`, and then believes a worker only after the worker has received a number from it
   (`lycosa.cluster.coordinator`): such a ping was sent after the old leader's last answer.

Epochs are consecutive: number N+1 is created only by a process that has read N. The oldest are
removed first, and the newest eight stay. A process that creates a number and finds its predecessor
removed was suspended during all eight, and leads nothing. A leader that was suspended and finds no
successor continues. `tests/crawl/test_protocol_model.py` checks this.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import OwnedError
from lycosa.core.units import format_duration, format_time
from lycosa.store.coordination.cluster_lock import all_ended
from lycosa.store.coordination.owner import FOLDER, decode_note, encode_note
from lycosa.store.storage.storage import Storage

NOTE = f"{FOLDER}/leader.json"
RETAINED_EPOCHS = 8
"""Epoch files that are retained, so that a process that was suspended for long is detected."""

LEASE_SHARE = 0.8  # of `hold`: tolerates clocks that differ by 5 % if reassign = 2 hold
_POLL_S = 0.2
_TOUCHES = 6  # per `reassign`
_NAME = re.compile(r"^leader-(\d{8,})\.json\Z")


@dataclass(slots=True, frozen=True)
class Timing:
    """Milliseconds; `[cluster]` in the settings."""

    hold: int = 15_000
    reassign: int = 30_000


@dataclass(slots=True, frozen=True)
class LeaderNote:
    """The content of an epoch file and of the leader's note. `cluster` is the same for all
    coordinator processes of a cluster.
    """

    epoch: int
    life: str
    cluster: str
    leader: str
    host: str = ""
    pid: int = 0
    started_at: str = ""
    touched_at: str = ""
    touches: int = 0
    reassign: int = 30_000  # ms; the leader is dead if its note is unchanged for this long
    scope: str = ""  # of the cluster's lock, once no worker can act for an earlier leader
    ended: bool = False


def epoch_path(epoch: int) -> str:
    """Return the path of an epoch file: `run/leader-00000007.json`."""
    return f"{FOLDER}/leader-{epoch:08d}.json"


class Leadership:
    """The lease of a leader. Call `touch` often, from one thread; `holds` from any."""

    def __init__(
        self,
        storage: Storage,
        note: LeaderNote,
        clock: Clock,
        timing: Timing,
        *,
        after: LeaderNote | None,
        scope: str = "",
    ) -> None:
        self._storage = storage
        self._scope = scope
        self._clock = clock
        self._timing = timing
        self._note = note
        self._until = self._touched = -1
        self._lock = threading.Lock()
        began = clock.monotonic_ms()
        self.clean = after is None or after.ended
        """Whether no worker can still act for a former leader."""
        self.answers_from = began if self.clean else began + timing.hold
        """When pings may be answered (monotonic ms)."""
        self.assigns_from = began if self.clean else began + timing.reassign
        """When partitions that a worker might still hold may be reassigned."""
        self.lost = False
        """Another epoch has started, or this one has ended, permanently."""

    @property
    def epoch(self) -> int:
        return self._note.epoch

    @property
    def holds(self) -> bool:
        """Whether this process may act as the leader now."""
        return not self.lost and self._clock.monotonic_ms() < self._until

    def touch(self) -> bool:
        """Renew the lease, at most every sixth of `reassign`. Return whether this process leads.

        Raises:
            OSError: storage failed; the current lease expires.
        """
        with self._lock:
            start = self._clock.monotonic_ms()
            if self.lost or (
                self._touched >= 0 and start - self._touched < self._timing.reassign // _TOUCHES
            ):
                return self.holds
            self._write()
            if not self._is_newest():
                self.lost = True
                return False
            self._touched = start
            self._until = max(self._until, start + int(self._timing.hold * LEASE_SHARE))
            return self.holds

    def end(self) -> None:
        """End the lease, so that the next leader need not wait. No worker may hold a partition.

        Before `assigns_from` a worker may act for a former leader, so the next one still waits.
        Raises OSError.
        """
        with self._lock:
            if not self.lost:
                self.lost = True
                if self._clock.monotonic_ms() >= self.assigns_from and self._is_newest():
                    self._note = replace(self._note, ended=True)
                    self._write()

    def _write(self) -> None:
        self._note = replace(
            self._note,
            touches=self._note.touches + 1,
            touched_at=format_time(self._clock.now_ms()),
            scope=self._scope if self._clock.monotonic_ms() >= self.assigns_from else "",
        )
        self._storage.replace(NOTE, encode_note(self._note))

    def _is_newest(self) -> bool:
        # In this order: if the next epoch's file was removed, ours was removed before.
        return (
            self._storage.size(epoch_path(self.epoch + 1)) is None
            and self._storage.size(epoch_path(self.epoch)) is not None
        )


class LeaderCandidate:
    """A process that may become the leader.

    Call `try_to_lead` every second until it returns a lease. `scope`: of the lock that this process
    and all workers hold (`cluster_lock.lock_scope`), if they do.
    """

    def __init__(
        self,
        storage: Storage,
        leader: str,
        cluster: str,
        timing: Timing,
        clock: Clock | None = None,
        *,
        scope: str = "",
    ) -> None:
        self._storage = storage
        self._scope = scope
        self._clock = clock or SystemClock()
        self._timing = timing
        self._draft = LeaderNote(
            0,
            uuid.uuid4().hex,
            cluster,
            leader,
            socket.gethostname(),
            os.getpid(),
            reassign=timing.reassign,
        )
        self._seen: tuple[int, bytes] | None = None
        self._since = 0
        self.rival: LeaderNote | None = None
        """The leader of another cluster, if its note has changed."""

    def try_to_lead(self) -> Leadership | None:
        """Create the next epoch if permitted. Raises OSError: storage failed; repeat."""
        started = self._clock.monotonic_ms()
        self._storage.make_folder(FOLDER)
        highest = newest_epoch(self._storage)
        if highest == 0:
            return self._lead(1, None)
        content = self._storage.read(NOTE) or b""
        note, epoch = _decode(content), _decode(self._storage.read(epoch_path(highest)))
        if note is not None and note.epoch == highest and note.ended:
            return self._lead(highest + 1, note)
        former = epoch or replace(self._draft, epoch=highest, cluster="")
        if former.cluster == self._draft.cluster:
            return self._lead(highest + 1, former)
        if self._seen != (highest, content):
            self.rival = former if self._seen is not None else None
            self._seen, self._since = (highest, content), self._clock.monotonic_ms()
        elif started - self._since >= self._timing.reassign:
            return self._lead(highest + 1, former)
        return None

    def _lead(self, epoch: int, after: LeaderNote | None) -> Leadership | None:
        self._seen = self.rival = None
        draft = replace(self._draft, epoch=epoch, started_at=format_time(self._clock.now_ms()))
        try:
            created = self._storage.create(epoch_path(epoch), encode_note(draft))
        except OSError:
            created = False
        if not created:  # it exists, or the response was lost
            present = _decode(self._storage.read(epoch_path(epoch)))
            if present is None or present.life != draft.life:
                return None
        leadership = Leadership(
            self._storage, draft, self._clock, self._timing, after=after, scope=self._scope
        )
        if (epoch > 1 and self._storage.size(epoch_path(epoch - 1)) is None) or newest_epoch(
            self._storage
        ) != epoch:
            # this process was suspended, and the number was free because it was removed
            return None
        if not leadership.touch():
            return None
        self._remove_old(epoch)
        return leadership

    def _remove_old(self, epoch: int) -> None:
        """Remove old epochs, the oldest first, by name: listings may be incomplete."""
        oldest = min(_epochs(self._storage), default=epoch)
        while oldest > 1 and self._storage.size(epoch_path(oldest - 1)) is not None:
            oldest -= 1
        for old in range(oldest, epoch - RETAINED_EPOCHS + 1):
            self._storage.remove(epoch_path(old))


def newest_epoch(storage: Storage) -> int:
    """Return the highest epoch, 0 without one. Listings may be stale: recent epochs are requested
    by name.
    """
    newest = max(_epochs(storage), default=0)
    while storage.size(epoch_path(newest + 1)) is not None:
        newest += 1
    return newest


def leader_of(storage: Storage) -> LeaderNote | None:
    """Return the note of the last leader if it did not end; it may be dead. None without one."""
    newest = newest_epoch(storage)
    if newest == 0:
        return None
    note = _decode(storage.read(NOTE))
    if note is not None and note.epoch == newest and note.ended:
        return None
    return (
        note
        if note is not None and note.epoch == newest
        else _decode(storage.read(epoch_path(newest)))
    )


def require_no_leader(
    storage: Storage, clock: Clock | None = None, report: Callable[[str], None] | None = None
) -> None:
    """Verify that no cluster crawls here.

    Waits for `reassign` after one was killed, except if all its processes were on this machine;
    `report` receives a message before. Only the owner of the workspace on this machine may call
    this.

    Raises:
        OwnedError: a cluster crawls here.
    """
    clock = clock or SystemClock()
    seen: tuple[int, bytes] | None = None
    since = 0
    while (note := leader_of(storage)) is not None:
        if all_ended(storage, note.scope):
            storage.replace(NOTE, encode_note(replace(note, ended=True)))
            return
        started = clock.monotonic_ms()
        now = (newest_epoch(storage), storage.read(NOTE) or b"")
        if seen is not None and seen != now:
            raise OwnedError(
                f"a cluster crawl is running in {storage.root} ({note.leader} on {note.host}, "
                f"since {note.started_at}); "
                f"stop it, use its commands, or use another workspace (-w DIR)"
            )
        if seen is None:
            seen, since = now, clock.monotonic_ms()
            if report is not None:
                report(
                    f"waiting {format_duration(note.reassign)}: the last cluster crawl did not end "
                    f"({note.leader} on {note.host}), and its workers might still fetch"
                )
        elif started - since >= note.reassign:
            return
        time.sleep(_POLL_S)


def _epochs(storage: Storage) -> list[int]:
    matches = (_NAME.match(name) for name in storage.names(FOLDER))
    return [int(match[1]) for match in matches if match]


def _decode(content: bytes | None) -> LeaderNote | None:
    return decode_note(LeaderNote, content)
