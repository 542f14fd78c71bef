"""Several workspaces searched as one index of all of them, and readers that release what they replace."""

from __future__ import annotations

import gc
import itertools
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
from tests.waiting import until


@dataclass(slots=True, frozen=True)
class Halves:
    """The same pages in one workspace and in two; `SHARED` pages of the second are in both."""

    whole: str
    first: str
    second: str


SHARED = 30


def halves(folder: Path) -> Halves:
    """By the pages' own order: every second page of a host is elsewhere."""
    pages = made_pages()
    parts = {"whole": pages, "first": pages[::2] + pages[1 : 2 * SHARED : 2], "second": pages[1::2]}
    for name, listed in parts.items():
        Corpus(str(folder / name), partitions=16).commit_and_index(listed)
    return Halves(*(str(folder / name) for name in ("whole", "first", "second")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Halves:
    return halves(tmp_path_factory.mktemp("halves"))


@pytest.fixture(scope="module")
def many(made: Halves) -> Iterator[FederatedSearch]:
    matches = FederatedSearch(
        [
            LocalBackend(name, Searcher(root))
            for name, root in (("first", made.first), ("second", made.second))
        ]
    )
    yield matches
    matches.close()


def urls(results: SearchResults) -> list[str]:
    return [hit.url for hit in results.hits]


def agreement(one: SearchResults, together: SearchResults) -> tuple[int, int]:
    """How many of the first ten of one index are among those of many (what counts as much as its
    tenth is equal to it), and of how many.
    """
    if not one.hits:
        return 0, 0
    best = set(urls(one)[:10])
    tenth = round(one.hits[min(9, len(one.hits) - 1)].score, 3)
    return sum(hit.url in best or round(hit.score, 3) == tenth for hit in together.hits[:10]), len(
        best
    )


def test_suggestions_are_those_of_all_workspaces(made: Halves, many: FederatedSearch) -> None:
    one = Searcher(made.whole).suggest(SuggestRequest("spider w", 5))
    assert (
        [matches.text for matches in many.suggest(SuggestRequest("spider w", 5))]
        == [matches.text for matches in one]
        != []
    )


def test_another_spelling_of_a_word_that_only_the_second_workspace_holds(tmp_path: Path) -> None:
    sides = []
    for name, text in (("first", "A lighthouse by the sea."), ("second", "A spider in its web.")):
        corpus = Corpus(str(tmp_path / name))
        corpus.commit_and_index(
            [(f"http://{name}{n}.test/", page(text, language="en")) for n in range(4)]
        )
        sides.append(LocalBackend(name, Searcher(corpus.root)))
    both = FederatedSearch(sides)
    meant = both.search(SearchRequest("spidre")).did_you_mean
    across = both.search(SearchRequest("spidre", across=Across(()))).did_you_mean
    both.close()
    assert meant is not None
    assert (meant.query, meant.total, across) == ("spider", 4, meant)


def test_two_workspaces_answer_as_one(made: Halves, many: FederatedSearch) -> None:
    searcher, agreed, places = Searcher(made.whole), 0, 0
    for query in queries():
        request = SearchRequest(query)
        one, together = searcher.search(request), many.search(request)
        same, of = agreement(one, together)
        agreed, places = agreed + same, places + of
        assert (together.notes, len(set(urls(together)))) == (one.notes, len(together.hits))
    assert places > 250
    assert agreed >= 0.95 * places


def test_each_hit_says_where_it_is_from(many: FederatedSearch, made: Halves) -> None:
    hits = many.search(SearchRequest("web", 40)).hits
    assert Counter(hit.source for hit in hits).keys() == {"first", "second"}
    for hit in hits:
        assert Searcher(made.first if hit.source == "first" else made.second).holds(hit.url)


def test_a_page_that_both_have_is_shown_once(many: FederatedSearch, made: Halves) -> None:
    shared = [url for url, _ in made_pages()[1 : 2 * SHARED : 2]]
    assert all(
        Searcher(root).holds(url) for root in (made.first, made.second) for url in shared[:3]
    )
    matches = list(
        itertools.chain.from_iterable(
            urls(many.search(SearchRequest("site:host0.test", 10, offset)))
            for offset in range(0, 60, 10)
        )
    )
    assert len(matches) == len(set(matches)) == 30
    assert set(shared) & set(matches)
    whole = Searcher(made.whole).search(SearchRequest("site:host0.test"))
    assert many.search(SearchRequest("site:host0.test")).total == whole.total


def test_the_same_page_of_two_days_is_one_page(tmp_path: Path) -> None:
    """With other texts, and so of no group of copies."""
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


def test_pages_of_results_come_from_one_order(many: FederatedSearch) -> None:
    total = many.search(SearchRequest("web")).total
    by_seven = list(
        itertools.chain.from_iterable(
            urls(many.search(SearchRequest("web", 7, offset))) for offset in range(0, total, 7)
        )
    )
    assert by_seven == urls(many.search(SearchRequest("web", total)))
    assert len(by_seven) == total


def test_across_languages_lists_are_joined(many: FederatedSearch, made: Halves) -> None:
    results = many.search(SearchRequest("web", 20, across=Across(("en", "de"))))
    assert {hit.source for hit in results.hits} == {"first", "second"}
    assert results.hits[0].score == max(hit.score for hit in results.hits)
    assert len(set(urls(results))) == len(results.hits) == 20


def test_nothing_and_half_of_nothing(tmp_path: Path, made: Halves) -> None:
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
def uncollected() -> Iterator[None]:
    """Without the collector of cycles: it comes by when a server has made very many objects, and
    that may be an hour.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def mapped(root: str) -> dict[int, set[str]]:
    """The files of each generation that this process has mapped, by the kernel's word."""
    matches: dict[int, set[str]] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        if root in line and (match := _MAPPED.search(line)):
            matches.setdefault(int(match[1]), set()).add(match[2])
    return matches


def test_a_generation_that_was_replaced_is_not_held(corpus: Corpus, uncollected: None) -> None:
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
        assert any(
            name.startswith("suggestions") for name in mapped(corpus.root)[searcher.generation]
        )
        # a thread of tantivy looks once more, within a second, at what it has opened
        until(lambda: set(mapped(corpus.root)) == {searcher.generation})


def test_suggestions_that_rest_stay_open(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert [matches.text for matches in searcher.suggest(SuggestRequest("shi"))] == ["Ship"]
