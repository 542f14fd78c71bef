"""Read the page texts of a generation, from which snippets are cut.

Only the beginning of a text is stored, and equal texts of several pages once.

    <id>.texts    "LYTX", format; blocks (zstd); sorted keys of the texts, their blocks and places
                  in them; starts of the blocks; the tail

A document refers to its text by the hash of the text (`text_key`). Texts of one site and language
are in one block, each after its length, so that they compress well. Files are immutable; a
generation has those in its folder. Without numpy: every search starts with this module.
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
"""Start of the keys, number of texts, number of blocks, `MAGIC`."""
LENGTH = struct.Struct("<I")
_SPLIT = "\x00"


def text_key(text: bytes) -> int:
    """Return the key of a text, above 0.

    The hash is cryptographic: no page can be crafted to show its text for another page.
    """
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1


def joined(body: str, full: str) -> bytes:
    """Join main text and other text; b"" if both are empty."""
    if not body and not full:
        return b""
    return f"{body.replace(_SPLIT, ' ')}{_SPLIT}{full.replace(_SPLIT, ' ')}".encode(
        "utf-8", "replace"
    )


def parted(text: bytes) -> tuple[str, str]:
    """Return main text and other text: the inverse of `joined`."""
    body, _, full = text.decode("utf-8").partition(_SPLIT)
    return body, full


class TextFile:
    """An open file. Threads may share it.

    `keys` are sorted. Text n is in block `blocks[n]` at `places[n]`; block n is from `starts[n]`
    to `starts[n + 1]`.

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
        """Size in bytes."""
        return len(self._whole)

    def __contains__(self, key: int) -> bool:
        place = bisect_left(self.keys, key)
        return place < len(self.keys) and self.keys[place] == key

    def block(self, number: int) -> memoryview:
        """Return a compressed block."""
        return self._whole[self.starts[number] : self.starts[number + 1]]

    def read(self, key: int) -> bytes | None:
        """Return a text; None if the file does not have it. Hot path: bench/search.py.

        Raises:
            zstandard.ZstdError, struct.error: the file is damaged.
        """
        place = bisect_left(self.keys, key)
        if place == len(self.keys) or self.keys[place] != key:
            return None
        at = self.places[place]
        # a stream of only the needed part is not faster
        block = decompressor().decompress(self.block(self.blocks[place]))
        start = at + LENGTH.size
        return block[start : start + LENGTH.unpack_from(block, at)[0]]


class SnippetTexts:
    """Texts of one or several generations. Threads may share it. Raises as `TextFile` does."""

    def __init__(self, generations: Iterable[Path]) -> None:
        opened = [TextFile(path) for generation in generations for path in files(generation)]
        self._files = sorted(opened, key=lambda file: -file.size)  # the largest has most texts

    def read(self, key: int | None) -> tuple[str, str]:
        """Return the beginnings of main text and other text; empty without a key."""
        if key is None:
            return "", ""
        for file in self._files:
            text = file.read(key)
            if text is not None:
                return parted(text)
        return "", ""


def files(folder: Path) -> list[Path]:
    """Return the files of texts in a folder."""
    return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(SUFFIX)]


class _PerThread(threading.local):
    """A decompressor must not be shared; creating one costs half as much as using it."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()


_PER_THREAD = _PerThread()


def decompressor() -> zstandard.ZstdDecompressor:
    """Return the decompressor of this thread."""
    return _PER_THREAD.decompressor
