"""A daemon whose parser crashes on one page and hangs on another.

Usage: python crashing_daemon.py WORKSPACE [MAX_PAGE_MS]

Importing `tests.crawl.crashing_parser` makes the parser crash. The patches are at module level, so
that they also apply to spawned child processes.
"""

from __future__ import annotations

import gc
import sys
import time
import weakref

from lycosa.core.errors import LycosaError
from lycosa.core.records import Page
from lycosa.crawl.processing import page_mark
from lycosa.crawl.processing import page_reader as parse
from lycosa.daemon import daemon
from tests.crawl import crashing_parser

_parse = crashing_parser.parse.parse_page  # type: ignore[attr-defined]


def _hanging(payload: bytes, **context: object) -> Page:
    if b"hangs the parser" in payload:
        time.sleep(3_600)
    page: Page = _parse(payload, **context)
    return page


parse.parse_page = _hanging  # type: ignore[attr-defined]


class Cycle:
    """A reference cycle that prints a message when it is collected."""

    def __init__(self) -> None:
        self.reference = self
        weakref.finalize(
            self, print, "a cycle was collected", file=sys.stderr, flush=True
        ).atexit = False


if __name__ == "__main__":
    gc.set_threshold(700_000, 20, 100)  # as in `lycosa.cli.main`
    daemon._COLLECTION_INTERVAL_MS = 500
    Cycle()
    if len(sys.argv) > 2:
        vars(page_mark)["MAX_PAGE_MS"] = int(sys.argv[2])
    try:
        daemon.run(
            daemon.RunOrder(sys.argv[1]), lambda line: print(line, file=sys.stderr, flush=True)
        )
    except LycosaError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
