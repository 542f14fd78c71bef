"""Texts with equal and with different terms, from published rules.

Each case has a language, texts with equal terms, and texts with other terms. Comments name the
source of each group. docs/explanation/languages.md explains the analysis of each language.
"""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.errors import UsageError
from lycosa.text import korean
from lycosa.text.analyze import BIGRAMS, KIWI, Analysis, analysis_by, analyzer_for
from lycosa.text.fold import MAX_TERM_BYTES
from tests.text.data import declaration, declaration_languages

CASES = [
    # Unicode CLDR, transliterator Traditional-Simplified.
    ("zh", ["語", "语"], ["话"]),
    ("zh", ["ＧＤＰ増長2024", "gdp増長２０２４"], []),
    # Lucene CJKWidthFilter: half-width katakana are full-width ones.
    ("ja", ["ｶﾀｶﾅ", "カタカナ"], ["かたかな"]),
    ("ja", ["Ｔｏｋｙｏ東京", "tokyo東京"], []),
    # Standard grammar of Korean (National Institute of Korean Language): particles after nouns.
    ("ko", ["학교", "학교는", "학교에서", "학교를", "학교의"], ["학생"]),
    ("ko", ["정부", "정부가", "정부와"], ["정치"]),
    # Snowball's sample vocabularies (snowball-data), a few of each.
    ("en", ["connect", "connected", "connecting", "connection"], ["content"]),
    ("de", ["Häuser", "Häusern", "Haus"], ["Hausse"]),
    ("fr", ["continu", "continue", "continué"], ["contint"]),
    ("es", ["chica", "chicas"], ["checa"]),
    ("pt", ["quilométricas", "quilométricos"], ["quilo"]),
    ("it", ["abbandonata", "abbandonate", "abbandonati"], ["abbaino"]),
    ("ru", ["вагон", "вагона", "вагонами"], ["вага"]),
    # Lucene ArabicNormalizer (TestArabicNormalizationFilter): hamza on alef, alef maksura, teh
    # marbuta, tatweel, vowel signs.
    ("ar", ["آجن", "اجن", "أجن", "إجن"], ["جن"]),
    ("ar", ["بنى", "بني"], ["بنو"]),
    ("ar", ["روبرت", "روبـــــرت", "رُوبَرت"], ["روبرتو"]),
    ("ar", ["كتاب", "الكتاب", "والكتاب", "للكتاب", "بالكتاب"], ["كتب"]),
    # Lucene ArabicNormalizer: a heh is often written for teh marbuta.
    ("ar", ["المدرسة", "المدرسه", "مدرسه", "والمدرسه"], ["مدرب"]),
    ("ar", ["٢٠٢٤", "2024"], []),
    # Lucene PersianNormalizer (TestPersianNormalizationFilter): yeh, kaf, heh with hamza.
    ("fa", ["های", "هاي"], ["هاو"]),
    ("fa", ["کشاندن", "كشاندن"], ["کشان"]),
    ("fa", ["خانه", "خانۀ"], ["خان"]),
    ("fa", ["۱۴۰۳", "1403"], []),
    # The Unicode Standard 9.2: Urdu's heh goal, its own yeh; the two-eyed heh is another letter.
    ("ur", ["كتاب", "کتاب"], ["کتب"]),
    ("ur", ["ہے", "هے"], ["ھے"]),
    ("ur", ["پاکستانی", "پاكستاني"], ["پاکستان"]),
    # Computer Locale Requirements for Afghanistan (UNDP 2003): the Pashto alphabet.
    ("ps", ["ګل", "گل"], ["کل"]),
    ("ps", ["ډاکټر", "ڈاكٹر"], ["داکتر"]),
    ("ps", ["سړي", "سړی"], ["سړو"]),
    # Lucene IndicNormalizer and HindiNormalizer (TestHindiNormalizer): nukta, candrabindu, nasal
    # before consonant, candra vowels, joiners.
    ("hi", ["हिन्दी", "हिंदी"], ["हद"]),
    ("hi", ["क़लम", "कलम"], ["कमल"]),
    ("hi", ["आँख", "आंख"], ["अख"]),
    ("hi", ["ऑफिस", "ओफिस"], []),
    ("hi", ["२०२४", "2024"], []),
    ("ne", ["सङ्घीय", "संघीय"], ["सघन"]),
    ("ne", ["नेपाल", "नेपालको", "नेपालमा"], ["नेता"]),
    ("ne", ["२०८१", "2081"], []),
    # Snowball leaves nothing of these function words; they are terms all the same.
    ("ne", ["छ"], ["छ कि", "यो"]),
    # Snowball's Indonesian (Asian, Williams, Tahaghoghi: "Stemming Indonesian", ACSC 2005; Tala
    # 2003).
    ("id", ["baca", "membaca", "pembacaan", "dibaca"], ["bica"]),
    ("ms", ["makan", "makanan", "dimakan"], ["minum"]),
    # Unicode Technical Note 11, and Zawgyi's code points.
    ("my", ["မြန်မာနိုင်ငံ", "ျမန္မာႏိုင္ငံ"], ["မြန်မာ"]),
    ("my", ["၂၀၂၄", "2024"], []),
    ("lo", ["໒໐໒໔", "2024"], []),
    # Vietnamese: tone on the first or second vowel (decision 1989/QĐ-BGDĐT), composed and
    # decomposed.
    ("vi", ["hòa bình", "hoà bình", "ho\u00e0 bi\u0300nh"], ["hoa binh", "hỏa bính"]),
    ("vi", ["Việt Nam", "việt nam"], ["viet nam"]),
    # Endings of nouns by the grammars of the four languages.
    ("kk", ["кітап", "кітаптар", "кітаптарымыз", "кітаптарымыздан"], ["кіт"]),
    ("kk", ["мектеп", "мектептер", "мектептерде"], ["мешіт"]),
    ("kk", ["Қазақстан", "Қазақстанда", "Қазақстанның", "Қазақстаннан"], ["қазақ"]),
    ("kk", ["Астана", "Астанада", "Астананың"], ["аста"]),
    ("kk", ["президент", "президенті", "президентке"], ["президиум"]),
    ("ky", ["Кыргызстан", "Кыргызстандын", "Кыргызстанга"], ["кыргыз"]),
    ("ky", ["китеп", "китептер", "китептеримден"], ["кит"]),
    ("ky", ["шаар", "шаарда", "шаарлар"], ["шайыр"]),
    ("mn", ["ном", "номын", "номоор", "номууд", "номуудаас"], ["нэмэх"]),
    ("mn", ["Монгол", "Монголын", "Монголд"], ["мод"]),
    ("tg", ["китоб", "китобҳо", "китобҳои", "китобҳоро"], ["кит"]),
    # BDRC lucene-bo: affixed particles; the non-breaking tsheg (U+0F0C) is a tsheg.
    ("bo", ["པའི", "པ"], ["བ"]),
    ("bo", ["བོད་ཡིག", "བོད༌ཡིག"], ["བོད"]),
    ("bo", ["༢༠༢༤", "2024"], []),
    # Digits above and below the line are digits, soft hyphens and vowel signs nothing.
    ("ja", ["CO₂", "co2"], ["co"]),
    ("hi", ["m²", "m2"], []),
    ("de", ["Donau\u00addampf", "Donaudampf"], []),
    # Filipino has no stemmer; accents are written in dictionaries only.
    ("tl", ["buháy", "buhay"], ["bahay"]),
]


@pytest.mark.parametrize(("language", "same", "other"), CASES)
def test_equal_and_different_terms(language: str, same: list[str], other: list[str]) -> None:
    analyzer = analyzer_for(language)
    expected = analyzer.terms(same[0])
    assert expected
    for text in same[1:]:
        assert analyzer.terms(text) == expected
    for text in other:
        assert analyzer.terms(text) != expected


def test_every_language_has_cases() -> None:
    assert {language for language, _, _ in CASES} == {
        stem.split("-")[0] for stem in declaration_languages()
    } or not declaration_languages()


@pytest.mark.parametrize(
    ("language", "text", "part"),
    [("my", "မြန်မာနိုင်ငံသား", "နိုင်ငံ"), ("lo", "ສາທາລະນະລັດປະຊາຊົນ", "ປະຊາຊົນ")],
)
def test_word_within_text_without_spaces_is_found(language: str, text: str, part: str) -> None:
    """The syllables of the word are consecutive terms, however ICU segments the text."""
    analyzer = analyzer_for(language)
    stream = f" {analyzer.joined(text)} "
    for unit in analyzer.units(part):
        assert f" {' '.join(unit.phrase)} " in stream


def test_any_two_tibetan_syllables_are_a_term() -> None:
    analyzer = analyzer_for("bo")
    indexed = set(analyzer.terms("བོད་ཀྱི་སྐད་ཡིག"))
    assert analyzer.units("སྐད་ཡིག")[0].word in indexed


def test_vietnamese_with_and_without_accents() -> None:
    analyzer = analyzer_for("vi")
    indexed = set(analyzer.terms("Đường phố"))
    plain, typed = analyzer.units("duong")[0], analyzer.units("đường")[0]
    assert plain.phrase == typed.phrase
    assert set(plain.phrase) <= indexed
    assert plain.word == ""
    assert typed.word in indexed


def test_chinese_articles_in_both_scripts_share_half_of_their_terms() -> None:
    analyzer = analyzer_for("zh")
    simple, traditional = declaration("zh"), declaration("zh-hant")
    for number in (1, 3, 5):
        ours, theirs = set(analyzer.terms(simple[number])), set(analyzer.terms(traditional[number]))
        assert len(ours & theirs) >= 0.5 * min(len(ours), len(theirs))


@pytest.mark.parametrize(
    ("traditional", "simple"),
    [("中華人民共和國", "中华人民共和国"), ("臺灣經濟發展", "台湾经济发展")],
)
def test_query_in_one_chinese_script_matches_the_other(traditional: str, simple: str) -> None:
    analyzer = analyzer_for("zh")
    phrases = [[unit.phrase for unit in analyzer.units(text)] for text in (traditional, simple)]
    assert phrases[0] == phrases[1]
    words = {unit.word for unit in analyzer.units(traditional)}
    assert words <= set(analyzer.terms(traditional))
    assert words - set(analyzer.terms(simple))


needs_kiwi = pytest.mark.skipif(
    not korean.installed(), reason="kiwipiepy is not installed: pip install 'lycosa[ko]'"
)


@needs_kiwi
@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("학교에서는", "학교"),
        ("운영체제를 설치합니다", "운영 영체 체제 설치"),
        ("설치하는 설치했다", "설치 설치"),
        ("사용자가 만든", "사용 용자 만들"),
        ("만들고", "만들"),
        ("Linux에서는", "linux"),
        ("2023년에", "2023 년"),
        ("A4용지", "a4 용지"),
        ("cd-rom으로", "cd rom"),
        ("café의", "cafe 의"),
        ("을", "을"),
        ("plain English", "plain english"),
    ],
)
def test_korean_terms_by_kiwi(text: str, terms: str) -> None:
    assert Analysis((KIWI,)).of("ko").terms(text) == terms.split()


@needs_kiwi
def test_kiwi_gives_a_word_the_same_terms_in_queries_and_pages() -> None:
    analyzer = Analysis((KIWI,)).of("ko")
    text = "운영체제를 설치하기 전에, (하드디스크의) 파티션을 나눕니다. Linux에서는"
    units = analyzer.units(text)
    assert [term for unit in units for term in unit.phrase] == analyzer.terms(text)
    for unit in units:
        assert analyzer.terms(unit.surface) == list(unit.phrase)


@needs_kiwi
@settings(deadline=None, max_examples=200)
@given(
    st.text(
        st.one_of(
            st.characters(),
            st.characters(min_codepoint=0x1100, max_codepoint=0x11FF),
            st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
        ),
        max_size=200,
    )
)
def test_kiwi_accepts_any_text(text: str) -> None:
    analyzer = Analysis((KIWI,)).of("ko")
    terms = analyzer.terms(text)
    assert analyzer.terms(text) == terms
    assert all(
        0 < len(term.encode()) <= MAX_TERM_BYTES and not term.isspace() and " " not in term
        for term in terms
    )
    assert [term for unit in analyzer.units(text) for term in unit.phrase] == terms


@needs_kiwi
@pytest.mark.prove
def test_kiwi_takes_linear_time_for_any_characters() -> None:
    """Endless words, all syllables, jamo, lone surrogates and emoji do not crash it either."""
    analyzer = Analysis((KIWI,)).of("ko")
    generator = random.Random(7)
    alphabets = [
        "가나다라",
        "".join(map(chr, range(0xAC00, 0xD7A4))),
        "".join(map(chr, range(0x1100, 0x1200))),
        "가🙂\ud800\u0301a1 \n",
        "ㅋㅎㅠ가",
    ]
    for alphabet in alphabets:
        seconds = []
        for length in (50_000, 100_000):
            text = "".join(generator.choices(alphabet, k=length))
            started = time.process_time()
            analyzer.terms(text)
            seconds.append(time.process_time() - started)
        assert seconds[1] < 6 * seconds[0] + 1
    for _ in range(20_000):
        length = generator.randint(1, 200)
        analyzer.terms(
            "".join(
                chr(
                    generator.choice(
                        (generator.randrange(0xD800), generator.randrange(0xE000, 0x30000))
                    )
                )
                for _ in range(length)
            )
        )


def test_without_kiwipiepy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(korean, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'lycosa\[ko\]'"):
        korean.version()
    available, hint = Analysis((KIWI,)).here()
    assert available == Analysis()
    assert "lycosa[ko]" in hint
    assert Analysis().here() == (Analysis(), "")


def test_analysis_is_derived_from_the_analyzers_of_an_index() -> None:
    assert analysis_by(["native-english", "syllable-pairs"]) == Analysis((BIGRAMS,))
    assert analysis_by([korean.NAME]) == Analysis((KIWI,))
    assert analysis_by([korean.NAME, "syllable-pairs"]).korean == (BIGRAMS, KIWI)
    assert analysis_by([]).of("ko") is analyzer_for("ko")
