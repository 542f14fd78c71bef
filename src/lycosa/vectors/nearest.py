"""Find the stored chunks that are nearest to a query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lycosa.core.errors import ConfigError, EncoderError
from lycosa.index.schema import url_id
from lycosa.store.storage.storage import Storage
from lycosa.vectors.encoders import Encoder, Vectors
from lycosa.vectors.store import ChunkStore, open_newest

PAUSE_S = 10.0
"""Time after a failure of the encoder in which queries do not wait for it."""
_GROWTH = 4  # factor of the number of chunks that are examined, until enough match


@dataclass(slots=True, frozen=True)
class NearChunk:
    """A chunk on a page of a store, by its number. `row`: of its vector."""

    place: int
    row: int


class NearestChunks:
    """The newest stored chunks, and the encoder of queries. Threads may share it.

    Args:
        load: returns the encoder.
    """

    def __init__(self, storage: Storage, load: Callable[[], Encoder]) -> None:
        self._storage = storage
        self._load = load
        self._lock = threading.Lock()
        self._encoder: Encoder | None = None
        self._store: ChunkStore | None = None
        self._paused_until = 0.0
        self._problem = ""
        self.failures = 0
        """Number of queries that could not be encoded."""

    def newest(self) -> ChunkStore | None:
        """Return the newest chunks, of any encoder; None: nothing was encoded.

        Raises:
            WorkspaceError: they are damaged.
        """
        with self._lock:
            self._store = open_newest(self._storage, self._store)
            return self._store

    def store(self) -> ChunkStore:
        """Return the newest chunks of this encoder.

        Raises:
            EncoderError: nothing was encoded, or with another encoder.
            WorkspaceError: they are damaged.
        """
        encoder, store = self._loaded(), self.newest()
        if store is None:
            raise EncoderError("no chunk has been encoded yet: run `lycosa index`")
        if store.info.encoder != encoder.name:
            raise EncoderError(
                f"the chunks were encoded with {store.info.encoder}, not with {encoder.name}: run "
                "`lycosa index`"
            )
        return store

    def vector(self, text: str, store: ChunkStore) -> Vectors:
        """Encode a query.

        Raises:
            EncoderError: the encoder failed, or did a moment ago.
        """
        if time.monotonic() < self._paused_until:
            self.failures += 1
            raise EncoderError(self._problem)
        encoder = self._loaded()
        try:
            vector = encoder.query(text)
            if len(vector) != store.info.dimensions:
                raise EncoderError(
                    f"the encoder {encoder.name} returned {len(vector)} dimensions for a query, "
                    f"but the chunks have {store.info.dimensions}: run `lycosa index`"
                )
        except EncoderError as error:
            self.failures += 1
            self._problem = str(error)
            self._paused_until = time.monotonic() + PAUSE_S
            raise
        return vector

    def nearest(self, text: str, count: int) -> list[str]:
        """Return the ids of the pages with the chunks that are nearest to a query.

        Raises:
            EncoderError: the encoder failed, or nothing was encoded.
        """
        store = self.store()
        rows = store.nearest(self.vector(text, store), _GROWTH * count)
        ids = dict.fromkeys(_page_ids(store, store.places_of(rows)))
        return list(ids)[:count]

    def _loaded(self) -> Encoder:
        if self._encoder is None:
            try:
                self._encoder = self._load()
            except ConfigError as error:
                raise EncoderError(str(error)) from error
        return self._encoder


def near_chunks(
    store: ChunkStore,
    vector: Vectors,
    count: int,
    matching: Callable[[Sequence[str]], Container[str]],
) -> list[NearChunk]:
    """Return the nearest chunks on pages that match, nearest first.

    Args:
        matching: returns those of the ids of pages that match.
    """
    matches: dict[int, bool] = {}
    limit = min(count, len(store.vectors))
    while True:
        rows = store.nearest(vector, limit)
        places = store.places_of(rows)
        new = np.setdiff1d(places, np.fromiter(matches, np.int64, len(matches)))
        if len(new):
            ids = _page_ids(store, new)
            those = matching(ids)
            matches |= {place: name in those for place, name in zip(new.tolist(), ids, strict=True)}
        near = [
            NearChunk(place, row)
            for place, row in zip(places.tolist(), rows.tolist(), strict=True)
            if matches[place]
        ]
        if len(near) >= count or limit >= len(store.vectors):
            return near[:count]
        limit = min(_GROWTH * limit, len(store.vectors))


def _page_ids(store: ChunkStore, places: NDArray[np.int64]) -> list[str]:
    return [url_id(key) for key in store.pages["url_key"].gather(places).to_list()]
