"""Pages like a page: those that share its words, in its language, without its copies; in shards as
in one index.
"""

from __future__ import annotations

import random

import pytest

from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.ranking import ordering
from lycosa.search.ranking.similar import similar_query
from lycosa.text.digest import text_digest
from tests.index.corpus import Corpus, page

TOPICS = {
    "spiders": "web silk fang burrow venom spinneret molt prey thread cocoon",
    "bread": "flour yeast oven crust dough knead bake loaf rye salt",
    "ships": "mast sail keel anchor harbour rudder deck hull tide crew",
}
COMMON = "the of and with for this that from one many"


@pytest.fixture(scope="module", params=[1, 3])
def searcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    corpus = Corpus(str(tmp_path_factory.mktemp("similar") / "w"))
    chance = random.Random(4)
    pages = []
    for topic, words in TOPICS.items():
        for number in range(12):
            text = " ".join(
                chance.choices(words.split(), k=12) + chance.choices(COMMON.split(), k=30)
            )
            pages.append(
                (
                    f"http://{topic}{number}.test/",
                    page(text, language="en", text_digest=text_digest(text)),
                )
            )
            if number == 0:
                pages.append(
                    (
                        f"http://copy.test/{topic}",
                        page(text, language="en", text_digest=text_digest(text)),
                    )
                )
    pages.append(("http://deutsch.test/", page("web silk fang burrow venom", language="de")))
    corpus.commit(pages)
    with Indexer(
        corpus.root, IndexSettings.model_validate({"heap": "15MiB", "shards": request.param})
    ) as indexer:
        indexer.update()
    return Searcher(corpus.root)


@pytest.mark.parametrize("topic", list(TOPICS))
def test_pages_of_the_same_topic(searcher: Searcher, topic: str) -> None:
    matches = searcher.search(SearchRequest(f"similar:http://{topic}0.test/", count=8))
    assert matches.notes == []
    assert all(hit.url.startswith(f"http://{topic}") for hit in matches.hits)
    assert len(matches.hits) == 8
    assert f"http://{topic}0.test/" not in {hit.url for hit in matches.hits}


def test_its_copies_and_other_languages_are_left_out(searcher: Searcher) -> None:
    everything = searcher.search(SearchRequest("similar:spiders0.test", count=50))
    urls = {hit.url for hit in everything.hits}
    assert "http://copy.test/spiders" not in urls
    assert "http://deutsch.test/" not in urls
    assert everything.total == len(urls)


def test_pages_that_are_left_out_do_not_end_the_search(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "WINDOW", 2)
    assert len(searcher.search(SearchRequest("similar:http://spiders0.test/", count=8)).hits) == 8


def test_more_words_narrow_it(searcher: Searcher) -> None:
    matches = searcher.search(SearchRequest("similar:http://spiders0.test/ venom", count=50))
    assert 0 < matches.total < 13
    assert all(any("venom" in text for text, match in hit.snippet if match) for hit in matches.hits)
    assert (
        searcher.search(SearchRequest("similar:http://spiders0.test/ site:bread3.test")).total == 0
    )


@pytest.mark.parametrize(
    "address", ["http://nowhere.test/", "http://spiders0.test/%22", "spiders0.test/none", 'a"b']
)
def test_a_page_that_is_not_there(searcher: Searcher, address: str) -> None:
    matches = searcher.search(SearchRequest(similar_query(address)))
    assert matches.total == 0 or "was searched for as words" in matches.notes[0]
    assert matches.notes


def test_explained(searcher: Searcher) -> None:
    (hit, *_) = searcher.search(SearchRequest("similar:http://ships1.test/", explain=True)).hits
    assert hit.explanation is not None
    assert (
        abs(hit.explanation.words * hit.explanation.prior * hit.explanation.freshness - hit.score)
        < 0.01 * hit.score
    )
    assert hit.explanation.parts
