"""The files of a generation that hold the beginnings of its pages' texts, for snippets: each text
once, however many pages have it.

    <id>.texts    "LYTX", format; blocks (zstd); the texts' keys, in order, their blocks and places
    in them; where blocks begin; the tail

A document of the index names its text by a key, the text's own hash (`text_key`). Texts of one site
and language stand together in a block, each after its length: what they share is compressed away.
Files never change; which of them a generation has is in its folder. No numpy here: a search starts
with this module.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import threading
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

import zstandard

from lycosa.core.errors import WorkspaceError

FORMAT = 1
SUFFIX = ".texts"
MAGIC = b"LYTX"
HEAD = struct.Struct("<4sI")
TAIL = struct.Struct("<QQQ4s4x")
"""Where the keys begin, how many texts and how many blocks there are, and `MAGIC` again."""
LENGTH = struct.Struct("<I")
_SPLIT = "\x00"
_PER_THREAD = threading.local()


def text_key(text: bytes) -> int:
    """The key of a text, above 0. Nobody can make a text that has the key of a given one, so no
    page shows what another one says.
    """
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1


def joined(body: str, full: str) -> bytes:
    """The main text and the text outside it as one; b"" if there is none."""
    if not body and not full:
        return b""
    return f"{body.replace(_SPLIT, ' ')}{_SPLIT}{full.replace(_SPLIT, ' ')}".encode(
        "utf-8", "replace"
    )


def parted(text: bytes) -> tuple[str, str]:
    """The inverse of `joined`."""
    body, _, full = text.decode("utf-8").partition(_SPLIT)
    return body, full


class TextFile:
    """An open file. Shared by threads. `keys` are in order; the n-th text stands in block
    `blocks[n]` at `places[n]`; a block ends where the next one begins: `starts` has one more.

    Raises:
        WorkspaceError: it is damaged, or of another format.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            whole = memoryview(self._mapped)
            magic, version = HEAD.unpack_from(whole)
            at, texts, blocks, end = TAIL.unpack_from(whole, len(whole) - TAIL.size)
            if magic != MAGIC or end != MAGIC or version != FORMAT:
                raise ValueError("incomplete file or unknown format")
            ends = [
                at + 8 * texts,
                at + 12 * texts,
                at + 16 * texts,
                at + 16 * texts + 8 * (blocks + 1),
            ]
            if ends[-1] != len(whole) - TAIL.size:
                raise ValueError("the sizes of its parts do not add up to the file size")
        except (ValueError, struct.error) as error:
            raise WorkspaceError(
                f"{path} is damaged: {error}; rebuild the index with `lycosa index --rebuild`"
            ) from None
        self._whole = whole
        self.keys = whole[at : ends[0]].cast("Q")
        self.blocks = whole[ends[0] : ends[1]].cast("I")
        self.places = whole[ends[1] : ends[2]].cast("I")
        self.starts = whole[ends[2] : ends[3]].cast("Q")

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._whole)

    def __contains__(self, key: int) -> bool:
        place = bisect_left(self.keys, key)
        return place < len(self.keys) and self.keys[place] == key

    def block(self, number: int) -> memoryview:
        """A block as it is written."""
        return self._whole[self.starts[number] : self.starts[number + 1]]

    def read(self, key: int) -> bytes | None:
        """A text; None if it is not here. Raises zstandard.ZstdError, struct.error: the file is
        damaged. Hot path: bench/search.py.
        """
        place = bisect_left(self.keys, key)
        if place == len(self.keys) or self.keys[place] != key:
            return None
        at = self.places[place]
        # as fast as a stream's first half
        block = decompressor().decompress(self.block(self.blocks[place]))
        start = at + LENGTH.size
        return block[start : start + LENGTH.unpack_from(block, at)[0]]


class Texts:
    """All texts of one or several generations. Shared by threads. Raises as `TextFile` does."""

    def __init__(self, generations: Iterable[Path]) -> None:
        opened = [TextFile(path) for generation in generations for path in files(generation)]
        self._files = sorted(opened, key=lambda file: -file.size)  # most texts are in the largest

    def read(self, key: int | None) -> tuple[str, str]:
        """The beginnings of the main text, and of the visible text outside it, as they were
        written; empty without a key.
        """
        if key is None:
            return "", ""
        for file in self._files:
            text = file.read(key)
            if text is not None:
                return parted(text)
        return "", ""


def files(folder: Path) -> list[Path]:
    """The files of texts in a folder."""
    return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(SUFFIX)]


def decompressor() -> zstandard.ZstdDecompressor:
    """One a thread: it must not be shared, and a third of the work is to make one."""
    made: zstandard.ZstdDecompressor | None = getattr(_PER_THREAD, "decompressor", None)
    if made is None:
        made = _PER_THREAD.decompressor = zstandard.ZstdDecompressor()
    return made
