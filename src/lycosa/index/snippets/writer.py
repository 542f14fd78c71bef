"""Write the files of texts (`index.snippets.texts`).

New texts go to a new file, and files of similar size are merged by copying blocks. When there are
many more texts than documents, the files are rewritten without the unused texts.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import zstandard

from lycosa.index.snippets.texts import (
    FORMAT,
    HEAD,
    LENGTH,
    MAGIC,
    SUFFIX,
    TAIL,
    TextFile,
    files,
    text_key,
)

BLOCK = 64 * 2**10
"""Minimum bytes of texts in a block: larger blocks compress better and are slower to read."""
RUN = 4 * 2**20  # bytes of texts that are sorted together, so that similar ones share a block
LEVEL = 6  # of zstd; see decision 17
_SMALL = 2**14  # merging repacks blocks of fewer compressed bytes
_GROWTH = 2  # a file is merged with a newer one unless it is this many times as large
_MAX_NEW = 50_000  # texts of a new file, whose keys are in memory: about 6 MB
_SPARE, _SPARE_SHARE = 1_000, 0.25  # unused texts that are allowed

Numbers = npt.NDArray[np.uint64]


class TextWriter:
    """Writes the texts of an index that is being built. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Continue with the files in the folder. Raises as `TextFile` does."""
        self._folder = folder
        self._files = [TextFile(path) for path in files(folder)]
        self._new: _NewFile | None = None

    def add(self, text: bytes, near: tuple[str, ...]) -> int:
        """Add a text unless it exists, and return its key. Texts are sorted by `near`."""
        key = text_key(text)
        if any(key in file for file in self._files):
            return key
        if self._new is None:
            self._new = _NewFile(self._folder)
        self._new.add(key, text, near)
        if self._new.texts >= _MAX_NEW:
            self._files.append(self._new.close())
            self._new = None
        return key

    def finish(self, documents: int, named: Callable[[], Iterable[int]]) -> list[str]:
        """Write added texts, and return the names of all files.

        Args:
            documents: number of documents of the index.
            named: returns the keys of the used texts; called when there are too many texts.
        """
        if self._new is not None:
            self._files.append(self._new.close())
            self._new = None
        if sum(len(file.keys) for file in self._files) > documents * (1 + _SPARE_SHARE) + _SPARE:
            self._replace(self._files, np.unique(np.fromiter(named(), dtype=np.uint64)))
        self._files.sort(key=lambda file: -file.size)
        while len(self._files) > 1 and self._files[-2].size < _GROWTH * self._files[-1].size:
            self._replace(self._files[-2:])
            self._files.sort(key=lambda file: -file.size)
        return [file.path.name for file in self._files]

    def close(self) -> None:
        """Drop unfinished files."""
        if self._new is not None:
            self._new.drop()
            self._new = None

    def _replace(self, old: list[TextFile], named: Numbers | None = None) -> None:
        made = _NewFile(self._folder)
        for file in old:
            made.take(file, named)
        self._files = [file for file in self._files if file not in old] + [made.close()]
        for file in old:
            os.unlink(file.path)


class _NewFile:
    """A file that is being written."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{uuid.uuid4().hex}{SUFFIX}"
        self._file = self._path.open("wb")
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._waiting: list[tuple[tuple[str, ...], int, bytes]] = []
        self._waiting_bytes = 0
        self._written: set[int] = set()
        self._keys: list[Numbers] = []
        self._blocks: list[npt.NDArray[np.uint32]] = []
        self._places: list[npt.NDArray[np.uint32]] = []
        self._starts = [self._file.write(HEAD.pack(MAGIC, FORMAT))]

    @property
    def texts(self) -> int:
        """Number of added texts."""
        return len(self._written)

    def add(self, key: int, text: bytes, near: tuple[str, ...]) -> None:
        if key in self._written:
            return
        self._written.add(key)
        self._waiting.append((near, key, text))
        self._waiting_bytes += len(text)
        if self._waiting_bytes >= RUN:
            self._flush()

    def take(self, file: TextFile, named: Numbers | None) -> None:
        """Add the texts of another file that are `named`. Copy blocks that lose none."""
        keys, blocks, places = (np.frombuffer(part, dtype=kind) for part, kind in _columns(file))
        used = np.ones(len(keys), dtype=bool) if named is None else np.isin(keys, named)
        starts = np.frombuffer(file.starts, dtype=np.uint64)
        spoiled = np.diff(starts) < _SMALL
        spoiled[blocks[~used]] = True
        copied = ~spoiled[blocks]
        number = np.cumsum(~spoiled) - 1 + len(self._starts) - 1
        for block in np.flatnonzero(~spoiled).tolist():
            self._block(file.block(block))
        self._note(keys[copied], number[blocks[copied]], places[copied])
        # in the order of that file, in which similar texts are adjacent
        for place in np.lexsort((places, blocks)).tolist():
            if used[place] and not copied[place]:
                text = file.read(int(keys[place]))
                assert text is not None
                self.add(int(keys[place]), text, ())

    def close(self) -> TextFile:
        """Complete the file and open it."""
        self._flush()
        keys = np.concatenate([np.empty(0, np.uint64), *self._keys])
        blocks, places = (
            np.concatenate([np.empty(0, np.uint32), *parts])
            for parts in (self._blocks, self._places)
        )
        order = np.argsort(keys)
        padding = -self._starts[-1] % 8
        self._file.write(bytes(padding))
        for part in (
            keys[order],
            blocks[order],
            places[order],
            np.array(self._starts, dtype=np.uint64),
        ):
            self._file.write(part.tobytes())
        self._file.write(
            TAIL.pack(self._starts[-1] + padding, len(keys), len(self._starts) - 1, MAGIC)
        )
        self._file.close()
        return TextFile(self._path)

    def drop(self) -> None:
        self._file.close()
        self._path.unlink()

    def _flush(self) -> None:
        """Write waiting texts."""
        self._waiting.sort(key=lambda row: row[0])
        block, keys, places = bytearray(), list[int](), list[int]()
        for place, (_, key, text) in enumerate(self._waiting, 1):
            keys.append(key)
            places.append(len(block))
            block += LENGTH.pack(len(text)) + text
            if len(block) >= BLOCK or place == len(self._waiting):
                number = len(self._starts) - 1
                self._note(np.array(keys, np.uint64), np.full(len(keys), number), np.array(places))
                self._block(self._compressor.compress(block))
                block, keys, places = bytearray(), [], []
        self._waiting, self._waiting_bytes = [], 0

    def _note(
        self, keys: Numbers, blocks: npt.NDArray[np.integer], places: npt.NDArray[np.integer]
    ) -> None:
        self._keys.append(keys)
        self._blocks.append(blocks.astype(np.uint32))
        self._places.append(places.astype(np.uint32))

    def _block(self, block: bytes | memoryview) -> None:
        self._starts.append(self._starts[-1] + self._file.write(block))


def _columns(file: TextFile) -> tuple[tuple[memoryview, type[np.unsignedinteger]], ...]:
    return (file.keys, np.uint64), (file.blocks, np.uint32), (file.places, np.uint32)
