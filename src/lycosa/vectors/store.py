"""Chunks with their vectors: immutable folders, the newest of which is valid.

    vectors/00000003/info.json     encoder, number of dimensions, chunks and pages
                     pages.arrow   a row for each page, with its number of chunks
                     chunks.jsonl  the chunks of the pages, in the same order
                     ends.npy      uint64[chunks], the end of each line of chunks.jsonl
                     vectors.npy   float32[chunks, dimensions], of length 1
                     keys.npy      uint64[chunks], the beginnings of the ids
                     graph.usearch index of the vectors by `keys`, above `EXACT_CHUNKS`

Chunks and vectors are mapped into memory, not read.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lycosa.chunks.split import Chunk
from lycosa.core.errors import WorkspaceError
from lycosa.export.markdown.pages import MarkdownPage
from lycosa.graph.link_graph import Lookup
from lycosa.store.storage.staging import (
    build_folder,
    generation_numbers,
    newest_generations,
    publish_generation,
    read_info,
    write_list,
)
from lycosa.store.storage.storage import Storage
from lycosa.vectors.encoders import Vectors

FOLDER = "vectors"
INFO, PAGES, CHUNKS, ENDS = "info.json", "pages.arrow", "chunks.jsonl", "ends.npy"
VECTORS, KEYS, GRAPH = "vectors.npy", "keys.npy", "graph.usearch"
FORMAT = 1
EXACT_CHUNKS = 100_000
"""Up to this number of chunks, a search compares all vectors, which takes about 15 ms."""
_SEARCHED = 256  # candidates of a search in the graph: 95 % of the nearest 200 are found
_SLAB = 65_536  # rows that are copied at once
_TIME = pl.Datetime("ms", "UTC")
_CITATION = {
    "url": pl.String(),
    "title": pl.String(),
    "language": pl.String(),
    "collection": pl.String(),
    "published_at": _TIME,
    "fetched_at": _TIME,
    "record_id": pl.String(),
    "text_digest": pl.UInt64(),
}
FACTS = tuple(_CITATION)
"""Columns of a page that, if one changes, cause the page to be split again."""
_PAGE_SCHEMA = pl.Schema({"url_key": pl.UInt64(), "chunks": pl.UInt32(), **_CITATION})
_DAMAGED = "run `lycosa index`, which encodes all chunks again"


@dataclass(slots=True, frozen=True)
class VectorsInfo:
    """Content of info.json. `version`: of the program that split the pages. `waiting`: number of
    pages whose chunks are not encoded yet. It includes the log up to `log_entry`.
    """

    encoder: str
    dimensions: int
    chunk_tokens: int
    log_entry: int
    version: str
    waiting: int = 0
    pages: int = 0
    chunks: int = 0
    format: int = FORMAT


class EncodedPage(NamedTuple):
    """A page, its chunks, and a vector for each of them."""

    url_key: int
    page: MarkdownPage
    chunks: Sequence[Chunk]
    vectors: Sequence[Vectors]


class StoredChunk(NamedTuple):
    """A chunk without its place on the page."""

    id: str
    headings: tuple[str, ...]
    text: str
    size: int


class ChunkStore:
    """An open folder. Threads may share it.

    Raises:
        WorkspaceError: it is damaged, or of an unknown format.
        FileNotFoundError: it was replaced meanwhile.
    """

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number
        self.info = read_info(path / INFO, VectorsInfo, FORMAT, _DAMAGED)
        try:
            self.pages = pl.read_ipc(path / PAGES)
            self._lines = _mapped(path / CHUNKS)
            self._line_ends: NDArray[np.uint64] = _array(path / ENDS)
            self.vectors: Vectors = _array(path / VECTORS)
            self.keys: NDArray[np.uint64] = _array(path / KEYS)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            raise WorkspaceError(f"{path} is damaged: {error}; {_DAMAGED}") from None
        self.ends: NDArray[np.int64] = np.cumsum(self.pages["chunks"].to_numpy(), dtype=np.int64)
        sizes = {len(self._line_ends), len(self.vectors), len(self.keys), self.info.chunks}
        end = int(self._line_ends[-1]) if len(self._line_ends) else 0
        if (sizes, end, self.pages.schema) != (
            {int(self.ends[-1]) if len(self.ends) else 0},
            len(self._lines),
            _PAGE_SCHEMA,
        ):
            raise WorkspaceError(f"{path} is damaged: its files do not match; {_DAMAGED}")

    def places_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the pages of chunks."""
        places: NDArray[np.int64] = np.searchsorted(self.ends, rows, side="right")
        return places

    def place_of(self, url_key: int) -> int | None:
        """Return the number of a page; None: it is not stored."""
        place = int(self._by_key.find(np.array([url_key], np.uint64))[0])
        return place if place >= 0 else None

    def page(self, place: int) -> MarkdownPage:
        """Return a page, without its text."""
        values = self.pages.row(place, named=True)
        facts = {name: values[name] for name in FACTS if name in MarkdownPage._fields}
        return MarkdownPage(description="", page_type="", digest="", markdown="", **facts)

    def chunks_of(self, place: int) -> list[Chunk]:
        """Return the chunks of a page, in order."""
        start, end = self._rows(place)
        return self._placed(place, start, end)

    def chunk_of(self, place: int, row: int) -> Chunk:
        """Return a chunk of a page."""
        (chunk,) = self._placed(place, row, row + 1)
        return chunk

    def _placed(self, place: int, first: int, last: int) -> list[Chunk]:
        start, end = self._rows(place)
        parts = {row: self.chunk(row) for row in range(max(start, first - 1), min(end, last + 1))}
        names = {row: part.id for row, part in parts.items()}
        url = self.pages["url"][place]
        return [
            Chunk(
                *(names[row], url, row - start + 1),
                *parts[row][1:],
                names.get(row - 1, ""),
                names.get(row + 1, ""),
            )
            for row in range(first, last)
        ]

    def chunk(self, row: int) -> StoredChunk:
        """Return a chunk."""
        start = int(self._line_ends[row - 1]) if row else 0
        name, headings, text, size = json.loads(
            self._lines[start : int(self._line_ends[row])].decode("utf-8")
        )
        return StoredChunk(name, tuple(headings), text, size)

    def rows_of(self, place: int) -> dict[str, int]:
        """Return the ids of the chunks of a page, and their rows."""
        start, end = self._rows(place)
        return {self.chunk(row).id: row for row in range(start, end)}

    def lines(self, is_current: NDArray[np.bool_]) -> Iterator[bytes]:
        """Yield the lines of the current chunks, in order, several together."""
        edges = np.flatnonzero(np.diff(is_current, prepend=False, append=False))
        ends = np.concatenate((np.zeros(1, np.uint64), self._line_ends))
        for first, last in edges.reshape(-1, 2):
            yield self._lines[int(ends[first]) : int(ends[last])]

    def sizes(self, is_current: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Return the number of bytes of the lines of the current chunks."""
        return np.diff(self._line_ends, prepend=np.uint64(0))[is_current]

    def _rows(self, place: int) -> tuple[int, int]:
        end = int(self.ends[place])
        return end - int(self.pages["chunks"][place]), end

    def nearest(self, vector: Vectors, count: int) -> NDArray[np.int64]:
        """Return the rows of the nearest chunks, nearest first. Hot path: bench/passages.py."""
        if not len(self.vectors):
            return np.zeros(0, np.int64)
        graph = self._graph if count < len(self.vectors) // 10 else None
        if graph is not None:
            rows = self._by_chunk_key.find(graph.search(vector, count).keys)
            likeness = self.vectors[rows] @ vector
        else:
            # in one thread: those of BLAS wait for each other while the machine is busy
            all_rows = np.vecdot(self.vectors, vector)
            count = min(count, len(all_rows))
            rows = np.argpartition(-all_rows, count - 1)[:count]
            likeness = all_rows[rows]
        ordered: NDArray[np.int64] = rows[np.argsort(-likeness, kind="stable")]
        return ordered

    @cached_property
    def _by_key(self) -> Lookup:
        return Lookup(self.pages["url_key"].to_numpy())

    @cached_property
    def _by_chunk_key(self) -> Lookup:
        return Lookup(self.keys)

    @cached_property
    def _graph(self) -> Any:
        usearch = graph_library()
        if usearch is None or not (self.path / GRAPH).is_file():
            return None
        graph = usearch.Index.restore(str(self.path / GRAPH), view=True)
        graph.expansion_search = _SEARCHED
        return graph


def open_newest(storage: Storage, before: ChunkStore | None = None) -> ChunkStore | None:
    """Open the newest folder; None if nothing was encoded. `before` is returned if it is newest.

    Raises:
        WorkspaceError: it is damaged, or of an unknown format.
    """
    numbers = generation_numbers(storage, FOLDER)
    if before is not None and numbers[-1:] == [before.number]:
        return before
    for number, path in newest_generations(storage, FOLDER):
        try:
            return ChunkStore(path, number)
        except FileNotFoundError:  # replaced by a newer one
            return open_newest(storage, before)
    return None


def write_store(
    storage: Storage,
    info: VectorsInfo,
    base: ChunkStore | None,
    is_current: NDArray[np.bool_],
    new: Sequence[EncodedPage],
) -> ChunkStore:
    """Publish the current pages of a store and new ones, and replace all published folders.

    Args:
        info: numbers of pages and chunks are not read.
        is_current: for each page of `base`.
    """
    pages = pl.DataFrame([_page_row(each) for each in new], _PAGE_SCHEMA, orient="row")
    is_current_chunk = np.zeros(0, np.bool_)
    if base is not None:
        is_current_chunk = np.repeat(is_current, base.pages["chunks"].to_numpy())
        pages = pl.concat([base.pages.filter(pl.Series(is_current)), pages])
    total = int(is_current_chunk.sum()) + sum(len(each.chunks) for each in new)
    info = replace(info, pages=len(pages), chunks=total)
    with build_folder(storage, FOLDER) as build:
        pages.write_ipc(build / PAGES, compression="uncompressed")
        _write_chunks(build, base, is_current_chunk, new)
        _write_arrays(build, info, base, is_current_chunk, new)

        def write(_: int) -> None:
            (build / INFO).write_text(json.dumps(asdict(info)), encoding="utf-8")
            write_list(build)

        number = max(generation_numbers(storage, FOLDER), default=0) + 1
        publish_generation(storage, FOLDER, number, build, write, retained=1)
    store = open_newest(storage)
    assert store is not None
    return store


def graph_library() -> Any:
    """Return the module `usearch.index`; None if it is not installed."""
    try:
        from usearch import index
    except ImportError:
        return None
    return index


def _write_chunks(
    build: Path,
    base: ChunkStore | None,
    is_current_chunk: NDArray[np.bool_],
    new: Sequence[EncodedPage],
) -> None:
    sizes = [] if base is None else [base.sizes(is_current_chunk)]
    with open(build / CHUNKS, "wb") as output:
        if base is not None:
            output.writelines(base.lines(is_current_chunk))
        for each in new:
            lines = [_line(chunk) for chunk in each.chunks]
            output.writelines(lines)
            sizes.append(np.array([len(line) for line in lines], np.uint64))
    np.save(
        build / ENDS, np.cumsum(np.concatenate([np.zeros(0, np.uint64), *sizes]), dtype=np.uint64)
    )


def _write_arrays(
    build: Path,
    info: VectorsInfo,
    base: ChunkStore | None,
    is_current_chunk: NDArray[np.bool_],
    new: Sequence[EncodedPage],
) -> None:
    """Write vectors, keys and, of many vectors, their graph."""
    vectors = np.lib.format.open_memmap(
        build / VECTORS, "w+", np.float32, (info.chunks, info.dimensions)
    )
    keys = np.zeros(info.chunks, np.uint64)
    at = 0
    for part, part_keys in _array_parts(base, is_current_chunk, new):
        vectors[at : at + len(part)] = part
        keys[at : at + len(part)] = part_keys
        at += len(part)
    vectors.flush()
    np.save(build / KEYS, keys)
    usearch = graph_library()
    if info.chunks > EXACT_CHUNKS and usearch is not None:
        _write_graph(usearch, build / GRAPH, vectors, keys, base)


def _array_parts(
    base: ChunkStore | None, is_current_chunk: NDArray[np.bool_], new: Sequence[EncodedPage]
) -> Iterator[tuple[Vectors, NDArray[np.uint64]]]:
    for start in range(0, len(is_current_chunk), _SLAB):
        assert base is not None
        mask = is_current_chunk[start : start + _SLAB]
        yield base.vectors[start : start + _SLAB][mask], base.keys[start : start + _SLAB][mask]
    for each in new:
        if each.chunks:
            names = [int(chunk.id[:16], 16) for chunk in each.chunks]
            yield np.array(each.vectors, np.float32), np.array(names, np.uint64)


def _write_graph(
    usearch: Any,
    path: Path,
    vectors: Vectors,
    keys: NDArray[np.uint64],
    base: ChunkStore | None,
) -> None:
    """Write the graph of all vectors, from that of the base if there is one."""
    index = usearch.Index(ndim=vectors.shape[1], metric="ip", dtype="f16")
    present = np.zeros(0, np.uint64)
    if base is not None and (base.path / GRAPH).is_file():
        index.load(str(base.path / GRAPH))
        present = np.asarray(base.keys)
        index.remove(np.setdiff1d(present, keys))
    _, first = np.unique(keys, return_index=True)  # equal beginnings of two ids: one of them
    rows = first[~np.isin(keys[first], present)]
    for start in range(0, len(rows), _SLAB):
        part = np.sort(rows[start : start + _SLAB])
        index.add(keys[part], vectors[part], threads=1)  # the same graph for the same vectors
    index.save(str(path))


def _page_row(each: EncodedPage) -> tuple[Any, ...]:
    facts = {**each.page._asdict(), "text_digest": int(each.page.digest.partition(":")[2], 16)}
    return (each.url_key, len(each.chunks), *(facts[name] for name in FACTS))


def _line(chunk: Chunk) -> bytes:
    row = [chunk.id, chunk.headings, chunk.text, chunk.size]
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "replace")


def _array(path: Path) -> NDArray[Any]:
    """Map an array; `memmap` itself has slow accesses to single values."""
    mapped: NDArray[Any] = np.load(path, mmap_mode="r").view(np.ndarray)
    return mapped


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:  # cannot be mapped
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
