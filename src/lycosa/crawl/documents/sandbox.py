"""Parses pages in a child process if they may kill the parser.

A worker that died twice without a commit replays its archive through a child: a page that kills two
children, or exceeds the time limit, is recorded as `parse_crashed`, and the replay continues with a
new child. A single death may have other causes (memory, a kill). Documents have separate children
and time limits (`lycosa.crawl.documents.pool`).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection

from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange
from lycosa.crawl.processing.page_reader import ParsedExchange, Reader
from lycosa.page.html.markdown import MarkdownMode
from lycosa.processes.terminal import escape_output

_MAX_CHILDREN = 2

_MAX_SECONDS = 60
"""Time limit for one page.

The slowest page of the hostile server takes under 5 s on one busy core.
"""


def _serve(reader: Reader, pipe: Connection) -> None:
    escape_output()
    while True:
        try:
            exchange, collections, markdown = pipe.recv()
        except EOFError:
            return
        pipe.send(reader(exchange, collections, markdown=markdown))


class ChildReader:
    """Returns the results of `Reader` from a child process that may die."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._child = self._context.Process(target=_serve, args=(self._reader, theirs), daemon=True)
        self._child.start()
        theirs.close()

    def __call__(
        self,
        exchange: Exchange,
        collections: Sequence[str] = (),
        *,
        markdown: MarkdownMode | None = None,
    ) -> ParsedExchange:
        documents = self._reader.documents
        if (
            documents is not None
            and exchange.truncated != "unspecified"
            and documents.wants(exchange)
        ):
            return documents.read(exchange, markdown)
        for _ in range(_MAX_CHILDREN):
            try:
                self._pipe.send((replace(exchange, token=None), tuple(collections), markdown))
                if self._pipe.poll(_MAX_SECONDS):
                    parsed: ParsedExchange = self._pipe.recv()
                    return parsed
                self._replace()
                break
            except (EOFError, OSError):
                self._replace()  # it died
        return ParsedExchange(None, FetchError.PARSE_CRASHED)

    def _replace(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        self._pipe.close()
        self._child.kill()
        self._child.join()
