"""Analyzers of all languages: terms, query words and caches."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from icu4py.breakers import WordBreaker

from lycosa.text.analyze import NativeAnalyzer, analyzer_for
from lycosa.text.fold import (
    MAX_TERM_BYTES,
    compatible,
    pieces,
    plain,
    with_names,
    without_accents,
)
from lycosa.text.segmented import _HANGUL, SegmentedAnalyzer, clean
from lycosa.text.spaceless import _PLAIN_CJK, PartsAnalyzer
from tests.text.data import declaration, declaration_languages, sib200

LANGUAGES = [
    "en",
    "de",
    "fr",
    "ru",
    "zh",
    "ja",
    "ko",
    "th",
    "bo",
    "ar",
    "fa",
    "hi",
    "vi",
    "tr",
    "id",
    "",
]


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("en", "Running cafés, naïve", "run cafe naiv"),
        ("en", "state-of-the-art don't", "state of the art don t"),
        ("en", "C++ and C#, or .NET", "cplusplus and csharp or dotnet"),
        ("en", "section C, net worth, example.net, a++b", "section c net worth exampl net a b"),
        ("en", "ﬁnance ＦＵＬＬ x² 3.14 1,000", "financ full x2 3 14 1 000"),
        ("en", "İstanbul asyncio.run(main()) foo_bar", "istanbul asyncio run main foo bar"),
        ("de", "Straße STRASSE Strasse Häuser Haus", "strass strass strass haus haus"),
        ("fr", "L’école, les écoles; mangèrent œuvres", "l ecol le ecol mang oeuvr"),
        ("da", "Fanø, fanǿ", "fano fano"),
        ("es", "canción canciones cancion", "cancion cancion cancion"),
        ("it", "città libertà", "citt libert"),
        ("pt", "informação informações", "inform inform"),
        ("ru", "книга книгами Ёлка ёлки", "книг книг елк елк"),
        ("tr", "İSTANBUL Işık kitapları", "istanbul isik kitap"),
        ("cs", "příliš žluťoučký", "prilis zlutouck"),
        ("el", "ΟΔΌΣ οδός Ελλάδα", "οδ οδ ελλαδ"),
        ("uk", "їжак Європа", "їжак європа"),
        ("he", "שָׁלוֹם", "שלום"),
        ("zh", "中国人民，C++ ＡＢＣ 2024年", "中 国 人 民 cplusplus abc 2024 年 中国 人民"),
        ("zh", "学C#和.NET，C++教程", "学 csharp 和 dotnet cplusplus 教 程 教程"),
        ("ko", "C++언어와 example.net", "cplusplus 언어 example net"),
        ("zh", "語", "语"),
        ("ja", "基本的人権 ｶﾀｶﾅ", "基 本 的 人 権 カ タ カ ナ 基本 人権 カタカナ"),
        ("ko", "인간은 인권선언 물", "인간 인권 권선 선언 물"),
        ("lo", "ມະນຸດທຸກຄົນ", "ມະ ນຸດ ທຸກ ຄົນ ມະນຸດ ທຸກຄົນ"),
        ("my", "လူတိုင်းသည်", "လူ တိုင်း သည်"),
        ("th", "สวัสดีครับ", "สวัสดี ครับ"),
        ("bo", "བཀྲ་ཤིས་བདེ་ལེགས།", "བཀྲ ཤིས བདེ ལེགས བཀྲཤིས ཤིསབདེ བདེལེགས"),
        ("ar", "العربيّة كتـــاب كِتَاب", "عرب كتاب كتاب"),
        ("fa", "می‌خواهم كتاب کتاب علي", "می خواهم کتاب کتاب علی میخواهم"),
        ("fa", "«کتاب‌ها‌»", "کتاب ها کتاب"),
        ("hi", "क्‍ष क्‌ष", "क्ष क्ष"),
        ("bn", "উদ্‌যাপন", "উদ্যাপন"),
        ("ur", "كتاب", "کتاب"),
        ("hi", "हिन्दी भाषाओं", "हिंद भाष"),
        ("ne", "सङ्घीय", "संघीय"),
        ("vi", "Đường phố Hà Nội", "duong pho ha noi đương\u0300 phô\u0301 ha\u0300 nôi\u0323"),
        ("id", "membaca pembacaan", "baca baca"),
        ("kk", "Қазақ тілі", "қазақ тілі"),
        ("", "Hello café 北京", "hello cafe 北京"),
        ("xx", "not-stemmed words", "not stemmed words"),
        ("ru", "Росси\u0301йская и\u0306од", "российск йод"),
        ("uk", "Украї\u0301на", "україна"),
        ("en", "Росси\u0301я x\u0331y Ober\u2060staufen", "россия xy oberstaufen"),
        ("en", "Donau\u200bdampf abc\u200edef super\u200dcool", "donaudampf abcdef supercool"),
        ("en", "", ""),
        ("zh", " \n", ""),
        ("hi", "—!?", ""),
    ],
)
def test_terms(language: str, text: str, terms: str) -> None:
    assert analyzer_for(language).terms(text) == terms.split()


@pytest.mark.parametrize("stem", declaration_languages())
def test_joined_text_split_at_whitespace_gives_the_terms(stem: str) -> None:
    analyzer = analyzer_for(stem.split("-")[0])
    text = "\n".join(declaration(stem).values())
    terms = analyzer.terms(text)
    assert len(terms) > 300
    assert analyzer.joined(text).split() == terms
    assert analyzer.marked(text).split() == [f"{analyzer.field_set}:{term}" for term in terms]
    assert all(term.strip() == term and " " not in term for term in terms)
    assert analyzer.terms(text) == terms  # with a filled cache


@pytest.mark.parametrize("stem", declaration_languages())
def test_units_of_a_query_are_terms_of_the_page(stem: str) -> None:
    analyzer = analyzer_for(stem.split("-")[0])
    for text in list(declaration(stem).values())[:8]:
        indexed = set(analyzer.terms(text))
        for unit in analyzer.units(text):
            assert set(unit.phrase) <= indexed
            assert not unit.word or unit.word in indexed


def test_any_two_chinese_characters_match_their_text() -> None:
    analyzer = analyzer_for("zh")
    sentence = "人人有权享有生命自由和人身安全"
    stream = " ".join(analyzer.terms(sentence))
    for place in range(len(sentence) - 1):
        for unit in analyzer.units(sentence[place : place + 2]):
            assert " ".join(unit.phrase) in stream


def test_each_language_has_its_own_field_set() -> None:
    assert all(analyzer_for(language).field_set == (language or "und") for language in LANGUAGES)
    assert analyzer_for("de") is analyzer_for("de")
    assert all(analyzer_for(language).version for language in LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_words_are_terms_and_base64_is_not(language: str) -> None:
    """Neighbouring words are not affected."""
    analyzer = analyzer_for(language)
    assert any(term.startswith("x" * 90) for term in analyzer.terms("x" * 100))
    terms = analyzer.terms(f"before {'A1' * 5_000} 2024")
    assert terms[-1] == "2024"
    assert max(len(term.encode()) for term in terms) <= MAX_TERM_BYTES


@pytest.mark.parametrize("language", LANGUAGES)
@given(text=st.text(alphabet=st.characters(exclude_categories=()), max_size=80))
@settings(max_examples=40)
def test_never_raises(language: str, text: str) -> None:
    analyzer = analyzer_for(language)
    for term in analyzer.terms(text):
        assert term
        assert not any(character.isspace() for character in term)
        term.encode()
    for unit in analyzer.units(text):
        assert unit.phrase
        assert all(unit.phrase)


@pytest.mark.parametrize("language", LANGUAGES)
def test_case_and_width_are_folded(language: str) -> None:
    analyzer = analyzer_for(language)
    assert analyzer.terms("ＷＯＲＬＤ Service") == analyzer.terms("world SERVICE")


def test_sentences_of_every_language_have_many_terms() -> None:
    for stem, sentences in sib200().items():
        terms = analyzer_for(stem.split("-")[0]).terms("\n".join(sentences[:50]))
        assert len(set(terms)) > 200, stem


_NAME = re.compile(
    r"(?<![a-zA-Z0-9_é.])(?:([A-Za-z])\+\+(?![a-zA-Z0-9_é+])|([CcFf])#(?![a-zA-Z0-9_é#])"
    r"|(?:(?<![^\s中])\.NET|(?<!\S)\.net)(?![a-zA-Z0-9_é]))"
)


@given(
    st.lists(
        st.sampled_from(
            ["C", "f", "é", "1", "_", "+", "++", "#", ".", ".NET", ".net", " ", "\n", "(", "中"]
        ),
        max_size=9,
    )
)
@settings(max_examples=500)
def test_names_with_symbols_equal_a_single_pattern(parts: list[str]) -> None:
    text = "".join(parts)
    expected = _NAME.sub(
        lambda match: (
            f"{match[1]}plusplus" if match[1] else f"{match[2]}sharp" if match[2] else "dotnet"
        ),
        text,
    )
    assert with_names(text) == expected


@pytest.mark.parametrize("language", ["en", "tr", "ko", "th", ""])
def test_cached_words_have_the_same_terms(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["kitaplar, (kitaplar) 학교에서 ภาษาไทย", "«kitaplar»; 학교에서! ภาษาไทยภาษา C++"]
    first = [analyzer_for.__wrapped__(language).joined(text) for text in texts]
    analyzer = analyzer_for.__wrapped__(language)
    assert [analyzer.joined(text) for text in texts] == first
    monkeypatch.setattr("lycosa.text.segmented.MEMO_CHUNKS", 0)
    monkeypatch.setattr("lycosa.text.segmented.MEMO_WORDS", 0)
    monkeypatch.setattr("lycosa.text.analyze.MEMO_WORDS", 0)
    assert [analyzer.joined(text) for text in texts] == first


@pytest.mark.parametrize(("language", "word"), [("en", b"word"), ("tr", "word")])
def test_long_words_are_not_cached(language: str, word: str | bytes) -> None:
    analyzer = analyzer_for.__wrapped__(language)
    assert isinstance(analyzer, SegmentedAnalyzer | NativeAnalyzer)
    analyzer.terms("x" * 1_000 + " word")
    assert word in analyzer._terms
    assert max(map(len, analyzer._terms)) == 4


_SIGNS = "_.-'’:·;#+ \n№²½①㌔ŀﬁ™，。、：「」・々〆〜゛゜\u200d\u200b\u0301\u3099\ufe0f👩🇩→"
_SCRIPTS = (
    "aZ019éüßıİŉ",
    "αΣς",
    "Дёй",
    "한국어는",
    "中文安装說書",
    "のカタカナーｱﾞ",
    "ไทย",
    "كتابةٱ٣۴ـً",
    "हिन्दी",
    "𠀀㐀豈",
    "שלום",
)


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "tr", "ar", "hi", "th", "", "el"])
@given(
    st.lists(st.sampled_from(_SCRIPTS), max_size=3).flatmap(
        lambda some: st.text("".join([*some, _SIGNS]), max_size=60)
    )
)
@example("_٣")
@settings(max_examples=100)
def test_fast_paths_give_the_terms_of_the_icu_path(language: str, text: str) -> None:
    analyzer = analyzer_for(language)
    assert isinstance(analyzer, SegmentedAnalyzer)
    terms = analyzer.terms(text)
    if isinstance(analyzer, PartsAnalyzer):
        marked = PartsAnalyzer.marked(analyzer, text).split()
        assert marked == [f"{language}:{term}" for term in terms]
    else:
        words = WordBreaker(clean(analyzer.prepare(text)), analyzer.language)
        assert terms == [term for word in words for term in analyzer._word(word)]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "pt", "it", "ru"])
@given(
    st.lists(
        st.sampled_from(
            ("Running", "C++", "don't", "x" * 201, "Häuser", "L\u2019école", "книгами", "½", "\xa0")
        )
        | st.text(max_size=5),
        max_size=9,
    ).map("".join)
)
@settings(max_examples=100)
def test_terms_by_word_equal_the_terms_of_the_whole_text(language: str, text: str) -> None:
    analyzer = analyzer_for(language)
    assert isinstance(analyzer, NativeAnalyzer)
    assert analyzer.terms(text) == analyzer.tokenizer.analyze(clean(compatible(with_names(text))))


@pytest.mark.parametrize("pattern", [_HANGUL, _PLAIN_CJK])
def test_folding_does_not_change_characters_of_the_fast_path(pattern: re.Pattern[str]) -> None:
    """Tests all characters that the pattern matches, alone and in long runs."""
    characters = [
        character
        for character in map(chr, range(0x3000, 0xE000 - 0x800))
        if pattern.fullmatch(character)
    ]
    assert len(characters) > 11_000
    for character in characters:
        assert without_accents(plain(character)) == character
        assert character.isalnum()
    for start in range(0, len(characters), MAX_TERM_BYTES // 4):
        run = "".join(characters[start : start + MAX_TERM_BYTES // 4])
        assert pattern.fullmatch(run)
        assert (without_accents(plain(run)), pieces(plain(run))) == (run, [run])


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("인간은", "인간"),  # only the longest particle is removed
        ("학교에서는", "학교"),
        ("서울으로부터", "서울"),
        ("사람에게서", "사람"),
        ("나는", "나는"),  # two syllables are unchanged
        ("집에는", "집에"),  # the longest particle that leaves two syllables
        ("집에서", "집에 에서"),
        ("물", "물"),
        ("은행", "은행"),
        ("한글과Python은", "한글 python 은"),
    ],
)
def test_korean_particles(word: str, terms: str) -> None:
    assert analyzer_for("ko").terms(word) == terms.split()


@pytest.mark.parametrize("language", [*LANGUAGES, "my", "lo", "ne", "ur", "zh"])
def test_analysing_chunks_together_equals_analysing_each(language: str) -> None:
    chunks = [
        *" ".join(sib200().get(language, sib200()["fr"])[:40]).split(),
        "C++",
        "(résumé)",
        "+",
        "a.b_c",
        "\ud800x",
    ]
    assert analyzer_for(language).each(chunks) == [
        analyzer_for(language).terms(chunk) for chunk in chunks
    ]
