"""Shared-memory mark of the page that a worker is parsing, so that its parent can name that page
and kill a hanging worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.sharedctypes import RawArray, RawValue

from lycosa.core.records import Exchange
from lycosa.crawl.processing.page_reader import ParsedExchange, Reader, ReadsDocuments
from lycosa.page.html.markdown import MarkdownMode

MAX_PAGE_MS = 180_000
"""A worker that reads one page for so long hangs, and is killed: the slowest page of the hostile
server takes under 5 s.
"""

_MARK_BYTES = 2_048


class PageMark:
    """The page being parsed, in memory shared by parent and child.

    So it can be read after the child was killed.
    """

    def __init__(self) -> None:
        self._text = RawArray("c", _MARK_BYTES)
        self._number = RawValue("Q")

    def set(self, url: str) -> None:
        self._number.value += 1
        self._text.value = url.encode()[: _MARK_BYTES - 1]

    @property
    def number(self) -> int:
        """Changes with every page that is begun or done."""
        number: int = self._number.value
        return number

    @property
    def url(self) -> str:
        text: bytes = self._text.value
        return text.decode(errors="replace")


class _Unmarked:
    """Reads documents without a mark: that has time limits of its own, and waits for other
    processes.
    """

    def __init__(self, documents: ReadsDocuments, mark: PageMark) -> None:
        self._documents = documents
        self._mark = mark

    def wants(self, exchange: Exchange) -> bool:
        return self._documents.wants(exchange)

    def read(self, exchange: Exchange, markdown: MarkdownMode | None = None) -> ParsedExchange:
        self._mark.set("")
        return self._documents.read(exchange, markdown)


class MarkingReader:
    """Reads as `reader` does, and leaves a mark while it does so, but for documents."""

    def __init__(self, reader: Reader, mark: PageMark) -> None:
        documents = None if reader.documents is None else _Unmarked(reader.documents, mark)
        self._reader = replace(reader, documents=documents)
        self._mark = mark

    def __call__(
        self,
        exchange: Exchange,
        collections: Sequence[str] = (),
        *,
        markdown: MarkdownMode | None = None,
    ) -> ParsedExchange:
        self._mark.set(exchange.url)
        parsed = self._reader(exchange, collections, markdown=markdown)
        self._mark.set("")
        return parsed
