"""An OpenAI-compatible API on loopback: POST /v1/embeddings, with an encoder of the test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.servers.local_http import QuietHandler, serving_handler

Reply = tuple[int, bytes, Sequence[tuple[str, str]]]


@dataclass
class EmbeddingServer:
    """The state of the server.

    `requests`: the decoded bodies. `replies`: responses that replace the vectors, one for each
    request; if `sticky`, the first one is repeated. `delay_s`: before each response.
    """

    encode: Callable[[list[str]], Any]
    url: str = ""
    key: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    sticky: bool = False
    delay_s: float = 0.0

    @property
    def texts(self) -> int:
        """The number of texts in all requests."""
        return sum(len(each["input"]) for each in self.requests)

    def reply(self, path: str, authorization: str, body: bytes) -> Reply:
        document = json.loads(body)
        self.requests.append(document)
        time.sleep(self.delay_s)
        if self.replies:
            return self.replies[0] if self.sticky else self.replies.pop(0)
        if path != "/v1/embeddings":
            return 404, b"no such path", ()
        if self.key and authorization != f"Bearer {self.key}":
            return 401, b'{"error": {"message": "wrong\x1b[31m key"}}', ()
        rows = self.encode(document["input"])
        data = [
            {"object": "embedding", "index": index, "embedding": row.tolist()}
            for index, row in enumerate(rows)
        ]
        data.reverse()  # clients must sort by `index`: the API does not define the order
        answer = {"object": "list", "data": data, "model": document["model"]}
        return 200, json.dumps(answer).encode(), ()


@contextmanager
def embedding_server(encode: Callable[[list[str]], Any]) -> Iterator[EmbeddingServer]:
    """Run a server until the block ends."""
    api = EmbeddingServer(encode)

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content, headers = api.reply(
                self.path, self.headers.get("Authorization", ""), body
            )
            self.reply(status, content, [("Content-Type", "application/json"), *headers])

    with serving_handler(Handler) as origin:
        api.url = f"{origin}/v1"
        yield api
