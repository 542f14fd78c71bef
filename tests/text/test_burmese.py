"""Burmese: conversion from the Zawgyi encoding, and syllables."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.text.burmese import is_zawgyi, prepared, syllables, to_unicode
from tests.text.data import declaration, sib200
from tests.text.icu import Transliterator

SAME_SYLLABLES = 0.98  # minimum share of syllables restored from ICU's Zawgyi


def test_zawgyi_is_converted_to_unicode() -> None:
    zawgyi = Transliterator("my-Zawgyi")
    restored = total = 0
    for text in sib200()["my"][:300]:
        expected, result = syllables(text), set(syllables(prepared(zawgyi(text))))
        total += len(expected)
        restored += sum(syllable in result for syllable in expected)
    assert restored >= SAME_SYLLABLES * total


def test_zawgyi_is_distinguished_from_unicode() -> None:
    zawgyi = Transliterator("my-Zawgyi")
    texts = [*sib200()["my"], *declaration("my").values()]
    assert not any(map(is_zawgyi, texts))
    assert sum(map(is_zawgyi, map(zawgyi, texts))) >= 0.995 * len(texts)


@pytest.mark.parametrize(
    ("zawgyi", "unicode"),
    [
        ("ျမန္မာ", "မြန်မာ"),
        ("ေက်ာင္း", "ကျောင်း"),
        ("သည္။", "သည်။"),
        ("plain", "plain"),
    ],
)
def test_conversion_of_words(zawgyi: str, unicode: str) -> None:
    assert (prepared(zawgyi), prepared(unicode)) == (unicode, unicode)


def test_syllables() -> None:
    assert syllables("မြန်မာနိုင်ငံ") == ["မြန်", "မာ", "နိုင်", "ငံ"]
    assert syllables("ကမ္ဘာ") == ["ကမ္ဘာ"]


@given(st.text(alphabet=st.characters(min_codepoint=0x1000, max_codepoint=0x109F), max_size=40))
def test_never_raises(text: str) -> None:
    to_unicode(text)
    is_zawgyi(text)
    assert "".join(syllables(text)) == text


def test_conversion_takes_linear_time() -> None:
    started = time.process_time()
    for sign in ("\u1031", "\u1037", "\u103b", "\u1031\u102d"):
        prepared(sign * 100_000)
    assert time.process_time() - started < 10  # 90 s and more with a pattern that begins anywhere
