"""Simulated machines of a Ray cluster: network namespaces connected by a bridge.

Each machine has its own host name, clock and /tmp (a tmpfs). Servers of a test listen at `OUTSIDE`
and `STORAGE`, which every machine can reach. All machines end with this process. Needs root on
Linux.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.engines.clusters import ROOT
from tests.waiting import listens, until

NETWORK = "10.231.77."
OUTSIDE, STORAGE = f"{NETWORK}1", f"{NETWORK}2"
PORT = 6379
_START_LIMIT_S = 300.0
_START_ATTEMPTS = 3
_RAY_START_SCRIPT = """
import time
from ray._private import services
from ray.scripts.scripts import main

get_node, end = services.get_node, time.monotonic() + 60

def get_node_with_retries(*arguments):
    while True:
        try:
            return get_node(*arguments)
        except RuntimeError:
            if time.monotonic() > end:
                raise

services.get_node = get_node_with_retries
main()
"""
"""Run `ray start` with retries: on a busy machine it gives up too early."""
_HOLDER_SCRIPT = """
mount -t tmpfs tmpfs /tmp && mkdir /tmp/home && hostname {name} && ip link set lo up && echo ready
cat
namespace=$(readlink /proc/$$/ns/net)
for each in /proc/[0-9]*; do
  [ "$(readlink $each/ns/net)" = "$namespace" ] && [ $each != /proc/$$ ] && kill -9 ${{each#/proc/}}
done 2>/dev/null
"""
"""Wait for the end of standard input, then kill all processes in the namespace."""


def require_machines() -> None:
    """Skip the test if namespaces cannot be created."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("network namespaces need root on Linux")
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not found: install util-linux and iproute2")
    attempt = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "mount", "-t", "tmpfs", "tmpfs", "/tmp"],
        capture_output=True,
        text=True,
        check=False,
    )
    if attempt.returncode:
        pytest.skip(f"namespaces are not permitted here: {attempt.stderr.strip()}")


class _Namespace:
    """A process in new namespaces, which end with the last process in them."""

    def __init__(self, name: str) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "sh", "-c", _HOLDER_SCRIPT.format(name=name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        self.pid = self._holder.pid

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs another one in the namespaces."""
        return ["nsenter", "-t", str(self.pid), "--net", "--mount", "--uts", *arguments]

    def ip(self, *arguments: str) -> None:
        subprocess.run(self.command("ip", *arguments), check=True)

    def processes(self) -> list[psutil.Process]:
        """Return all processes in the namespaces except the holder and its children."""
        namespace = os.readlink(f"/proc/{self.pid}/ns/net")
        processes = []
        for process in psutil.process_iter(["ppid"]):
            with suppress(OSError):
                inside = os.readlink(f"/proc/{process.pid}/ns/net") == namespace
                if inside and self.pid not in (process.pid, process.info["ppid"]):
                    processes.append(process)
        return processes

    def close(self) -> None:
        self._holder.communicate()


class Machine(_Namespace):
    """A machine of the cluster. Its clock is `clock_s` seconds ahead of this process."""

    def __init__(self, hub: _Namespace, number: int, clock_s: int = 0) -> None:
        super().__init__(f"machine{number}")
        self.address = f"{NETWORK}{10 + number}"
        self.clock_s = clock_s
        self._hub = hub
        self._port = f"port{number}"
        hub.ip("link", "add", self._port, "type", "veth", "peer", "eth0", "netns", str(self.pid))
        hub.ip("link", "set", self._port, "master", "bridge", "up")
        self.ip("address", "add", f"{self.address}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """Disconnect the machine from the network."""
        self._hub.ip("link", "set", self._port, "down")
        yield
        self._hub.ip("link", "set", self._port, "up")

    @contextmanager
    def partitioned(self, others: Sequence[str]) -> Iterator[None]:
        """Block the connections to these addresses only."""
        for address in others:
            self.ip("route", "add", "blackhole", f"{address}/32")
        yield
        for address in others:
            self.ip("route", "del", "blackhole", f"{address}/32")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend all processes of the machine."""
        processes = self.processes()
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        yield
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


@dataclass
class RayMachines:
    """Machines that run Ray, the head first, with one CPU and this environment."""

    environment: dict[str, str]
    machines: list[Machine] = field(default_factory=list)
    _hub: _Namespace = field(default_factory=lambda: _Namespace("hub"))
    _number: int = 0

    def __post_init__(self) -> None:
        link = f"lycosa{secrets.token_hex(3)}"
        self._hub.ip("link", "add", "bridge", "type", "bridge")
        self._hub.ip("link", "set", "bridge", "up")
        add = ["link", "add", link, "type", "veth", "peer", "outside", "netns", str(self._hub.pid)]
        for arguments in (
            add,
            ["address", "add", f"{OUTSIDE}/24", "dev", link],
            ["address", "add", f"{STORAGE}/24", "dev", link],
            ["link", "set", link, "up"],
        ):
            subprocess.run(["ip", *arguments], check=True)
        self._hub.ip("link", "set", "outside", "master", "bridge", "up")

    @property
    def address(self) -> str:
        return f"{self.machines[0].address}:{PORT}"

    def add(self, clock_s: int = 0) -> Machine:
        """Add a machine to the cluster; the first one is the head."""
        machine = self.boot(clock_s)
        self.join(machine)
        return machine

    def boot(self, clock_s: int = 0) -> Machine:
        """Create a machine without processes."""
        self._number += 1
        machine = Machine(self._hub, self._number, clock_s)
        self.machines.append(machine)
        return machine

    def join(self, machine: Machine) -> None:
        """Start Ray on a machine. Wait until the head listens."""
        head = machine is self.machines[0]
        role = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        command = [
            *self.python(machine),
            *("-c", _RAY_START_SCRIPT, "start"),
            *(role if head else [f"--address={self.address}"]),
            *(f"--node-ip-address={machine.address}", "--num-cpus=1"),
            "--object-store-memory=80000000",
        ]
        for _ in range(_START_ATTEMPTS):
            completed = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=_START_LIMIT_S
            )
            if completed.returncode == 0:
                break
            for process in machine.processes():
                process.kill()
        assert completed.returncode == 0, completed.stdout + completed.stderr
        if head:
            until(lambda: listens(machine.address, PORT), _START_LIMIT_S)

    def python(self, machine: Machine) -> list[str]:
        """Return the command that starts Python on a machine, with its environment."""
        variables = {**self.environment, "HOME": "/tmp/home", "TMPDIR": "/tmp"}
        if machine.clock_s:
            variables["LYCOSA_TEST_CLOCK_S"] = str(machine.clock_s)
            variables["PYTHONPATH"] += f":{Path(__file__).parent / 'clock'}"
        arguments = [f"{name}={value}" for name, value in variables.items()]
        return machine.command("env", *arguments, sys.executable)

    def leave(self, machine: Machine) -> None:
        """Remove a machine, its processes and its files."""
        self.machines.remove(machine)
        machine.close()

    def close(self) -> None:
        for each in [*reversed(self.machines), self._hub]:
            each.close()


@contextmanager
def ray_machines() -> Iterator[RayMachines]:
    """A cluster without machines."""
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_register_timeout_seconds": f"{_START_LIMIT_S:.0f}",
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "LYCOSA_CACHE": "/tmp/cache",
    }
    cluster = RayMachines(environment)
    try:
        yield cluster
    finally:
        cluster.close()
