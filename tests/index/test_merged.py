"""The index over a workspace that merges and exclusions have rewritten."""

from __future__ import annotations

import pytest

from lycosa.index import generation as generations
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.exclusion.purge import purge
from tests.index.corpus import Corpus, page

EAGER = CompactionSettings(gather=2)


def test_a_gone_page_stays_gone_when_a_merge_brings_its_row_with_newer_ones(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))], [("http://a.test/1", "visited")])
    corpus.commit(states=[("http://a.test/1", "gone")])
    corpus.index()
    corpus.commit([("http://a.test/2", page("words"))], [("http://a.test/2", "visited")])
    compact(corpus.workspace, EAGER, whole=True)
    corpus.index()
    assert corpus.urls("words") == ["http://a.test/2"]
    corpus.rebuild()
    assert corpus.urls("words") == ["http://a.test/2"]


def test_a_page_that_came_back_before_the_update_is_found(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))], [("http://a.test/1", "visited")])
    corpus.index()
    corpus.commit(states=[("http://a.test/1", "gone")])
    corpus.commit([("http://a.test/1", page("words again"))], [("http://a.test/1", "visited")])
    corpus.index()
    assert corpus.urls("again") == ["http://a.test/1"]


def test_only_what_is_new_in_a_merged_file_is_read(corpus: Corpus) -> None:
    for number in range(5):
        corpus.commit([(f"http://a.test/{number}", page(f"words of{number}"))])
    corpus.index()
    corpus.commit([("http://a.test/5", page("words of5"))])
    compact(corpus.workspace, EAGER, whole=True)
    report = corpus.index()
    assert (report.put, report.documents, report.rebuilt) == (1, 6, "")
    assert len(corpus.urls("words")) == 6


def test_two_collections_after_a_merge_are_one_document(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))], collection="one")
    corpus.index()
    corpus.commit([("http://a.test/1", page("words"))], collection="two")
    compact(corpus.workspace, EAGER, whole=True)
    corpus.index()
    hits = Searcher(corpus.root).search(SearchRequest("words", 10, collection="two")).hits
    assert [hit.url for hit in hits] == ["http://a.test/1"]
    assert corpus.urls("words") == ["http://a.test/1"]


def test_what_is_excluded_leaves_every_generation(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words")), ("http://b.test/1", page("words"))])
    corpus.index()
    assert len(corpus.urls("words")) == 2
    purge(corpus.workspace, ["host:a.test"])
    report = corpus.index()
    assert report.rebuilt
    assert corpus.urls("words") == ["http://b.test/1"]
    assert generations.numbers(corpus.root) == [report.generation]
    assert not corpus.index().changed


@pytest.mark.parametrize("killed", [False, True])
def test_a_rebuild_that_was_asked_for_removes_generations_with_excluded_text(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    corpus.commit([("http://a.test/1", page("words")), ("http://b.test/1", page("words"))])
    corpus.index()
    purge(corpus.workspace, ["host:a.test"])
    if killed:
        with monkeypatch.context() as patch:
            # the process ended before it
            patch.setattr(generations, "remove_older", lambda *arguments: None)
            corpus.index()
        assert len(generations.numbers(corpus.root)) == 2
        number = corpus.index().generation
    else:
        number = corpus.rebuild().generation
    assert generations.numbers(corpus.root) == [number]
