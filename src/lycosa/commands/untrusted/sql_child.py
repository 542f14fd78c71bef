"""The child process that runs SQL queries until its pipe is closed.

Call: `python -m lycosa.commands.untrusted.sql_child DESCRIPTOR`. The process limits its own memory,
CPU time and files. A query that exceeds a limit ends it.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from math import isfinite
from multiprocessing.connection import Connection
from typing import Any

from lycosa.core.errors import LycosaError, UsageError
from lycosa.processes.platform import limit_memory
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

MAX_VALUE_CHARACTERS = 20_000
"""Maximum length of a text in a row; longer ones are truncated."""
MAX_RESULT_CHARACTERS = 200_000
"""Maximum length of all rows as JSON; further rows are omitted."""
READY = b"ready"


def main() -> None:
    """Serve one pipe until it is closed."""
    with Connection(int(sys.argv[1])) as pipe, contextlib.suppress(EOFError):
        memory_bytes, cpu_s = json.loads(pipe.recv_bytes())
        limit_memory(memory_bytes)
        for limit, value in (
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, cpu_s),
        ):
            resource.setrlimit(limit, (value, value))
        pipe.send_bytes(READY)
        while True:
            root, query, max_rows = json.loads(pipe.recv_bytes())
            pipe.send_bytes(json.dumps(_answer(root, query, max_rows)).encode())


def _answer(root: str, query: str, max_rows: int) -> Mapping[str, Any]:
    """Return the fields of `QueryResult`, or the error."""
    try:
        return read_rows(root, query, max_rows)
    except LycosaError as error:
        return {"error": str(error), "usage": isinstance(error, UsageError)}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - errors of the query engine are about the query
        reason = (str(error) or type(error).__name__).strip().partition("\n")[0]
        return {"error": f"the SQL query failed: {reason}", "usage": True}


def read_rows(root: str, query: str, max_rows: int) -> Mapping[str, Any]:
    """Run a query on the live tables; return the fields of `QueryResult` as JSON values.

    Raises:
        UsageError: the query is invalid, or reads other data than the tables.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    tables = LiveTables(Workspace.open(root))
    frame = tables.sql(query, max_rows=max_rows + 1, only_tables=True)
    result = _LimitedRows(max_rows)
    for row in frame.iter_rows():
        if not result.add(row):
            break
    return {"columns": frame.columns, "rows": result.rows, "truncated": result.truncated}


class _LimitedRows:
    """Rows of JSON values, of limited size. `truncated`: parts were omitted."""

    def __init__(self, max_rows: int) -> None:
        self.rows: list[list[Any]] = []
        self.truncated = False
        self._max_rows = max_rows
        self._characters = 0

    def add(self, row: Sequence[Any]) -> bool:
        """Add a row; return whether it fits."""
        values = [self._plain(value) for value in row]
        self._characters += len(json.dumps(values))
        if len(self.rows) == self._max_rows or self._characters > MAX_RESULT_CHARACTERS:
            self.truncated = True
            return False
        self.rows.append(values)
        return True

    def _plain(self, value: Any) -> Any:
        match value:
            case None | bool() | int():
                return value
            case float():
                return value if isfinite(value) else None
            case datetime():
                at = value if value.tzinfo else value.replace(tzinfo=UTC)
                return at.isoformat().replace("+00:00", "Z")
            case date():
                return value.isoformat()
            case list() | tuple():
                return [self._plain(each) for each in value]
            case dict():
                return {str(name): self._plain(each) for name, each in value.items()}
        text = str(value)
        self.truncated = self.truncated or len(text) > MAX_VALUE_CHARACTERS
        return text[:MAX_VALUE_CHARACTERS]


if __name__ == "__main__":
    main()
