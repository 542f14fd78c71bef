"""Isolated network with public and private addresses and its servers.

The tests of `isolated_*.py` run in it: `run_isolated` starts pytest in a network namespace, which
needs no special privileges. All addresses are assigned to the loopback device. So each private
address has a real listener that records connections, and no packet leaves the machine.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.servers.local_http import QuietHandler, QuietServer
from tests.servers.system import require_program
from tests.waiting import until

ISOLATED_VARIABLE = "LYCOSA_ISOLATED_NETWORK"
PUBLIC = ("93.184.216.34", "93.184.216.35", "93.184.216.36")
PUBLIC_6 = "2606:2800:220:1::1"
PRIVATE = (
    "10.1.2.3", "172.16.9.9", "192.168.7.7", "169.254.169.254", "100.64.1.1", "127.0.0.99", "127.0.0.1", "192.0.2.7", "198.18.0.7",
    "::1", "fd00::7", "fe80::7", "64:ff9b::a01:203", "2002:a01:203::1",
)  # fmt: skip
PRIVATE_PORTS = (21, 25, 70, 80, 443, 6379, 8080)
FILES = sorted(Path(__file__).parent.glob("isolated_*.py"))
NAME_SERVER = "127.0.0.53"
A, CNAME, AAAA = 1, 5, 28
NO_SUCH_NAME, SERVER_FAILED = 3, 2


def run_isolated(*options: str) -> None:
    """Run the tests of `isolated_*.py` in an isolated network.

    Skips the test if this account may not create network namespaces.
    """
    unshare = [require_program("unshare"), "--map-root-user", "--net", "--mount"]
    require_program("ip")
    tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        # a missing permission, not a missing program
        pytest.skip(f"cannot create a network namespace: {tried.stderr.strip()}")
    command = [
        *unshare,
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=short",
        *options,
        *map(str, FILES),
    ]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    } | {ISOLATED_VARIABLE: "1"}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    print(done.stdout[-8_000:], done.stderr[-2_000:])
    assert done.returncode == 0, f"isolated: {done.stdout[-8_000:]}{done.stderr[-2_000:]}"


@dataclass
class Reply:
    """Response of a name server; records are (owner, type, TTL, data).

    `silent`: send no response; `garbage`: send invalid bytes.
    """

    records: Sequence[tuple[str, int, int, str]] = ()
    code: int = 0
    silent: bool = False
    garbage: bool = False


Responder = Callable[[str, int, int], Reply]
"""Returns the reply for a name, a record type and the number of earlier queries for both."""


def addresses(*hosts: str, ttl: int = 60) -> Responder:
    """Return a responder with these IPv4 and IPv6 addresses."""

    def respond(name: str, kind: int, before: int) -> Reply:
        return Reply(
            [(name, kind, ttl, each) for each in hosts if (":" in each) == (kind == AAAA)]
            if kind in (A, AAAA)
            else ()
        )

    return respond


class NameServer:
    """Name server on UDP and TCP; `default` responds for unknown names."""

    def __init__(self) -> None:
        self.names: dict[str, Responder] = {}
        self.default: Responder = addresses(PUBLIC[0])
        self.queries: Counter[tuple[str, int]] = Counter()
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((NAME_SERVER, 53))
        self._tcp = socket.create_server((NAME_SERVER, 53))
        for target in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=target, daemon=True).start()

    def _serve_udp(self) -> None:
        while True:
            query, client = self._udp.recvfrom(4_096)
            answer = self._answer(query, 512)
            if answer:
                self._udp.sendto(answer, client)

    def _serve_tcp(self) -> None:
        while True:
            connection, _ = self._tcp.accept()
            with connection, suppress(OSError, struct.error):
                connection.settimeout(2)
                while True:  # queries for both types come on one connection
                    length = struct.unpack("!H", connection.recv(2))[0]
                    answer = self._answer(connection.recv(length), 65_535)
                    connection.sendall(struct.pack("!H", len(answer)) + answer)

    def _answer(self, query: bytes, max_bytes: int) -> bytes:
        end = query.index(b"\0", 12) + 5
        labels, place = [], 12
        while query[place]:
            labels.append(query[place + 1 : place + 1 + query[place]].decode("latin-1"))
            place += query[place] + 1
        name, kind = ".".join(labels).lower(), struct.unpack("!H", query[end - 4 : end - 2])[0]
        reply = self.names.get(name, self.default)(name, kind, self.queries[name, kind])
        self.queries[name, kind] += 1
        if reply.silent:
            return b""
        if reply.garbage:
            return query[:2] + b"\x81\x80\xff\xff\xff\xff\xff\xff\xff\xff" + b"\xc0\x0c" * 40
        body = b"".join(_record(*each) for each in reply.records)
        cut = end + len(body) > max_bytes
        header = query[:2] + struct.pack(
            "!5H",
            0x8180 | (0x0200 if cut else 0) | reply.code,
            1,
            0 if cut else len(reply.records),
            0,
            0,
        )
        return header + query[12:end] + (b"" if cut else body)


def _record(owner: str, kind: int, ttl: int, data: str) -> bytes:
    packed = _name(data) if kind == CNAME else ip_address(data).packed
    return _name(owner) + struct.pack("!HHIH", kind, 1, ttl, len(packed)) + packed


def _name(name: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"


class PrivateListeners:
    """Listeners at all private addresses that record each connection."""

    def __init__(self) -> None:
        self.connections: list[tuple[str, int]] = []
        self._selector = selectors.DefaultSelector()
        for address in PRIVATE:
            for port in PRIVATE_PORTS:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = socket.socket(family, socket.SOCK_STREAM)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                scope = (0, socket.if_nametoindex("lo")) if address.startswith("fe80") else ()
                listener.bind((address, port, *scope))
                listener.listen(64)
                self._selector.register(listener, selectors.EVENT_READ, (address, port))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            for key, _ in self._selector.select():
                listener = key.fileobj
                assert isinstance(listener, socket.socket)
                connection, _ = listener.accept()
                self.connections.append(key.data)
                with connection, suppress(OSError):
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: "
                        b"6\r\nConnection: close\r\n\r\nsecret"
                    )
                    connection.shutdown(socket.SHUT_WR)


@dataclass
class Answer:
    """Response of a site."""

    body: str = ""
    status: int = 200
    fields: Sequence[tuple[str, str]] = (("Content-Type", "text/html; charset=utf-8"),)


@dataclass
class IsolatedNetwork:
    """Servers of the isolated network.

    `sites` has the responses by (host, path). Hosts without a responder in `name_server` have the
    address `PUBLIC[0]`. `requests` counts the requests by (host, path).
    """

    name_server: NameServer
    private: PrivateListeners
    sites: dict[tuple[str, str], Answer] = field(default_factory=dict)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)

    def clear(self) -> None:
        for state in (
            self.name_server.names,
            self.name_server.queries,
            self.sites,
            self.requests,
            self.private.connections,
        ):
            state.clear()


class _Server(QuietServer):
    def __init__(self, address: str, network: IsolatedNetwork) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.network = network
        super().__init__((address, 80), _Handler)

    def server_bind(self) -> None:  # unlike the base class, without a reverse lookup
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "isolated", 80


class _Handler(QuietHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        host, path = self.headers.get("Host", "").partition(":")[0], self.path
        server.network.requests[host, path] += 1
        answer = server.network.sites.get((host, path), Answer("not found", 404))
        fields = [(name, value.encode().decode("latin-1")) for name, value in answer.fields]
        self.reply(answer.status, answer.body.encode(), fields)

    do_POST = do_GET


@cache
def isolated_network() -> IsolatedNetwork:
    """Start the servers once per process. Only within `run_isolated`."""
    if os.environ.get(ISOLATED_VARIABLE) != "1":
        pytest.skip("runs only in an isolated network: see tests/trust/test_names.py")
    ip = require_program("ip")
    commands = [
        "link set lo up",
        *(
            f"address add {each}/{128 if ':' in each else 32} dev lo"
            for each in (*PUBLIC, PUBLIC_6, *PRIVATE)
        ),
    ]
    loopback = ("address add 127.0.0.1/", "address add ::1/", "address add 127.0.0.99/")
    for command in commands:
        if not command.startswith(loopback):
            subprocess.run([ip, *command.split()], check=True)
    # the bind mount outlives the name of the file
    with tempfile.NamedTemporaryFile("w") as resolv_conf:
        resolv_conf.write(f"nameserver {NAME_SERVER}\noptions timeout:1 attempts:1\n")
        resolv_conf.flush()
        os.chmod(resolv_conf.name, 0o644)
        subprocess.run(
            [require_program("mount"), "--bind", resolv_conf.name, "/etc/resolv.conf"], check=True
        )
    # IPv6 addresses become usable after duplicate address detection
    until(lambda: all(_is_usable(each) for each in (*PRIVATE, PUBLIC_6) if ":" in each), 30)
    network = IsolatedNetwork(NameServer(), PrivateListeners())
    for address in (*PUBLIC, PUBLIC_6):
        threading.Thread(target=_Server(address, network).serve_forever, daemon=True).start()
    return network


def _is_usable(address: str) -> bool:
    scope = (0, socket.if_nametoindex("lo")) if address.startswith("fe80") else ()
    with suppress(OSError):
        socket.create_server((address, 0, *scope), family=socket.AF_INET6).close()
        return True
    return False
