"""Federated search, and the release of replaced generations."""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.index.indexer import Indexer
from lycosa.index.suggest import refresh
from lycosa.search.crosslingual.translated import Across
from lycosa.search.engine.searcher import Searcher, SearchRequest, SearchResults
from lycosa.search.federation.backend import LocalBackend
from lycosa.search.federation.federated_search import FederatedSearch
from lycosa.search.suggest.completion import SuggestRequest
from tests.index.corpus import Corpus, index_settings, page
from tests.search.shards import made_pages, queries
from tests.search.shards import urls as urls
from tests.waiting import until


@dataclass(slots=True, frozen=True)
class Halves:
    """Workspaces with all pages (`whole`) and with one half each.

    `SHARED` pages of the second half are also in the first one.
    """

    whole: str
    first: str
    second: str


SHARED = 30


def halves(folder: Path) -> Halves:
    """Create the workspaces; odd pages of a host are in the second half."""
    pages = made_pages()
    parts = {"whole": pages, "first": pages[::2] + pages[1 : 2 * SHARED : 2], "second": pages[1::2]}
    for name, part in parts.items():
        Corpus(str(folder / name), partitions=16).commit_and_index(part)
    return Halves(*(str(folder / name) for name in ("whole", "first", "second")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Halves:
    return halves(tmp_path_factory.mktemp("halves"))


@pytest.fixture(scope="module")
def many(made: Halves) -> Iterator[FederatedSearch]:
    federation = FederatedSearch(
        [
            LocalBackend(name, Searcher(root))
            for name, root in (("first", made.first), ("second", made.second))
        ]
    )
    yield federation
    federation.close()


def agreement(one: SearchResults, together: SearchResults) -> tuple[int, int]:
    """Return how many of the first ten results agree, and their number.

    Results with the score of the tenth are exchangeable.
    """
    if not one.hits:
        return 0, 0
    best = set(urls(one)[:10])
    tenth = round(one.hits[min(9, len(one.hits) - 1)].score, 3)
    return sum(hit.url in best or round(hit.score, 3) == tenth for hit in together.hits[:10]), len(
        best
    )


def test_suggestions_come_from_all_workspaces(made: Halves, many: FederatedSearch) -> None:
    request = SuggestRequest("spider w", 5)
    one = Searcher(made.whole).suggest(request)
    assert [each.text for each in many.suggest(request)] == [each.text for each in one] != []


def test_spelling_is_corrected_to_a_word_of_the_second_workspace(tmp_path: Path) -> None:
    backends = []
    for name, text in (("first", "A lighthouse by the sea."), ("second", "A spider in its web.")):
        corpus = Corpus(str(tmp_path / name))
        corpus.commit_and_index(
            [(f"http://{name}{n}.test/", page(text, language="en")) for n in range(4)]
        )
        backends.append(LocalBackend(name, Searcher(corpus.root)))
    both = FederatedSearch(backends)
    correction = both.search(SearchRequest("spidre")).did_you_mean
    across = both.search(SearchRequest("spidre", across=Across(()))).did_you_mean
    both.close()
    assert correction is not None
    assert (correction.query, correction.total, across) == ("spider", 4, correction)


def test_two_workspaces_agree_with_one(made: Halves, many: FederatedSearch) -> None:
    searcher, agreed, places = Searcher(made.whole), 0, 0
    for query in queries():
        request = SearchRequest(query)
        one, together = searcher.search(request), many.search(request)
        same, of = agreement(one, together)
        agreed, places = agreed + same, places + of
        assert (together.notes, len(set(urls(together)))) == (one.notes, len(together.hits))
    assert places > 250
    assert agreed >= 0.95 * places


def test_hit_names_its_workspace(many: FederatedSearch, made: Halves) -> None:
    hits = many.search(SearchRequest("web", 40)).hits
    assert Counter(hit.source for hit in hits).keys() == {"first", "second"}
    for hit in hits:
        assert Searcher(made.first if hit.source == "first" else made.second).holds(hit.url)


def test_page_in_both_workspaces_is_returned_once(many: FederatedSearch, made: Halves) -> None:
    shared = [url for url, _ in made_pages()[1 : 2 * SHARED : 2]]
    assert all(
        Searcher(root).holds(url) for root in (made.first, made.second) for url in shared[:3]
    )
    returned = [
        url
        for offset in range(0, 60, 10)
        for url in urls(many.search(SearchRequest("site:host0.test", 10, offset)))
    ]
    assert len(returned) == len(set(returned)) == 30
    assert set(shared) & set(returned)
    whole = Searcher(made.whole).search(SearchRequest("site:host0.test"))
    assert many.search(SearchRequest("site:host0.test")).total == whole.total


def test_two_versions_of_a_page_are_one_result(tmp_path: Path) -> None:
    """Their texts differ, so they are not grouped as copies."""
    for name, text in (
        ("a", "An older spider text."),
        ("b", "A newer spider text, quite another one."),
    ):
        corpus = Corpus(str(tmp_path / name))
        corpus.commit_and_index([("http://x.test/page", page(text, language="en"))])
    both = FederatedSearch(
        [LocalBackend(name, Searcher(str(tmp_path / name))) for name in ("a", "b")]
    )
    results = both.search(SearchRequest("spider"))
    assert (results.total, len(results.hits)) == (1, 1)
    both.close()


def test_facets_and_dates(many: FederatedSearch, made: Halves) -> None:
    request = SearchRequest("silk thread", facets=("language", "host"))
    one, together = Searcher(made.whole).search(request), many.search(request)
    assert together.facets["language"].keys() == one.facets["language"].keys()
    assert sum(together.facets["language"].values()) >= sum(one.facets["language"].values())
    dated = many.search(SearchRequest("spider sort:date", 20)).hits
    times = [hit.published_at if hit.published_at is not None else hit.fetched_at for hit in dated]
    assert times == sorted(times, reverse=True)


def test_paging_is_independent_of_the_page_size(many: FederatedSearch) -> None:
    total = many.search(SearchRequest("web")).total
    by_seven = [
        url
        for offset in range(0, total, 7)
        for url in urls(many.search(SearchRequest("web", 7, offset)))
    ]
    assert by_seven == urls(many.search(SearchRequest("web", total)))
    assert len(by_seven) == total


def test_cross_language_results_of_all_workspaces_are_merged(
    many: FederatedSearch, made: Halves
) -> None:
    results = many.search(SearchRequest("web", 20, across=Across(("en", "de"))))
    assert {hit.source for hit in results.hits} == {"first", "second"}
    assert results.hits[0].score == max(hit.score for hit in results.hits)
    assert len(set(urls(results))) == len(results.hits) == 20


def test_workspaces_without_index(tmp_path: Path, made: Halves) -> None:
    Corpus(str(tmp_path / "empty"))
    both = FederatedSearch(
        [
            LocalBackend("empty", Searcher(str(tmp_path / "empty"))),
            LocalBackend("first", Searcher(made.first)),
        ]
    )
    assert both.search(SearchRequest("web")).total > 0
    assert both.search(SearchRequest("")).notes == ["the query is empty"]
    both.close()
    alone = FederatedSearch([LocalBackend("empty", Searcher(str(tmp_path / "empty")))])
    assert alone.search(SearchRequest("web")).notes == ["no page is indexed yet"]
    alone.close()


_MAPPED = re.compile(r"/index/(\d{8})/(\S+)")


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Disable cyclic garbage collection, which may be rare in a server."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def mapped(root: str) -> dict[int, set[str]]:
    """Return the mapped index files of this process by generation."""
    files: dict[int, set[str]] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        if root in line and (match := _MAPPED.search(line)):
            files.setdefault(int(match[1]), set()).add(match[2])
    return files


def test_replaced_generation_is_released(corpus: Corpus, no_garbage_collection: None) -> None:
    with Indexer(corpus.root, index_settings()) as indexer:
        searcher = None
        for number in range(3):
            corpus.commit(
                [
                    (
                        f"http://alpha.test/{number}",
                        page(f"A garden in spring, the {number}th.", title="Garden", language="en"),
                    )
                ]
            )
            indexer.update()
            searcher = searcher or Searcher(corpus.root)
            searcher.reload()
            assert searcher.search(SearchRequest("garden")).total == number + 1
            searcher.search(SearchRequest("gardem spring"))
            assert searcher.suggest(SuggestRequest("gar"))
        assert searcher is not None
        assert searcher.index is not None
        newest = searcher.index.number
        assert any(name.startswith("suggestions") for name in mapped(corpus.root)[newest])
        # a thread of tantivy keeps files open for up to one second
        until(lambda: set(mapped(corpus.root)) == {newest})


def test_unchanged_suggestion_file_is_not_reopened(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "FRESH_PAGES", 0)
    monkeypatch.setattr(refresh, "REST_MS_A_PAGE", 3_600_000)
    corpus.commit(
        [("http://alpha.test/", page("A garden in spring.", title="Garden", language="en"))]
    )
    with Indexer(corpus.root, index_settings()) as indexer:
        indexer.update()
        searcher = Searcher(corpus.root)
        before = searcher.index
        corpus.commit(
            [
                (
                    "http://alpha.test/house",
                    page("A house by the river.", title="House", language="en"),
                )
            ]
        )
        indexer.update()
        assert searcher.reload()
        after = searcher.index
        assert before is not None
        assert after is not None
        assert after is not before
        assert after.suggest_files[0] is before.suggest_files[0]
        monkeypatch.setattr(refresh, "REST_MS_A_PAGE", 0)
        corpus.commit(
            [("http://alpha.test/sea", page("A ship at sea.", title="Ship", language="en"))]
        )
        indexer.update()
        assert searcher.reload()
        assert [each.text for each in searcher.suggest(SuggestRequest("shi"))] == ["Ship"]
