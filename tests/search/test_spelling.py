"""Did you mean: slips in any script, words in two and in one, and what is left alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lycosa.cluster.engines.local import LocalEngine
from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.federation.replica_supervisor import ReplicaSupervisor
from lycosa.search.federation.sharded_search import ShardedSearch
from tests.cli.conftest import run
from tests.index.corpus import Corpus, page

TEXTS = {
    "en": "The database server keeps a configuration for every asynchronous tarantula",
    "de": "Der Zwischenspeicher der Datenbank",
    "ru": "Настройка сервера и установка системы",
    "ar": "إعداد الخادم والمستخدم",
    "hi": "विन्यास फ़ाइल का उपयोगकर्ता",
    "ko": "설치프로그램 설정하고",
    "zh": "安装程序的配置",
}
SHARDS = 2


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    corpus = Corpus(str(tmp_path_factory.mktemp("spelling") / "w"))
    corpus.commit(
        (f"http://{language}{n}.test/", page(f"{text}. {n}", language=language))
        for language, text in TEXTS.items()
        for n in range(6)
    )
    corpus.commit([("http://rare.test/", page("A tarantella once.", language="en"))])
    with Indexer(
        corpus.root, IndexSettings.model_validate({"heap": "15MiB", "shards": SHARDS})
    ) as indexer:
        indexer.update()
    return corpus.root


@pytest.fixture(scope="module")
def searcher(root: str) -> Searcher:
    return Searcher(root)


def meant(searcher: Searcher | ShardedSearch, text: str, **more: object) -> str:
    spelling = searcher.search(SearchRequest(text, **more)).did_you_mean  # type: ignore[arg-type]
    return "" if spelling is None else spelling.query


MISSPELLINGS = [
    ("tarantla", "tarantula"), ("tarnatula", "tarantula"), ("configuraton", "configuration"), ("asynchronuos", "asynchronous"),
    ("Zwischenspeichr", "zwischenspeicher"), ("настойка", "настройка"), ("сервреа", "сервера"), ("المستخدمم", "والمستخدم"),
    ("विन्यसा", "विन्यास"), ("설치프로그렘", "설치프로그램"), ("설치포로그램", "설치프로그램"), ("安装陈序", "安装程序"),
    ("data base", "database"), ("databaseserver", "database server"), ("configuraton tarantla", "configuration tarantula"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "expected"), MISSPELLINGS)
def test_misspelled_words(searcher: Searcher, typed: str, expected: str) -> None:
    spelling = searcher.search(SearchRequest(typed)).did_you_mean
    assert spelling is not None
    assert spelling.query == expected
    assert spelling.total == searcher.search(SearchRequest(expected)).total >= 6


@pytest.mark.parametrize(
    "typed",
    [
        "tarantula",
        "tarantella",
        "安装程序",
        "सर्वर",
        "x",
        "",
        "12345",
        "site:en1.test",
        "http://nowhere.test/zzzz",
    ],
)
def test_what_is_right_or_like_nothing_is_left_alone(searcher: Searcher, typed: str) -> None:
    assert meant(searcher, typed) == ""


def test_the_rest_of_the_query_stays(searcher: Searcher) -> None:
    assert meant(searcher, "site:en1.test tarantla") == "site:en1.test tarantula"
    assert meant(searcher, '"databse server" -tarantula') == ""  # nothing is without it
    assert meant(searcher, '"databse server" -nothing') == '"database server" -nothing'
    assert meant(searcher, "intitle:tarantla") == ""  # no title holds it


def test_off_and_on_later_pages_nothing_is_said(searcher: Searcher) -> None:
    assert meant(searcher, "tarantla", spelling=False) == ""
    assert meant(searcher, "tarantla", offset=10) == ""


def test_a_named_language_decides(searcher: Searcher) -> None:
    assert meant(searcher, "databank", language="de") == "datenbank"


def test_replicas_say_the_same(root: str, searcher: Searcher) -> None:
    for federation in federations(root):
        for typed, expected in MISSPELLINGS:
            assert meant(federation, typed) == expected


def federations(root: str) -> Iterator[ShardedSearch]:
    with LocalEngine() as engine:
        keeper = ReplicaSupervisor(engine, root, 1)
        federation = ShardedSearch(keeper.replicas, call_timeout_s=20, deadline_s=40)
        try:
            assert keeper.wait(60)
            yield federation
        finally:
            federation.close()
            keeper.close()


def test_the_command_says_so(root: str) -> None:
    messages = run("-w", root, "search", "-n", "2", "databse", "server")
    assert "Did you mean: database server (6)" in messages.err
    assert json.loads(run("-w", root, "search", "--json", "databse").out)["did_you_mean"] == {
        "query": "database",
        "total": 6,
    }
    assert (
        json.loads(run("-w", root, "search", "--json", "--no-spelling", "databse").out)[
            "did_you_mean"
        ]
        is None
    )
    assert "more from this site: site:" not in messages.out
