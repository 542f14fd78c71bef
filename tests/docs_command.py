"""Run `lycosa` in examples of the documentation; servers are stopped when they work.

Usage: python -m tests.docs_command PORT ARGUMENT…
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_S = 60
MONITORING_S = 4
MIN_ARCHIVE_BYTES = 20_000
CRAWL_S = 3  # after the archive has its minimum size
STATUS_AFTER_CTRL_C = 130


def main(port: int, arguments: Sequence[str]) -> int:
    """Run a command to its end, but interrupt a server when it works."""
    serves = "serve" in arguments or "--serve" in arguments
    command = [sys.executable, "-m", "lycosa", *arguments]
    if serves:
        command += ["--port", str(port)]
    if not serves and "run" not in arguments:
        os.execv(sys.executable, command)
    process = subprocess.Popen(command)
    start = time.monotonic()
    while not _works(port if serves else 0, arguments, start):
        assert process.poll() is None, "the server exited"
        assert time.monotonic() < start + TIMEOUT_S, "the server does not work"
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    status = process.wait(TIMEOUT_S)
    return 0 if status == STATUS_AFTER_CTRL_C else status


def _works(port: int, arguments: Sequence[str], start: float) -> bool:
    if port:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)):
                return False
    if "monitor" in arguments:
        return time.monotonic() > start + MONITORING_S
    if "run" in arguments:
        files = Path().rglob("*.warc.gz")
        if sum(file.stat().st_size for file in files) < MIN_ARCHIVE_BYTES:
            return False
        time.sleep(CRAWL_S)
    return True


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
