"""Suggestions, spelling corrections and snippets, in any script."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.cluster.engines.local import LocalEngine
from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.federation.replica import ReplicaSupervisor
from lycosa.search.federation.sharded_search import ShardedSearch
from lycosa.search.presentation.snippet import LENGTH, Highlighter, Snippet
from lycosa.search.query.query import parse_query
from lycosa.search.query.reading import read
from lycosa.search.suggest.completion import SuggestRequest
from lycosa.text.analyze import analyzer_for
from tests.cli.conftest import run
from tests.index.corpus import Corpus, page
from tests.text.data import declaration, declaration_languages

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
def speller(root: str) -> Searcher:
    return Searcher(root)


def meant(speller: Searcher | ShardedSearch, text: str, **more: object) -> str:
    spelling = speller.search(SearchRequest(text, **more)).did_you_mean  # type: ignore[arg-type]
    return "" if spelling is None else spelling.query


MISSPELLINGS = [
    ("tarantla", "tarantula"), ("tarnatula", "tarantula"), ("configuraton", "configuration"), ("asynchronuos", "asynchronous"),
    ("Zwischenspeichr", "zwischenspeicher"), ("настойка", "настройка"), ("сервреа", "сервера"), ("المستخدمم", "والمستخدم"),
    ("विन्यसा", "विन्यास"), ("설치프로그렘", "설치프로그램"), ("설치포로그램", "설치프로그램"), ("安装陈序", "安装程序"),
    ("data base", "database"), ("databaseserver", "database server"), ("configuraton tarantla", "configuration tarantula"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "expected"), MISSPELLINGS)
def test_misspelled_words(speller: Searcher, typed: str, expected: str) -> None:
    spelling = speller.search(SearchRequest(typed)).did_you_mean
    assert spelling is not None
    assert spelling.query == expected
    assert spelling.total == speller.search(SearchRequest(expected)).total >= 6


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
def test_what_is_right_or_like_nothing_is_left_alone(speller: Searcher, typed: str) -> None:
    assert meant(speller, typed) == ""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("site:en1.test tarantla", "site:en1.test tarantula"),
        ('"databse server" -tarantula', ""),  # nothing is without it
        ('"databse server" -nothing', '"database server" -nothing'),
        ("intitle:tarantla", ""),  # no title holds it
    ],
)
def test_the_rest_of_the_query_stays(speller: Searcher, typed: str, expected: str) -> None:
    assert meant(speller, typed) == expected


def test_off_and_on_later_pages_nothing_is_said(speller: Searcher) -> None:
    assert meant(speller, "tarantla", spelling=False) == ""
    assert meant(speller, "tarantla", offset=10) == ""


def test_a_named_language_decides(speller: Searcher) -> None:
    assert meant(speller, "databank", language="de") == "datenbank"


def test_replicas_say_the_same(root: str, speller: Searcher) -> None:
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


def highlighter(language: str, query: str) -> Highlighter:
    (reading,) = read(parse_query(query), [language])
    return Highlighter(analyzer_for(language), reading.units)


def shown(snippet: Snippet) -> str:
    return "".join(f"[{text}]" if match else text for text, match in snippet)


@pytest.mark.parametrize(
    ("language", "query", "text", "marked"),
    [
        (
            "en",
            "running",
            "He runs, she ran; (running) is fun.",
            "He [runs], she ran; ([running]) is fun.",
        ),
        ("en", "cafe", "A Café and a CAFÉ.", "A [Café] and a [CAFÉ]."),
        (
            "en",
            '"event loop"',
            "An event, a loop and an event loop.",
            "An event, a loop and an [event loop].",
        ),
        (
            "en",
            "state-of-the-art",
            "the state of the art of the state",
            "the [state of the art] of the state",
        ),
        ("en", "don't", "I don't and I don’t.", "I [don't] and I [don’t]."),
        ("en", "c++", "C, C++ and c++.", "C, [C++] and [c++.]"),
        ("en", "asyncio run", "call asyncio.run(main())", "call [asyncio].[run](main())"),
        ("en", "finance", "ﬁnance and ＦＩＮＡＮＣＥ", "[ﬁnance] and [ＦＩＮＡＮＣＥ]"),
        ("de", "strasse häuser", "Straße mit Haus", "[Straße] mit [Haus]"),
        ("fr", "ecole", "L’école", "L’[école]"),
        ("ru", "книга", "Книги и книгами.", "[Книги] и [книгами]."),
        ("tr", "istanbul", "İSTANBUL’da", "[İSTANBUL]’da"),
        ("zh", "人权", "这是人权问题。人 权", "这是[人权]问题。人 权"),
        ("zh", "北京 Python", "在北京用 python 编程", "在[北京]用 [python] 编程"),
        ("ja", "人権", "基本的人権の尊重", "基本的[人権]の尊重"),
        ("ko", "인간", "모든 인간은 자유", "모든 [인간은] 자유"),
        ("lo", "ສິດ", "ທຸກຄົນມີສິດ.", "ທຸກຄົນມີ[ສິດ]."),
        ("bo", "ལེགས", "བཀྲ་ཤིས་བདེ་ལེགས།", "བཀྲ་ཤིས་བདེ་[ལེགས]།"),
        ("ar", "كتاب", "هذا الكتاب كِتَاب", "هذا [الكتاب] [كِتَاب]"),
        ("hi", "भाषा", "भाषाओं में हिन्दी", "[भाषाओं] में हिन्दी"),
        ("id", "membaca", "pembacaan buku", "[pembacaan] buku"),
        ("id", "menulis", "Ia menulis; penulis itu.", "Ia [menulis]; [penulis] itu."),
        ("ko", "cafe 인간", "서울 Café, 인간은 CAFÉ", "서울 [Café], [인간은] [CAFÉ]"),
        ("vi", "nguoi", "Người và người ta 中文", "[Người] và [người] ta 中文"),
        ("en", "absent", "nothing to see", "nothing to see"),
        ("", "cafe", "Café", "[Café]"),
    ],
)
def test_marks(language: str, query: str, text: str, marked: str) -> None:
    assert shown(highlighter(language, query).mark(text)) == marked


def test_the_window_with_most_of_the_words_is_shown() -> None:
    text = (
        "Apple here. "
        + "Nothing here at all. " * 60
        + "An apple beside a pear and a plum. "
        + "Nothing more. " * 60
    )
    snippet = shown(highlighter("en", "apple pear plum").snippet([text]))
    assert "An [apple] beside a [pear] and a [plum]." in snippet
    assert snippet.startswith("…")
    assert snippet.endswith("…")


def test_a_snippet_begins_with_its_sentence() -> None:
    text = "First sentence of it. " * 20 + "Here the zebra stands. " + "Last sentence of it. " * 20
    assert shown(highlighter("en", "zebra").snippet([text])).startswith("…Here the [zebra] stands.")


def test_the_next_text_is_taken_if_the_first_has_no_match() -> None:
    lighter = highlighter("en", "imprint")
    assert (
        shown(lighter.snippet(["A long article.", "Home\nImprint"], "described"))
        == "Home [Imprint]"
    )
    assert shown(lighter.snippet(["A long article.", "Home"], "described")) == "described"
    assert shown(lighter.snippet(["A long article.", "Home"])) == "A long article."
    assert shown(lighter.snippet([], "")) == ""


@pytest.mark.parametrize("stem", declaration_languages())
def test_snippets_are_pieces_of_the_text(stem: str) -> None:
    """In every language: not longer than said, nothing invented, and the words of the query
    marked.
    """
    language = stem.split("-")[0]
    text = "\n".join(declaration(stem).values())
    lighter = highlighter(language, " ".join(declaration(stem)[20].split("\n")[0].split()[:2])[:40])
    snippet = lighter.snippet([text])
    plain = "".join(piece for piece, _ in snippet).strip("…")
    assert plain.rstrip() in text.replace("\n", " ")
    assert len(plain) <= LENGTH + 1
    assert any(match for _, match in snippet)


@given(
    text=st.text(max_size=300),
    query=st.text(min_size=1, max_size=20),
    language=st.sampled_from(["en", "zh", "ko", "ar", "th", "", "de"]),
)
@settings(max_examples=150)
def test_marking_changes_no_character(text: str, query: str, language: str) -> None:
    marked = highlighter(language, query).mark(text)
    assert "".join(piece for piece, _ in marked) == text.replace("\n", " ")


@pytest.mark.parametrize(
    "text", ["word " * 400_000, "x" * 2_000_000, "人" * 500_000, "a-" * 200_000]
)
@pytest.mark.parametrize("language", ["en", "zh", "id"])
def test_large_texts_are_not_read_to_the_end(text: str, language: str) -> None:
    start = time.process_time()
    highlighter(language, "absent 没有").snippet([text])
    assert time.process_time() - start < 1.0
