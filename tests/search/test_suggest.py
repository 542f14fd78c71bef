"""Suggestions, spelling corrections and snippets, in any script."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.cluster.engines.local import LocalEngine
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.federation.replica import ReplicaSupervisor
from lycosa.search.federation.sharded_search import ShardedSearch
from lycosa.search.presentation.snippet import LENGTH, WIDE_LENGTH, Highlighter, Snippet
from lycosa.search.query.query import parse_query
from lycosa.search.query.reading import read
from lycosa.search.suggest.completion import SuggestRequest
from lycosa.text.analyze import analyzer_for
from tests.cli.conftest import run_here
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
    corpus.commit_and_index(
        [*pages, *((f"http://b{n}.test/", burrow) for n in range(5))], shards=request.param
    )
    return Searcher(corpus.root)


def texts(searcher: Searcher, typed: str, language: str = "", count: int = 10) -> list[str]:
    return [each.text for each in searcher.suggest(SuggestRequest(typed, count, language))]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("evenem", "Événement unique"),
        ("الذئبيه", "العناكب الذئبية"),
        ("मकडी", "घास की मकड़ी"),
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
def test_suggestions_by_prefix_of_any_word(searcher: Searcher, typed: str, expected: str) -> None:
    assert expected in texts(searcher, typed)


def test_suggestions_of_one_language(searcher: Searcher) -> None:
    assert (texts(searcher, "wolf", "de"), texts(searcher, "wolf", "ja")) == (["Wolfsspinnen"], [])


def test_titles_with_the_prefix_rank_first(searcher: Searcher) -> None:
    matches = texts(searcher, "wolf")
    assert matches.index("Wolf spiders of Europe") < matches.index("The wolf and the lamb")


@pytest.mark.parametrize("typed", ["", "   ", "\x00", "\ud800", "*" * 5_000, "site:", '"', "zzzz"])
def test_no_suggestions(searcher: Searcher, typed: str) -> None:
    assert texts(searcher, typed) == []


def test_last_word_is_completed_to_words_of_pages_with_the_others(searcher: Searcher) -> None:
    assert texts(searcher, "river trap") == ["river trapdoor"]
    assert (texts(searcher, "tarantula trap"), len(texts(searcher, "w", count=2))) == ([], 2)


def test_no_suggestions_without_index(tmp_path_factory: pytest.TempPathFactory) -> None:
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


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    corpus = Corpus(str(tmp_path_factory.mktemp("spelling") / "w"))
    corpus.commit(
        (f"http://{language}{n}.test/", page(f"{text}. {n}", language=language))
        for language, text in TEXTS.items()
        for n in range(6)
    )
    corpus.commit_and_index(
        [("http://rare.test/", page("A tarantella and a nut once.", language="en"))], shards=2
    )
    return corpus.root


@pytest.fixture(scope="module")
def spelling_searcher(root: str) -> Searcher:
    return Searcher(root)


def correction(spelling_searcher: Searcher | ShardedSearch, text: str, **more: object) -> str:
    spelling = spelling_searcher.search(SearchRequest(text, **more)).did_you_mean  # type: ignore[arg-type]
    return "" if spelling is None else spelling.query


MISSPELLINGS = [
    ("tarantla", "tarantula"), ("tarnatula", "tarantula"), ("configuraton", "configuration"), ("asynchronuos", "asynchronous"),
    ("Zwischenspeichr", "zwischenspeicher"), ("настойка", "настройка"), ("сервреа", "сервера"), ("المستخدمم", "والمستخدم"),
    ("विन्यसा", "विन्यास"), ("설치프로그렘", "설치프로그램"), ("설치포로그램", "설치프로그램"), ("安装陈序", "安装程序"),
    ("data base", "database"), ("databaseserver", "database server"), ("configuraton tarantla", "configuration tarantula"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "expected"), MISSPELLINGS)
def test_misspelled_words_are_corrected(
    spelling_searcher: Searcher, typed: str, expected: str
) -> None:
    spelling = spelling_searcher.search(SearchRequest(typed)).did_you_mean
    assert spelling is not None
    assert spelling.query == expected
    assert spelling.total == spelling_searcher.search(SearchRequest(expected)).total >= 6


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
        ".NET",
    ],
)
def test_correct_and_unknown_words_are_not_corrected(
    spelling_searcher: Searcher, typed: str
) -> None:
    assert correction(spelling_searcher, typed) == ""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("site:en1.test tarantla", "site:en1.test tarantula"),
        ('"databse server" -tarantula', ""),  # the correction has no results
        ('"databse server" -nothing', '"database server" -nothing'),
        ("intitle:tarantla", ""),  # no title contains the word
    ],
)
def test_correction_keeps_the_rest_of_the_query(
    spelling_searcher: Searcher, typed: str, expected: str
) -> None:
    assert correction(spelling_searcher, typed) == expected


def test_no_correction_when_disabled_and_on_later_pages(spelling_searcher: Searcher) -> None:
    assert correction(spelling_searcher, "tarantla", spelling=False) == ""
    assert correction(spelling_searcher, "tarantla", offset=10) == ""


def test_correction_uses_the_requested_language(spelling_searcher: Searcher) -> None:
    assert correction(spelling_searcher, "databank", language="de") == "datenbank"


def test_replicas_correct_spelling(root: str) -> None:
    with LocalEngine() as engine:
        supervisor = ReplicaSupervisor(engine, root, 1)
        federation = ShardedSearch(supervisor.replicas, call_timeout_s=20, deadline_s=40)
        try:
            assert supervisor.wait(60)
            for typed, expected in MISSPELLINGS:
                assert correction(federation, typed) == expected
        finally:
            federation.close()
            supervisor.close()


def test_command_prints_the_correction(root: str) -> None:
    messages = run_here("-w", root, "search", "-n", "2", "databse", "server")
    assert "Did you mean: database server (6)" in messages.err
    assert json.loads(run_here("-w", root, "search", "--json", "databse").out)["did_you_mean"] == {
        "query": "database",
        "total": 6,
    }
    assert (
        json.loads(run_here("-w", root, "search", "--json", "--no-spelling", "databse").out)[
            "did_you_mean"
        ]
        is None
    )
    assert "more from this site: site:" not in messages.out


def highlighter(language: str, query: str) -> Highlighter:
    (reading,) = read(parse_query(query), [language])
    return Highlighter(analyzer_for(language), reading.units)


def as_text(snippet: Snippet) -> str:
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
        ("fr", "coeur", "Le cœur et le chœur", "Le [cœur] et le chœur"),
        ("ru", "книга", "Книги и книгами.", "[Книги] и [книгами]."),
        ("tr", "istanbul", "İSTANBUL’da", "[İSTANBUL]’da"),
        ("zh", "人权", "这是人权问题。人 权", "这是[人权]问题。人 权"),
        ("zh", "北京 Python", "在北京用 python 编程", "在[北京]用 [python] 编程"),
        ("zh", "c++ ABC c#", "用C++和ＡＢＣ、C#。", "用[C++]和[ＡＢＣ]、[C#]。"),
        ("ja", "人権", "基本的人権の尊重", "基本的[人権]の尊重"),
        ("ko", "인간", "모든 인간은 자유", "모든 [인간은] 자유"),
        ("lo", "ສິດ", "ທຸກຄົນມີສິດ.", "ທຸກຄົນມີ[ສິດ]."),
        ("bo", "ལེགས", "བཀྲ་ཤིས་བདེ་ལེགས།", "བཀྲ་ཤིས་བདེ་[ལེགས]།"),
        ("ar", "كتاب", "هذا الكتاب كِتَاب", "هذا [الكتاب] [كِتَاب]"),
        ("hi", "भाषा", "भाषाओं में हिन्दी", "[भाषाओं] में हिन्दी"),
        ("id", "membaca", "pembacaan buku", "[pembacaan] buku"),
        ("id", "menulis", "Ia menulis; penulis itu.", "Ia [menulis]; [penulis] itu."),
        ("ko", "파운드", "돈 200파운드, 만파운드", "돈 [200파운드], [만파운드]"),
        ("ko", "cafe 인간", "서울 Café, 인간은 CAFÉ", "서울 [Café], [인간은] [CAFÉ]"),
        ("vi", "nguoi", "Người và người ta 中文", "[Người] và [người] ta 中文"),
        ("en", "absent", "nothing to see", "nothing to see"),
        ("", "cafe", "Café", "[Café]"),
    ],
)
def test_highlighting(language: str, query: str, text: str, marked: str) -> None:
    assert as_text(highlighter(language, query).mark(text)) == marked


def test_snippet_is_the_window_with_most_query_words() -> None:
    text = (
        "Apple here. "
        + "Nothing here at all. " * 60
        + "An apple beside a pear and a plum. "
        + "Nothing more. " * 60
    )
    snippet = as_text(highlighter("en", "apple pear plum").snippet([text]))
    assert "An [apple] beside a [pear] and a [plum]." in snippet
    assert snippet.startswith("…")
    assert snippet.endswith("more. …")


def test_snippet_starts_at_a_sentence() -> None:
    text = "First sentence of it. " * 20 + "Here the zebra stands. " + "Last sentence of it. " * 20
    assert as_text(highlighter("en", "zebra").snippet([text])).startswith(
        "…Here the [zebra] stands."
    )


def test_snippet_uses_the_next_text_if_the_first_has_no_match() -> None:
    query_highlighter = highlighter("en", "imprint")
    assert (
        as_text(query_highlighter.snippet(["A long article.", "Home\nImprint"], "described"))
        == "Home [Imprint]"
    )
    assert (
        as_text(query_highlighter.snippet(["A long article.", "Home"], "described")) == "described"
    )
    assert as_text(query_highlighter.snippet(["A long article.", "Home"])) == "A long article."
    assert as_text(query_highlighter.snippet([], "")) == ""


@pytest.mark.parametrize("stem", declaration_languages())
def test_snippet_is_a_highlighted_part_of_the_text(stem: str) -> None:
    language = stem.split("-")[0]
    text = "\n".join(declaration(stem).values())
    query_highlighter = highlighter(
        language, " ".join(declaration(stem)[20].split("\n")[0].split()[:2])[:40]
    )
    snippet = query_highlighter.snippet([text])
    plain = "".join(piece for piece, _ in snippet).strip("…")
    assert plain.rstrip() in text.replace("\n", " ")
    assert len(plain) <= (WIDE_LENGTH if language in ("zh", "ja", "ko") else LENGTH) + 1
    assert any(match for _, match in snippet)


@given(
    text=st.text(max_size=300),
    query=st.text(min_size=1, max_size=20),
    language=st.sampled_from(["en", "zh", "ko", "ar", "th", "", "de"]),
)
@settings(max_examples=150)
def test_highlighting_changes_no_character(text: str, query: str, language: str) -> None:
    marked = highlighter(language, query).mark(text)
    assert "".join(piece for piece, _ in marked) == text.replace("\n", " ")


@pytest.mark.parametrize(
    "text", ["word " * 400_000, "x" * 2_000_000, "人" * 500_000, "a-" * 200_000]
)
@pytest.mark.parametrize("language", ["en", "zh", "id"])
def test_snippet_of_a_large_text_takes_less_than_a_second(text: str, language: str) -> None:
    start = time.process_time()
    highlighter(language, "absent 没有").snippet([text])
    assert time.process_time() - start < 1.0
