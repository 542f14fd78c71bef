"""Who coordinates a workspace: one process at a time, by epochs and a lease, on any storage.

`run/leader-00000007.json`, created if absent, says who leads epoch 7; `run/leader.json` is the
leader's note, rewritten every sixth of `reassign`. A leader speaks (answers pings) only while it
`holds`: until four fifths of `hold` after the *start* of its last whole touch, which wrote the note
and then saw that there is no epoch 8 and still an epoch 7. A candidate takes the next epoch when
the note stood unchanged for `reassign` by its own clock (at once, if the leader said that it ended,
or was a former life of the candidate's own cluster). The new leader says nothing for `hold` and
gives nothing away for `reassign` after its epoch was created.

Why no worker fetches by the old leader's word when the new leader gives its partitions to another,
whoever stalls for however long. Let `c` be the moment at which epoch 8 was created.

1. The old leader's last whole touch looked for epoch 8 before `c`, so it started before `c`; the
   old leader speaks last before `c + 0.8 hold`. It may stall between looking at its clock and
   answering: the answer counts for the worker from when it *sent* the ping, which was before the
   leader looked.
2. So an exchange by the old leader's word starts before `c + 1.8 hold`, which is before `c +
   reassign`, as reassign is at least twice
   hold: clocks may differ by 5 % in speed. The waiting before `c` is not needed for this; it keeps
       a living leader in office.
3. Between `c` and `c + 0.8 hold` both may be asked. Were the new one to believe a ping then, the
   old one might still move a partition away from that worker. So it is silent until `c + hold`, and
   then believes a worker only once the worker has heard a number from it
   (`lycosa.cluster.coordinator`): such a ping was sent after the old leader fell silent, and says
   what it led to in the end.

Epochs follow each other without a hole: number N+1 is created only by who has seen N, the oldest
are removed first, and the newest eight stay. Whoever creates a number and then finds its
predecessor gone had slept through all eight, and leads nothing. A leader that stalls, wakes, and
finds no successor goes on: nobody led meanwhile. `tests/crawl/test_protocol_model.py` checks all
this.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import OwnedError
from lycosa.core.units import format_time
from lycosa.store.coordination.owner import FOLDER
from lycosa.store.storage.storage import Storage

NOTE = f"{FOLDER}/leader.json"
KEPT = 8
"""Epoch files that are never removed: a process that sleeps through so many lives of others is
noticed.
"""

_SPEAKS = 0.8  # of `hold`: leaves 5 % for clocks of unequal speed where reassign = 2 hold
_TOUCHES = 6  # in `reassign`
_NAME = re.compile(r"^leader-(\d{8,})\.json\Z")


@dataclass(slots=True, frozen=True)
class Timing:
    """Milliseconds; `[cluster]` in the settings."""

    hold: int = 15_000
    reassign: int = 30_000


@dataclass(slots=True, frozen=True)
class LeaderNote:
    """What an epoch file and the leader's note say. `cluster` is the same in all lives of one
    cluster's coordinator.
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
    reassign: int = 30_000  # ms: a note that stands unchanged for so long is a dead leader's
    ended: bool = False


def epoch_path(epoch: int) -> str:
    """`run/leader-00000007.json`."""
    return f"{FOLDER}/leader-{epoch:08d}.json"


class Leadership:
    """One epoch, led. `touch` it often, from one thread; any may ask whether it `holds`."""

    def __init__(
        self,
        storage: Storage,
        note: LeaderNote,
        clock: Clock,
        timing: Timing,
        *,
        after: LeaderNote | None,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._timing = timing
        self._note = note
        self._until = self._touched = -1
        self._lock = threading.Lock()
        began = clock.monotonic_ms()
        self.clean = after is None or after.ended
        """Whether no worker can still act on orders of a former leader."""
        self.speaks_from = began if self.clean else began + timing.hold
        """When pings may be answered (monotonic ms)."""
        self.gives_from = began if self.clean else began + timing.reassign
        """When partitions that a worker might still hold may be reassigned."""
        self.lost = False
        """Another epoch has started, or this one has ended: it will never hold again."""

    @property
    def epoch(self) -> int:
        return self._note.epoch

    @property
    def holds(self) -> bool:
        """Whether this process may speak as the leader now."""
        return not self.lost and self._clock.monotonic_ms() < self._until

    def touch(self) -> bool:
        """Say that we live and see that nobody else leads, at most every sixth of `reassign`.
        Returns whether we lead.

        Raises:
            OSError: storage failed; what was held before runs out by itself.
        """
        with self._lock:
            start = self._clock.monotonic_ms()
            if self.lost or (
                self._touched >= 0 and start - self._touched < self._timing.reassign // _TOUCHES
            ):
                return self.holds
            self._write()
            if not self._stands():
                self.lost = True
                return False
            self._touched = start
            self._until = max(self._until, start + int(self._timing.hold * _SPEAKS))
            return self.holds

    def end(self) -> None:
        """Give the lease back: the next leader need not wait. Only when no worker holds anything by
        our word any more.

        Before `gives_from` one might by a former leader's: then the next one waits all the same.
        Raises OSError.
        """
        with self._lock:
            if not self.lost:
                self.lost = True
                if self._clock.monotonic_ms() >= self.gives_from and self._stands():
                    self._note = replace(self._note, ended=True)
                    self._write()

    def _write(self) -> None:
        self._note = replace(
            self._note, touches=self._note.touches + 1, touched_at=format_time(self._clock.now_ms())
        )
        self._storage.replace(NOTE, _encode(self._note))

    def _stands(self) -> bool:
        # In this order: where the next epoch's file was there and was removed, ours had been
        # removed before.
        return (
            self._storage.size(epoch_path(self.epoch + 1)) is None
            and self._storage.size(epoch_path(self.epoch)) is not None
        )


class Candidate:
    """Who would lead. Call `look` every second or so until it gives a leadership."""

    def __init__(
        self,
        storage: Storage,
        leader: str,
        cluster: str,
        timing: Timing,
        clock: Clock | None = None,
    ) -> None:
        self._storage = storage
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
        """A living leader of another cluster, if one was seen to be alive."""

    def look(self) -> Leadership | None:
        """Take the next epoch if it is time to. Raises OSError: storage failed; look again.

        A file system's folder must exist: `run` is made here.
        """
        started = self._clock.monotonic_ms()
        self._storage.make_folder(FOLDER)
        highest = newest_epoch(self._storage)
        if highest == 0:
            return self._take(1, None)
        content = self._storage.read(NOTE) or b""
        note, epoch = _decode(content), _decode(self._storage.read(epoch_path(highest)))
        if note is not None and note.epoch == highest and note.ended:
            return self._take(highest + 1, note)
        former = epoch or replace(self._draft, epoch=highest, cluster="")
        if former.cluster == self._draft.cluster:
            return self._take(highest + 1, former)
        if self._seen != (highest, content):
            self.rival = former if self._seen is not None else None
            self._seen, self._since = (highest, content), self._clock.monotonic_ms()
        elif started - self._since >= self._timing.reassign:
            return self._take(highest + 1, former)
        return None

    def _take(self, epoch: int, after: LeaderNote | None) -> Leadership | None:
        self._seen = self.rival = None
        draft = replace(self._draft, epoch=epoch, started_at=format_time(self._clock.now_ms()))
        try:
            created = self._storage.create(epoch_path(epoch), _encode(draft))
        except OSError:
            created = False
        if not created:  # taken by another, or by us, and the answer was lost
            present = _decode(self._storage.read(epoch_path(epoch)))
            if present is None or present.life != draft.life:
                return None
        leadership = Leadership(self._storage, draft, self._clock, self._timing, after=after)
        if (epoch > 1 and self._storage.size(epoch_path(epoch - 1)) is None) or newest_epoch(
            self._storage
        ) != epoch:
            # we slept through many lives: this number was free because it had been removed
            return None
        if not leadership.touch():
            return None
        self._remove_old(epoch)
        return leadership

    def _remove_old(self, epoch: int) -> None:
        """The oldest first, by name, whatever a listing leaves out."""
        oldest = min(_epochs(self._storage), default=epoch)
        while oldest > 1 and self._storage.size(epoch_path(oldest - 1)) is not None:
            oldest -= 1
        for old in range(oldest, epoch - KEPT + 1):
            self._storage.remove(epoch_path(old))


def newest_epoch(storage: Storage) -> int:
    """The highest epoch; 0 before the first. A stale listing may miss the last ones: they are
    looked for by name.
    """
    newest = max(_epochs(storage), default=0)
    while storage.size(epoch_path(newest + 1)) is not None:
        newest += 1
    return newest


def leader_of(storage: Storage) -> LeaderNote | None:
    """Who led last, and did not say that it ended; whether it lives, only time shows. None if
    nobody did.
    """
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
    storage: Storage, clock: Clock | None = None, *, look_every_s: float = 0.2
) -> None:
    """For a process that crawls alone: be sure that no cluster works here. Waits for the `reassign`
    of one that was killed.

    Raises:
        OwnedError: one does.
    """
    clock = clock or SystemClock()
    seen: tuple[int, bytes] | None = None
    since = 0
    while (note := leader_of(storage)) is not None:
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
        elif started - since >= note.reassign:
            return
        time.sleep(look_every_s)


def _epochs(storage: Storage) -> list[int]:
    matches = (_NAME.match(name) for name in storage.names(FOLDER))
    return [int(match[1]) for match in matches if match]


def _encode(note: LeaderNote) -> bytes:
    return (json.dumps(asdict(note), indent=1) + "\n").encode()


def _decode(content: bytes | None) -> LeaderNote | None:
    """None for what is no note: damaged, or of another program."""
    try:
        document: Any = json.loads(content or b"null")
        if not isinstance(document, dict):
            return None
        known = {field.name for field in fields(LeaderNote)}
        return LeaderNote(**{key: value for key, value in document.items() if key in known})
    except (ValueError, TypeError, RecursionError):
        return None
