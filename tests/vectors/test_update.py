"""Updates of vectors: new chunks, removed pages, failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lycosa.commands.maintenance.check import check_workspace
from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.core.errors import ConfigError, OwnedError
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.storage.files import file_lock
from lycosa.store.storage.staging import generation_numbers
from lycosa.store.verify.findings import Finding
from lycosa.vectors import update as updates
from lycosa.vectors.encoders import load_encoder
from lycosa.vectors.update import update_vectors
from tests.index.corpus import page
from tests.servers.embeddings import EmbeddingServer
from tests.vectors import encoders
from tests.vectors.conftest import PAGES, Encoded, config_of
from tests.vectors.encoders import hashed_words

PARTS = [f"Part {number} is about {word}." for number, word in enumerate("abcdefgh")]


def vector_findings(root: str) -> list[Finding]:
    """Return the findings of `lycosa check` about vectors."""
    return [each for each in check_workspace(root).findings if each.where.startswith("vectors")]


def long_page(*parts: str) -> str:
    return "\n\n".join(f"{part} {'It has some more words here. ' * 6}" for part in parts)


def test_unchanged_pages_are_not_encoded_again(corpus: Encoded) -> None:
    first = corpus.encode().vectors
    assert first is not None
    assert (first.pages, first.chunks, first.encoded, first.waiting) == (3, 3, 3, 0)
    assert sum(map(len, encoders.calls)) == 3
    assert "Cars\nThe car drives along the road." in encoders.calls[0]
    encoders.calls.clear()
    second = corpus.encode().vectors
    assert second is not None
    assert (second.encoded, second.chunks, encoders.calls) == (0, 3, [])
    corpus.commit(PAGES.items())  # fetched again, with the same text
    third = corpus.encode().vectors
    assert third is not None
    assert (third.encoded, third.removed, third.pages, encoders.calls) == (0, 0, 3, [])


def test_only_new_chunks_of_a_changed_page_are_encoded(corpus: Encoded) -> None:
    url = "http://a.test/long"
    config = config_of(chunk_tokens=60)
    corpus.commit([(url, page(long_page(*PARTS), title="Long", language="en"))])
    corpus.encode(config)
    before = corpus.store
    chunks = before.info.chunks - 3
    assert chunks >= len(PARTS)
    vectors = {each: before.vectors[row] for each, row in before.rows_of(0).items()}
    encoders.calls.clear()
    parts = [*PARTS[:3], "Something else was written here.", *PARTS[4:]]
    corpus.commit([(url, page(long_page(*parts), title="Long", language="en"))])
    report = corpus.encode(config).vectors
    assert report is not None
    assert 1 <= report.encoded == sum(map(len, encoders.calls)) <= chunks // 2
    assert report.removed >= 1
    after = corpus.store
    for place in range(len(after.pages)):
        for each, row in after.rows_of(place).items():
            if each in vectors:
                assert np.array_equal(after.vectors[row], vectors[each])
    stored = {chunk.id for place in range(4) for chunk in after.chunks_of(place)}
    assert len(stored) == after.info.chunks


@pytest.mark.proves("consistency-vectors")
def test_vectors_of_gone_pages_are_removed(corpus: Encoded) -> None:
    corpus.encode()
    corpus.commit(states=[("http://a.test/moth", "gone")])
    report = corpus.encode().vectors
    assert report is not None
    assert (report.removed, report.encoded) == (1, 0)
    assert corpus.urls_encoded == ["http://a.test/car", "http://b.test/wagen"]


@pytest.mark.proves("consistency-vectors")
@pytest.mark.parametrize("purged", [False, True])
def test_vectors_of_excluded_pages_are_removed(corpus: Encoded, purged: bool) -> None:
    corpus.encode()
    report = exclude_and_purge(corpus.root, config_of(), ["host:a.test"], remove=purged)
    assert "vectors" not in report.pending
    assert corpus.urls_encoded == ["http://b.test/wagen"]
    folder = Path(corpus.root, "vectors")
    content = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"road" not in content
    assert b"a.test" not in content
    assert len(generation_numbers(corpus.workspace.storage, "vectors")) == 1
    assert len(corpus.store.vectors) == 1


def test_exclusion_during_an_update_is_applied(corpus: Encoded) -> None:
    def encode_and_exclude() -> bool:
        exclude_and_purge(corpus.root, config_of(), ["host:a.test"], remove=False)
        return False

    update_vectors(corpus.workspace, load_encoder(config_of()), encode_and_exclude)
    assert corpus.urls_encoded == ["http://b.test/wagen"]


def test_changed_encoder_encodes_everything_again(corpus: Encoded) -> None:
    corpus.encode()
    encoders.calls.clear()
    report = corpus.encode(config_of(model="two")).vectors
    assert report is not None
    assert (report.encoded, corpus.store.info.encoder) == (3, f"{encoders.COUNTED} two")
    assert len(generation_numbers(corpus.workspace.storage, "vectors")) == 1


def test_changed_dimensions_encode_everything_again(corpus: Encoded) -> None:
    config = config_of("tests.vectors.encoders:small")
    encoders.Sizes.dimensions = 8
    corpus.encode(config)
    encoders.Sizes.dimensions = 16
    corpus.commit([("http://a.test/new", page("Something new.", language="en"))])
    report = corpus.encode(config).vectors
    assert report is not None
    assert (report.encoded, report.problem) == (4, "")
    assert corpus.store.vectors.shape == (4, 16)


@pytest.mark.proves("access-encoder-responses")
def test_a_failing_encoder_leaves_the_index_complete(corpus: Encoded, api: EmbeddingServer) -> None:
    config = config_of(api.url, model="m", batch=1, retries=0)
    api.replies = [(500, b"overloaded", ())]
    report = corpus.encode(config)
    assert report.documents == 3
    assert report.vectors is not None
    assert (report.vectors.chunks, report.vectors.waiting) == (0, 3)
    assert "HTTP 500: overloaded" in report.vectors.problem
    api.replies = []
    again = corpus.encode(config).vectors
    assert again is not None
    assert (again.encoded, again.waiting, again.problem) == (3, 0, "")


def test_chunks_encoded_before_a_failure_are_kept(corpus: Encoded, api: EmbeddingServer) -> None:
    config = config_of(api.url, model="m", batch=1, retries=0)

    def encode_then_fail_once(texts: list[str]) -> NDArray[Any]:
        if len(api.requests) == 2:
            api.replies = [(503, b"", ())]
        return hashed_words(texts)

    api.encode = encode_then_fail_once
    report = corpus.encode(config).vectors
    assert report is not None
    assert (report.encoded, report.waiting, report.pages) == (2, 1, 2)
    report = corpus.encode(config).vectors
    assert report is not None
    assert (report.encoded, report.waiting, report.pages, api.texts) == (1, 0, 3, 4)


def test_unchanged_texts_are_not_sent_to_the_api_again(
    corpus: Encoded, api: EmbeddingServer
) -> None:
    config = config_of(api.url, model="m", passage_prefix="passage: ")
    corpus.encode(config)
    assert api.texts == 3
    assert all(text.startswith("passage: ") for text in api.requests[0]["input"])
    corpus.commit([("http://a.test/new", page("Something new.", language="en"))])
    corpus.encode(config)
    assert (api.texts, len(api.requests)) == (4, 2)


def test_only_one_process_encodes(corpus: Encoded) -> None:
    corpus.workspace.storage.make_folder(RUN)
    with file_lock(corpus.workspace.storage.lock_path(updates.LOCK)):
        with pytest.raises(OwnedError):
            update_vectors(corpus.workspace, load_encoder(config_of()))
        report = corpus.encode()
        assert report.vectors is not None
        assert "another process" in report.vectors.problem


@pytest.mark.parametrize(
    "change",
    [
        lambda info: {**info, "format": 9},
        lambda info: {**info, "more": 1},
        lambda info: {**info, "chunks": 7},
        lambda info: [],
    ],
)
def test_damaged_vectors_are_reported_and_rebuilt(
    corpus: Encoded, change: Callable[[object], object]
) -> None:
    corpus.encode()
    (file,) = Path(corpus.root).glob("vectors/*/info.json")
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    findings = vector_findings(corpus.root)
    assert findings
    assert all("lycosa index" in each.remedy for each in findings)
    report = corpus.encode().vectors
    assert report is not None
    assert (report.encoded, report.chunks) == (3, 3)
    assert vector_findings(corpus.root) == []


def test_nothing_is_encoded_without_an_encoder(corpus: Encoded) -> None:
    assert corpus.encode(config_of("")).vectors is None
    with pytest.raises(ConfigError):
        corpus.encode(config_of("tests.absent:x"))
    assert corpus.index().documents == 3  # although its encoder cannot be loaded
