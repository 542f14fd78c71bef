"""Messages between processes of one machine, over unix sockets: a length, then the bytes; every
step has a deadline.

The sockets lie in a folder that only our user can enter, and whoever connects shows a key first:
nothing is unpickled before.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import os
import socket
import struct
import time

_LENGTH = struct.Struct("!Q")
KEY_BYTES = 32
_PIECE = 1 << 20


class Late(TimeoutError):
    """The deadline passed."""


class Closed(OSError):
    """The other side is gone."""


def connect(path: str, key: bytes, deadline: float) -> socket.socket:
    """A connection to who listens at `path`. `deadline`: by `time.monotonic`, inf for none.

    Raises:
        Late: the deadline passed.
        OSError: nobody listens.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _set_timeout(link, deadline)
        link.connect(path)
        link.sendall(key)
    except TimeoutError:
        link.close()
        raise Late from None
    except OSError:
        link.close()
        raise
    return link


def listen(path: str) -> socket.socket:
    """Listen there. What a dead process left is taken away first."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(128)
    return listener


def admitted(link: socket.socket, key: bytes) -> bool:
    """Whether the other side shows the key."""
    try:
        return hmac.compare_digest(_read(link, KEY_BYTES, math.inf), key)
    except OSError:
        return False


def put(link: socket.socket, message: bytes, deadline: float = math.inf) -> None:
    """Raises Late, Closed."""
    try:
        _set_timeout(link, deadline)
        link.sendall(_LENGTH.pack(len(message)))
        link.sendall(message)
    except TimeoutError:
        raise Late from None
    except OSError as error:
        raise Closed(str(error)) from None


def take(link: socket.socket, deadline: float = math.inf) -> bytes:
    """The next message. Raises Late, Closed."""
    (length,) = _LENGTH.unpack(_read(link, _LENGTH.size, deadline))
    return _read(link, length, deadline)


def is_quiet(link: socket.socket) -> bool:
    """Whether an idle connection is still good: nothing came, not even its end."""
    try:
        link.setblocking(False)
        link.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read(link: socket.socket, length: int, deadline: float) -> bytes:
    pieces = bytearray()
    while len(pieces) < length:
        try:
            _set_timeout(link, deadline)
            piece = link.recv(min(length - len(pieces), _PIECE))
        except TimeoutError:
            raise Late from None
        except OSError as error:
            raise Closed(str(error)) from None
        if not piece:
            raise Closed("it ended")
        pieces += piece
    return bytes(pieces)


def _set_timeout(link: socket.socket, deadline: float) -> None:
    if deadline == math.inf:
        link.settimeout(None)
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late
    link.settimeout(left)
