"""Updates, rebuilds, generations and failures of an index."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lycosa.config.settings import IndexSettings
from lycosa.core.errors import OwnedError, WorkspaceError
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import LinkSignals
from lycosa.index import generation as generations
from lycosa.index import indexer as indexer_module
from lycosa.index.generation import newest
from lycosa.index.indexer import Indexer
from lycosa.index.schema import analysis_versions
from lycosa.index.shards import shards
from lycosa.index.shards.shards import current_generation
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.buffers import Buffers
from tests.index.corpus import Corpus, index_settings, page
from tests.waiting import until


def files(corpus: Corpus) -> list[str]:
    return sorted(os.listdir(generations.staging_folder(corpus.root)))


def test_empty_workspace_has_an_empty_index(corpus: Corpus) -> None:
    report = corpus.index()
    assert (report.documents, report.generation) == (0, 1)
    assert Searcher(corpus.root).search(SearchRequest("anything")).notes == [
        "no page is indexed yet"
    ]


@pytest.mark.parametrize(("heap", "threads"), [("15MiB", 16), ("8191TiB", 1)])
def test_extreme_heap_and_threads_are_valid(corpus: Corpus, heap: str, threads: int) -> None:
    """tantivy limits the heap per thread."""
    corpus.commit([("http://a.test/1", page("The spider hunts at night."))])
    with Indexer(
        corpus.root, IndexSettings.model_validate({"heap": heap, "threads": threads})
    ) as indexer:
        assert indexer.update().documents == 1


def test_committed_pages_are_indexed(corpus: Corpus) -> None:
    entry = corpus.commit(
        [
            ("http://a.test/1", page("The spider hunts at night.")),
            ("http://a.test/2", page("A web is a trap.")),
        ]
    )
    report = corpus.index()
    assert (report.put, report.removed, report.documents, report.log_entry) == (2, 0, 2, entry)
    assert corpus.urls("spiders") == ["http://a.test/1"]
    info = current_generation(corpus.root)
    assert info is not None
    assert (info.documents, info.languages, info.collections, info.log_entry) == (
        2,
        {"en": 2},
        {"default": 2},
        entry,
    )


def test_update_without_changes_publishes_no_generation(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("one"))])
    with Indexer(corpus.root, index_settings()) as indexer:
        first = indexer.update()
        second = indexer.update()
        assert (second.generation, second.log_entry, second.documents, second.changed) == (
            first.generation,
            first.log_entry,
            1,
            False,
        )
    again = corpus.index()
    assert (again.generation, again.changed) == (first.generation, False)


def test_memory_is_released_before_and_after_the_suggestions(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("The spider hunts at night."))])
    file_counts: list[int] = []
    with Indexer(
        corpus.root, index_settings(), release_memory=lambda: file_counts.append(len(files(corpus)))
    ) as indexer:
        indexer.update()
        assert len(file_counts) == 2
        indexer.update()  # no changes: nothing to release
    assert len(file_counts) == 2


def test_new_visit_replaces_the_page(corpus: Corpus) -> None:
    corpus.commit_and_index(
        [
            ("http://a.test/1", page("The old words.")),
            ("http://a.test/2", page("The old words stay.")),
        ]
    )
    report = corpus.commit_and_index([("http://a.test/1", page("Something new."))])
    assert (report.put, report.documents, corpus.urls("old")) == (1, 2, ["http://a.test/2"])
    assert corpus.urls("new") == ["http://a.test/1"]


def test_last_of_several_rows_in_one_commit_is_indexed(corpus: Corpus) -> None:
    assert (
        corpus.commit_and_index(
            [
                ("http://a.test/1", page("first words")),
                ("http://b.test/", page("other")),
                ("http://a.test/1", page("last words")),
            ]
        ).documents
        == 2
    )
    assert (corpus.urls("first"), corpus.urls("last")) == ([], ["http://a.test/1"])


@pytest.mark.proves("consistency-index")
def test_one_update_equals_several_small_updates(corpus: Corpus, tmp_path: Path) -> None:
    other = Corpus(str(tmp_path / "other"))
    with Indexer(corpus.root, index_settings()) as follower:
        for number in range(6):
            for target in (corpus, other):
                target.commit(
                    [
                        (f"http://a.test/{place}", page(f"common text number{number} of{place}"))
                        for place in range(number, number + 3)
                    ],
                    [(f"http://a.test/{number}", "gone")] if number % 2 else [],
                )
            follower.update()
    other.index()
    for query in ("common", "number3", "of4", "number5 of6"):
        assert corpus.urls(query) == other.urls(query)
    assert len(corpus.urls("common")) == 5


@pytest.mark.proves("consistency-index")
@pytest.mark.parametrize("state", ["gone", "excluded", "visited redirect"])
def test_a_page_that_is_gone_is_removed(corpus: Corpus, state: str) -> None:
    corpus.commit_and_index(
        [("http://a.test/1", page("words")), ("http://a.test/2", page("words"))],
        [("http://a.test/1", "visited")],
    )
    corpus.commit_and_index(
        states=[("http://a.test/1", state), ("http://a.test/never-seen", state)]
    )
    assert corpus.urls("words") == ["http://a.test/2"]
    corpus.commit_and_index(
        [("http://a.test/1", page("words again"))], [("http://a.test/1", "visited")]
    )
    assert corpus.urls("words") == ["http://a.test/1", "http://a.test/2"]


def test_last_state_in_one_commit_counts(corpus: Corpus) -> None:
    corpus.commit_and_index(
        [("http://a.test/1", page("words"))],
        [("http://a.test/1", "gone"), ("http://a.test/1", "visited")],
    )
    assert corpus.urls("words") == ["http://a.test/1"]


@pytest.mark.proves("politeness-noindex")
def test_noindex_page_is_not_indexed(corpus: Corpus) -> None:
    corpus.commit_and_index(
        [("http://a.test/1", page("words")), ("http://a.test/2", page("words", may_index=False))]
    )
    assert corpus.urls("words") == ["http://a.test/1"]
    report = corpus.commit_and_index([("http://a.test/1", page("words", may_index=False))])
    assert (report.removed, report.documents) == (1, 0)


def test_page_in_two_collections_is_one_document(corpus: Corpus) -> None:
    url = "http://a.test/1"
    corpus.commit_and_index([(url, page("words", title="T", headings=["H"]))], collection="one")
    assert (
        corpus.commit_and_index(
            [(url, page("words", title="T", headings=["H"]))], collection="two"
        ).documents
        == 1
    )
    for name in ("one", "two"):
        assert corpus.urls("words", collection=name) == [url]
    assert Searcher(corpus.root).search(SearchRequest("words")).hits[0].collection == "one, two"
    corpus.commit_and_index(states=[(url, "gone")], collection="one")
    assert corpus.urls("words", collection="one") == []
    assert corpus.urls("words", collection="two") == [url]
    assert corpus.commit_and_index(states=[(url, "gone")], collection="two").documents == 0


def test_page_gone_in_one_of_two_collections_before_the_first_update(corpus: Corpus) -> None:
    url = "http://a.test/1"
    corpus.commit([(url, page("words"))], collection="one")
    corpus.commit([(url, page("words"))], collection="two")
    corpus.commit_and_index(states=[(url, "gone")], collection="one")
    assert corpus.urls("words", collection="one") == []
    assert corpus.urls("words", collection="two") == [url]


def test_shared_url_is_in_both_collections_after_first_update_and_rebuild(
    corpus: Corpus,
) -> None:
    url = "http://a.test/1"
    corpus.commit([(url, page("words"))], collection="one")
    corpus.commit([(url, page("words"))], collection="two")
    with Indexer(corpus.root, index_settings()) as indexer:
        indexer.update()
        for name in ("one", "two"):
            assert corpus.urls("words", collection=name) == [url]
        indexer.rebuild()
        for name in ("one", "two"):
            assert corpus.urls("words", collection=name) == [url]


@pytest.mark.proves("consistency-index")
def test_a_rebuild_gives_the_same_answers(corpus: Corpus) -> None:
    for number in range(4):
        corpus.commit_and_index(
            [
                (
                    f"http://a.test/{place}",
                    page(f"shared text, version{number}", title=f"Page {place}"),
                )
                for place in range(number, 4)
            ],
            [(f"http://a.test/{number}", "gone")] if number == 1 else [],
        )
    before = [
        (hit.url, round(hit.score, 3), hit.snippet)
        for hit in Searcher(corpus.root).search(SearchRequest("shared version3")).hits
    ]
    report = corpus.rebuild()
    after = [
        (hit.url, round(hit.score, 3), hit.snippet)
        for hit in Searcher(corpus.root).search(SearchRequest("shared version3")).hits
    ]
    assert report.rebuilt == "requested"
    assert [url for url, _, _ in before] == [url for url, _, _ in after]
    assert [snippet for _, _, snippet in before] == [snippet for _, _, snippet in after]


def test_only_two_generations_are_kept_and_files_are_shared(corpus: Corpus) -> None:
    inodes: list[set[int]] = []
    with Indexer(corpus.root, index_settings()) as indexer:
        for number in range(4):
            corpus.commit([(f"http://a.test/{number}", page(f"words {number}"))])
            indexer.update()
            generation = newest(corpus.root)
            assert generation is not None
            inodes.append({os.stat(path).st_ino for path in generation.path.iterdir()})
    assert files(corpus) == [".lock", "00000003", "00000004"]
    assert inodes[2] & inodes[3]


@pytest.mark.proves("consistency-generations")
def test_open_searcher_works_after_its_generation_is_removed(corpus: Corpus) -> None:
    corpus.commit_and_index([("http://a.test/0", page("words zero"))])
    searcher = Searcher(corpus.root)
    for number in range(1, 4):
        corpus.commit_and_index([(f"http://a.test/{number}", page(f"words {number}"))])
    assert [hit.url for hit in searcher.search(SearchRequest("words")).hits] == ["http://a.test/0"]
    assert searcher.reload()
    assert searcher.search(SearchRequest("words")).total == 4
    assert not searcher.reload()


def test_changed_analyzer_version_rebuilds_the_index(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.commit_and_index([("http://a.test/1", page("words"))])
    versions = analysis_versions() | {"native-english": "another"}
    monkeypatch.setattr(indexer_module, "analysis_versions", lambda *_: versions)
    report = corpus.index()
    assert "other analyzers" in report.rebuilt
    assert (report.generation, report.documents, corpus.index().rebuilt) == (2, 1, "")


def test_index_of_another_log_is_rebuilt(corpus: Corpus, tmp_path: Path) -> None:
    corpus.commit_and_index([("http://a.test/1", page("words"))])
    other = Corpus(str(tmp_path / "other"))
    other.commit([("http://b.test/1", page("words"))])
    generations.staging_folder(corpus.root).rename(generations.staging_folder(other.root))
    assert other.index().rebuilt == "it was built from another log"
    assert other.urls("words") == ["http://b.test/1"]


def test_damaged_generation_is_rebuilt(corpus: Corpus) -> None:
    corpus.commit_and_index([("http://a.test/1", page("words"))])
    generation = newest(corpus.root)
    assert generation is not None
    (generation.path / generations.INFO).write_text("{")
    with pytest.raises(WorkspaceError, match=r"damaged.*--rebuild"):
        Searcher(corpus.root)
    assert "damaged" in corpus.index().rebuilt
    assert corpus.urls("words") == ["http://a.test/1"]


def test_second_indexer_is_an_error(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))])
    with Indexer(corpus.root, index_settings()) as first:
        first.update()
        with (
            Indexer(corpus.root, index_settings()) as second,
            pytest.raises(OwnedError, match="another process"),
        ):
            second.update()
    assert corpus.index().documents == 1


def test_left_over_build_folders_are_removed(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))])
    folder = generations.staging_folder(corpus.root)
    (folder / ".build-work-old").mkdir(parents=True)
    (folder / ".build-work-old" / "x.store").write_bytes(b"junk")
    corpus.index()
    assert files(corpus) == [".lock", "00000001"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_merged_segments_are_released_between_updates(corpus: Corpus) -> None:
    with Indexer(corpus.root, index_settings()) as indexer:
        for number in range(8):  # the last one starts a merge
            corpus.commit([(f"http://a.test/{number}", page(f"words of page {number}"))])
            indexer.update(suggestions=False)
        (folder,) = generations.staging_folder(corpus.root).glob(".build-work-*")
        deleted = re.compile(rf"{folder}.*\(deleted\)$", re.MULTILINE)
        until(
            lambda: (
                len(list(folder.glob("*.term"))) <= 1
                and not deleted.search(Path("/proc/self/maps").read_text())
            ),
            30,
        )


def test_last_update_publishes_only_merged_segments(corpus: Corpus) -> None:
    with Indexer(corpus.root, index_settings()) as indexer:
        for number in range(8):  # the last one starts a merge
            corpus.commit([(f"http://a.test/{number}", page(f"words of page {number}"))])
            report = indexer.update(last=number == 7)
    assert (report.documents, files(corpus)) == (8, [".lock", f"{report.generation:08d}"])
    generation = newest(corpus.root)
    assert generation is not None
    assert len(list(generation.path.glob("*.term"))) == 1
    assert Searcher(corpus.root).search(SearchRequest("words")).total == 8


def test_searcher_opens_the_next_generation_if_one_is_removed_meanwhile(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.commit_and_index([("http://a.test/1", page("words"))])
    find_newest = shards.newest_of_all

    def find_then_rebuild(storage: Storage) -> list[Any]:
        monkeypatch.setattr(shards, "newest_of_all", find_newest)
        newest_generations = find_newest(storage)
        corpus.rebuild()
        return newest_generations

    monkeypatch.setattr(shards, "newest_of_all", find_then_rebuild)
    searcher = Searcher(corpus.root)
    assert searcher.index is not None
    assert searcher.index.number == 2
    assert not searcher.reload()


def test_error_names_the_missing_table_file(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))])
    (path,) = Path(corpus.root).glob("data/*/pages.parquet")
    path.unlink()
    with (
        Indexer(corpus.root, index_settings()) as indexer,
        pytest.raises(WorkspaceError, match=r"pages\.parquet.*lycosa check"),
    ):
        indexer.update()


def test_update_after_a_failure_rebuilds(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))])
    with Indexer(corpus.root, index_settings()) as indexer:
        indexer.update()
        corpus.commit([("http://a.test/2", page("words"))])
        path = sorted(Path(corpus.root).glob("data/*/pages.parquet"))[-1]
        moved = path.rename(path.with_suffix(".moved"))
        with pytest.raises(WorkspaceError):
            indexer.update()
        moved.rename(path)
        assert indexer.update().rebuilt == "the last update failed"
    assert corpus.urls("words") == ["http://a.test/1", "http://a.test/2"]


def test_empty_long_and_binary_texts_are_indexed(corpus: Corpus) -> None:
    assert (
        corpus.commit_and_index(
            [
                ("http://a.test/empty", page("", language="")),
                ("http://a.test/null", page("nul \x00 and \ufffe here findable", language="en")),
                (
                    "http://a.test/long",
                    page("start " + "x" * 300_000 + " end findable", language="en"),
                ),
                (
                    "http://a.test/many",
                    page("word findable", language="en", headings=["h"] * 5_000),
                ),
                ("http://a.test/%E4%B8%AD?q=%FF", page("findable", language="zz")),
            ]
        ).documents
        == 5
    )
    assert len(corpus.urls("findable")) == 4


_CRAWLER = """
import sys
from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from tests.index.corpus import Corpus, page
corpus = Corpus(sys.argv[1])
with Indexer(corpus.root, IndexSettings.model_validate({"heap": "15MiB"})) as indexer:
    for number in range(int(sys.argv[2]), 10_000):
        corpus.commit([(f"http://a.test/{number}-{place}", page("some words of a page", language="en")) for place in range(20)])
        report = indexer.update()
        print(report.generation, report.documents, flush=True)
"""


@pytest.mark.proves("durability-index-kill", "consistency-generations")
def test_kill_at_any_time_leaves_a_complete_generation(corpus: Corpus) -> None:
    documents, start = 0, 0
    for delay in (0.05, 0.11, 0.23):
        crawler = subprocess.Popen(
            [sys.executable, "-c", _CRAWLER, corpus.root, str(start)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert crawler.stdout is not None
        for _ in range(2):
            assert crawler.stdout.readline()
        time.sleep(delay)
        crawler.send_signal(signal.SIGKILL)
        printed = crawler.stdout.read().split("\n")
        crawler.wait()
        crawler.stdout.close()
        info = current_generation(corpus.root)
        assert info is not None
        assert info.documents > documents
        results = Searcher(corpus.root).search(SearchRequest("words", 1))
        assert (results.total, results.total % 20) == (info.documents, 0)
        assert info.generation >= max((int(line.split()[0]) for line in printed if line), default=0)
        documents, start = info.documents, start + 1_000
    report = corpus.index()  # indexes the pages committed before the kill
    assert (report.rebuilt, report.documents) == ("", corpus.workspace.state().rows("pages"))
    assert [name for name in files(corpus) if name.startswith(generations.BUILD_PREFIX)] == []


def test_file_with_several_row_groups_is_indexed(corpus: Corpus) -> None:
    buffers = Buffers()
    for number in range(1_200):
        corpus.add(
            buffers,
            f"http://a.test/{number}",
            page(f"text number{number} " + "filler words of a page " * 20, language="en"),
        )
    corpus.commit_buffers(buffers)
    assert corpus.index().documents == 1_200
    assert corpus.urls("number777") == ["http://a.test/777"]


def test_update_reads_link_signals_of_changed_pages_only(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.commit([(f"http://a.test/{number}", page(f"words {number}")) for number in range(50)])
    make_generation(corpus.workspace)
    rows: list[int] = []
    read = LinkSignals._read

    def counted(*arguments: Any) -> pl.DataFrame:
        frame = read(*arguments)
        rows.append(frame.height)
        return frame

    monkeypatch.setattr(LinkSignals, "_read", counted)
    with Indexer(corpus.root, index_settings()) as indexer:
        indexer.update()
        assert max(rows) == 50
        rows.clear()
        corpus.commit([("http://a.test/7", page("other words"))])
        assert indexer.update(suggestions=False).put == 1
    assert rows
    assert max(rows) == 1
