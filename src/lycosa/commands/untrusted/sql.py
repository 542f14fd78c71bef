"""SQL queries of untrusted users: read-only, limited, in child processes.

The query engine cannot be interrupted, and a query may need any amount of memory. So a child runs
it, which is killed when the time is over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Any

from lycosa.commands.models import QueryResult
from lycosa.commands.untrusted.sql_child import READY
from lycosa.core.errors import UsageError, WorkError

_START_S = 60.0
_CPU_FACTOR = 100  # queries of full length that a child may run
_QUERIES_PER_CHILD = 500


@dataclass(slots=True, frozen=True)
class SqlLimits:
    """Limits of a query. `memory_bytes`: address space of its process."""

    max_rows: int = 1_000
    time_s: float = 10.0
    memory_bytes: int = 4 * 2**30
    processes: int = 2


class _Child:
    """A process that runs queries.

    Methods raise OSError or EOFError if it has died.
    """

    def __init__(self, limits: SqlLimits) -> None:
        self._pipe, theirs = Pipe()
        self.queries = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lycosa.commands.untrusted.sql_child", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={
                **os.environ,
                "POLARS_MAX_THREADS": "2",
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        cpu_s = round(_CPU_FACTOR * limits.time_s)
        self._pipe.send_bytes(json.dumps([limits.memory_bytes, cpu_s]).encode())
        if not self._pipe.poll(_START_S) or self._pipe.recv_bytes() != READY:
            self.close()
            raise EOFError

    def ask(self, request: list[Any], timeout_s: float) -> dict[str, Any] | None:
        """Return the response; None if there is none within `timeout_s`."""
        self.queries += 1
        self._pipe.send_bytes(json.dumps(request).encode())
        if not self._pipe.poll(timeout_s):
            return None
        answer: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()


class SqlRunner:
    """Runs queries on a workspace's live tables. Thread-safe; must be closed."""

    def __init__(self, root: str, limits: SqlLimits = SqlLimits()) -> None:
        self._root = root
        self._limits = limits
        self._slots = threading.BoundedSemaphore(limits.processes)
        self._idle: list[_Child] = []

    def run(self, query: str, max_rows: int = 100) -> QueryResult:
        """Run one query. `max_rows`: at most that of the limits.

        Raises:
            UsageError: the query is invalid, reads other data than the tables, takes too long, or
            needs too much memory.
            WorkError: too many queries are running, or the workspace is damaged.
        """
        limits = self._limits
        if not self._slots.acquire(timeout=limits.time_s):
            raise WorkError(f"{limits.processes} queries are running: try again later")
        try:
            answer = self._ask(query, min(max_rows, limits.max_rows))
        finally:
            self._slots.release()
        if "error" in answer:
            raise (UsageError if answer["usage"] else WorkError)(answer["error"])
        return QueryResult(**answer)

    def close(self) -> None:
        """End the processes."""
        while self._idle:
            self._idle.pop().close()

    def _ask(self, query: str, max_rows: int) -> dict[str, Any]:
        child = self._child()
        try:
            answer = child.ask([self._root, query, max_rows], self._limits.time_s)
        except (OSError, EOFError):
            child.close()
            raise UsageError(
                "the process of the query ended: it needs too much memory (limit "
                f"{self._limits.memory_bytes / 2**30:.0f} GiB), or the query engine failed; "
                "select fewer rows and columns"
            ) from None
        except BaseException:
            child.close()
            raise
        if answer is None:
            child.close()
            raise UsageError(
                f"the query took longer than {self._limits.time_s:.0f} s: select fewer rows and "
                "columns, and join tables by key"
            )
        if child.queries < _QUERIES_PER_CHILD:
            self._idle.append(child)
        else:
            child.close()
        return answer

    def _child(self) -> _Child:
        with suppress(IndexError):
            return self._idle.pop()
        try:
            return _Child(self._limits)
        except (OSError, EOFError):
            raise WorkError("the process for queries did not start: try again later") from None
