"""Passages ranked by words and vectors: fusion, filters, failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from lycosa import Workspace
from lycosa.commands.inspection.passages import PassageFinder, PassageRequest
from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.commands.search_models import Passage
from lycosa.config.settings import Collection
from lycosa.core.errors import UsageError
from lycosa.vectors import store
from lycosa.vectors.nearest import near_chunks
from tests.index.corpus import page
from tests.servers.embeddings import EmbeddingServer
from tests.vectors.conftest import Encoded, config_of


def find(corpus: Encoded, query: str, config: Any = None, **options: Any) -> list[Passage]:
    finder = PassageFinder(corpus.root, config=config or config_of())
    return [*finder.find(PassageRequest(query, **options)).passages]


def urls(passages: Iterable[Passage]) -> list[str]:
    return [each.url for each in passages]


def test_vectors_find_passages_without_words_of_the_query(corpus: Encoded) -> None:
    corpus.encode()
    assert find(corpus, "automobile", ranking="keyword") == []
    by_vectors = find(corpus, "automobile", ranking="vector", count=2)
    assert urls(by_vectors) == ["http://b.test/wagen", "http://a.test/car"]
    assert urls(find(corpus, "automobile", count=2)) == urls(by_vectors)


def test_both_rankings_are_fused(corpus: Encoded) -> None:
    corpus.encode()
    finder = PassageFinder(corpus.root, config=config_of())
    result = finder.find(PassageRequest("the car"))
    assert result.ranking == "hybrid"
    first = result.passages[0]
    assert first.url == "http://a.test/car"
    # both rankings have the car first (1 / 61 each)
    assert first.score == pytest.approx(2 / 61, abs=1e-4)
    alone = finder.find(PassageRequest("the car", ranking="keyword"))
    assert (alone.ranking, alone.passages[0].url) == ("keyword", "http://a.test/car")


def test_citations_are_those_of_the_capture(corpus: Encoded) -> None:
    corpus.encode()
    by_words = find(corpus, "car", ranking="keyword")[0]
    by_vectors = find(corpus, "car", ranking="vector", host="a.test")[0]
    assert by_vectors == Passage(**{**vars(by_words), "score": by_vectors.score})


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [
        ("car", {"language": "de"}, ["http://b.test/wagen"]),
        ("car lang:de", {}, ["http://b.test/wagen"]),
        ("car", {"host": "b.test"}, ["http://b.test/wagen"]),
        ("car site:b.test", {}, ["http://b.test/wagen"]),
        ("car -site:a.test", {}, ["http://b.test/wagen"]),
        ("car -road", {"host": "a.test"}, ["http://a.test/moth"]),
        ("car", {"collection": "other"}, []),
        ("car before:2001-01-01", {}, []),
        ("site:a.test", {}, []),
    ],
)
@pytest.mark.parametrize("ranking", ["vector", "hybrid"])
def test_filters_apply_to_vectors(
    corpus: Encoded, query: str, options: dict[str, str], expected: list[str], ranking: str
) -> None:
    corpus.encode()
    config = config_of().model_copy(update={"collection": (Collection(name="other"),)})
    passages = find(corpus, query, config, ranking=ranking, **options)
    assert [each for each in urls(passages) if "moth" not in each or "moth" in str(expected)] == (
        expected
    )


def test_filter_that_matches_only_the_farthest_chunk(
    corpus: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [
        (f"http://c.test/{number}", page(f"The car has number {number}.", language="en"))
        for number in range(60)
    ]
    corpus.commit(many)
    corpus.encode()
    opened = corpus.store
    id_counts: list[int] = []

    def matching(ids: Iterable[str]) -> set[str]:
        id_counts.append(len(list(ids)))
        return {f"{opened.pages['url_key'][0]:016x}"}

    vector = np.asarray(opened.vectors[-1])
    assert [each.place for each in near_chunks(opened, vector, 2, matching)] == [0]
    assert (len(id_counts) > 1, sum(id_counts)) == (True, 63)
    assert urls(find(corpus, "car site:b.test", ranking="vector")) == ["http://b.test/wagen"]
    passages = find(corpus, "car number", ranking="vector", host="c.test", count=40)
    assert sum(1 + each.copies for each in passages) >= 40


def test_near_duplicates_are_grouped(corpus: Encoded) -> None:
    text = "A car with four doors stands in the garage of the house, and it is red."
    corpus.commit(
        [(f"http://{name}.test/", page(text, title="Red", language="en")) for name in "xyz"]
    )
    corpus.encode()
    assert find(corpus, "red car garage", ranking="vector", count=1)[0].copies == 2


def test_passages_fit_the_token_budget(corpus: Encoded) -> None:
    corpus.encode()
    passages = find(corpus, "the car drives", budget=12)
    assert passages
    assert sum(each.tokens for each in passages) <= 12


@pytest.mark.parametrize("max_tokens", [16, 60, 400])
def test_passages_of_another_size_than_the_stored_chunks(corpus: Encoded, max_tokens: int) -> None:
    parts = [f"## Part {word}\n\nThis part is about {word} alone. {word} it is." for word in "abc"]
    parts.append("## Machines\n\nNobody walks where a kereta passes by every day.")
    text = "\n\n".join(parts)
    long_page = page(text, title="Long", language="en")
    long_page.markdown = text
    corpus.commit([("http://d.test/", long_page)])
    config = config_of(chunk_tokens=60)
    corpus.encode(config)
    passages = find(
        corpus, "kereta walks passes", config, ranking="vector", max_tokens=max_tokens, count=1
    )
    assert passages[0].url == "http://d.test/"
    assert passages[0].tokens <= max_tokens
    ids = {
        each.id
        for each in Workspace(corpus.root)
        .texts.chunks("http://d.test/", max_tokens=max_tokens)
        .chunks
    }
    assert passages[0].id in ids


def test_page_changed_after_encoding_is_cited_as_it_was_encoded(corpus: Encoded) -> None:
    corpus.encode()
    old = find(corpus, "automobile", ranking="vector", host="a.test")[0]
    corpus.commit([("http://a.test/car", page("The bicycle is new.", title="Cars", language="en"))])
    corpus.index()
    unchanged = find(corpus, "automobile", ranking="vector", host="a.test")[0]
    assert (unchanged.text, unchanged.fetched_at) == (old.text, old.fetched_at)
    words = find(corpus, "bicycle", ranking="keyword")[0]
    assert words.text == "The bicycle is new."
    both = find(corpus, "bicycle automobile", host="a.test")
    assert "The bicycle is new." in [each.text for each in both]
    assert old.text not in [each.text for each in both if each.fetched_at == words.fetched_at]
    corpus.encode()
    newest = find(corpus, "automobile", ranking="vector", host="a.test")
    assert old.text not in [each.text for each in newest]


def test_removed_and_excluded_pages_are_not_found(corpus: Encoded) -> None:
    corpus.encode()
    corpus.commit(states=[("http://a.test/car", "gone")])
    corpus.index()  # the vectors are older than the index
    assert urls(find(corpus, "automobile", ranking="vector")) == [
        "http://b.test/wagen",
        "http://a.test/moth",
    ]
    exclude_and_purge(corpus.root, config_of(), ["host:b.test"], remove=False)
    assert urls(find(corpus, "automobile", ranking="vector")) == ["http://a.test/moth"]


@pytest.mark.proves("access-encoder-responses")
@pytest.mark.parametrize(
    ("status", "body", "delay_s", "problem"),
    [
        (500, b"broken", 0.0, "HTTP 500: broken"),
        (200, b"{", 0.0, "no embeddings"),
        (200, b'{"data": [{"index": 0, "embedding": [1.0]}]}', 0.0, "1 dimensions"),
        (500, b"", 0.5, "did not respond in time"),
    ],
)
def test_without_the_encoder_passages_are_found_by_words(
    corpus: Encoded, api: EmbeddingServer, status: int, body: bytes, delay_s: float, problem: str
) -> None:
    config = config_of(api.url, model="m", query_timeout="200ms")
    corpus.encode(config)
    api.replies, api.sticky, api.delay_s = [(status, body, ())], True, delay_s
    finder = PassageFinder(corpus.root, config=config)
    requests = len(api.requests)
    for _ in range(2):  # the second does not wait for the API
        result = finder.find(PassageRequest("car"))
        assert (result.ranking, urls(result.passages)[0]) == ("keyword", "http://a.test/car")
        assert "by words only" in result.notes[-1]
        assert problem in result.notes[-1]
    assert len(api.requests) == requests + 1
    assert finder.encoder_failures == 2


def test_missing_or_changed_encoder_falls_back_to_words(corpus: Encoded) -> None:
    corpus.encode()
    for config, problem in (
        (config_of("tests.absent:x"), "tests.absent"),
        (config_of(model="other"), "run `lycosa index`"),
    ):
        result = PassageFinder(corpus.root, config=config).find(PassageRequest("car"))
        assert result.passages
        assert problem in result.notes[-1]


def test_note_before_any_chunk_is_encoded(corpus: Encoded) -> None:
    corpus.index()
    result = PassageFinder(corpus.root, config=config_of()).find(PassageRequest("car"))
    assert urls(result.passages) == ["http://a.test/car"]
    assert "no chunk has been encoded yet" in result.notes[-1]
    corpus.encode()
    assert find(corpus, "automobile")


@pytest.mark.parametrize("ranking", ["vector", "hybrid"])
def test_vector_ranking_without_encoder_is_an_error(corpus: Encoded, ranking: str) -> None:
    corpus.index()
    with pytest.raises(UsageError, match=r"encoder\.source"):
        find(corpus, "car", config_of(""), ranking=ranking)
    with pytest.raises(UsageError, match="unknown ranking"):
        PassageRequest("car", ranking="magic")


def test_open_finder_uses_new_vectors(corpus: Encoded) -> None:
    corpus.encode()
    finder = PassageFinder(corpus.root, config=config_of())
    request = PassageRequest("automobile", ranking="vector", count=5)
    assert len(finder.find(request).passages) == 3
    corpus.commit([("http://n.test/", page("A vehicle for two.", language="en"))])
    corpus.encode()
    assert "http://n.test/" in urls(finder.find(request).passages)


def test_cross_language_search_uses_vectors(corpus: Encoded, api: EmbeddingServer) -> None:
    corpus.encode(config_of(api.url, model="m", query_timeout="1s"))
    workspace = Workspace(corpus.root, settings={"encoder.source": api.url, "encoder.model": "m"})
    hits = [each.url for each in workspace.search("automobile", across=[""]).hits]
    assert set(hits[:2]) == {"http://a.test/car", "http://b.test/wagen"}
    only = workspace.search("automobile site:b.test", across=[""]).hits
    assert [each.url for each in only] == ["http://b.test/wagen"]
    api.replies, api.sticky = [(500, b"broken", ())], True
    answer = workspace.search("vehicle car", across=[""])
    assert answer.hits[0].url == "http://a.test/car"
    assert "HTTP 500" in answer.notes[-1]


def test_graph_search_agrees_with_exact_search(
    corpus: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("usearch")
    monkeypatch.setattr(store, "EXACT_CHUNKS", 100)
    config = config_of("tests.vectors.encoders:scattered")
    page_urls = [f"http://g.test/{number}" for number in range(400)]
    pages = [
        (url, page(f"Topic {number % 10} has number {number}", language="en"))
        for number, url in enumerate(page_urls)
    ]
    corpus.commit(pages[:300])
    corpus.encode(config)
    assert (corpus.store.path / store.GRAPH).is_file()
    corpus.commit(pages[300:], states=[(page_urls[7], "gone")])
    report = corpus.encode(config).vectors
    assert report is not None
    assert (report.encoded, report.removed, report.chunks) == (100, 1, 402)
    opened = corpus.store
    agreed = 0
    for row in range(0, 400, 10):
        vector = np.asarray(opened.vectors[row])
        by_graph = opened.nearest(vector, 10)
        exact = np.argsort(-(opened.vectors @ vector), kind="stable")[:10]
        assert by_graph[0] == row
        agreed += len(set(by_graph.tolist()) & set(exact.tolist()))
    assert agreed >= 0.9 * 400
    for number, expected in ((7, False), (333, True)):
        best = find(corpus, f"Topic {number % 10} has number {number}", config, ranking="vector")
        assert (urls(best)[0] == page_urls[number]) == expected
