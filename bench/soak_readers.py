"""Readers for `bench.soak` and `bench.load`: they ask the search page and the API at a steady rate,
in the words of the synthetic web.
"""

from __future__ import annotations

import http.client
import random
import select
import threading
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode

from tests.servers.synthetic.lexicon import LANGUAGES, LEXICONS

LIMIT_S = 30.0
_API, _PAGE = "/api/v1/search", "/"


class Asked(NamedTuple):
    """One question. `due_ms`: when it was to be asked, ms since 1970; `took_ms`: from then to the
    last byte; `status` 0: no answer.
    """

    due_ms: int
    took_ms: float
    status: int
    what: str


class Question(NamedTuple):
    """What is asked, and by which name it is counted."""

    what: str
    path: str


def question(chance: random.Random) -> Question:
    """As people ask: one word or two of some language; mostly the first page of results; and what
    is suggested while they type.
    """
    language = chance.choice(LANGUAGES)
    words = chance.sample(LEXICONS[language].content, chance.choice((1, 1, 2)))
    draw = chance.random()
    if draw < 0.15:
        return Question(
            "suggest", "/api/v1/suggest?" + urlencode({"q": words[0][: chance.randint(1, 4)]})
        )
    fields: dict[str, object] = {"q": " ".join(words)}
    if draw < 0.25:
        return Question("page", f"{_PAGE}?{urlencode(fields | {'page': chance.choice((2, 3))})}")
    if draw < 0.35:
        return Question("api", f"{_API}?{urlencode(fields | {'offset': chance.choice((10, 20))})}")
    if draw < 0.40:
        return Question("facets", f"{_API}?{urlencode(fields | {'facets': 'language,host'})}")
    if draw < 0.45:
        return Question("api", f"{_API}?{urlencode(fields | {'lang': language})}")
    return (
        Question("page", f"{_PAGE}?{urlencode(fields)}")
        if draw < 0.65
        else Question("api", f"{_API}?{urlencode(fields)}")
    )


class Reader:
    """One client with a connection that it keeps, and makes anew after any fault."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body; status 0: no answer."""
        try:
            if self._connection is not None and _was_closed(self._connection):
                self.close()
            if self._connection is None:
                self._connection = http.client.HTTPConnection(
                    "127.0.0.1", self._port, timeout=LIMIT_S
                )
            page = {"accept": "text/html"} if path.startswith(_PAGE + "?") else {}
            self._connection.request(method, path, body, page | (headers or {}))
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return 0, b""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _was_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has left a connection that rested, as it may: every client looks, or asks
    anew.
    """
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])


class Readers:
    """Ask `rate` questions a second, whatever becomes of them; a context manager. `record` is
    called from many threads.
    """

    def __init__(
        self, port: int, rate: float, seed: int, record: Callable[[Asked], None], clients: int = 20
    ) -> None:
        self._port, self._rate, self._seed, self._record = port, rate, seed, record
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(number, clients), daemon=True)
            for number in range(clients)
        ]

    def __enter__(self) -> Readers:
        self._begun = time.time()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int, clients: int) -> None:
        """Every `clients`th question. One that comes late, as the one before it took so long,
        counts from when it was due.
        """
        chance = random.Random(self._seed * 1_000 + number)
        reader = Reader(self._port)
        due = self._begun + number / self._rate
        while not self._ending.wait(max(due - time.time(), 0)):
            what, path = question(chance)
            status, _ = reader.ask(path)
            self._record(Asked(round(due * 1000), (time.time() - due) * 1000, status, what))
            due += clients / self._rate
        reader.close()
