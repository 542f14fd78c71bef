"""Test detection of unlabelled texts in all encodings of 30 languages.

The texts are the Universal Declaration of Human Rights. The tables of
`lycosa.page.encoding_detector` were counted on other texts.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator

import pytest

from lycosa.page.encoding import decode
from tests.text.data import declaration

MIN_MEAN_SHARE = 0.97  # of correctly decoded texts, mean of all encodings; only rises
MIN_SHARE = 0.8  # of correctly decoded texts, in each encoding
PIECE = 800  # characters: a short page
_ANY = "ar bo de en es fa fr hi id it ja kk ko ky lo mn ms my ne ps pt ru tg tl ur vi zh zh-hant"

# Python codec -> its languages ("Standard Encodings" in the documentation of `codecs`).
NATIVE = {
    "utf_8": _ANY,
    "utf_8_sig": _ANY,
    "utf_16": _ANY,
    "utf_16_le": _ANY,
    "utf_16_be": _ANY,
    "utf_32": _ANY,
    "utf_32_le": _ANY,
    "utf_32_be": _ANY,
    "gb18030": "zh zh-hant",
    "gbk": "zh zh-hant",
    "gb2312": "zh",
    "hz": "zh",
    "big5": "zh-hant",
    "big5hkscs": "zh-hant",
    "cp950": "zh-hant",
    "cp932": "ja",
    "shift_jis": "ja",
    "shift_jis_2004": "ja",
    "shift_jisx0213": "ja",
    "euc_jp": "ja",
    "euc_jis_2004": "ja",
    "euc_jisx0213": "ja",
    "iso2022_jp": "ja",
    "iso2022_jp_1": "ja",
    "iso2022_jp_2": "ja",
    "iso2022_jp_2004": "ja",
    "iso2022_jp_3": "ja",
    "iso2022_jp_ext": "ja",
    "euc_kr": "ko",
    "cp949": "ko",
    "johab": "ko",
    "iso2022_kr": "ko",
    "cp1251": "ru",
    "koi8_r": "ru",
    "koi8_u": "ru",
    "cp866": "ru",
    "cp855": "ru",
    "iso8859_5": "ru",
    "mac_cyrillic": "ru",
    "kz1048": "kk",
    "ptcp154": "kk",
    "koi8_t": "tg",
    "cp1256": "ar fa ur",
    "iso8859_6": "ar",
    "cp720": "ar",
    "mac_arabic": "ar",
    "mac_farsi": "fa",
    "cp1252": "de fr es pt it",
    "latin_1": "de fr es pt it",
    "iso8859_15": "de fr es pt it",
    "mac_roman": "de fr es pt it",
    "cp850": "de fr es pt it",
    "cp858": "de fr es pt it",
    "cp437": "de fr es it",
    "cp860": "pt",
    "cp863": "fr",
    "cp1258": "vi",
}


def _pieces(language: str, codec: str, length: int) -> Iterator[tuple[str, bytes]]:
    """Yield pieces of the Declaration, as text and encoded.

    Up to 3 different characters that cannot be encoded are left out of a piece.
    """
    source = _source(language)
    for start in range(0, len(source) - length, length):
        piece = source[start : start + length]
        if codec == "cp1258":  # tones are combining characters in this encoding
            piece = "".join(
                letter if _is_encodable(letter, codec) else _with_tone(letter) for letter in piece
            )
        lost = {letter for letter in set(piece) if not _is_encodable(letter, codec)}
        text = "".join(letter for letter in piece if letter not in lost)
        if len(lost) > 3 or text.isascii():
            continue
        payload = (
            ("<p>" + text).encode(codec)
            if codec.startswith(("utf_16", "utf_32", "utf_8"))
            else b"<p>" + text.encode(codec)
        )
        yield text, payload


@functools.cache
def _source(language: str) -> str:
    """Return the Declaration in a language as one line."""
    text = " ".join(" ".join(declaration(language).values()).split())
    return unicodedata.normalize("NFC", text)


def _is_encodable(letter: str, codec: str) -> bool:
    try:
        return letter.encode(codec).decode(codec) == letter
    except UnicodeError:
        return False


def _with_tone(letter: str) -> str:
    """Return a Vietnamese letter with a combining tone, as in windows-1258."""
    base, *marks = list(unicodedata.normalize("NFD", letter))
    tones = [mark for mark in marks if mark in "\u0300\u0301\u0303\u0309\u0323"]
    return unicodedata.normalize(
        "NFC", base + "".join(mark for mark in marks if mark not in tones)
    ) + "".join(tones)


def decoded_shares(length: int = PIECE) -> dict[str, tuple[int, int, set[str]]]:
    """Return codec -> numbers of texts and correct texts, wrong charsets."""
    result = {}
    for codec, languages in NATIVE.items():
        texts = right = 0
        wrong_charsets: set[str] = set()
        for language in languages.split():
            for text, payload in _pieces(language, codec, length):
                decoded = decode(payload)
                texts += 1
                same = unicodedata.normalize("NFC", decoded.data.decode()) == unicodedata.normalize(
                    "NFC", "<p>" + text
                )
                right += same
                if not same:
                    wrong_charsets.add(f"{language}: {decoded.charset}")
        if texts:
            result[codec] = texts, right, wrong_charsets
    return result


@pytest.mark.slow
def test_unlabelled_texts_in_all_encodings() -> None:
    results = decoded_shares()
    shares = {codec: right / texts for codec, (texts, right, _) in results.items()}
    wrong = {codec: results[codec] for codec, share in shares.items() if share < 1}
    assert len(shares) >= 51, set(NATIVE) - set(shares)
    assert sum(shares.values()) / len(shares) >= MIN_MEAN_SHARE, wrong
    assert min(shares.values()) >= MIN_SHARE, wrong


@pytest.mark.parametrize(
    ("language", "marks"),
    [
        ("de", "„“"),
        ("en", "“”"),
        ("fr", "«»"),
        ("es", "“”"),
        ("it", "“”"),
        ("pt", "“”"),
        ("id", "“”"),
    ],
)
def test_unlabelled_paragraphs_of_windows_1252_with_quotation_marks(
    language: str, marks: str
) -> None:
    """In IBM 850 and Macintosh encodings, the same bytes are letters."""
    paragraphs = [
        text
        for article in declaration(language).values()
        for text in article.split("\n")
        if text.count(" ") > 4
    ]
    wrong = []
    for number, paragraph in enumerate(paragraphs):
        words = paragraph.replace("'", "’").replace("‐", "-").split()
        place = number % (len(words) - 3)
        words[place], words[place + 2] = marks[0] + words[place], words[place + 2] + marks[1]
        text = " ".join(words)
        decoded = decode(text.encode("windows-1252"))
        if decoded.data.decode() != text:
            wrong.append((decoded.charset, [word for word in words if not word.isascii()]))
    assert len(paragraphs) > 40
    assert len(wrong) <= 0.02 * len(paragraphs), wrong
