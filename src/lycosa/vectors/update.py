"""Encode the chunks of pages that are new or have changed.

A chunk that has a vector of the same encoder keeps it: its id depends on URL and text only. Chunks
of pages that are gone or excluded are removed. If the encoder fails, the chunks encoded so far are
published, and the next update continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lycosa.chunks.split import MAX_PAGE_CHARACTERS, Chunk, plain_text, split_page
from lycosa.chunks.tokens import ChunkBudget
from lycosa.config.settings import EncoderSettings
from lycosa.core.errors import EncoderError, OwnedError, WorkspaceError
from lycosa.core.version import VERSION
from lycosa.export.markdown.pages import MarkdownPage, pages_at
from lycosa.index.update import removed_pages
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.storage.files import file_lock
from lycosa.store.storage.staging import generation_numbers, remove_generations
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import url_key
from lycosa.url.scope import hostname
from lycosa.vectors.encoders import Encoder
from lycosa.vectors.store import (
    FACTS,
    FOLDER,
    ChunkStore,
    EncodedPage,
    VectorsInfo,
    open_newest,
    write_store,
)

LOCK = f"{RUN}/vectors.lock"
_READ_PAGES = 200  # whose texts are read at once
_PUBLISH_CHUNKS = 20_000  # encoded chunks after which they are published


@dataclass(slots=True, frozen=True)
class VectorsReport:
    """Result of an update. `pages`, `chunks`: all that have vectors now; `waiting`: pages that
    have none yet; `problem`: why, or "".
    """

    pages: int = 0
    chunks: int = 0
    encoded: int = 0
    removed: int = 0
    waiting: int = 0
    problem: str = ""


def update_vectors(
    workspace: Workspace,
    encoder: Encoder | None,
    is_over: Callable[[], bool] = lambda: False,
) -> VectorsReport | None:
    """Encode new chunks, and remove those of pages that are gone. An error of the encoder is in the
    report. None: there is no encoder, and nothing was encoded before.

    Args:
        encoder: None: only remove.
        is_over: returns whether to stop, and to leave the rest to the next update.

    Raises:
        OwnedError: another process updates the vectors.
    """
    if encoder is None and not generation_numbers(workspace.storage, FOLDER):
        return None
    workspace.storage.make_folder(RUN)
    with file_lock(workspace.storage.lock_path(LOCK)) as locked:
        if not locked:
            raise OwnedError(
                f"another process is encoding chunks of {workspace.root}: wait for it, or for its "
                "next update"
            )
        return _Update(workspace, encoder, is_over).run()


class _OtherDimensions(Exception):
    """The vectors that are stored have another number of dimensions."""


@dataclass(slots=True)
class _Group:
    """Pages whose new chunks are encoded together."""

    pages: list[tuple[MarkdownPage, list[Chunk], Mapping[str, int]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


class _Update:
    def __init__(
        self, workspace: Workspace, encoder: Encoder | None, is_over: Callable[[], bool]
    ) -> None:
        self._workspace = workspace
        self._encoder = encoder
        self._is_over = is_over
        self._state = workspace.state()
        self._encoded = self._removed = self._waiting = 0
        self._problem = ""
        self._new: list[EncodedPage] = []
        self._unpublished = 0  # encoded chunks of `_new`
        self._dimensions = 0  # of the vectors of `_new`; 0: not known yet
        self._base = self._open()
        self._is_current: NDArray[np.bool_] = np.ones(
            0 if self._base is None else len(self._base.pages), np.bool_
        )

    def run(self) -> VectorsReport:
        base, encoder = self._base, self._encoder
        if base is not None and base.info.log_entry == self._state.head:
            is_complete = not base.info.waiting and (
                encoder is None or self._is_split_alike(base, encoder)
            )
            if encoder is None or is_complete:
                return self._finish()
        live = self._live_pages()
        try:
            self._encode_pages(self._compare(live))
        except _OtherDimensions:  # no stored vector can be reused
            self._base, self._is_current = None, np.ones(0, np.bool_)
            self._encode_pages(self._compare(live))
        self._publish()
        return self._finish()

    def _open(self) -> ChunkStore | None:
        """Return the newest store, if its vectors can be reused."""
        try:
            base = open_newest(self._workspace.storage)
        except WorkspaceError:  # damaged, or of an unknown format
            remove_generations(self._workspace.storage, FOLDER)
            return None
        if self._encoder is None or base is None or base.info.encoder == self._encoder.name:
            return base
        return None

    def _is_split_alike(self, base: ChunkStore, encoder: Encoder) -> bool:
        return (base.info.version, base.info.chunk_tokens) == (
            VERSION,
            encoder.settings.chunk_tokens,
        )

    def _live_pages(self) -> pl.DataFrame:
        """Return keys and facts of the pages that may be indexed, each URL once."""
        tables = LiveTables(self._workspace, self._state)
        gone = removed_pages(tables, 0, None)
        return (
            tables.scan("pages")
            .filter(pl.col("may_index"))
            .select("host_key", "url_key", *FACTS)
            .join(gone.lazy(), on=["url_key", "collection"], how="anti")
            .sort("fetched_at")
            .unique("url", keep="last")
            .collect(engine="streaming")
        )

    def _compare(self, live: pl.DataFrame) -> list[str]:
        """Mark the pages to keep, and return the URLs of those to encode."""
        base, encoder = self._base, self._encoder
        if base is None:
            return live["url"].to_list()
        self._is_current = base.pages["url_key"].is_in(live["url_key"].implode()).to_numpy()
        if encoder is None:
            return []
        if self._is_split_alike(base, encoder):
            live = live.join(base.pages, on=["url_key", *FACTS], how="anti", nulls_equal=True)
        return live.sort("host_key", "url_key")["url"].to_list()

    def _encode_pages(self, urls: Sequence[str]) -> None:
        """Encode the new chunks of pages, as far as the encoder does and time allows."""
        self._waiting = len(urls)
        if self._encoder is None:
            return
        try:
            for group in self._groups(urls, self._encoder.settings):
                self._encode_group(group, self._encoder)
                if self._is_over():
                    return
        except EncoderError as error:
            self._problem = str(error)

    def _groups(self, urls: Sequence[str], settings: EncoderSettings) -> Iterator[_Group]:
        """Yield the pages in groups with new chunks for at least one batch."""
        group = _Group()
        budget = ChunkBudget(settings.chunk_tokens)
        for start in range(0, len(urls), _READ_PAGES):
            for page in pages_at(self._workspace, urls[start : start + _READ_PAGES]):
                text = page.markdown[:MAX_PAGE_CHARACTERS]
                chunks = split_page(page.url, text, budget, page.language)
                rows = self._rows_of(url_key(page.url))
                group.pages.append((page, chunks, rows))
                new = (each for each in chunks if each.id not in rows)
                group.texts.extend(f"{page.title}\n{plain_text(each.text)}" for each in new)
                if len(group.texts) >= settings.batch:
                    yield group
                    group = _Group()
        yield group

    def _rows_of(self, key: int) -> dict[str, int]:
        """Return the ids of the encoded chunks of a page, and their rows."""
        place = None if self._base is None else self._base.place_of(key)
        return {} if self._base is None or place is None else self._base.rows_of(place)

    def _encode_group(self, group: _Group, encoder: Encoder) -> None:
        size = encoder.settings.batch
        parts = [
            encoder.passages(group.texts[start : start + size])
            for start in range(0, len(group.texts), size)
        ]
        self._check_dimensions({part.shape[1] for part in parts})
        encoded = chain.from_iterable(parts)
        for page, chunks, positions in group.pages:
            rows = [
                self._base.vectors[positions[each.id]]
                if self._base is not None and each.id in positions
                else next(encoded)
                for each in chunks
            ]
            self._new.append(EncodedPage(url_key(page.url), page, chunks, rows))
        self._unpublished += len(group.texts)
        self._encoded += len(group.texts)
        self._waiting -= len(group.pages)
        stored = 0 if self._base is None else self._base.info.chunks
        if self._unpublished >= max(_PUBLISH_CHUNKS, stored // 10):
            self._publish()

    def _check_dimensions(self, sizes: set[int]) -> None:
        stored = 0 if self._base is None else self._base.info.dimensions
        if stored and sizes - {stored} and not self._new:
            raise _OtherDimensions
        self._dimensions = self._dimensions or stored or max(sizes, default=0)
        if sizes - {self._dimensions}:
            raise EncoderError(
                f"the encoder returned vectors of {max(sizes - {self._dimensions})} dimensions "
                f"after others of {self._dimensions}"
            )

    def _publish(self) -> None:
        """Publish the changes since the last time, without pages excluded meanwhile."""
        base = self._base
        self._drop_excluded()
        for each in self._new:
            place = None if base is None else base.place_of(each.url_key)
            if place is not None:
                self._is_current[place] = False
        if not self._new and self._is_current.all():
            return
        before = 0 if base is None else base.info.chunks
        self._base = write_store(
            self._workspace.storage, self._info(), base, self._is_current, self._new
        )
        self._removed += before + self._unpublished - self._base.info.chunks
        self._unpublished = 0
        self._is_current = np.ones(len(self._base.pages), np.bool_)
        self._new = []

    def _info(self) -> VectorsInfo:
        """Return the new `VectorsInfo`, without the numbers of pages and chunks."""
        base, encoder = self._base, self._encoder
        if encoder is None:
            assert base is not None
            return base.info
        return VectorsInfo(
            encoder=encoder.name,
            dimensions=self._dimensions or (base.info.dimensions if base else 0),
            chunk_tokens=encoder.settings.chunk_tokens,
            version=VERSION,
            log_entry=self._state.head,
            waiting=self._waiting,
        )

    def _drop_excluded(self) -> None:
        exclusions = self._workspace.state().exclusions
        if exclusions.rules.keys() == self._state.exclusions.rules.keys():
            return
        self._new = [
            each
            for each in self._new
            if not exclusions.excluded(each.page.url, hostname(each.page.url))
        ]
        urls: list[str] = [] if self._base is None else self._base.pages["url"].to_list()
        self._is_current &= np.array(
            [not exclusions.excluded(url, hostname(url)) for url in urls], np.bool_
        )

    def _finish(self) -> VectorsReport:
        info = None if self._base is None else self._base.info
        return VectorsReport(
            0 if info is None else info.pages,
            0 if info is None else info.chunks,
            self._encoded,
            self._removed,
            self._waiting,
            self._problem,
        )
