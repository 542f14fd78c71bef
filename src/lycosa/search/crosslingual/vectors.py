"""An encoder that somebody brings: pages and queries as vectors, near each other where they mean
the same, in whatever language.

Lycosa ships none. What is named in the configuration (`index.encoder = "module:object"`) has to be
an `Encoder`, or a class or function without arguments that gives one. `lycosa translate encode`
makes a flat index of all pages, and a search across languages joins what is nearest there with what
its words find, by reciprocal rank fusion.

    vectors/00000003/info.json     the format, the encoder's name, the number of dimensions, how
    many pages
                     pages.txt     the ids of the pages (`index.schema.url_id`), a line each
                     vectors.npy   float32[pages, dimensions], each of length 1
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
MAX_CHARACTERS = 2_000  # of a page that an encoder is given: its title, then its text
FORMAT = 1
_NAME = re.compile(r"^\d{8}\Z")


class Encoder(Protocol):
    """`name` tells vectors of one encoder from those of another."""

    @property
    def name(self) -> str: ...

    def encode(self, texts: Sequence[str], kind: str) -> NDArray[Any]:
        """float32[n, d], a row for each text; `kind` is `query` or `passage`."""
        ...


def load_encoder(where: str) -> Encoder:
    """What `module:object` names.

    Raises:
        ConfigError: it is not there, or is no encoder.
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
    """What a flat index says of itself."""

    encoder: str
    dimensions: int
    pages: int
    format: int = FORMAT


def write_vectors(
    storage: Storage, encoder: Encoder, pages: Iterable[tuple[str, str]]
) -> VectorsInfo:
    """Encode all pages, (id, text) each, and publish them as a whole. Memory: the vectors, 4 bytes
    a dimension and page.

    Raises:
        ConfigError: the encoder does not keep its contract.
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
    """The newest vectors of a workspace, searched one and all: 100,000 pages of 384 dimensions take
    some 20 ms.
    """

    def __init__(self, storage: Storage, encoder: Encoder) -> None:
        """
        Raises:
            WorkspaceError: nothing was encoded yet, or by another encoder, or in a form that this
            program does not know.
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
        """The ids of the pages that are nearest to a query."""
        if not len(self._vectors):
            return []
        likeness = self._vectors @ _unit(self._encoder, [text], QUERY)[0]
        first = np.argsort(-likeness, kind="stable")[:count]
        return [self._ids[place] for place in first.tolist()]


def read_info(path: Path) -> VectorsInfo:
    """Raises WorkspaceError: it is damaged, or of a format that this program does not know."""
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
