"""Workspaces whose chunks are encoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lycosa.commands.feature_models import IndexResult
from lycosa.commands.maintenance.engine_jobs import update_index
from lycosa.config.settings import Config
from lycosa.vectors.store import ChunkStore, open_newest
from tests.index.corpus import Corpus, page
from tests.servers.embeddings import EmbeddingServer, embedding_server
from tests.vectors import encoders
from tests.vectors.encoders import COUNTED, hashed_words

PAGES = {
    "http://a.test/car": page("The car drives along the road.", title="Cars", language="en"),
    "http://a.test/moth": page("A moth flies to the lamp.", title="Moths", language="en"),
    "http://b.test/wagen": page("Ein Wagen steht da.", title="Wagen", language="de"),
}


def config_of(source: str = COUNTED, **settings: Any) -> Config:
    return Config.model_validate(
        {"index": {"heap": "15MiB"}, "encoder": {"source": source, **settings}}
    )


class Encoded(Corpus):
    """A corpus whose chunks are encoded when it is indexed."""

    def encode(self, config: Config | None = None) -> IndexResult:
        return update_index(self.root, config or config_of())

    @property
    def store(self) -> ChunkStore:
        store = open_newest(self.workspace.storage)
        assert store is not None
        return store

    @property
    def urls_encoded(self) -> list[str]:
        return sorted(self.store.pages["url"])


@pytest.fixture
def corpus(tmp_path: Path) -> Encoded:
    corpus = Encoded(str(tmp_path / "w"))
    corpus.commit(PAGES.items())
    encoders.calls.clear()
    return corpus


@pytest.fixture
def api() -> Iterator[EmbeddingServer]:
    with embedding_server(hashed_words) as server:
        yield server
