"""A fake search cluster over HTTP: OpenSearch's `_bulk` API and Quickwit's ingest API.

It follows the documented APIs: it stores documents, checks external versions and returns a result
per item. Failures can be injected: status 429, 413 or 502, lost, truncated, chunked and delayed
responses, and documents that are always rejected.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from tests.servers.local_http import QuietHandler, serving_handler

WHOLE_429, ITEMS_429, LOST, CUT, CHUNKED, SLOW, PROXY_502, WRONG_COUNT = (
    "429", "items 429", "lost", "cut", "chunked", "slow", "502", "wrong count",
)  # fmt: skip
FAULTS = (WHOLE_429, ITEMS_429, LOST, CUT, CHUNKED, SLOW, PROXY_502, WRONG_COUNT)


class Cluster:
    """The documents of the cluster, the requests it received, and its failures."""

    def __init__(self) -> None:
        self.url = ""
        self.lock = threading.RLock()
        self.mapping: dict[str, Any] | None = None
        self.documents: dict[str, dict[str, Any]] = {}
        self.versions: dict[str, int] = {}  # of deleted documents too
        self.ingested: list[dict[str, Any]] = []  # Quickwit
        self.commits: list[str] = []  # the commit parameter of each ingest
        self.delete_tasks: list[str] = []
        self.faults: deque[str] = deque()  # one for each of the next requests with documents
        self.never: set[str] = set()  # ids of documents that are always rejected
        self.most_bytes = 10**9  # a larger request is answered with 413
        self.pause_s = 0.0  # before each response
        self.retry_after = ""
        self.authorization = ""  # the required field value; "": none
        self.requests: list[tuple[str, str, int]] = []  # method, path, bytes
        self.item_counts: list[int] = []  # executed actions of each _bulk request
        self.during: Callable[[], None] | None = None  # called during the third _bulk request
        self._random = random.Random(1)

    def sent(self) -> int:
        """Return the number of executed actions."""
        return sum(self.item_counts)

    def apply(self, line: bytes, lines: Iterator[bytes], *, reject_share: float) -> dict[str, Any]:
        """Execute one action of a `_bulk` body and return its result."""
        ((action, head),) = json.loads(line).items()
        name, version = head["_id"], head["version"]
        assert head["version_type"] == "external_gte"
        source = json.loads(next(lines)) if action == "index" else None

        def failure(status: int, kind: str, reason: str) -> dict[str, Any]:
            error = {"type": kind, "reason": reason}
            return {action: {"_id": name, "status": status, "error": error}}

        if name in self.never:
            return failure(400, "mapper_parsing_exception", "failed to parse")
        if self._random.random() < reject_share:
            reason = "rejected execution of coordinating operation"
            return failure(429, "rejected_execution_exception", reason)
        if version < self.versions.get(name, 0):
            reason = f"[{name}]: version conflict, current version is higher"
            return failure(409, "version_conflict_engine_exception", reason)
        self.versions[name] = version
        exists = name in self.documents
        if source is None:
            self.documents.pop(name, None)
            result, status = ("deleted", 200) if exists else ("not_found", 404)
        else:
            self.documents[name] = source
            result, status = ("updated", 200) if exists else ("created", 201)
        return {action: {"_id": name, "result": result, "status": status}}

    def matches(self, query: dict[str, Any], document: dict[str, Any]) -> bool:
        """Return whether a term or prefix query on a keyword field matches."""
        ((kind, condition),) = query.items()
        ((field, value),) = condition.items()
        assert self.mapping is not None
        assert self.mapping["properties"][field]["type"] == "keyword"
        stored = document[field]
        values = stored if isinstance(stored, list) else [stored]
        return any(text == value if kind == "term" else text.startswith(value) for text in values)


@contextmanager
def bulk_server() -> Iterator[Cluster]:
    """Run a cluster until the block ends; `url` is its address."""
    cluster = Cluster()

    class Handler(_Handler):
        state = cluster

    with serving_handler(Handler) as cluster.url:
        yield cluster


class _Handler(QuietHandler):
    state: Cluster

    def do_HEAD(self) -> None:
        self._handle()

    do_GET = do_PUT = do_POST = do_HEAD

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        state, parts = self.state, urlsplit(self.path)
        state.requests.append((self.command, self.path, len(body)))
        if state.authorization and self.headers.get("Authorization") != state.authorization:
            self._reply_json(401, {"error": "Unauthorized"})
            return
        # the client may have closed the connection
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._respond(body, parts)

    def _respond(self, body: bytes, parts: SplitResult) -> None:
        state = self.state
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        has_documents = parts.path.endswith(("/_bulk", "/ingest"))
        fault = state.faults.popleft() if has_documents and state.faults else ""
        if state.pause_s and has_documents:
            time.sleep(state.pause_s)
        if has_documents and len(body) > state.most_bytes:
            self._reply_json(413, {"message": f"Request size exceeded {state.most_bytes} bytes"})
        elif fault == WHOLE_429:
            self._reply_json(
                429,
                {"error": {"type": "circuit_breaking_exception"}, "status": 429},
                retry_after=state.retry_after,
            )
        elif fault == PROXY_502:
            self.reply(502, b"<html>Bad Gateway</html>", [("Content-Type", "text/html")])
        else:
            with state.lock:
                status, answer = self._execute(parts.path, query, body, fault)
            self._send(status, answer, fault)

    def _send(self, status: int, answer: dict[str, Any], fault: str) -> None:
        if fault == LOST:
            self.close_connection = True
            return
        if fault == SLOW:
            time.sleep(0.4)
        content = json.dumps(answer).encode()
        if fault == CUT:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif fault == CHUNKED:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(content), 700):
                piece = content[start : start + 700]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._reply_json(status, answer)

    def _execute(
        self, path: str, query: dict[str, str], body: bytes, fault: str
    ) -> tuple[int, dict[str, Any]]:
        state = self.state
        if path.startswith("/api/v1/"):
            return self._quickwit(path, query, body)
        action = path.split("/")[2] if path.count("/") > 1 else ""
        if not action:
            if self.command == "PUT" and state.mapping is None:
                state.mapping = json.loads(body)["mappings"]
                return 200, {"acknowledged": True}
            return (404, {}) if state.mapping is None else (200, {})
        if action == "_mapping":
            return 200, {"name": {"mappings": state.mapping}}
        if action == "_refresh":
            return 200, {"_shards": {"total": 1, "successful": 1, "failed": 0}}
        if action == "_delete_by_query":
            queries = json.loads(body)["query"]["bool"]["should"]
            matches = [
                name
                for name, document in state.documents.items()
                if any(state.matches(each, document) for each in queries)
            ]
            for name in matches:
                del state.documents[name]
                state.versions[name] += 1
            return 200, {
                "deleted": len(matches),
                "version_conflicts": 0,
                "failures": [],
                "timed_out": False,
            }
        assert action == "_bulk", path
        assert self.headers["Content-Type"] == "application/x-ndjson"
        assert body.endswith(b"\n")
        lines = iter(body.split(b"\n")[:-1])
        reject_share = 0.5 if fault == ITEMS_429 else 0.0
        items = [state.apply(line, lines, reject_share=reject_share) for line in lines]
        state.item_counts.append(len(items))
        if state.during is not None and len(state.item_counts) == 3:
            state.during()
        if "filter_path" in query:
            items = [
                {action: {key: output[key] for key in ("status", "error") if key in output}}
                for item in items
                for action, output in item.items()
            ]
        return 200, {
            "errors": any("error" in output for item in items for output in item.values()),
            "items": items[fault == WRONG_COUNT :],
        }

    def _quickwit(
        self, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, Any]]:
        state = self.state
        if path.endswith("/delete-tasks"):
            deletion = json.loads(body)["query"]
            state.delete_tasks.append(deletion)
            state.ingested = [
                document for document in state.ingested if not _matches_query(deletion, document)
            ]
            return 200, {"opstamp": len(state.delete_tasks)}
        if path.endswith("/ingest"):
            documents = [json.loads(line) for line in body.split(b"\n")[:-1]]
            state.ingested += documents
            state.commits.append(query["commit"])
            state.item_counts.append(len(documents))
            return 200, {"num_docs_for_processing": len(documents)}
        return (
            (404, {"message": "index not found"})
            if state.mapping is None
            else (200, {"index_config": {}})
        )

    def _reply_json(self, status: int, answer: dict[str, Any], retry_after: str = "") -> None:
        headers = [("Content-Type", "application/json")]
        headers += [("Retry-After", retry_after)] if retry_after else []
        self.reply(status, json.dumps(answer).encode(), headers)


def _matches_query(query: str, document: dict[str, Any]) -> bool:
    """Return whether `field:word OR field:prefix*` matches a document.

    Asserts that reserved characters are escaped.
    """
    for clause in query.split(" OR "):
        field, _, word = clause.partition(":")
        is_prefix = word.endswith("*") and not word.endswith("\\*")
        word = word.removesuffix("*") if is_prefix else word
        assert not re.search(r"""(?<!\\)[-+^`:{}"\[\]()~!* ]""", word), clause
        text = re.sub(r"\\(.)", r"\1", word)
        stored = document[field]
        values = stored if isinstance(stored, list) else [stored]
        if any(value.startswith(text) if is_prefix else value == text for value in values):
            return True
    return False
