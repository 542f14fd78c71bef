"""Outboxes: at least once, in order, over every crash; and bounded."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lycosa.config.settings import Config
from lycosa.core.clock import ManualClock
from lycosa.core.errors import WorkspaceError
from lycosa.notify.outbox import MAX_WAIT_MS, DeliveryWorker, Outbox, path_of
from lycosa.notify.transports import DeliveryError, Notice, Notifier, notifier_of
from lycosa.store.storage.storage import open_storage
from tests.waiting import until


def notice(number: int) -> Notice:
    return Notice(
        f"n{number}",
        "match",
        "w",
        f"http://x.example/{number}",
        datetime.fromtimestamp(number, UTC),
        f"text {number}",
        {},
    )


class Target:
    """Fails as long as `failing` says so."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.failing: DeliveryError | None = None

    def send(self, notice: Notice) -> None:
        if self.failing is not None:
            raise self.failing
        self.got.append(notice.id)

    def close(self) -> None:
        pass


def box_of(
    root: Path, target: Notifier, clock: ManualClock | None = None, max_waiting: int = 1_000
) -> Outbox:
    return Outbox(
        open_storage(str(root)),
        "watch",
        "file /x",
        lambda: target,
        clock or ManualClock(),
        max_waiting,
    )


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.mark.proves("durability-notifications")
def test_what_fails_is_tried_again_ever_later_and_in_order(tmp_path: Path) -> None:
    clock, target = ManualClock(), Target()
    box = box_of(tmp_path, target, clock)
    box.put([notice(1), notice(2)], cursor="7")
    target.failing = DeliveryError("it is shut", retry=True)
    waits = []
    for _ in range(14):
        assert box.deliver() == 0
        wait = box.due_in_ms()
        assert wait
        waits.append(wait)
        assert box.deliver() == 0  # not yet
        clock.advance(wait)
    assert 750 <= waits[0] <= 1_000
    assert waits[3] > 2 * waits[1]
    assert max(waits) <= MAX_WAIT_MS
    assert waits[-1] >= 0.75 * MAX_WAIT_MS
    state = box.state()
    assert (state.waiting, state.fails, state.problem) == (2, 14, "it is shut")
    target.failing = None
    assert box.deliver() == 2
    assert target.got == ["n1", "n2"]
    assert box.due_in_ms() is None
    assert box.state().fails == 0


def test_a_server_that_asks_for_more_time_gets_it(tmp_path: Path, target: Target) -> None:
    box = box_of(tmp_path, target)
    box.put([notice(1)])
    target.failing = DeliveryError("later", retry=True, wait_s=90)
    box.deliver()
    assert box.due_in_ms() == 90_000


def test_what_is_refused_for_good_holds_up_nothing(tmp_path: Path, target: Target) -> None:
    box = box_of(tmp_path, target)
    target.failing = DeliveryError("never", retry=False)
    box.put([notice(1)])
    assert box.deliver() == 0
    target.failing = None
    box.put([notice(2)])
    assert box.deliver() == 1
    state = box.state()
    assert (state.delivered, state.dropped, state.waiting) == (1, 1, 0)


def test_cursor_and_notices_are_kept_together_and_none_is_taken_twice(
    tmp_path: Path, target: Target
) -> None:
    box_of(tmp_path, target).put([notice(1), notice(2)], cursor="4:x")
    again = box_of(tmp_path, target)
    assert again.cursor == "4:x"
    again.put([notice(2), notice(3)], cursor="5")
    assert again.deliver() == 3
    third = box_of(tmp_path, target)
    third.put([notice(3)])  # left of late
    assert third.deliver() == 0
    assert target.got == ["n1", "n2", "n3"]


def test_it_is_bounded(tmp_path: Path, target: Target) -> None:
    box = box_of(tmp_path, target, max_waiting=5)
    assert box.free_slots == 5
    box.put([notice(number) for number in range(8)])
    assert (box.free_slots, box.state().dropped) == (0, 3)
    box.deliver()
    assert target.got == ["n3", "n4", "n5", "n6", "n7"]


@pytest.mark.proves("consistency-purge-derived")
def test_what_is_excluded_is_forgotten_on_disk_too(tmp_path: Path, target: Target) -> None:
    box = box_of(tmp_path, target)
    box.put([notice(1), notice(2)])
    assert box.forget(lambda url: url.endswith("/1")) == 1
    assert "text 1" not in (tmp_path / path_of("watch", "file /x")).read_text()
    box.deliver()
    assert target.got == ["n2"]


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / path_of("watch", "file /x")
    path.parent.mkdir(parents=True)
    path.write_text('{"waiting": [3]}')
    with pytest.raises(WorkspaceError, match="damaged"):
        box_of(tmp_path, Target())


def test_a_target_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    begun, release, arrived = threading.Event(), threading.Event(), threading.Event()

    class Slow(Target):
        def send(self, notice: Notice) -> None:
            begun.set()
            release.wait(20)

    class Quick(Target):
        def send(self, notice: Notice) -> None:
            super().send(notice)
            arrived.set()

    said: list[str] = []
    deliveries = DeliveryWorker(said.append)
    slow, quick = (
        Outbox(storage, "watch", "file /slow", Slow),
        Outbox(storage, "watch", "file /quick", Quick),
    )
    deliveries.start()
    deliveries.add(slow)
    deliveries.add(quick)
    slow.put([notice(1)])
    deliveries.wake()
    assert begun.wait(10)
    quick.put([notice(2)])
    deliveries.wake()
    assert arrived.wait(10)
    release.set()
    deliveries.stop()
    assert not said


DELIVERER = """
import sys
from lycosa.config.settings import Config
from lycosa.notify.transports import notifier_of
from lycosa.notify.outbox import Outbox
from lycosa.store.storage.storage import open_storage
from tests.notify.test_outbox import notice
root, target, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
box = Outbox(open_storage(root), "watch", target, lambda: notifier_of(target, Config()))
print("ready", flush=True)
number = int(box.cursor or 0)
while number < most or box.state().waiting:
    if number < most:
        box.put([notice(number), notice(number + 1)], cursor=str(number + 2))
        number += 2
    box.deliver()
print("done", flush=True)
"""


@pytest.mark.proves("durability-notifications")
@pytest.mark.parametrize("wanted", [2, pytest.param(40, marks=pytest.mark.prove)])
def test_kill_nine_loses_no_notice(tmp_path: Path, wanted: int) -> None:
    most, target = 400, f"file {tmp_path}/got.jsonl"
    chance = random.Random(5)
    kills = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-c", DELIVERER, str(tmp_path / "w"), target, str(most)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        with process:
            assert process.stdout.readline() == "ready\n"
            if kills < wanted:
                time.sleep(chance.uniform(0.02, 0.15))
                os.kill(process.pid, signal.SIGKILL)
                kills += process.wait() == -signal.SIGKILL
            elif process.stdout.readline() == "done\n":
                break
        if process.returncode == 0:
            break
    lines = (tmp_path / "got.jsonl").read_text().splitlines()
    whole = []
    for line in lines:
        try:
            whole.append(json.loads(line)["id"])
        except ValueError:
            assert kills  # a line that a kill cut short
    times = Counter(whole)
    assert times.keys() == {f"n{number}" for number in range(most)}
    assert sum(times.values()) <= most + kills * 20  # a kill sends again what one turn sent
    first = list(dict.fromkeys(whole))
    assert first == sorted(first, key=lambda id: int(id[1:]))


def test_a_file_as_target_needs_no_network(tmp_path: Path) -> None:
    box = Outbox(
        open_storage(str(tmp_path / "w")),
        "uptime",
        f"file {tmp_path}/x",
        lambda: notifier_of(f"file {tmp_path}/x", Config()),
        ManualClock(),
    )
    box.put([notice(1)])
    assert box.deliver() == 1


def test_a_fault_in_one_target_does_not_end_the_notifications_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(Target):
        def send(self, notice: Notice) -> None:
            raise KeyError("not handled anywhere")

    monkeypatch.setattr("lycosa.notify.outbox._AFTER_FAULT_S", 0.05)
    said: list[str] = []
    faulty, sound = Faulty(), Target()
    storage = open_storage(str(tmp_path))
    boxes = [
        Outbox(storage, "watch", "file /a", lambda: faulty),
        Outbox(storage, "watch", "file /b", lambda: sound),
    ]
    deliveries = DeliveryWorker(said.append)
    deliveries.start()
    boxes[0].put([notice(1)])
    deliveries.add(boxes[0])
    time.sleep(0.2)
    boxes[1].put([notice(2)])
    deliveries.add(boxes[1])
    until(lambda: sound.got, 10)
    deliveries.stop()
    assert sound.got == ["n2"]
    assert any("KeyError" in text for text in said)
