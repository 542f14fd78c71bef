"""The conformance suite of `lycosa.cluster.engine`, run on every engine."""

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
from tests.engines import remote_objects
from tests.engines.remote_objects import SampleObject
from tests.waiting import until

LIMIT_S = 60.0


def responds(remote: Remote) -> bool:
    try:
        remote.ask("count", timeout_s=5)
    except Unreachable:
        return False
    return True


def test_object_keeps_its_state(engine: Engine) -> None:
    remote = engine.start("remote", SampleObject, 5)
    assert (remote.name, remote.ask("add", 2, timeout_s=LIMIT_S)) == ("remote", 7)
    assert remote.ask("count", timeout_s=LIMIT_S) == 7
    big = b"x" * 3_000_000
    assert remote.ask("echo", big, timeout_s=LIMIT_S) == big
    assert remote.ask("pid", timeout_s=LIMIT_S) != os.getpid()
    assert remote.alive()
    remote.send("add", 1)
    until(lambda: remote.ask("count", timeout_s=LIMIT_S) == 8)
    remote.kill()


def test_exceptions_of_a_remote_are_raised_locally(engine: Engine) -> None:
    remote = engine.start("remote", SampleObject)
    with pytest.raises(UsageError, match="wrong call"):
        remote.ask("fail", "usage", timeout_s=LIMIT_S)
    with pytest.raises(ValueError, match="a failure") as caught:
        remote.ask("fail", "", timeout_s=LIMIT_S)
    assert "in fail" in caught.value.__notes__[0]
    with pytest.raises(WorkError, match=r"Unpicklable in .*: 1 and 2"):
        remote.ask("fail", "unpicklable", timeout_s=LIMIT_S)
    with pytest.raises((WorkError, UrlError), match="x:y"):
        remote.ask("fail", "url", timeout_s=LIMIT_S)
    with pytest.raises(AttributeError):
        remote.ask("no_such_method", timeout_s=LIMIT_S)
    with pytest.raises(WorkError):
        remote.ask("lock", timeout_s=LIMIT_S)
    remote.send("fail", "usage")
    assert remote.ask("count", timeout_s=LIMIT_S) == 0
    remote.kill()


def test_calls_run_concurrently_and_a_late_response_is_unreachable(engine: Engine) -> None:
    remote = engine.start("remote", SampleObject)
    assert remote.ask("count", timeout_s=LIMIT_S) == 0
    opened: list[bool] = []
    waits = threading.Thread(
        target=lambda: opened.append(remote.ask("wait_for_gate", timeout_s=LIMIT_S))
    )
    waits.start()
    started = time.monotonic()
    with pytest.raises(Unreachable, match=r"did not respond within 0\.3 s"):
        remote.ask("sleep", 3.0, timeout_s=0.3)
    assert time.monotonic() - started < 2.5
    assert remote.ask("echo", "responding", timeout_s=LIMIT_S) == "responding"
    remote.ask("open_gate", timeout_s=LIMIT_S)
    waits.join()
    assert opened == [True]
    remote.kill()


def test_suspended_process_is_unreachable_but_alive(engine: Engine) -> None:
    remote = engine.start("remote", SampleObject)
    pid = remote.ask("pid", timeout_s=LIMIT_S)
    os.kill(pid, signal.SIGSTOP)
    try:
        # Its other threads stop a moment later.
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        for _ in range(2):
            with pytest.raises(Unreachable):
                remote.ask("count", timeout_s=0.3)
        remote.send("add", 1)
        assert remote.alive()
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: responds(remote))
    remote.kill()


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_killed_object_is_not_restarted(engine: Engine) -> None:
    remote = engine.start("remote", SampleObject, restarts=5)
    pid = remote.ask("pid", timeout_s=LIMIT_S)
    remote.kill()
    remote.kill()
    until(lambda: has_ended(pid))
    until(lambda: not remote.alive())
    with pytest.raises(Unreachable):
        remote.ask("count", timeout_s=LIMIT_S)
    remote.send("add", 1)


def test_object_without_restarts_is_not_restarted(engine: Engine) -> None:
    remote = engine.start("remote", SampleObject)
    with pytest.raises(Unreachable):
        remote.ask("die", timeout_s=LIMIT_S)
    until(lambda: not remote.alive())
    with pytest.raises(Unreachable):
        remote.ask("count", timeout_s=LIMIT_S)


def test_object_is_restarted_up_to_the_limit(engine: Engine, tmp_path: Path) -> None:
    remote = engine.start("remote", SampleObject, 3, str(tmp_path), restarts=1)
    first = remote.ask("pid", timeout_s=LIMIT_S)
    remote.ask("add", 4, timeout_s=LIMIT_S)
    os.kill(first, signal.SIGKILL)
    until(lambda: responds(remote))
    second = remote.ask("pid", timeout_s=LIMIT_S)
    assert second != first
    assert remote.ask("count", timeout_s=LIMIT_S) == 3  # constructed again with the same arguments
    os.kill(second, signal.SIGKILL)
    until(lambda: not remote.alive())
    assert len(list(tmp_path.glob("*.life"))) == 2


def test_failed_construction_is_reported_by_the_first_call(engine: Engine) -> None:
    remote = engine.start("remote", remote_objects.fail_to_construct)
    with pytest.raises(Unreachable, match="construction failed"):
        remote.ask("count", timeout_s=LIMIT_S)
    until(lambda: not remote.alive())


def test_remote_can_be_called_by_another_remote(engine: Engine) -> None:
    one, two = engine.start("one", SampleObject, 10), engine.start("two", SampleObject)
    assert two.ask("add_to_other", one, 5, timeout_s=LIMIT_S) == 15
    assert one.ask("count", timeout_s=LIMIT_S) == 15
    back = two.ask("echo", one, timeout_s=LIMIT_S)
    assert (back.name, back.ask("add", 1, timeout_s=LIMIT_S)) == ("one", 16)
    one.kill()
    until(lambda: not back.alive())
    with pytest.raises(Unreachable):
        two.ask("add_to_other", one, 5, timeout_s=LIMIT_S)
    two.kill()


def test_object_is_placed_on_the_requested_node(engine: Engine) -> None:
    nodes = engine.nodes()
    assert nodes
    assert all(node.cpus >= 1 for node in nodes)
    placed = {node.name: engine.start("remote", SampleObject, node=node.name) for node in nodes}
    for remote in placed.values():
        assert remote.ask("count", timeout_s=LIMIT_S) == 0
        remote.kill()


def test_map_returns_results_in_the_order_of_the_items(engine: Engine) -> None:
    assert list(engine.map(remote_objects.slow_square, range(8))) == [
        number * number for number in range(8)
    ]
    assert list(engine.map(remote_objects.square, [])) == []
    results = engine.map(remote_objects.square, iter(int, 1))
    assert [next(results) for _ in range(5)] == [0] * 5
    results.close()  # type: ignore[attr-defined]


def test_map_raises_what_the_function_raises(engine: Engine) -> None:
    with pytest.raises(UsageError, match="three is wrong"):
        list(engine.map(remote_objects.fail_at_three, range(100)))


def test_map_retries_an_item_whose_process_died(engine: Engine, tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(5)]
    assert list(engine.map(remote_objects.die_once, items)) == list(range(5))
    with pytest.raises(WorkError, match=r"die_always of 2 failed 2 times"):
        list(engine.map(remote_objects.die_always, range(4), attempts=2))


def test_a_remote_can_be_pickled(engine: Engine) -> None:
    if engine.name == "ray":
        pytest.skip(
            "Ray transfers the handles of actors in its own way: "
            "test_remote_can_be_called_by_another_remote"
        )
    remote = engine.start("remote", SampleObject, 1)
    assert pickle.loads(pickle.dumps(remote)).ask("add", 1, timeout_s=LIMIT_S) == 2
    remote.kill()


def test_only_the_local_engine_reports_that_a_killed_process_has_ended(engine: Engine) -> None:
    remote = engine.start("remote", SampleObject, 5)
    until(lambda: responds(remote))
    assert not remote.has_ended()
    remote.kill()
    if engine.name == "local":
        until(remote.has_ended)
    assert remote.has_ended() == (engine.name == "local")


def test_address_without_a_cluster_is_one_error(
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
    monkeypatch.setattr(ray_engine.ray, "is_initialized", lambda: False)  # other tests did it
    with pytest.raises(UsageError, match="write HOST:PORT"):
        ray_engine.RayEngine("a-host-without-port")
    assert capfd.readouterr() == ("", "")


def file_extensions(engine: local.LocalEngine) -> list[str]:
    return sorted(name.partition(".")[2] for name in os.listdir(engine._folder))


def test_number_of_end_notes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAX_END_NOTES", 2)
    with local.LocalEngine(1) as engine:
        running = engine.start("running", SampleObject, 5)
        killed = [engine.start(f"remote-{number}", SampleObject) for number in range(4)]
        for remote in killed:
            remote.kill()
        assert running.ask("add", 1, timeout_s=LIMIT_S) == 6
        until(lambda: file_extensions(engine) == ["end", "end", "pid", "sock"])
        assert not any(remote.alive() for remote in killed)
        with pytest.raises(Unreachable, match="it was killed"):
            next(remote for remote in killed if remote.file("end").exists()).ask(
                "count", timeout_s=LIMIT_S
            )
