"""Search over replicas in separate processes, failures and updates."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from lycosa.cluster.engine import Remote
from lycosa.cluster.engines.local import LocalEngine
from lycosa.index.indexer import index_shard, tasks_of
from lycosa.index.shards.shards import layout
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.backend import LocalBackend
from lycosa.search.federation.federated_search import FederatedSearch
from lycosa.search.federation.replica import ReplicaSupervisor
from lycosa.search.federation.sharded_search import ShardedSearch
from lycosa.search.presentation.results import SearchRequest, SearchResults
from lycosa.search.ranking.ordering import BLOCK
from lycosa.search.suggest.completion import SuggestRequest
from tests.index.corpus import Corpus, index_settings, page
from tests.search.shards import EQUAL, TwoIndexes, queries, two_indexes, urls
from tests.waiting import until

SHARDS = 3
READY_S = 60.0


def exact(query: str) -> bool:
    """Return whether the scores of a query can be compared between indexes.

    For several words, tantivy weights proximity by the rarest word of each segment. So the scores
    also differ between two indexes of the same pages with other segments.
    """
    return len([word for word in query.split() if ":" not in word]) < 2 or '"' in query


class Service:
    """Supervised replicas and a federated search over them."""

    def __init__(
        self, root: str, replicas: int, *, check_interval_s: float = 0.2, copy: bool = False
    ) -> None:
        self.messages: list[str] = []
        self.engine = LocalEngine()
        self.supervisor = ReplicaSupervisor(
            self.engine,
            root,
            replicas,
            copy=copy,
            follow_interval_s=0.1,
            check_interval_s=check_interval_s,
            notify=self.messages.append,
        )
        assert self.supervisor.wait(READY_S)
        until(lambda: all(len(shard) == replicas for shard in self.supervisor.replicas()))
        self.federation = ShardedSearch(
            self.supervisor.replicas, call_timeout_s=3.0, deadline_s=10.0
        )

    def search(self, text: str, count: int = 10, offset: int = 0) -> SearchResults:
        return self.federation.search(SearchRequest(text, count, offset))

    def close(self) -> None:
        self.federation.close()
        self.supervisor.close()
        self.engine.close()


def has_gone(service: Service, name: str) -> bool:
    return all(replica.name != name for shard in service.supervisor.replicas() for replica in shard)


def process_of(remote: Remote) -> int:
    return int(remote.ask("process", timeout_s=5))


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> TwoIndexes:
    return two_indexes(tmp_path_factory.mktemp("shards"), SHARDS)


@pytest.fixture(scope="module")
def service(indexes: TwoIndexes) -> Iterator[Service]:
    service = Service(indexes.many, 2)
    yield service
    service.close()


@pytest.mark.parametrize("query", queries())
def test_local_shards_agree_with_one_index(indexes: TwoIndexes, query: str) -> None:
    one, many = (
        Searcher(root).search(SearchRequest(query, 30)) for root in (indexes.one, indexes.many)
    )
    assert (many.total, many.notes) == (one.total, one.notes)
    if exact(query):
        assert [round(hit.score, 3) for hit in many.hits] == [
            round(hit.score, 3) for hit in one.hits
        ]


@pytest.mark.parametrize(("per_host", "exactly"), [(0, 0.99), (2, 0.95)])
def test_replicas_agree_with_one_index(
    indexes: TwoIndexes, service: Service, per_host: int, exactly: float
) -> None:
    """Totals, notes and snippets are equal, the first ten results and their scores nearly.

    With a limit per host, pages at the end of a block of 40 may move to the front.
    """
    searcher, agreed, places = Searcher(indexes.one), Counter[bool](), Counter[bool]()
    for query in queries():
        request = SearchRequest(query, per_host=per_host)
        one, many = searcher.search(request), service.federation.search(request)
        assert (many.total, many.notes, many.missing_shards) == (one.total, one.notes, ()), query
        by_url = {hit.url: hit for hit in one.hits}
        for hit in many.hits:
            if hit.url in by_url:
                assert hit.snippet == by_url[hit.url].snippet
                assert not exact(query) or hit.score == pytest.approx(
                    by_url[hit.url].score, rel=1e-4
                )
        if one.hits:
            tenth = round(one.hits[-1].score, 3)
            agreed[exact(query)] += sum(
                hit.url in by_url or round(hit.score, 3) == tenth for hit in many.hits
            )
            places[exact(query)] += len(one.hits)
    assert min(places.values()) > 100
    assert agreed[True] >= exactly * places[True]
    assert agreed[False] >= 0.9 * places[False]


def test_suggestions_of_replicas_agree_with_one_index(
    indexes: TwoIndexes, service: Service
) -> None:
    """Both for phrases of the suggestion file and for completions of the last word."""
    searcher, completions = Searcher(indexes.many), 0
    for typed in (
        "we",
        "spider w",
        "river lig",
        "twice told ta",
        "tale twi",
        "kind unm",
        "kind twi",
    ):
        one, many = (each.suggest(SuggestRequest(typed)) for each in (searcher, service.federation))
        assert [(suggestion.text, suggestion.pages) for suggestion in many] == [
            (suggestion.text, suggestion.pages) for suggestion in one
        ], typed
        completions += sum(suggestion.weight == 0 for suggestion in many)
    assert completions == 3


def test_replicas_are_searched_together_with_another_workspace(
    corpus: Corpus, service: Service
) -> None:
    corpus.commit_and_index(
        [
            (
                f"http://other{n}.test/",
                page("A spider of another kind, in a jungle.", title="Spider"),
            )
            for n in range(4)
        ]
    )
    many = FederatedSearch(
        [LocalBackend("other", Searcher(corpus.root))],
        whole=[service.federation],
        timeout_s=20,
    )
    try:
        alone, both = service.search("spider"), many.search(SearchRequest("spider"))
        assert (both.total, {hit.source for hit in both.hits}) == (alone.total + 4, {"", "other"})
        assert [hit.url for hit in both.hits if not hit.source] == urls(alone)[
            : sum(not hit.source for hit in both.hits)
        ]
        assert (both.notes, both.missing_shards) == ([], ())
        assert {hit.source for hit in many.search(SearchRequest("jungle")).hits} == {"other"}
        assert many.search(SearchRequest("spidre")).did_you_mean is not None
        shards = FederatedSearch([], whole=[service.federation], timeout_s=20).search(
            SearchRequest("spider")
        )
        assert (shards.total, urls(shards), shards.notes) == (alone.total, urls(alone), [])
    finally:
        many.close()


def test_paging_over_replicas_is_independent_of_the_page_size(service: Service) -> None:
    """No result is repeated or missing, also at the end of blocks."""
    total = service.search("web").total
    assert total > 2 * BLOCK
    by_ten, by_seven = (
        [
            url
            for offset in range(0, total, size)
            for url in urls(service.search("web", size, offset))
        ]
        for size in (10, 7)
    )
    at_once = urls(service.search("web", total))
    assert by_ten == by_seven == at_once
    assert (len(set(at_once)), urls(service.search("web", 10, total))) == (total, [])


def test_equal_scores_have_the_order_of_one_index(indexes: TwoIndexes, service: Service) -> None:
    searcher = Searcher(indexes.one)
    for offset in (0, 10, 30):
        assert urls(service.search("unmistakable words", 10, offset)) == urls(
            searcher.search(SearchRequest("unmistakable words", 10, offset))
        )
    assert set(urls(service.search("unmistakable", 100))) == {
        EQUAL.format(number) for number in range(40)
    }


def test_copies_on_different_shards_are_grouped(indexes: TwoIndexes, service: Service) -> None:
    one = Searcher(indexes.one).search(SearchRequest("twice told tale"))
    many = service.search("twice told tale")
    assert (one.total, many.total) == (1, 1)
    assert [hit.copies for hit in (*one.hits, *many.hits)] == [5, 5]
    ungrouped = service.federation.search(SearchRequest("twice told tale", folded=False))
    assert (ungrouped.total, len(ungrouped.hits)) == (6, 6)


def test_facets_of_shards_are_summed(indexes: TwoIndexes, service: Service) -> None:
    request = SearchRequest(
        "web OR netz", facets=("language", "host", "type", "date", "collection")
    )
    one, many = Searcher(indexes.one).search(request), service.federation.search(request)
    assert {name: dict(values) for name, values in one.facets.items()} == {
        name: dict(values) for name, values in many.facets.items()
    }
    assert sum(one.facets["language"].values()) == one.total == sum(one.facets["host"].values())
    assert set(one.facets["language"]) == {"en", "de"}


def test_filter_without_words_sorts_by_date(indexes: TwoIndexes, service: Service) -> None:
    one, many = (
        Searcher(indexes.one).search(SearchRequest("lang:fr", 50)),
        service.search("lang:fr", 50),
    )
    assert (
        [(hit.published_at, hit.fetched_at) for hit in many.hits],
        {hit.score for hit in many.hits},
    ) == ([(hit.published_at, hit.fetched_at) for hit in one.hits], {0.0})


def test_queries_are_balanced_over_replicas(service: Service) -> None:
    before = service.federation.calls
    with ThreadPoolExecutor(4) as pool:
        assert all(results.total for results in pool.map(service.search, ["web night"] * 40))
    after = service.federation.calls
    for shard in service.supervisor.replicas():
        requests = [after[replica.name] - before.get(replica.name, 0) for replica in shard]
        assert min(requests) > 0.3 * max(requests), requests


def test_killed_replica_is_replaced(service: Service) -> None:
    expected = service.search("web night")
    killed = service.supervisor.replicas()[0][0]
    os.kill(process_of(killed), signal.SIGKILL)
    for _ in range(8):
        results = service.search("web night")
        assert (urls(results), results.missing_shards) == (urls(expected), ())
    until(
        lambda: (
            killed.name not in {replica.name for replica in service.supervisor.replicas()[0]}
            and len(service.supervisor.replicas()[0]) == 2
        )
    )
    assert any(killed.name in line and "died" in line for line in service.messages)
    assert urls(service.search("web night")) == urls(expected)


def test_other_replica_responds_for_one_that_hangs(service: Service) -> None:
    expected = urls(service.search("river stone"))
    process = process_of(service.supervisor.replicas()[1][0])
    os.kill(process, signal.SIGSTOP)
    try:
        for _ in range(3):
            results = service.search("river stone")
            assert (urls(results), results.missing_shards) == (expected, ())
    finally:
        os.kill(process, signal.SIGCONT)


def test_results_are_complete_or_name_missing_shards_while_replicas_are_killed(
    service: Service,
) -> None:
    expected = service.search("wolf trap").total
    stop, responses = threading.Event(), list[SearchResults]()

    def ask() -> None:
        while not stop.is_set():
            responses.append(service.search("wolf trap"))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for shard in range(SHARDS):
        killed = service.supervisor.replicas()[shard][0]
        os.kill(process_of(killed), signal.SIGKILL)
        until(partial(has_gone, service, killed.name))
    stop.set()
    for thread in threads:
        thread.join()
    assert len(responses) > 10
    assert all((results.total == expected) == (not results.missing_shards) for results in responses)
    until(lambda: all(len(shard) == 2 for shard in service.supervisor.replicas()))


def test_note_states_missing_shards(indexes: TwoIndexes) -> None:
    service = Service(indexes.many, 1, check_interval_s=3600.0)
    try:
        whole = service.search("web")
        os.kill(process_of(service.supervisor.replicas()[1][0]), signal.SIGKILL)
        results = service.search("web")
        assert (results.missing_shards, results.notes[-1]) == (
            (1,),
            "1 of 3 shards did not respond: their pages are missing in these results",
        )
        assert 0 < results.total < whole.total
        assert results.hits
        for shard in (0, 2):
            os.kill(process_of(service.supervisor.replicas()[shard][0]), signal.SIGKILL)
        nothing = service.search("web")
        assert (nothing.hits, nothing.missing_shards) == ([], (0, 1, 2))
    finally:
        service.close()


def test_replicas_follow_the_index_and_its_layout(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an index, after a commit, with an outdated shard, with another number of shards."""
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "cache"))
    service = Service(corpus.root, 1, copy=True)
    try:
        nothing = service.search("words")
        assert (nothing.notes, nothing.generation, nothing.missing_shards) == (
            ["no page is indexed yet"],
            0,
            (),
        )
        corpus.commit_and_index(
            [(f"http://h{number}.test/", page("Some words.")) for number in range(12)], shards=2
        )
        until(lambda: service.search("words").total == 12)
        assert layout(corpus.root) == len(service.supervisor.replicas()) == 2
        corpus.commit(
            [(f"http://h{number}.test/new", page("Newer words.")) for number in range(12)]
        )
        first, second = tasks_of(corpus.root, index_settings(2))
        index_shard(first)
        until(lambda: service.search("newer").total > 0)
        behind = service.search("newer")
        assert 0 < behind.total < 12
        assert behind.missing_shards == ()
        index_shard(second)
        until(lambda: service.search("newer").total == 12)
        assert service.federation.languages() == {"en": 24}
        corpus.index(3)
        totals = []

        def three_replicas_respond() -> bool:
            totals.append(service.search("words").total)
            return len(service.supervisor.replicas()) == 3

        until(three_replicas_respond)
        assert set(totals) == {24}  # the old replicas respond until the new ones are ready
        assert service.search("words").total == 24
        assert {path.name for path in (tmp_path / "cache").rglob("*") if path.suffix == ".store"}
    finally:
        service.close()
