"""Test outboxes: at-least-once delivery in order, kills and limits."""

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
from lycosa.core.errors import WorkspaceError
from lycosa.notify.outbox import MAX_WAIT_MS, DeliveryWorker, Outbox, path_of
from lycosa.notify.transports import DeliveryError, Notice, Notifier, notifier_of
from lycosa.store.storage.storage import open_storage
from tests.waiting import ManualClock, until


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
    """Notifier that raises `failing` while it is set."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.failing: DeliveryError | None = None

    def send(self, notice: Notice) -> None:
        if self.failing is not None:
            raise self.failing
        self.received.append(notice.id)

    def close(self) -> None:
        pass


def outbox_of(
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
def test_failed_deliveries_are_retried_in_order_with_growing_waits(tmp_path: Path) -> None:
    clock, target = ManualClock(), Target()
    outbox = outbox_of(tmp_path, target, clock)
    outbox.put([notice(1), notice(2)], cursor="7")
    target.failing = DeliveryError("closed", retry=True)
    waits = []
    for _ in range(14):
        assert outbox.deliver() == 0
        wait = outbox.due_in_ms()
        assert wait
        waits.append(wait)
        assert outbox.deliver() == 0  # not yet
        clock.advance(wait)
    assert 750 <= waits[0] <= 1_000
    assert waits[3] > 2 * waits[1]
    assert max(waits) <= MAX_WAIT_MS
    assert waits[-1] >= 0.75 * MAX_WAIT_MS
    state = outbox.state()
    assert (state.waiting, state.fails, state.problem) == (2, 14, "closed")
    target.failing = None
    assert outbox.deliver() == 2
    assert target.received == ["n1", "n2"]
    assert outbox.due_in_ms() is None
    assert outbox.state().fails == 0


def test_the_requested_wait_of_a_server_is_kept(tmp_path: Path, target: Target) -> None:
    outbox = outbox_of(tmp_path, target)
    outbox.put([notice(1)])
    target.failing = DeliveryError("later", retry=True, wait_s=90)
    outbox.deliver()
    assert outbox.due_in_ms() == 90_000


def test_permanently_refused_notice_does_not_block_others(tmp_path: Path, target: Target) -> None:
    outbox = outbox_of(tmp_path, target)
    target.failing = DeliveryError("never", retry=False)
    outbox.put([notice(1)])
    assert outbox.deliver() == 0
    target.failing = None
    outbox.put([notice(2)])
    assert outbox.deliver() == 1
    state = outbox.state()
    assert (state.delivered, state.dropped, state.waiting) == (1, 1, 0)


def test_cursor_and_notices_are_stored_together_and_duplicates_ignored(
    tmp_path: Path, target: Target
) -> None:
    outbox_of(tmp_path, target).put([notice(1), notice(2)], cursor="4:x")
    again = outbox_of(tmp_path, target)
    assert again.cursor == "4:x"
    again.put([notice(2), notice(3)], cursor="5")
    assert again.deliver() == 3
    third = outbox_of(tmp_path, target)
    third.put([notice(3)])  # already delivered
    assert third.deliver() == 0
    assert target.received == ["n1", "n2", "n3"]


def test_an_outbox_is_bounded_and_drops_the_oldest(tmp_path: Path, target: Target) -> None:
    outbox = outbox_of(tmp_path, target, max_waiting=5)
    assert outbox.free_slots == 5
    outbox.put([notice(number) for number in range(8)])
    assert (outbox.free_slots, outbox.state().dropped) == (0, 3)
    outbox.deliver()
    assert target.received == ["n3", "n4", "n5", "n6", "n7"]


@pytest.mark.proves("consistency-purge-derived")
def test_notices_of_excluded_pages_are_deleted_from_disk(tmp_path: Path, target: Target) -> None:
    outbox = outbox_of(tmp_path, target)
    outbox.put([notice(1), notice(2)])
    outbox.forget(lambda url: url.endswith("/1"))
    assert "text 1" not in (tmp_path / path_of("watch", "file /x")).read_text()
    outbox.deliver()
    assert target.received == ["n2"]


def test_a_damaged_file_raises(tmp_path: Path) -> None:
    path = tmp_path / path_of("watch", "file /x")
    path.parent.mkdir(parents=True)
    path.write_text('{"waiting": [3]}')
    with pytest.raises(WorkspaceError, match="damaged"):
        outbox_of(tmp_path, Target())


def test_hanging_target_does_not_block_others(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    started, release, arrived = threading.Event(), threading.Event(), threading.Event()

    class Slow(Target):
        def send(self, notice: Notice) -> None:
            started.set()
            release.wait(20)

    class Quick(Target):
        def send(self, notice: Notice) -> None:
            super().send(notice)
            arrived.set()

    messages: list[str] = []
    deliveries = DeliveryWorker(messages.append)
    slow, quick = (
        Outbox(storage, "watch", "file /slow", Slow),
        Outbox(storage, "watch", "file /quick", Quick),
    )
    deliveries.start()
    deliveries.add(slow)
    deliveries.add(quick)
    slow.put([notice(1)])
    deliveries.wake()
    assert started.wait(10)
    quick.put([notice(2)])
    deliveries.wake()
    assert arrived.wait(10)
    release.set()
    deliveries.stop()
    assert not messages


HANGING = """
import sys, threading, time
from datetime import UTC, datetime
from lycosa.notify.outbox import DeliveryWorker, Outbox
from lycosa.notify.transports import Notice
from lycosa.store.storage.storage import open_storage

started = threading.Event()

class Hanging:
    def send(self, notice):
        started.set()
        time.sleep(120)

deliveries = DeliveryWorker(print)
deliveries.start()
box = Outbox(open_storage(sys.argv[1]), "watch", "file /x", Hanging)
deliveries.add(box)
box.put([Notice("n", "match", "", "", datetime.now(UTC), "")])
deliveries.wake()
started.wait()
deliveries.stop()
"""


def test_a_hanging_target_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", HANGING, str(tmp_path)], check=True, timeout=60)


DELIVERER = """
import sys
from lycosa.config.settings import Config
from lycosa.notify.transports import notifier_of
from lycosa.notify.outbox import Outbox
from lycosa.store.storage.storage import open_storage
from tests.notify.test_outbox import notice
root, target, total = sys.argv[1], sys.argv[2], int(sys.argv[3])
outbox = Outbox(open_storage(root), "watch", target, lambda: notifier_of(target, Config()))
print("ready", flush=True)
number = int(outbox.cursor or 0)
while number < total or outbox.state().waiting:
    if number < total:
        outbox.put([notice(number), notice(number + 1)], cursor=str(number + 2))
        number += 2
    outbox.deliver()
print("done", flush=True)
"""


@pytest.mark.proves("durability-notifications")
@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.prove)])
def test_kill_nine_loses_no_notice(tmp_path: Path, count: int) -> None:
    total, target = 400, f"file {tmp_path}/notices.jsonl"
    generator = random.Random(5)
    kills = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-c", DELIVERER, str(tmp_path / "w"), target, str(total)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        with process:
            assert process.stdout.readline() == "ready\n"
            if kills < count:
                time.sleep(generator.uniform(0.02, 0.15))
                os.kill(process.pid, signal.SIGKILL)
                kills += process.wait() == -signal.SIGKILL
            elif process.stdout.readline() == "done\n":
                break
        if process.returncode == 0:
            break
    lines = (tmp_path / "notices.jsonl").read_text().splitlines()
    delivered = []
    for line in lines:
        try:
            delivered.append(json.loads(line)["id"])
        except ValueError:
            assert kills  # a line truncated by a kill
    times = Counter(delivered)
    assert times.keys() == {f"n{number}" for number in range(total)}
    assert sum(times.values()) <= total + kills * 20  # after a kill, one batch is sent again
    first = list(dict.fromkeys(delivered))
    assert first == sorted(first, key=lambda id: int(id[1:]))


def test_a_file_as_target_needs_no_network(tmp_path: Path) -> None:
    outbox = Outbox(
        open_storage(str(tmp_path / "w")),
        "uptime",
        f"file {tmp_path}/x",
        lambda: notifier_of(f"file {tmp_path}/x", Config()),
        ManualClock(),
    )
    outbox.put([notice(1)])
    assert outbox.deliver() == 1


def test_an_unexpected_error_of_a_target_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(Target):
        def send(self, notice: Notice) -> None:
            raise KeyError("not handled anywhere")

    monkeypatch.setattr("lycosa.notify.outbox._AFTER_FAULT_S", 0.05)
    messages: list[str] = []
    faulty, healthy = Faulty(), Target()
    storage = open_storage(str(tmp_path))
    outboxes = [
        Outbox(storage, "watch", "file /a", lambda: faulty),
        Outbox(storage, "watch", "file /b", lambda: healthy),
    ]
    deliveries = DeliveryWorker(messages.append)
    deliveries.start()
    outboxes[0].put([notice(1)])
    deliveries.add(outboxes[0])
    time.sleep(0.2)
    outboxes[1].put([notice(2)])
    deliveries.add(outboxes[1])
    until(lambda: healthy.received, 10)
    deliveries.stop()
    assert healthy.received == ["n2"]
    assert any("KeyError" in text for text in messages)
