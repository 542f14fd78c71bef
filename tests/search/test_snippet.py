from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.search.presentation.snippet import LENGTH, Highlighter, Snippet
from lycosa.search.query.query import parse_query
from lycosa.search.query.reading import read
from lycosa.text.analyze import analyzer_for
from tests.text.data import declaration, declaration_languages


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
