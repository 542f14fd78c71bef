"""What is suggested to who types: any script, case and accents aside, of one index and of several
shards alike.
"""

from __future__ import annotations

import pytest

from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher
from lycosa.search.suggest.completion import SuggestRequest
from tests.index.corpus import Corpus, page

TITLES = [
    ("Événements de la Saison", "fr"),
    ("Événement unique", "fr"),
    ("Wolf spiders of Europe", "en"),
    ("The wolf and the lamb", "en"),
    ("Wolfsspinnen", "de"),
    ("Тарантулы Сибири", "ru"),
    ("한국의 거미", "ko"),
    ("蜘蛛的生活", "zh"),
    ("घास की मकड़ी", "hi"),
    ("العناكب الذئبية", "ar"),
]


@pytest.fixture(scope="module", params=[1, 3])
def searcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    corpus = Corpus(str(tmp_path_factory.mktemp("suggest") / "w"))
    pages = [
        (f"http://h{n}.test/{n}", page("", title=title, language=language))
        for n, (title, language) in enumerate(TITLES)
    ]
    burrow = page("A burrow near the river and a trapdoor.", title="", language="en")
    corpus.commit([*pages, *((f"http://b{n}.test/", burrow) for n in range(5))])
    with Indexer(
        corpus.root, IndexSettings.model_validate({"heap": "15MiB", "shards": request.param})
    ) as indexer:
        indexer.update()
    return Searcher(corpus.root)


def texts(searcher: Searcher, typed: str, language: str = "", count: int = 10) -> list[str]:
    return [matches.text for matches in searcher.suggest(SuggestRequest(typed, count, language))]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("evenem", "Événement unique"),
        ("SAIS", "Événements de la Saison"),
        ("wolf sp", "Wolf spiders of Europe"),
        ("lam", "The wolf and the lamb"),
        ("тарант", "Тарантулы Сибири"),
        ("сиб", "Тарантулы Сибири"),
        ("한구", "한국의 거미"),
        ("하", "한국의 거미"),
        ("거", "한국의 거미"),
        ("生活", "蜘蛛的生活"),
        ("मक", "घास की मकड़ी"),
        ("العن", "العناكب الذئبية"),
        ("  Wolfs", "Wolfsspinnen"),
    ],
)
def test_by_the_beginning_of_any_word(searcher: Searcher, typed: str, expected: str) -> None:
    assert expected in texts(searcher, typed)


def test_only_a_languages(searcher: Searcher) -> None:
    assert (texts(searcher, "wolf", "de"), texts(searcher, "wolf", "ja")) == (["Wolfsspinnen"], [])


def test_what_begins_with_it_stands_first(searcher: Searcher) -> None:
    matches = texts(searcher, "wolf")
    assert matches.index("Wolf spiders of Europe") < matches.index("The wolf and the lamb")


@pytest.mark.parametrize("typed", ["", "   ", "\x00", "\ud800", "*" * 5_000, "site:", '"', "zzzz"])
def test_nothing_to_suggest_is_no_error(searcher: Searcher, typed: str) -> None:
    assert texts(searcher, typed) == []


def test_the_last_word_goes_on_as_far_as_pages_hold_it(searcher: Searcher) -> None:
    assert texts(searcher, "river trap") == ["river trapdoor"]
    assert (texts(searcher, "tarantula trap"), len(texts(searcher, "w", count=2))) == ([], 2)


def test_nothing_is_indexed(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert texts(Searcher(Corpus(str(tmp_path_factory.mktemp("none") / "w")).root), "wolf") == []
