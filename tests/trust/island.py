"""A network of one's own: addresses as on the Internet, public and private ones, with name servers
that lie, and nothing leaves it.

The tests of `island_*.py` run there: pytest within a network namespace (`ashore`), as an ordinary
user may have one. All addresses lie on its loopback device, so a "private" one has a real listener,
and what it hears is proof.
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
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.servers.local_http import QuietHandler, QuietServer
from tests.servers.system import require_program
from tests.waiting import until

ON_IT = "LYCOSA_ON_AN_ISLAND"
PUBLIC = ("93.184.216.34", "93.184.216.35", "93.184.216.36")
PUBLIC_6 = "2606:2800:220:1::1"
PRIVATE = (
    "10.1.2.3", "172.16.9.9", "192.168.7.7", "169.254.169.254", "100.64.1.1", "127.0.0.99", "127.0.0.1", "192.0.2.7", "198.18.0.7",
    "::1", "fd00::7", "fe80::7", "64:ff9b::a01:203", "2002:a01:203::1",
)  # fmt: skip
TRAPPED = (21, 25, 70, 80, 443, 6379, 8080)
FILES = sorted(Path(__file__).parent.glob("island_*.py"))
NAME_SERVER = "127.0.0.53"
A, CNAME, AAAA = 1, 5, 28
NO_SUCH_NAME, SERVER_FAILED = 3, 2


def ashore(*options: str) -> None:
    """Run the tests of `island_*.py` on an island. Skips where an account may have no network
    namespace.
    """
    unshare = [require_program("unshare"), "--map-root-user", "--net", "--mount"]
    require_program("ip")
    tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        # a right of the account, no program to install
        pytest.skip(f"no network namespace is to be had here: {tried.stderr.strip()}")
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
    } | {ON_IT: "1"}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    print(done.stdout[-8_000:], done.stderr[-2_000:])
    assert done.returncode == 0, f"on an island: {done.stdout[-8_000:]}{done.stderr[-2_000:]}"


@dataclass
class Reply:
    """What a name server says: records as (owner, type, time to live, data), or a code, nothing at
    all, or bytes that are no answer.
    """

    records: Sequence[tuple[str, int, int, str]] = ()
    code: int = 0
    silent: bool = False
    garbage: bool = False


Say = Callable[[str, int, int], Reply]
"""Of a name, a type and how often that was asked before."""


def addresses(*result: str, ttl: int = 60) -> Say:
    """A name with these addresses, IPv4 and IPv6."""

    def say(name: str, kind: int, before: int) -> Reply:
        return Reply(
            [(name, kind, ttl, each) for each in result if (":" in each) == (kind == AAAA)]
            if kind in (A, AAAA)
            else ()
        )

    return say


class Names:
    """A name server on UDP and TCP: names with what is said of them, `default` for all others."""

    def __init__(self) -> None:
        self.names: dict[str, Say] = {}
        self.default: Say = addresses(PUBLIC[0])
        self.asked: Counter[tuple[str, int]] = Counter()
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
                while True:  # both types are asked for on one connection
                    length = struct.unpack("!H", connection.recv(2))[0]
                    answer = self._answer(connection.recv(length), 65_535)
                    connection.sendall(struct.pack("!H", len(answer)) + answer)

    def _answer(self, query: bytes, most: int) -> bytes:
        end = query.index(b"\0", 12) + 5
        labels, place = [], 12
        while query[place]:
            labels.append(query[place + 1 : place + 1 + query[place]].decode("latin-1"))
            place += query[place] + 1
        name, kind = ".".join(labels).lower(), struct.unpack("!H", query[end - 4 : end - 2])[0]
        reply = self.names.get(name, self.default)(name, kind, self.asked[name, kind])
        self.asked[name, kind] += 1
        if reply.silent:
            return b""
        if reply.garbage:
            return query[:2] + b"\x81\x80\xff\xff\xff\xff\xff\xff\xff\xff" + b"\xc0\x0c" * 40
        body = b"".join(_record(*each) for each in reply.records)
        cut = 12 + end - 12 + len(body) > most
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


class Trap:
    """Listens where nobody may come, at every private address, and notes who did."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []
        self._selector = selectors.DefaultSelector()
        for address in PRIVATE:
            for port in TRAPPED:
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
                self.heard.append(key.data)
                with connection, suppress(OSError):
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: "
                        b"6\r\nConnection: close\r\n\r\nsecret"
                    )
                    connection.shutdown(socket.SHUT_WR)


@dataclass
class Answer:
    """What a site of the island says."""

    body: str = ""
    status: int = 200
    fields: Sequence[tuple[str, str]] = (("Content-Type", "text/html; charset=utf-8"),)


@dataclass
class Island:
    """`sites`: answers by (host, path); all hosts that are not named otherwise lie at
    `PUBLIC[0]`.
    """

    names: Names
    trap: Trap
    sites: dict[tuple[str, str], Answer] = field(default_factory=dict)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def clear(self) -> None:
        for remaining in (
            self.names.names,
            self.names.asked,
            self.sites,
            self.asked,
            self.trap.heard,
        ):
            remaining.clear()


class _Server(QuietServer):
    def __init__(self, address: str, island: Island) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.island = island
        super().__init__((address, 80), _Handler)

    def server_bind(self) -> None:  # without looking up its own name
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "island", 80


class _Handler(QuietHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        host, path = self.headers.get("Host", "").partition(":")[0], self.path
        server.island.asked[host, path] += 1
        answer = server.island.sites.get((host, path), Answer("nothing here", 404))
        fields = [(name, value.encode().decode("latin-1")) for name, value in answer.fields]
        self.reply(answer.status, answer.body.encode(), fields)

    do_POST = do_GET


_laid: list[Island] = []


def island() -> Island:
    """The island, laid out once. Only within `ashore`; it goes with the process."""
    if not _laid:
        _laid.append(_lay())
    return _laid[0]


def _lay() -> Island:
    if os.environ.get(ON_IT) != "1":
        pytest.skip("this runs on an island: see tests/trust/test_names.py")
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
    with tempfile.NamedTemporaryFile("w") as messages:  # what is bound stays, though its name goes
        messages.write(f"nameserver {NAME_SERVER}\noptions timeout:1 attempts:1\n")
        messages.flush()
        os.chmod(messages.name, 0o644)
        subprocess.run(
            [require_program("mount"), "--bind", messages.name, "/etc/resolv.conf"], check=True
        )
    _wait_for_addresses()
    made = Island(Names(), Trap())
    for address in (*PUBLIC, PUBLIC_6):
        threading.Thread(target=_Server(address, made).serve_forever, daemon=True).start()
    return made


def _wait_for_addresses() -> None:
    """An IPv6 address is looked for twice before it may be used."""
    until(lambda: all(_is_usable(each) for each in (*PRIVATE, PUBLIC_6) if ":" in each), 30)


def _is_usable(address: str) -> bool:
    scope = (0, socket.if_nametoindex("lo")) if address.startswith("fe80") else ()
    with suppress(OSError):
        socket.create_server((address, 0, *scope), family=socket.AF_INET6).close()
        return True
    return False
