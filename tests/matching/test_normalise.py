"""Test folding of case, accents and width, and original positions."""

from __future__ import annotations

import unicodedata

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.find.find import _any_case, _pages_with
from lycosa.matching.normalise import Folding, fold, fold_character
from lycosa.matching.patterns import FEW, PatternSet, normalized_text

CASE, ACCENTS, WIDTH = Folding(case=True), Folding(accents=True), Folding(width=True)
ALL = Folding(True, True, True)
FOLDINGS = [Folding(), CASE, ACCENTS, WIDTH, ALL]


@pytest.mark.parametrize(
    ("folding", "one", "other"),
    [
        (CASE, "STRASSE", "straße"),
        (CASE, "ΟΔΟΣ", "οδος"),
        (CASE, "οδός".upper(), "ΟΔΌΣ"),
        (CASE, "ﬁnden", "FINDEN"),
        (ACCENTS, "Müller", "Muller"),
        (ACCENTS, "Ελλάδα", "Ελλαδα"),
        (ACCENTS, "Łódź", "Lodz"),
        (ACCENTS, "Ærø", "AEro"),
        (ACCENTS, "مُحَمَّد", "محمد"),
        (ACCENTS, "שָׁלוֹם", "שלום"),
        (ACCENTS, "Дё", "Де"),
        (WIDTH, "ＮＨＫ　１２", "NHK 12"),
        (WIDTH, "ｶﾞｿﾘﾝ", "ガソリン"),
        (WIDTH, "ﾊﾟ", "パ"),
        (ALL, "İstanbul", "istanbul"),
        (ALL, "ＣＡＦÉ", "cafe"),
    ],
)
def test_equal_after_folding(folding: Folding, one: str, other: str) -> None:
    assert (
        fold(unicodedata.normalize("NFC", one), folding).text
        == fold(unicodedata.normalize("NFC", other), folding).text
    )


@pytest.mark.parametrize(
    ("folding", "one", "other"),
    [
        (Folding(), "Wolf", "wolf"),
        (CASE, "résumé", "resume"),
        (ACCENTS, "Wolf", "wolf"),
        (ACCENTS, "й", "и"),
        (ACCENTS, "が", "か"),
        (ALL, "कि", "क"),
        (ALL, "हिन्दी", "हिनदी"),  # a virama is not an accent
        (ALL, "น้ำ", "นำ"),  # neither is a tone mark
        (ALL, "龙", "龍"),
    ],
)
def test_different_after_folding(folding: Folding, one: str, other: str) -> None:
    assert fold(one, folding).text != fold(other, folding).text


TEXT = st.text(
    alphabet=st.one_of(
        st.characters(codec="utf-8"), st.sampled_from("aAßẞİıﬁéÉＡｶﾞがμΣςسَـकिน้ 中\n")
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(TEXT, st.sampled_from(FOLDINGS))
def test_folded_characters_map_to_their_original_positions(text: str, folding: Folding) -> None:
    folded = fold(text, folding)
    pieces = [fold_character(character, folding) for character in text]
    assert folded.text == "".join(pieces)
    origins = [place for place, piece in enumerate(pieces) for _ in piece]
    assert [folded.place(index) for index in range(len(folded.text))] == origins


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=2 * FEW), TEXT, st.sampled_from(FOLDINGS))
def test_a_set_of_patterns_matches_like_each_pattern_alone(
    texts: list[str], page: str, folding: Folding
) -> None:
    needles = [each for each in map(normalized_text, texts) if each]
    page = unicodedata.normalize("NFC", page + "".join(needles[:3]))
    folded = fold(page, folding)
    expected: dict[int, list[int]] = {}
    for number, needle in enumerate(needles):
        required = fold(needle, folding).text
        starts = [
            at
            for at in range(len(folded.text))
            if required and folded.text.startswith(required, at)
        ]
        if starts:
            expected[number] = list(dict.fromkeys(folded.place(at) for at in starts))
    assert PatternSet(needles, folding).find(page) == expected


def test_patterns_are_written_as_texts_of_pages() -> None:
    assert normalized_text(" Donau\xaddampf\n schiff e\u0301 ") == "Donaudampf schiff é"


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("page", "needle"),
    [
        ("今天北京的天气很好。北京欢迎你,𠮷野家也在北京", "北京"),
        ("قالت وزارة الصحة إن الوزارة والصحة معا، وزارة", "وزارة"),
        ("भारत की राजधानी नई दिल्ली है। दिल्ली में भारत सरकार", "दिल्ली"),
        ("aaaa", "aa"),
    ],
)
def test_positions_in_every_script(page: str, needle: str, many: bool) -> None:
    others = [f"{needle}{number}" for number in range(FEW)] if many else []
    result = PatternSet([*others, needle], Folding()).find(page)
    expected = [at for at in range(len(page)) if page[at : at + len(needle)] == needle]
    assert result == {len(others): expected}


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=6), TEXT, st.sampled_from(FOLDINGS))
@example(pages=[""], needle="\0", folding=Folding())
@example(pages=["a", "b"], needle="a\0b", folding=Folding())
def test_pages_folded_together_match_like_each_page_alone(
    pages: list[str], needle: str, folding: Folding
) -> None:
    needle = normalized_text(needle)[:3]
    pages = [unicodedata.normalize("NFC", each) for each in [*pages, pages[0] + needle.swapcase()]]
    folded_needle = fold(needle, folding).text
    expected = {
        number
        for number, page in enumerate(pages)
        if folded_needle and folded_needle in fold(page, folding).text
    }
    starts = [sum(len(page) + 1 for page in pages[:number]) for number in range(len(pages))]
    assert set(_pages_with(fold("\0".join(pages), folding), folded_needle, starts)) == expected
    if folding == CASE and folded_needle:
        accepted = (
            pl.Series(pages, dtype=pl.String).str.contains(_any_case([folded_needle])).to_list()
        )
        assert expected <= {number for number, matched in enumerate(accepted) if matched}


def test_rust_and_unicode_agree_on_case_variants() -> None:
    letters = [
        letter for letter in map(chr, range(0x20, 0x2_0000)) if not 0xD800 <= ord(letter) < 0xE000
    ]
    same: dict[str, list[str]] = {}
    for letter in letters:
        same.setdefault(letter.casefold(), []).append(letter)
    for folded, variants in same.items():
        if len(variants) > 1 and len(folded) == 1:
            assert pl.Series(variants).str.contains(_any_case([folded])).all(), variants
