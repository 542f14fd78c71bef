"""`python -m lycosa.crawl.documents.child SOCKET MEMORY SECONDS`: reads documents for a crawl, one
at a time, until the socket closes.

The process limits itself before it sees the first byte of a document: address space, CPU time
(renewed for each document), the clock (an alarm, for what waits without working), size of files, no
children, no core dumps. What passes a limit ends the process, and that file is all it costs. Should
the crawl die meanwhile, the same limits end this process.
"""

from __future__ import annotations

import array
import logging
import math
import os
import resource
import signal
import socket
import sys
import time

from lycosa.core.records import Page
from lycosa.crawl.documents.wire import (
    CLOCK_SHARE,
    DONE,
    MAX_REPLY,
    READY,
    ParseRequest,
    encode_reply,
    read_all,
    write_all,
)
from lycosa.http.decode import decode_with, parse_head
from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document
from lycosa.page.documents.sink import FAULT_MEMORY
from lycosa.text.identify import identify

_MAX_LINE = 64
_WARMING = "so much depends"
"""Short enough to need every model of the language identifier: they are loaded before the first
document's time begins to count.
"""


def main() -> None:
    """Serve one socket to its end."""
    descriptor, memory, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    logging.disable(logging.CRITICAL)
    _limit(memory)
    with socket.socket(fileno=descriptor) as channel:
        identify(_WARMING)
        channel.sendall(READY)
        while True:
            line, descriptors = _receive(channel)
            if not line:
                return
            body_file, reply_file = descriptors
            _renew(seconds)
            job, begin = read_all(body_file, os.fstat(body_file).st_size), int(line)
            write_all(reply_file, _read(ParseRequest.decode(job[:begin]), job[begin:]))
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.close(body_file)
            os.close(reply_file)
            channel.sendall(DONE)


def _read(order: ParseRequest, body: bytes) -> bytes:
    exchange = order.exchange(body)
    try:
        headers = parse_head(exchange.response_head)
        decoded = decode_with(exchange, headers, order.max_decoded)
        kind = kind_of(decoded.payload)
        if kind is None or (decoded.error and not decoded.payload):
            return encode_reply(None, decoded.error, decoded.truncated)
        page = parse_document(
            decoded.payload,
            kind,
            url=order.url,
            link_headers=headers.get_all("link"),
            x_robots_tag=headers.get_all("x-robots-tag"),
            product_token=order.product_token,
        )
        if decoded.error:
            page.faults.append(decoded.error)
        if decoded.truncated or order.truncated:
            page.faults.append("truncated")
        return encode_reply(page, "", decoded.truncated)
    except MemoryError:
        return encode_reply(Page(size=len(body), faults=[FAULT_MEMORY]), "", False)


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_REPLY, MAX_REPLY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # no further process or thread (root is exempt)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _renew(seconds: float) -> None:
    """Time for one more document."""
    spent = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent + seconds), hard))
    signal.setitimer(signal.ITIMER_REAL, seconds * CLOCK_SHARE + 1)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """One line with two descriptors; nothing when the other end is closed."""
    descriptors = array.array("i")
    line, ancillary, _, _ = channel.recvmsg(_MAX_LINE, socket.CMSG_LEN(2 * descriptors.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data)
    return line, list(descriptors)


if __name__ == "__main__":
    main()
