"""A daemon whose workers die of one page, for `test_daemon`: `python deadly_daemon.py WORKSPACE`. Importing `deadly` makes them so."""

from __future__ import annotations

import sys

from lycosa.app.daemon import RunOrder, run
from lycosa.core.errors import LycosaError
from tests.crawl import deadly

assert deadly

if __name__ == "__main__":
    try:
        run(RunOrder(sys.argv[1]), lambda line: print(line, file=sys.stderr, flush=True))
    except LycosaError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
