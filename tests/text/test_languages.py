"""What each language's analyzer must take for the same and what it must keep apart, by rules that
others wrote down.

A row: language, texts that give the same terms, texts that give other ones. The source of each
group stands above it; docs/languages.md says what is done and why.
"""

from __future__ import annotations

import pytest

from lycosa.text.analyze import analyzer_for
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
    ("ky", ["китеп", "китептер", "китептеримден"], ["кит"]),
    ("ky", ["шаар", "шаарда", "шаарлар"], ["шайыр"]),
    ("mn", ["ном", "номын", "номоор", "номууд", "номуудаас"], ["нэмэх"]),
    ("mn", ["Монгол", "Монголын", "Монголд"], ["мод"]),
    ("tg", ["китоб", "китобҳо", "китобҳои", "китобҳоро"], ["кит"]),
    # BDRC lucene-bo: affixed particles; the non-breaking tsheg (U+0F0C) is a tsheg.
    ("bo", ["པའི", "པ"], ["བ"]),
    ("bo", ["བོད་ཡིག", "བོད༌ཡིག"], ["བོད"]),
    ("bo", ["༢༠༢༤", "2024"], []),
    # Filipino has no stemmer here; accents of its dictionaries are not written elsewhere.
    ("tl", ["buháy", "buhay"], ["bahay"]),
]


@pytest.mark.parametrize(("language", "same", "other"), CASES)
def test_same_and_other(language: str, same: list[str], other: list[str]) -> None:
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
def test_a_word_within_a_run_is_found(language: str, text: str, part: str) -> None:
    """However ICU parts the run: the syllables of the word follow each other in it."""
    analyzer = analyzer_for(language)
    stream = f" {analyzer.joined(text)} "
    for unit in analyzer.units(part):
        assert f" {' '.join(unit.phrase)} " in stream


def test_any_two_syllables_of_tibetan_are_a_term() -> None:
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


def test_both_scripts_of_chinese_find_each_other() -> None:
    """Article by article, most of the characters of one translation's words are those of the
    other's.
    """
    analyzer = analyzer_for("zh")
    simple, traditional = declaration("zh"), declaration("zh-hant")
    for number in (1, 3, 5):
        ours, theirs = set(analyzer.terms(simple[number])), set(analyzer.terms(traditional[number]))
        assert len(ours & theirs) >= 0.5 * min(len(ours), len(theirs))


@pytest.mark.parametrize(
    ("traditional", "simple"),
    [("中華人民共和國", "中华人民共和国"), ("臺灣經濟發展", "台湾经济发展")],
)
def test_a_query_in_one_script_of_chinese_is_a_phrase_of_the_other(
    traditional: str, simple: str
) -> None:
    analyzer = analyzer_for("zh")
    phrases = [[unit.phrase for unit in analyzer.units(text)] for text in (traditional, simple)]
    assert phrases[0] == phrases[1]
    words = {unit.word for unit in analyzer.units(traditional)}
    assert words <= set(analyzer.terms(traditional))
    assert words - set(analyzer.terms(simple))
