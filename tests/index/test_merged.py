"""The index over a workspace that merges and exclusions have rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.config.settings import IndexSettings
from lycosa.index import generation as generations
from lycosa.index.indexer import Indexer, IndexReport
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.exclusion.purge import purge
from tests.index.corpus import Corpus, page

SMALL = IndexSettings.model_validate({"heap": "15MiB"})
EAGER = CompactionSettings(gather=2)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(str(tmp_path / "workspace"))


def update(corpus: Corpus) -> IndexReport:
    with Indexer(corpus.root, SMALL) as indexer:
        return indexer.update()


def urls(corpus: Corpus, query: str) -> list[str]:
    return sorted(hit.url for hit in Searcher(corpus.root).search(SearchRequest(query, 100)).hits)


def test_a_gone_page_stays_gone_when_a_merge_brings_its_row_with_newer_ones(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))], [("http://a.test/1", "visited")])
    corpus.commit(states=[("http://a.test/1", "gone")])
    update(corpus)
    corpus.commit([("http://a.test/2", page("words"))], [("http://a.test/2", "visited")])
    compact(corpus.workspace, EAGER, whole=True)
    update(corpus)
    assert urls(corpus, "words") == ["http://a.test/2"]
    with Indexer(corpus.root, SMALL) as indexer:
        indexer.rebuild()
    assert urls(corpus, "words") == ["http://a.test/2"]


def test_a_page_that_came_back_before_the_update_is_found(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))], [("http://a.test/1", "visited")])
    update(corpus)
    corpus.commit(states=[("http://a.test/1", "gone")])
    corpus.commit([("http://a.test/1", page("words again"))], [("http://a.test/1", "visited")])
    update(corpus)
    assert urls(corpus, "again") == ["http://a.test/1"]


def test_only_what_is_new_in_a_merged_file_is_read(corpus: Corpus) -> None:
    for number in range(5):
        corpus.commit([(f"http://a.test/{number}", page(f"words of{number}"))])
    update(corpus)
    corpus.commit([("http://a.test/5", page("words of5"))])
    compact(corpus.workspace, EAGER, whole=True)
    report = update(corpus)
    assert (report.put, report.documents, report.rebuilt) == (1, 6, "")
    assert len(urls(corpus, "words")) == 6


def test_two_collections_after_a_merge_are_one_document(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))], collection="one")
    update(corpus)
    corpus.commit([("http://a.test/1", page("words"))], collection="two")
    compact(corpus.workspace, EAGER, whole=True)
    update(corpus)
    hits = Searcher(corpus.root).search(SearchRequest("words", 10, collection="two")).hits
    assert [hit.url for hit in hits] == ["http://a.test/1"]
    assert urls(corpus, "words") == ["http://a.test/1"]


def test_what_is_excluded_leaves_every_generation(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words")), ("http://b.test/1", page("words"))])
    update(corpus)
    assert len(urls(corpus, "words")) == 2
    purge(corpus.workspace, ["host:a.test"])
    report = update(corpus)
    assert report.rebuilt
    assert urls(corpus, "words") == ["http://b.test/1"]
    assert generations.numbers(corpus.root) == [report.generation]
    assert not update(corpus).changed


@pytest.mark.parametrize("killed", [False, True])
def test_a_rebuild_that_was_asked_for_removes_generations_with_excluded_text(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    corpus.commit([("http://a.test/1", page("words")), ("http://b.test/1", page("words"))])
    update(corpus)
    purge(corpus.workspace, ["host:a.test"])
    if killed:
        with monkeypatch.context() as patch:
            # the process ended before it
            patch.setattr(generations, "remove_older", lambda *arguments: None)
            update(corpus)
        assert len(generations.numbers(corpus.root)) == 2
        number = update(corpus).generation
    else:
        with Indexer(corpus.root, SMALL) as indexer:
            number = indexer.rebuild().generation
    assert generations.numbers(corpus.root) == [number]
