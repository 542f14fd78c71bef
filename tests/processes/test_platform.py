"""System calls of Linux and their portable fallbacks."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lycosa.core.records import Request
from lycosa.frontier.hosts.directory import MappedArrays
from lycosa.processes import memory, platform
from tests.fetch.fetching import allowed, listener, open_fetcher, run
from tests.waiting import until


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Force the fallbacks, as on a system without the calls of Linux."""
    monkeypatch.setattr(platform, "_libc", lambda name: None)
    monkeypatch.setattr(platform, "_PROC", tmp_path / "proc")
    monkeypatch.delattr(os, "eventfd", raising=False)
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.delattr(select, "epoll", raising=False)


@pytest.fixture(params=["linux", "portable"])
def system(request: pytest.FixtureRequest) -> str:
    """Run the test with the calls of Linux and with the fallbacks."""
    if request.param == "portable":
        request.getfixturevalue("portable")
    elif sys.platform != "linux":
        pytest.skip("these calls need Linux")
    return str(request.param)


def test_wake_up_is_readable_between_set_and_clear(system: str) -> None:
    wake_up = platform.WakeUp()

    def readable() -> bool:
        return bool(select.select([wake_up.descriptor], [], [], 0)[0])

    assert not readable()
    for _ in range(10_000):  # exceeds the capacity of a pipe
        wake_up.set()
    assert readable()
    wake_up.clear()
    assert not readable()
    wake_up.clear()  # nothing to read
    wake_up.set()
    assert readable()
    wake_up.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(wake_up.descriptor)


def test_poller_reports_events_of_registered_descriptors(system: str) -> None:
    local, remote = socket.socketpair()
    poller = platform.open_poller()
    descriptor = local.fileno()
    with pytest.raises(FileNotFoundError):
        poller.modify(descriptor, select.POLLIN)
    with pytest.raises(FileNotFoundError):
        poller.unregister(descriptor)
    poller.register(descriptor, select.POLLIN)
    started = time.monotonic()
    assert poller.poll(0.05) == []
    assert 0.04 < time.monotonic() - started < 5
    remote.send(b"x")
    assert poller.poll(1) == [(descriptor, select.POLLIN)]
    poller.modify(descriptor, select.POLLOUT)
    assert poller.poll(1) == [(descriptor, select.POLLOUT)]
    remote.close()
    assert poller.poll(1)[0][1] & select.POLLHUP
    poller.unregister(descriptor)
    assert poller.poll(0) == []
    local.close()
    poller.close()


def test_closed_descriptor_can_be_unregistered_and_reused(portable: None) -> None:
    poller = platform.open_poller()
    local, remote = socket.socketpair()
    descriptor = local.fileno()
    poller.register(descriptor, select.POLLIN)
    local.close()
    assert poller.poll(1) == [(descriptor, select.POLLNVAL)]
    poller.unregister(descriptor)
    assert poller.poll(0) == []
    remote.close()


_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def test_pages_are_fetched_without_epoll_and_eventfd(portable: None) -> None:
    """Every connection is new, so descriptor numbers are reused."""
    with listener(_CLOSE) as (origin, received):
        port = origin.rpartition(":")[2]
        with open_fetcher([*allowed(origin), ("localhost", int(port))]) as fetcher:
            urls = [f"{origin}/{number}" for number in range(100)]
            urls += [f"http://localhost:{port}/{number}" for number in range(100)]
            exchanges = run(fetcher, [Request(url) for url in urls])
    assert [(each.status, each.error) for each in exchanges] == [(200, "")] * 200
    assert len(received) == 200


def test_allocate_reserves_disk_space(system: str, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        platform.allocate(file.fileno(), 3_000_000)
        status = os.fstat(file.fileno())
        assert status.st_size == 3_000_000
        assert status.st_blocks * 512 >= 3_000_000
        assert not any(file.read())


def test_mapped_arrays_keep_their_values(system: str, tmp_path: Path) -> None:
    arrays = MappedArrays(str(tmp_path))
    numbers = arrays.zeros("numbers", np.uint32, 1000)
    numbers[7] = 7
    arrays.shed()
    assert numbers.sum() == 7


def test_allocation_on_a_full_disk_fails(portable: None) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    descriptor = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(OSError, match="No space") as error:
        platform.allocate(descriptor, 10)
    assert error.value.errno == errno.ENOSPC
    os.close(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2")
def test_exclusive_rename_does_not_replace_a_file(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("new")
    target.write_text("old")
    with pytest.raises(FileExistsError):
        platform.rename_exclusive(str(source), str(target))
    assert target.read_text() == "old"
    target.unlink()
    platform.rename_exclusive(str(source), str(target))
    assert target.read_text() == "new"
    assert not source.exists()


def test_exclusive_rename_without_system_support_is_an_error(
    portable: None, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text("new")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTSUP)) as error:
        platform.rename_exclusive(str(source), str(tmp_path / "target"))
    assert error.value.errno == errno.ENOTSUP
    assert source.exists()


_SLEEP = "import time; memory = bytearray(b'x') * 50_000_000; print(1, flush=True); time.sleep(60)"


def test_memory_of_a_process_group(system: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SLEEP], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert platform.process_exists(process.pid)
        assert 50_000_000 < platform.group_memory(process.pid) < 120_000_000
        process.kill()
        process.wait()
    assert platform.group_memory(process.pid) == 0
    assert not platform.process_exists(process.pid)


_CHILD = """
import os, sys, time
from lycosa.processes import platform
if sys.argv[1] == "portable":
    platform._libc = lambda name: None
platform.end_with_parent(int(sys.argv[2]))
print(os.getpid(), flush=True)
time.sleep(60)
"""
_PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1], str(os.getpid())])
child.wait()
"""


@pytest.mark.proves("isolation-children")
@pytest.mark.parametrize("calls", ["linux", "portable"])
def test_a_process_ends_with_its_parent(calls: str) -> None:
    if calls == "linux" and sys.platform != "linux":
        pytest.skip("prctl")
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, calls, _CHILD], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert platform.process_exists(pid)
        parent.kill()
        parent.wait()
    until(lambda: not platform.process_exists(pid), 30)


def test_process_whose_parent_has_already_ended_ends() -> None:
    code = _CHILD.replace("int(sys.argv[2])", "1")
    child = subprocess.run([sys.executable, "-c", code, "portable"], check=False)
    assert child.returncode == -signal.SIGTERM


def test_calls_without_a_fallback_do_nothing(portable: None) -> None:
    memory.give_back()
    platform.set_malloc(1, 4_000_000, 1_000_000)


def test_refused_memory_limit_is_an_error_except_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(ValueError, match="exceeds"):
        platform.limit_memory(1_000_000_000)
    monkeypatch.setattr(sys, "platform", "darwin")
    platform.limit_memory(1_000_000_000)
