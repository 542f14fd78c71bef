"""Pages in chunks with their terms: stored, or split and cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

from cachetools import LRUCache

from lycosa.chunks.ranking import ChunkTerms
from lycosa.chunks.split import MAX_PAGE_CHARACTERS, Chunk, split_page
from lycosa.chunks.tokens import ChunkBudget
from lycosa.core.units import milliseconds
from lycosa.export.markdown.pages import MarkdownPage, pages_at
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import Analyzer
from lycosa.url.keys import url_key
from lycosa.vectors.store import ChunkStore

MAX_CACHED_CHARACTERS = 4 * 2**20
"""Maximum characters of cached pages; each takes about 10 bytes of memory."""

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class ChunkedPage:
    """A page without its text, and its chunks, which are read on first use.

    `size`: the approximate number of characters.
    """

    page: MarkdownPage
    read_chunks: Callable[[], Sequence[Chunk]]
    analyzer: Analyzer
    size: int

    @cached_property
    def chunks(self) -> Sequence[Chunk]:
        return self.read_chunks()

    @cached_property
    def terms(self) -> ChunkTerms:
        """The terms of its chunks."""
        return ChunkTerms(self.analyzer, self.page.title, self.chunks)


@dataclass(slots=True, frozen=True)
class Split:
    """Parameters for splitting and analysing pages.

    `store`: the stored chunks, or None. `generation`: of the index; pages cached for an earlier one
    may be outdated.
    """

    max_tokens: int
    analyzer_of: Callable[[str], Analyzer]
    generation: int
    store: ChunkStore | None = None


class ChunkedPages:
    """The pages of a workspace in chunks. Threads may share it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._cached: LRUCache[tuple[object, ...], ChunkedPage] = LRUCache(
            MAX_CACHED_CHARACTERS, lambda page: page.size
        )

    def get(self, urls: Mapping[str, int], split: Split) -> dict[str, ChunkedPage]:
        """Return the pages with these URLs; removed pages are omitted.

        `urls`: URL -> time of the version in ms; 0: the stored or the newest version.
        """
        pages: dict[str, ChunkedPage] = {}
        with self._lock:
            for url, at_ms in urls.items():
                page = self._cached.get(_key(url, at_ms, split))
                if page is not None:
                    pages[url] = page
        for page in self._read({url: at for url, at in urls.items() if url not in pages}, split):
            url = page.page.url
            pages[url] = page
            with self._lock, suppress(ValueError):  # too large to be cached
                self._cached[_key(url, urls[url], split)] = page
        return {url: pages[url] for url in urls if url in pages}

    def _read(self, urls: Mapping[str, int], split: Split) -> Iterator[ChunkedPage]:
        left = []
        for url, at_ms in urls.items():
            page = _stored(split, url, at_ms)
            if page is None:
                left.append(url)
            else:
                yield page
        budget = ChunkBudget(split.max_tokens)
        for each in pages_at(self._workspace, left) if left else ():
            text = each.markdown[:MAX_PAGE_CHARACTERS]
            chunks = split_page(each.url, text, budget, each.language)
            yield ChunkedPage(
                each._replace(markdown=""),
                partial(list, chunks),
                split.analyzer_of(each.language),
                1 + len(text),
            )


def _key(url: str, at_ms: int, split: Split) -> tuple[object, ...]:
    number = 0 if split.store is None else split.store.number
    return url, at_ms, split.max_tokens, split.generation, number


def _stored(split: Split, url: str, at_ms: int) -> ChunkedPage | None:
    """Return a page from the store, if it has this version in chunks of this size."""
    store = split.store
    if store is None or store.info.chunk_tokens != split.max_tokens:
        return None
    place = store.place_of(url_key(url))
    if place is None:
        return None
    page = store.page(place)
    if at_ms and milliseconds(page.fetched_at) != at_ms:
        return None
    chunks = int(store.pages["chunks"][place])
    return ChunkedPage(
        page,
        partial(store.chunks_of, place),
        split.analyzer_of(page.language),
        1 + _CHARACTERS_PER_TOKEN * split.max_tokens * chunks,
    )
