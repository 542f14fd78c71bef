"""Syllables of Burmese and Lao, and Burmese in the Zawgyi encoding.

Zawgyi reuses the code points of the Myanmar block in visual order. Signs of Zawgyi: U+1039 at the
end of syllables, stacked forms at U+1060 to U+1097, and the vowel sign E (U+1031) or the medial ra
before a consonant.

Sources: Unicode Technical Note 11 ("Representing Myanmar in Unicode"), the Myanmar block's code
chart, and Zawgyi's published keyboard chart; tests/text/test_burmese.py compares with ICU's
transliterator my-Zawgyi.

A Lao syllable begins with a vowel that is written before its consonant, or with a consonant that
bears a vowel or tone; a consonant that bears none ends the syllable before it (Phissamay, Dalaloy,
Chanhsililath et al., "Syllabification of Lao Script for Line Breaking", PAN Localization working
papers, 2004, restricted to the rules without a list of exceptions).
"""

from __future__ import annotations

import re

_CONSONANT = "\u1000-\u1021"
_STACKED = re.compile("[\u1060-\u1097]")
_FINAL_VIRAMA = re.compile(f"\u1039(?![{_CONSONANT}])")
_LEADING_SIGN = re.compile(f"(?:^|[^{_CONSONANT}\u102b-\u103f])[\u1031\u103b]")
_FINAL_ASAT = re.compile("\u103a(?=[\u1037\u1038\u104a\u104b\\s]|$)")
_MYANMAR = re.compile("[\u1000-\u109f]")
# signs of Zawgyi that suffice in a text of any length
SURE = 3

# Code points of Zawgyi and their Unicode equivalents.
_SIGNS = str.maketrans(
    {
        "\u1033": "\u102f",
        "\u1034": "\u1030",
        "\u1039": "\u103a",
        "\u103a": "\u103b",
        "\u103b": "\u103c",
        "\u103c": "\u103d",
        "\u103d": "\u103e",
        "\u105a": "\u102b\u103a",
        "\u1060": "\u1039\u1000",
        "\u1061": "\u1039\u1001",
        "\u1062": "\u1039\u1002",
        "\u1063": "\u1039\u1003",
        "\u1065": "\u1039\u1005",
        "\u1066": "\u1039\u1006",
        "\u1067": "\u1039\u1006",
        "\u1068": "\u1039\u1007",
        "\u1069": "\u1039\u1008",
        "\u106a": "\u1009",
        "\u106b": "\u100a",
        "\u106c": "\u1039\u100b",
        "\u106d": "\u1039\u100c",
        "\u106e": "\u100d\u1039\u100d",
        "\u106f": "\u100d\u1039\u100e",
        "\u1070": "\u1039\u100f",
        "\u1071": "\u1039\u1010",
        "\u1072": "\u1039\u1010",
        "\u1073": "\u1039\u1011",
        "\u1074": "\u1039\u1011",
        "\u1075": "\u1039\u1012",
        "\u1076": "\u1039\u1013",
        "\u1077": "\u1039\u1014",
        "\u1078": "\u1039\u1015",
        "\u1079": "\u1039\u1016",
        "\u107a": "\u1039\u1017",
        "\u107b": "\u1039\u1018",
        "\u107c": "\u1039\u1019",
        "\u107d": "\u103b",
        "\u107e": "\u103c",
        "\u107f": "\u103c",
        "\u1080": "\u103c",
        "\u1081": "\u103c",
        "\u1082": "\u103c",
        "\u1083": "\u103c",
        "\u1084": "\u103c",
        "\u1085": "\u1039\u101c",
        "\u1086": "\u103f",
        "\u1087": "\u103e",
        "\u1088": "\u103e\u102f",
        "\u1089": "\u103e\u1030",
        "\u108a": "\u103d\u103e",
        "\u108e": "\u102d\u1036",
        "\u108f": "\u1014",
        "\u1090": "\u101b",
        "\u1091": "\u100f\u1039\u100d",
        "\u1092": "\u100b\u1039\u100c",
        "\u1093": "\u1039\u1018",
        "\u1094": "\u1037",
        "\u1095": "\u1037",
        "\u1096": "\u1039\u1010\u103d",
        "\u1097": "\u100b\u1039\u100b",
    },
)
_STACK = f"(?:\u1039[{_CONSONANT}])"
_ORDER = (
    # Kinzi is moved before its consonant, after which Zawgyi writes it; some signs have a vowel
    # besides.
    (
        re.compile(f"([{_CONSONANT}]{_STACK}?[\u103b-\u103e]*)([\u1064\u108b-\u108d])"),
        lambda match: _kinzi(match[1], match[2]),
    ),
    # The medial ra and the vowel sign E, written before the consonant, go after it and its stack.
    (
        re.compile(
            f"(\u1031?)(\u103c?)(\u1004\u103a\u1039)?([{_CONSONANT}\u1025\u1029\u103f]{_STACK}?)(["
            f"\u103b\u103d\u103e]*)"
        ),
        lambda match: (match[3] or "") + match[4] + _medials(match[2] + match[5]) + match[1],
    ),
    # After vowels: medials before them, the upper ones before the lower, the dot below before asat,
    # asat before visarga.
    (
        # from the beginning of the vowels only: else the time is quadratic in their number
        re.compile(
            "(?<![\u102b-\u1032\u1036\u1037])([\u102b-\u1032\u1036\u1037]++)([\u103b\u103d\u103e]+)"
        ),
        lambda match: match[2] + match[1],
    ),
    (re.compile("([\u102f\u1030])([\u102d\u102e\u1032])"), r"\2\1"),
    (re.compile("\u1036([\u102f\u1030])"), "\\1\u1036"),
    (re.compile("([\u102b\u102c\u1031])(\u1039[\u1000-\u1021])"), r"\2\1"),
    (re.compile("\u1037([\u102d-\u1030\u1032\u1036]+)"), "\\1\u1037"),
    (re.compile("\u103a\u1037"), "\u1037\u103a"),
    (re.compile("\u104e(?!\u1004)"), "\u104e\u1004\u103a\u1038"),
    (re.compile("\u1025(?=[\u103a\u102c\u1039])"), "\u1009"),
    (re.compile("\u1025\u102e"), "\u1026"),
    (re.compile("\u1040(?=[\u102b-\u1032\u1036-\u1038\u103a-\u103e])"), "\u101d"),
    (re.compile("([\u102d-\u1032\u1036\u1037\u103a])\\1+"), r"\1"),
)
_KINZI_VOWEL = {"\u1064": "", "\u108b": "\u102d", "\u108c": "\u102e", "\u108d": "\u1036"}

_SYLLABLE = re.compile(
    f"(?<!\u1039)(?=[{_CONSONANT}\u1023-\u102a\u103f\u104c-\u104f\u1040-\u1049])(?![{_CONSONANT}]"
    f"\u1037?[\u1039\u103a])"
)


def is_zawgyi(text: str) -> bool:
    """Return whether Burmese text is in Zawgyi."""
    if not _MYANMAR.search(text):
        return False
    may_list = (
        len(_FINAL_VIRAMA.findall(text))
        + len(_STACKED.findall(text))
        + len(_LEADING_SIGN.findall(text))
    )
    speaks_against = len(_FINAL_ASAT.findall(text))
    return may_list > speaks_against and (may_list >= SURE or not speaks_against)


def to_unicode(text: str) -> str:
    """Convert Zawgyi to Unicode, in the order of Unicode Technical Note 11."""
    text = text.translate(_SIGNS)
    for pattern, replacement in _ORDER:
        text = pattern.sub(replacement, text)
    return text


def prepared(text: str) -> str:
    """Convert Burmese text to Unicode if it is in Zawgyi."""
    return to_unicode(text) if is_zawgyi(text) else text


def syllables(word: str) -> list[str]:
    """Split a word before each consonant that starts a syllable (Ye Kyaw Thu, sylbreak)."""
    return [syllable for syllable in _SYLLABLE.split(word) if syllable]


def _kinzi(consonant: str, sign: str) -> str:
    return f"\u1004\u103a\u1039{consonant}{_KINZI_VOWEL[sign]}"


def _medials(signs: str) -> str:
    return "".join(sorted(set(signs)))


_LAO_CONSONANT = "\u0e81-\u0eae\u0edc\u0edd"
_LAO_VOWEL_OR_TONE = "\u0eb0-\u0ebd\u0ec8-\u0ecd"
_LAO_START = re.compile(
    f"(?=[\u0ec0-\u0ec4][{_LAO_CONSONANT}])"
    "|(?<![\u0ec0-\u0ec4])(?<![\u0ec0-\u0ec4]\u0eab)(?<!\u0eab)"
    f"(?=[{_LAO_CONSONANT}][{_LAO_VOWEL_OR_TONE}])"
    f"|(?=\u0eab[{_LAO_CONSONANT}][{_LAO_VOWEL_OR_TONE}])"
)


def lao_syllables(word: str) -> list[str]:
    """Split a Lao word before each syllable."""
    return [syllable for syllable in _LAO_START.split(word) if syllable]
