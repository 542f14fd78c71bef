"""The child process that parses documents until its pipe is closed.

Call: `python -m lycosa.crawl.documents.child DESCRIPTOR`. The process limits itself before it
receives the first document: address space, CPU time (renewed for each document), wall-clock time
(an alarm, for parsers that wait without using the CPU), size of files, no children, no core dumps.
A document that exceeds a limit ends the process, without further damage. If the crawl dies, the
same limits end this process.
"""

from __future__ import annotations

import contextlib
import logging
import math
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection

from lycosa.core.records import Exchange, Page
from lycosa.crawl.documents.wire import (
    CLOCK_SHARE,
    MAX_REPLY,
    READY,
    DocumentLimits,
    encode_reply,
)
from lycosa.http.decode import decode_body, parse_head
from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document
from lycosa.page.documents.sink import FAULT_MEMORY
from lycosa.page.html.markdown import MarkdownMode
from lycosa.page.parse import ParseOptions
from lycosa.processes.platform import limit_memory
from lycosa.text.identify import identify

_WARMING = "so much depends"
"""A text so short that the language identifier needs all of its models.

They are then loaded before the time limit of the first document starts.
"""


def main() -> None:
    """Serve one pipe until it is closed."""
    logging.disable(logging.CRITICAL)
    with Connection(int(sys.argv[1])) as pipe, contextlib.suppress(EOFError):
        limits: DocumentLimits = pipe.recv()
        _limit(limits.memory)
        identify(_WARMING)
        pipe.send_bytes(READY)
        while True:
            exchange, markdown = pipe.recv()
            _renew(limits.timeout_ms / 1000)
            pipe.send_bytes(_parse(exchange, limits, markdown))
            signal.setitimer(signal.ITIMER_REAL, 0)


def _parse(exchange: Exchange, limits: DocumentLimits, markdown: MarkdownMode | None) -> bytes:
    try:
        headers = parse_head(exchange.response_head)
        decoded = decode_body(exchange, limits.max_decoded)
        kind = kind_of(decoded.payload)
        if kind is None or (decoded.error and not decoded.payload):
            return encode_reply(None, decoded.error, decoded.truncated)
        page = parse_document(
            decoded.payload,
            kind,
            url=exchange.url,
            link_headers=headers.get_all("link"),
            x_robots_tag=headers.get_all("x-robots-tag"),
            options=ParseOptions(
                limits.product_token, exchange.started_at or None, markdown=markdown
            ),
        )
        if decoded.error:
            page.faults.append(decoded.error)
        if decoded.truncated or exchange.truncated:
            page.faults.append("truncated")
        return encode_reply(page, "", decoded.truncated)
    except MemoryError:
        return encode_reply(Page(size=len(exchange.body), faults=[FAULT_MEMORY]), "", False)


def _limit(memory: int) -> None:
    limit_memory(memory)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_REPLY, MAX_REPLY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # no further process or thread (root is exempt)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _renew(seconds: float) -> None:
    """Allow time for one more document."""
    spent = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent + seconds), hard))
    signal.setitimer(signal.ITIMER_REAL, seconds * CLOCK_SHARE + 1)


if __name__ == "__main__":
    main()
