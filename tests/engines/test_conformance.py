"""What every engine promises (`lycosa.cluster.engine`), on every engine; notes of the local one."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
from pathlib import Path

import psutil
import pytest

from lycosa.cluster.engine import Engine, Remote, Unreachable
from lycosa.cluster.engines import local
from lycosa.core.errors import UrlError, UsageError, WorkError
from tests.engines import things
from tests.engines.things import Thing
from tests.waiting import until

LIMIT_S = 60.0


def answers(remote: Remote) -> bool:
    try:
        remote.ask("count", timeout_s=5)
    except Unreachable:
        return False
    return True


def test_an_object_keeps_its_state_and_answers(engine: Engine) -> None:
    thing = engine.start("thing", Thing, 5)
    assert (thing.name, thing.ask("add", 2, timeout_s=LIMIT_S)) == ("thing", 7)
    assert thing.ask("count", timeout_s=LIMIT_S) == 7
    big = b"x" * 3_000_000
    assert thing.ask("echo", big, timeout_s=LIMIT_S) == big
    assert thing.ask("pid", timeout_s=LIMIT_S) != os.getpid()
    assert thing.alive()
    assert thing.node in [node.name for node in engine.nodes()]
    thing.send("add", 1)
    until(lambda: thing.ask("count", timeout_s=LIMIT_S) == 8)
    thing.kill()


def test_what_is_raised_there_is_raised_here(engine: Engine) -> None:
    thing = engine.start("thing", Thing)
    with pytest.raises(UsageError, match="wrong call"):
        thing.ask("fail", "usage", timeout_s=LIMIT_S)
    with pytest.raises(ValueError, match="a fault") as caught:
        thing.ask("fail", "", timeout_s=LIMIT_S)
    assert "in fail" in caught.value.__notes__[0]
    with pytest.raises(WorkError, match=r"Unpicklable in .*: 1 and 2"):
        thing.ask("fail", "odd", timeout_s=LIMIT_S)
    with pytest.raises((WorkError, UrlError), match="x:y"):
        thing.ask("fail", "url", timeout_s=LIMIT_S)
    with pytest.raises(AttributeError):
        thing.ask("no_such_method", timeout_s=LIMIT_S)
    with pytest.raises(WorkError):
        thing.ask("lock", timeout_s=LIMIT_S)
    thing.send("fail", "usage")
    assert thing.ask("count", timeout_s=LIMIT_S) == 0
    thing.kill()


def test_calls_run_side_by_side_and_a_late_answer_is_unreachable(engine: Engine) -> None:
    thing = engine.start("thing", Thing)
    assert thing.ask("count", timeout_s=LIMIT_S) == 0
    opened: list[bool] = []
    waits = threading.Thread(
        target=lambda: opened.append(thing.ask("wait_for_gate", timeout_s=LIMIT_S))
    )
    waits.start()
    started = time.monotonic()
    with pytest.raises(Unreachable, match=r"did not respond within 0\.3 s"):
        thing.ask("nap", 3.0, timeout_s=0.3)
    assert time.monotonic() - started < 2.5
    assert thing.ask("echo", "still here", timeout_s=LIMIT_S) == "still here"
    thing.ask("open_gate", timeout_s=LIMIT_S)
    waits.join()
    assert opened == [True]
    thing.kill()


def test_a_stopped_process_is_unreachable_in_time_and_alive(engine: Engine) -> None:
    thing = engine.start("thing", Thing)
    pid = thing.ask("pid", timeout_s=LIMIT_S)
    os.kill(pid, signal.SIGSTOP)
    try:
        # its other threads run on for a moment
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        for _ in range(2):
            with pytest.raises(Unreachable):
                thing.ask("count", timeout_s=0.3)
        thing.send("add", 1)
        assert thing.alive()
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: answers(thing))
    thing.kill()


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_killed_object_is_gone(engine: Engine) -> None:
    thing = engine.start("thing", Thing, restarts=5)
    pid = thing.ask("pid", timeout_s=LIMIT_S)
    thing.kill()
    thing.kill()
    until(lambda: has_ended(pid))
    until(lambda: not thing.alive())
    with pytest.raises(Unreachable):
        thing.ask("count", timeout_s=LIMIT_S)
    thing.send("add", 1)


def test_a_dead_object_without_restarts_stays_dead(engine: Engine) -> None:
    thing = engine.start("thing", Thing)
    with pytest.raises(Unreachable):
        thing.ask("die", timeout_s=LIMIT_S)
    until(lambda: not thing.alive())
    with pytest.raises(Unreachable):
        thing.ask("count", timeout_s=LIMIT_S)


def test_a_dead_object_is_made_anew_as_often_as_was_asked(engine: Engine, tmp_path: Path) -> None:
    thing = engine.start("thing", Thing, 3, str(tmp_path), restarts=1)
    first = thing.ask("pid", timeout_s=LIMIT_S)
    thing.ask("add", 4, timeout_s=LIMIT_S)
    os.kill(first, signal.SIGKILL)
    until(lambda: answers(thing))
    second = thing.ask("pid", timeout_s=LIMIT_S)
    assert second != first
    assert thing.ask("count", timeout_s=LIMIT_S) == 3  # made anew, by the same arguments
    os.kill(second, signal.SIGKILL)
    until(lambda: not thing.alive())
    assert len(list(tmp_path.glob("*.life"))) == 2


def test_what_cannot_be_made_is_said_at_the_first_question(engine: Engine) -> None:
    thing = engine.start("thing", things.cannot_be_made)
    with pytest.raises(Unreachable, match="it cannot be made"):
        thing.ask("count", timeout_s=LIMIT_S)
    until(lambda: not thing.alive())


def test_a_remote_is_asked_from_another_remote(engine: Engine) -> None:
    one, two = engine.start("one", Thing, 10), engine.start("two", Thing)
    assert two.ask("ask_other", one, 5, timeout_s=LIMIT_S) == 15
    assert one.ask("count", timeout_s=LIMIT_S) == 15
    back = two.ask("echo", one, timeout_s=LIMIT_S)
    assert (back.name, back.ask("add", 1, timeout_s=LIMIT_S)) == ("one", 16)
    one.kill()
    until(lambda: not back.alive())
    with pytest.raises(Unreachable):
        two.ask("ask_other", one, 5, timeout_s=LIMIT_S)
    two.kill()


def test_an_object_is_put_where_it_was_asked_to_be(engine: Engine) -> None:
    nodes = engine.nodes()
    assert all(node.alive and node.cpus >= 1 for node in nodes)
    placed = {node.name: engine.start("thing", Thing, node=node.name) for node in nodes}
    for name, thing in placed.items():
        assert (thing.ask("count", timeout_s=LIMIT_S), thing.node) == (0, name)
        thing.kill()


def test_map_gives_results_in_the_order_of_the_items(engine: Engine) -> None:
    assert list(engine.map(things.slow_square, range(8))) == [
        number * number for number in range(8)
    ]
    assert list(engine.map(things.square, [])) == []
    results = engine.map(things.square, iter(int, 1))
    assert [next(results) for _ in range(5)] == [0] * 5
    results.close()  # type: ignore[attr-defined]


def test_map_raises_what_the_function_raises(engine: Engine) -> None:
    with pytest.raises(UsageError, match="three is wrong"):
        list(engine.map(things.fail_at_three, range(100)))


def test_map_tries_an_item_again_whose_process_died(engine: Engine, tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(5)]
    assert list(engine.map(things.die_once, items)) == list(range(5))
    with pytest.raises(WorkError, match=r"die_always of 2 failed 2 times"):
        list(engine.map(things.die_always, range(4), attempts=2))


def test_a_remote_can_be_pickled(engine: Engine) -> None:
    if engine.name == "ray":
        pytest.skip(
            "an actor's handle travels by Ray's own means: "
            "test_a_remote_is_asked_from_another_remote"
        )
    thing = engine.start("thing", Thing, 1)
    assert pickle.loads(pickle.dumps(thing)).ask("add", 1, timeout_s=LIMIT_S) == 2
    thing.kill()


def test_the_local_engine_is_certain_that_a_killed_process_has_ended(engine: Engine) -> None:
    thing = engine.start("thing", Thing, 5)
    until(lambda: answers(thing))
    assert not thing.has_ended()
    thing.kill()
    if engine.name == "local":
        until(thing.has_ended)
    assert thing.has_ended() == (engine.name == "local")


def test_an_address_where_no_cluster_answers_is_one_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ray_engine = pytest.importorskip("lycosa.cluster.engines.ray")
    monkeypatch.setattr(ray_engine, "_ANSWER_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(
            WorkError, match=f"no Ray cluster answers at 127.0.0.1:{port} within 2 s: no answer"
        ):
            ray_engine.require_cluster(f"127.0.0.1:{port}")
    with pytest.raises(WorkError, match="Connection refused"):
        ray_engine.require_cluster(f"127.0.0.1:{port}")
    with pytest.raises(UsageError, match="write HOST:PORT"):
        ray_engine.require_cluster("127.0.0.1:x")
    assert capfd.readouterr() == ("", "")


def kinds(engine: local.LocalEngine) -> list[str]:
    return sorted(name.partition(".")[2] for name in os.listdir(engine._folder))


def test_of_objects_that_are_gone_few_notes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAX_END_NOTES", 2)
    with local.LocalEngine(1) as engine:
        staying = engine.start("staying", Thing, 5)
        gone = [engine.start(f"thing-{number}", Thing) for number in range(4)]
        for remote in gone:
            remote.kill()
        assert staying.ask("add", 1, timeout_s=LIMIT_S) == 6
        until(lambda: kinds(engine) == ["end", "end", "pid", "sock"])
        assert not any(remote.alive() for remote in gone)
        with pytest.raises(Unreachable, match="it was killed"):
            next(remote for remote in gone if remote.file("end").exists()).ask(
                "count", timeout_s=LIMIT_S
            )
