"""Sharded indexes, and updates after commits, compaction and exclusions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.config.settings import Config, IndexSettings
from lycosa.core.clock import SystemClock
from lycosa.core.errors import OwnedError, WorkspaceError
from lycosa.index import generation as generations
from lycosa.index import indexer as index_module
from lycosa.index.follower import IndexFollower
from lycosa.index.indexer import Indexer, ShardIndexer, index_shard, tasks_of
from lycosa.index.schema import outside
from lycosa.index.shards.shards import (
    LAYOUT,
    Shard,
    adopt,
    current_generation,
    layout,
    newest_of_all,
    shards_of,
)
from lycosa.index.suggest import file as suggest_file
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.exclusion.purge import purge
from lycosa.store.workspace import Workspace
from tests.index.corpus import Corpus, index_settings, page
from tests.waiting import until

HOSTS = [f"h{number}.test" for number in range(12)]


@pytest.fixture
def many_hosts(tmp_path: Path) -> Corpus:
    corpus = Corpus(str(tmp_path / "workspace"))
    corpus.commit(
        [
            (f"http://{host}/{number}", page(f"Common words, page number{number}."))
            for host in HOSTS
            for number in range(3)
        ]
    )
    return corpus


@pytest.mark.parametrize(
    ("count", "partitions"), [(1, 4), (2, 4), (3, 64), (8, 64), (8, 4), (7, 1), (64, 64)]
)
def test_each_partition_is_in_one_shard(count: int, partitions: int) -> None:
    assigned = [
        partition for shard in shards_of(count) for partition in shard.partitions(partitions)
    ]
    assert assigned == list(range(partitions))
    sizes = [len(shard.partitions(partitions)) for shard in shards_of(count)]
    assert max(sizes) - min(sizes) <= 1


def test_single_shard_has_no_subfolder(many_hosts: Corpus) -> None:
    many_hosts.index()
    assert sorted(os.listdir(Path(many_hosts.root) / "index")) == [".lock", "00000001"]


def test_documents_are_in_the_shard_of_their_partition(many_hosts: Corpus) -> None:
    report = many_hosts.index(3)
    assert (report.put, report.documents, len(many_hosts.urls("common"))) == (36, 36, 36)
    parts = newest_of_all(many_hosts.root)
    assert [isinstance(part, generations.Generation) for part in parts] == [True] * 3
    rows = many_hosts.workspace.state().rows("pages")
    assert (
        sum(part.info.documents for part in parts if isinstance(part, generations.Generation))
        == rows
    )


def test_more_shards_than_partitions_leave_some_empty(many_hosts: Corpus) -> None:
    assert (many_hosts.workspace.partitions, many_hosts.index(6).documents) == (4, 36)
    assert len(many_hosts.urls("common")) == 36
    documents = [
        part.info.documents
        for part in newest_of_all(many_hosts.root)
        if isinstance(part, generations.Generation)
    ]
    assert len(documents) == 6
    assert documents.count(0) >= 2


@pytest.mark.proves("consistency-index")
def test_shards_follow_the_log(many_hosts: Corpus) -> None:
    with Indexer(many_hosts.root, index_settings(3)) as indexer:
        indexer.update()
        many_hosts.commit(
            [
                ("http://h1.test/1", page("Quite different.")),
                ("http://new.test/", page("Common again.")),
            ]
        )
        entry = many_hosts.commit(states=[("http://h2.test/2", "gone")])
        report = indexer.update()
        assert (report.documents, report.log_entry) == (36, entry)
        assert not indexer.update().changed
    assert "http://h1.test/1" not in many_hosts.urls("common")
    assert "http://h2.test/2" not in many_hosts.urls("common")
    assert (len(many_hosts.urls("common")), many_hosts.urls("different")) == (
        35,
        ["http://h1.test/1"],
    )
    info = current_generation(many_hosts.root)
    assert info is not None
    assert (info.documents, info.log_entry, info.shards) == (36, entry, 3)


def test_shards_are_tasks_that_may_run_in_any_order(many_hosts: Corpus) -> None:
    tasks = tasks_of(many_hosts.root, index_settings(3))
    for task in reversed(tasks[1:]):
        index_shard(task)
    assert layout(many_hosts.root) == 1  # incomplete: still the old layout
    assert Searcher(many_hosts.root).search(SearchRequest("common")).total == 0
    index_shard(tasks[0])
    assert (layout(many_hosts.root), len(many_hosts.urls("common"))) == (3, 36)
    assert not any(index_shard(task).changed for task in tasks)


def test_outdated_shard_does_not_delay_the_others(many_hosts: Corpus) -> None:
    many_hosts.index(2)
    entry = many_hosts.commit([(f"http://{host}/later", page("Later words.")) for host in HOSTS])
    index_shard(tasks_of(many_hosts.root, index_settings(2))[1])
    assert 0 < len(many_hosts.urls("later")) < len(HOSTS)
    info = current_generation(many_hosts.root)
    assert info is not None
    assert info.log_entry < entry  # the minimum over all shards
    many_hosts.index(2)
    assert len(many_hosts.urls("later")) == len(HOSTS)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 2)])
def test_changed_number_of_shards_builds_a_new_index(
    many_hosts: Corpus, before: int, after: int
) -> None:
    many_hosts.index(before)
    searcher = Searcher(many_hosts.root)
    assert many_hosts.index(after).rebuilt == "no index existed"
    assert layout(many_hosts.root) == after
    assert searcher.search(SearchRequest("common")).total == 36  # the old index is still open
    assert searcher.reload()
    assert searcher.search(SearchRequest("common")).total == 36
    names = {
        name
        for name in os.listdir(Path(many_hosts.root) / "index")
        if name not in (".lock", LAYOUT)
    }
    assert names == ({"00000002"} if after == 1 else {f"of-{after}"})


def test_complete_shards_without_a_layout_file_are_adopted(many_hosts: Corpus) -> None:
    """As after a kill between publishing the last shard and writing the layout."""
    many_hosts.index(3)
    (Path(many_hosts.root) / "index" / LAYOUT).unlink()
    assert layout(many_hosts.root) == 1
    assert not many_hosts.index(3).changed
    assert layout(many_hosts.root) == 3
    assert adopt(many_hosts.root, 3)


@pytest.mark.proves("consistency-purge")
def test_exclusion_removes_pages_from_all_shards(many_hosts: Corpus) -> None:
    many_hosts.index(3)
    exclude_and_purge(
        many_hosts.root, Config(index=index_settings(3)), ["host:h1.test"], remove=False
    )
    assert not [url for url in many_hosts.urls("common") if "//h1.test/" in url]
    assert len(many_hosts.urls("common")) == 33
    for shard in shards_of(3):
        assert len(generations.numbers(many_hosts.root, shard.line)) == 1
    for file in (Path(many_hosts.root) / "index").rglob("*"):
        assert b"h1.test" not in (file.read_bytes() if file.is_file() else b"")


def test_one_indexer_per_shard_excludes_indexers_of_the_same_shard_and_of_all(
    many_hosts: Corpus,
) -> None:
    one, two = (
        ShardIndexer(many_hosts.root, Shard(0, 2), index_settings(2)),
        ShardIndexer(many_hosts.root, Shard(1, 2), index_settings(2)),
    )
    try:
        one.update()
        two.update()
        duplicate, whole = (
            ShardIndexer(many_hosts.root, Shard(0, 2), index_settings(2)),
            ShardIndexer(many_hosts.root, settings=index_settings(1)),
        )
        for other in (duplicate, whole):
            with pytest.raises(OwnedError, match="another process"):
                other.update()
    finally:
        one.close()
        two.close()


def test_damaged_shard_is_missing_until_it_is_rebuilt(many_hosts: Corpus) -> None:
    many_hosts.index(3)
    generation = newest_of_all(many_hosts.root)[1]
    assert isinstance(generation, generations.Generation)
    (generation.path / generations.INFO).write_text("{")
    results = Searcher(many_hosts.root).search(SearchRequest("common", 100))
    assert (results.missing_shards, results.total) == ((1,), 36 - generation.info.documents)
    assert "shard 2 is missing" in " ".join(results.notes)
    with pytest.raises(WorkspaceError, match="damaged"):
        current_generation(many_hosts.root)
    assert "damaged" in many_hosts.index(3).rebuilt
    assert len(many_hosts.urls("common")) == 36


def test_shard_with_damaged_segments_is_missing(many_hosts: Corpus) -> None:
    many_hosts.index(3)
    generation = newest_of_all(many_hosts.root)[0]
    assert isinstance(generation, generations.Generation)
    for file in generation.path.glob("*.store"):
        file.write_bytes(b"")
    results = Searcher(many_hosts.root).search(SearchRequest("common", 100))
    assert (results.missing_shards, results.total) == ((0,), 36 - generation.info.documents)


def test_error_for_a_damaged_layout_names_the_command(many_hosts: Corpus) -> None:
    many_hosts.index(3)
    (Path(many_hosts.root) / "index" / LAYOUT).write_text("{")
    with pytest.raises(WorkspaceError, match=r"layout.*--rebuild"):
        Searcher(many_hosts.root)
    many_hosts.rebuild(3)
    assert len(many_hosts.urls("common")) == 36


_BUILDER = """
import sys
from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import index_shard, tasks_of
for number in range(1_000):
    for task in tasks_of(sys.argv[1], IndexSettings.model_validate({"heap": "15MiB", "shards": 2}), rebuild=True):
        index_shard(task)
        print(number, flush=True)
"""


@pytest.mark.proves("durability-index-kill")
def test_kill_during_a_build_leaves_complete_shards(many_hosts: Corpus) -> None:
    root = Path(__file__).parents[2]
    for delay in (0.0, 0.07):
        builder = subprocess.Popen(
            [sys.executable, "-c", _BUILDER, many_hosts.root],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        assert builder.stdout is not None
        for _ in range(3):
            assert builder.stdout.readline()
        time.sleep(delay)
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        builder.stdout.close()
        assert len(many_hosts.urls("common")) == 36
    assert many_hosts.index(2).documents == 36
    assert not list((Path(many_hosts.root) / "index").rglob(f"{generations.BUILD_PREFIX}*"))
    assert Workspace.open(many_hosts.root).state().rows("pages") == 36


def make_follower(corpus: Corpus, interval: str) -> IndexFollower:
    return IndexFollower(
        corpus.root,
        IndexSettings.model_validate({"heap": "15MiB", "interval": interval}),
        SystemClock(),
    )


def test_commits_within_the_interval_are_indexed_together(corpus: Corpus) -> None:
    follower = make_follower(corpus, "1h")
    for number in range(3):
        follower.committed(
            corpus.commit([(f"http://a.test/{number}", page("One page of a short crawl."))])
        )
    follower.finish()
    follower.close()
    info = current_generation(corpus.root)
    assert info is not None
    assert (info.documents, generations.numbers(corpus.root)) == (3, [1])


def _has_more(corpus: Corpus, documents: int) -> bool:
    info = current_generation(corpus.root)
    return info is not None and info.documents > documents


def test_pages_of_a_long_crawl_are_indexed_during_the_crawl(corpus: Corpus) -> None:
    follower = make_follower(corpus, "20ms")
    for number in range(2):
        follower.committed(
            corpus.commit([(f"http://a.test/{number}", page("One page of a long crawl."))])
        )
        until(partial(_has_more, corpus, number))
    follower.close()


def test_suggestions_of_a_short_crawl_are_built_at_its_end(corpus: Corpus) -> None:
    follower = make_follower(corpus, "20ms")
    follower.committed(
        corpus.commit([("http://a.test/", page("A page of a crawl that is over soon."))])
    )
    until(lambda: generations.newest(corpus.root))
    generation = generations.newest(corpus.root)
    assert generation is not None
    assert suggest_file.find(generation.path) is None
    follower.finish()
    follower.close()
    last = generations.newest(corpus.root)
    assert last is not None
    assert suggest_file.find(last.path) is not None


def test_follower_raises_its_error_at_the_end(corpus: Corpus) -> None:
    follower = make_follower(corpus, "20ms")
    entry = corpus.commit([("http://a.test/", page("A page whose file is lost."))])
    for file in Path(corpus.root).glob("data/*/pages.parquet"):
        file.unlink()
    follower.committed(entry)
    until(lambda: follower.error is not None)
    with pytest.raises(WorkspaceError, match="missing"):
        follower.finish()
    follower.close()
    follower.close()


COMPACT_ALL = CompactionSettings(gather=2)


@pytest.mark.proves("consistency-index")
def test_gone_page_is_not_indexed_again_after_compaction(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/1", page("words"))], [("http://a.test/1", "visited")])
    corpus.commit_and_index(states=[("http://a.test/1", "gone")])
    corpus.commit([("http://a.test/2", page("words"))], [("http://a.test/2", "visited")])
    compact(corpus.workspace, COMPACT_ALL, whole=True)
    corpus.index()
    assert corpus.urls("words") == ["http://a.test/2"]
    corpus.rebuild()
    assert corpus.urls("words") == ["http://a.test/2"]


def test_page_gone_and_visited_again_before_the_update_is_indexed(corpus: Corpus) -> None:
    corpus.commit_and_index([("http://a.test/1", page("words"))], [("http://a.test/1", "visited")])
    corpus.commit(states=[("http://a.test/1", "gone")])
    corpus.commit_and_index(
        [("http://a.test/1", page("words again"))], [("http://a.test/1", "visited")]
    )
    assert corpus.urls("again") == ["http://a.test/1"]


def test_only_new_rows_of_a_compacted_file_are_read(corpus: Corpus) -> None:
    for number in range(5):
        corpus.commit([(f"http://a.test/{number}", page(f"words of{number}"))])
    corpus.index()
    corpus.commit([("http://a.test/5", page("words of5"))])
    compact(corpus.workspace, COMPACT_ALL, whole=True)
    report = corpus.index()
    assert (report.put, report.documents, report.rebuilt) == (1, 6, "")
    assert len(corpus.urls("words")) == 6


def test_page_in_two_collections_is_one_document_after_compaction(corpus: Corpus) -> None:
    corpus.commit_and_index([("http://a.test/1", page("words"))], collection="one")
    corpus.commit([("http://a.test/1", page("words"))], collection="two")
    compact(corpus.workspace, COMPACT_ALL, whole=True)
    corpus.index()
    hits = Searcher(corpus.root).search(SearchRequest("words", 10, collection="two")).hits
    assert [hit.url for hit in hits] == ["http://a.test/1"]
    assert corpus.urls("words") == ["http://a.test/1"]


@pytest.mark.proves("consistency-purge")
def test_excluded_pages_are_removed_from_every_generation(corpus: Corpus) -> None:
    corpus.commit_and_index(
        [("http://a.test/1", page("words")), ("http://b.test/1", page("words"))]
    )
    assert len(corpus.urls("words")) == 2
    purge(corpus.workspace, ["host:a.test"])
    report = corpus.index()
    assert report.rebuilt
    assert corpus.urls("words") == ["http://b.test/1"]
    assert generations.numbers(corpus.root) == [report.generation]
    assert not corpus.index().changed


@pytest.mark.proves("consistency-purge")
@pytest.mark.parametrize("killed", [False, True])
def test_requested_rebuild_removes_generations_with_excluded_text(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    corpus.commit_and_index(
        [("http://a.test/1", page("words")), ("http://b.test/1", page("words"))]
    )
    purge(corpus.workspace, ["host:a.test"])
    if killed:
        with monkeypatch.context() as patch:
            # as if the process had been killed before
            patch.setattr(index_module, "remove_generations", lambda *arguments: None)
            corpus.index()
        assert len(generations.numbers(corpus.root)) == 2
        number = corpus.index().generation
    else:
        number = corpus.rebuild().generation
    assert generations.numbers(corpus.root) == [number]


@pytest.mark.parametrize(
    ("text", "main_text", "rest"),
    [
        ("menu\nfirst\nsecond\nfoot", "first\nsecond", "menu\nfoot"),
        ("first\nsecond\nfoot", "first\nsecond", "foot"),
        ("menu\nfirst\nsecond", "first\nsecond", "menu"),
        ("menu\nfirst\naside\nsecond\nfoot", "first\nsecond", "menu\naside\nfoot"),
        ("first line\nfirst\nfoot", "first", "first line\nfoot"),
        ("a\nx\na\nb\nfoot", "a\nb", "a\nx\nfoot"),
        ("\n".join(["a"] * 20 + ["b", "foot"]), "a\nb", "\n".join(["a"] * 19 + ["foot"])),
        ("same", "same", ""),
        ("all of it", "", "all of it"),
        ("", "", ""),
    ],
)
def test_text_outside_the_main_text(text: str, main_text: str, rest: str) -> None:
    assert outside(text, main_text) == rest


@pytest.mark.parametrize(
    ("text", "main_lines", "rest"),
    [
        ("menu\nfirst\nsecond\nfoot", [1, 3], "menu\nfoot"),
        ("menu\nfirst\naside\nsecond\nfoot", [1, 2, 3, 4], "menu\naside\nfoot"),
        ("a\nx\na\nb\nfoot", [2, 4], "a\nx\nfoot"),
        ("same", [0, 1], ""),
    ],
)
def test_text_outside_the_lines_of_the_main_text(
    text: str, main_lines: list[int], rest: str
) -> None:
    assert outside(text, "not needed", main_lines) == rest
