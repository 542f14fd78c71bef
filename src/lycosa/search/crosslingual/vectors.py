"""Semantic vectors of pages and queries, by an encoder that the user provides.

The setting `index.encoder = "module:object"` names an `Encoder`, or a class or function without
arguments that returns one. `lycosa translate encode` writes a flat index of all pages. A search
across languages merges its nearest pages with the other results, by reciprocal rank fusion.

    vectors/00000003/info.json     format, encoder, number of dimensions, number of pages
                     pages.txt     ids of the pages (`index.schema.url_id`), one per line
                     vectors.npy   float32[pages, dimensions], of length 1
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lycosa.core.errors import ConfigError, WorkspaceError
from lycosa.store.storage.staging import build_folder
from lycosa.store.storage.storage import Storage

FOLDER = "vectors"
INFO, PAGES, VECTORS = "info.json", "pages.txt", "vectors.npy"
QUERY, PASSAGE = "query", "passage"
BATCH = 64
MAX_CHARACTERS = 2_000  # of the title and text of a page that are encoded
FORMAT = 1
_NAME = re.compile(r"^\d{8}\Z")


class Encoder(Protocol):
    """`name` distinguishes the vectors of encoders."""

    @property
    def name(self) -> str: ...

    def encode(self, texts: Sequence[str], kind: str) -> NDArray[Any]:
        """Return float32[n, d], a row for each text; `kind` is `query` or `passage`."""
        ...


def load_encoder(where: str) -> Encoder:
    """Return the encoder that `module:object` names.

    Raises:
        ConfigError: it does not exist, or is no encoder.
    """
    module, colon, name = where.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"index.encoder = {where!r}: write it as module:object")
    try:
        target = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"index.encoder = {where!r}: {error}") from None
    made = isinstance(target, type) or (callable(target) and not hasattr(target, "encode"))
    encoder = target() if made else target
    if not (
        callable(getattr(encoder, "encode", None))
        and isinstance(getattr(encoder, "name", None), str)
    ):
        raise ConfigError(f"index.encoder = {where!r} has no encode(texts, kind) or no name")
    checked: Encoder = encoder
    return checked


@dataclass(slots=True, frozen=True)
class VectorsInfo:
    """Content of info.json."""

    encoder: str
    dimensions: int
    pages: int
    format: int = FORMAT


def write_vectors(
    storage: Storage, encoder: Encoder, pages: Iterable[tuple[str, str]]
) -> VectorsInfo:
    """Encode all pages, (id, text) each, and publish the index atomically.

    Memory: 4 bytes per dimension and page.

    Raises:
        ConfigError: the encoder returned invalid vectors.
    """
    ids: list[str] = []
    rows: list[NDArray[Any]] = []
    waiting = iter(pages)
    while batch := list(islice(waiting, BATCH)):
        ids += [page for page, _ in batch]
        rows.append(_unit(encoder, [text[:MAX_CHARACTERS] for _, text in batch], PASSAGE))
    vectors = np.concatenate(rows) if rows else np.zeros((0, 0), np.float32)
    info = VectorsInfo(encoder.name, vectors.shape[1], len(ids))
    with build_folder(storage, FOLDER) as build:
        np.save(build / VECTORS, vectors)
        (build / PAGES).write_text("\n".join(ids), encoding="ascii")
        (build / INFO).write_text(json.dumps(asdict(info)))
        number = max(_numbers(storage), default=0) + 1
        while not storage.folders.publish(str(build), f"{FOLDER}/{number:08d}"):
            number += 1
        for older in _numbers(storage):
            if older < number:
                storage.folders.remove(f"{FOLDER}/{older:08d}")
    return info


class FlatIndex:
    """The newest vectors of a workspace. A search compares all: 20 ms for 100,000 pages."""

    def __init__(self, storage: Storage, encoder: Encoder) -> None:
        """
        Raises:
            WorkspaceError: nothing was encoded yet, or with another encoder or format.
        """
        paths = [
            path
            for number in _numbers(storage)
            if (path := storage.folders.local_path(f"{FOLDER}/{number:08d}")) is not None
        ]
        if not paths:
            raise WorkspaceError("no page has been encoded yet: run `lycosa translate encode`")
        folder = Path(paths[-1])
        info = read_info(folder / INFO)
        if info.encoder != encoder.name:
            raise WorkspaceError(
                f"the pages were encoded with {info.encoder}, not with "
                f"{encoder.name}: run `lycosa translate encode`"
            )
        self._encoder = encoder
        self._ids = (folder / PAGES).read_text(encoding="ascii").split("\n")
        self._vectors = np.load(folder / VECTORS, mmap_mode="r")

    def nearest(self, text: str, count: int) -> list[str]:
        """Return the ids of the pages that are nearest to a query."""
        if not len(self._vectors):
            return []
        likeness = self._vectors @ _unit(self._encoder, [text], QUERY)[0]
        first = np.argsort(-likeness, kind="stable")[:count]
        return [self._ids[place] for place in first.tolist()]


def read_info(path: Path) -> VectorsInfo:
    """Read info.json. Raises WorkspaceError if it is damaged, or of an unknown format."""
    try:
        document = json.loads(path.read_bytes())
        if document.get("format", FORMAT) != FORMAT:
            raise WorkspaceError(
                f"{path} has format {document['format']!r}, but this version needs format "
                f"{FORMAT}: run `lycosa translate encode`"
            )
        return VectorsInfo(**document)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise WorkspaceError(f"{path} is damaged: {error}; run `lycosa translate encode`") from None


def _unit(encoder: Encoder, texts: Sequence[str], kind: str) -> NDArray[Any]:
    rows = np.asarray(encoder.encode(list(texts), kind), np.float32)
    if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
        raise ConfigError(
            f"the encoder {encoder.name} returned an array of shape {rows.shape} for {len(texts)} "
            "texts, or values that are not finite"
        )
    lengths: NDArray[Any] = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[Any] = rows / np.maximum(lengths, 1e-9)
    return unit


def _numbers(storage: Storage) -> list[int]:
    return sorted(int(name) for name in storage.names(FOLDER) if _NAME.match(name))
